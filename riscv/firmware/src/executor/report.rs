//! The console's line about a half.

use poorwill_translate::Counts;

use super::lent::{End, Half, Kind, Lent};
use crate::hart::ThisHart;
use crate::platform::platform;

/// Ends the half, and tells the domain.
pub(super) fn report(hart: ThisHart, lent: &mut Lent) {
    let mut counts = Counts::default();
    let mut harts = 0;
    for own in lent
        .harts
        .iter_mut()
        .map(|hart| core::mem::take(&mut hart.counts))
    {
        harts += u32::from(own.instructions > 0);
        counts.instructions += own.instructions;
        counts.device_accesses += own.device_accesses;
        counts.interrupts += own.interrupts;
        counts.exceptions += own.exceptions;
    }
    let end = match lent.end {
        End::User => "user",
        End::Sleep => "sleep",
        End::Call => "call",
        End::Unknown => "instruction",
        End::Late => "late",
        End::Turn => "turn",
        End::Absent => "absent",
    };
    let Half {
        kind,
        began,
        hand_backs,
    } = lent.half.end();
    let half = match kind {
        Kind::Suspend => "suspend",
        Kind::Resume => "resume",
    };
    let domain = hart.domain();
    if lent.end == End::Absent {
        domain.say(format_args!("executor: the weak hart does not answer"));
    }
    if hand_backs > 0 {
        domain.say(format_args!("executor hand_backs={hand_backs}"));
    }
    domain.say(format_args!(
        "executor half={half} harts={harts} instructions={} mmio={} interrupts={} exceptions={} ms={} end={end}",
        counts.instructions,
        counts.device_accesses,
        counts.interrupts,
        counts.exceptions,
        platform().time.milliseconds_since(began),
    ));
}
