//! The console's lines about a half.

use poorwill_translate::{End, Report};

use super::lent::Lent;
#[cfg(feature = "check-blocks")]
use super::lower::BLOCKS;
use crate::hart;
#[cfg(feature = "check-blocks")]
use crate::platform::console::say;
use crate::platform::platform;

/// Ends the half, and tells the domain. No hart of the OS runs: it may print, and two harts that
/// print mix their lines.
pub(super) fn report(lent: &mut Lent) {
    #[cfg(feature = "check-blocks")]
    compared();
    let half = lent.half.end();
    let domain = hart::all()[lent.place].domain();
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

/// Tells how many instructions of translated code were compared with the interpreter's.
#[cfg(feature = "check-blocks")]
fn compared() {
    let blocks = BLOCKS.lock();
    let count = (blocks.as_ref()).map_or(0, poorwill_translate::Blocks::compared);
    say!("executor compared={count}");
}
