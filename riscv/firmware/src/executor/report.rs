//! The console's lines about a half.

use poorwill_translate::{End, Report};

use super::lent::Lent;
use crate::hart::ThisHart;
use crate::platform::platform;

/// Ends the half, and tells the domain.
pub(super) fn report(hart: ThisHart, lent: &mut Lent) {
    let half = lent.half.end();
    let domain = hart.domain();
    if lent.end == End::Absent {
        domain.say(format_args!("executor: the weak hart does not answer"));
    }
    if half.hand_backs > 0 {
        domain.say(format_args!("executor hand_backs={}", half.hand_backs));
    }
    let ms = platform().time.milliseconds_since(half.began);
    let report = Report::take(half, lent.end, ms, &mut lent.harts);
    domain.say(format_args!("{report}"));
}
