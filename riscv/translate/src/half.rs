//! A half of a sleep on the weak core, and the line about it.

use core::fmt::{self, Display};

use crate::hart::{Counts, VirtualHart};

/// Which half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the suspend of devices to the call for the sleep.
    Suspend,
    /// From a wake to the OS's first program.
    Resume,
}

/// Why the weak core has given the harts back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A program is next.
    User,
    /// The OS sleeps: the lent hart serves its call in machine mode.
    Sleep,
    /// Another SBI call that the lent hart serves in machine mode.
    Call,
    /// An instruction that the lent hart executes itself.
    Unknown,
    /// The time for the work is over.
    Late,
    /// The weak core has not begun.
    Absent,
    /// A build for tests gives the hart back between any two instructions.
    Turn,
}

/// Rounds of loops in which harts wait for time or for each other: from one `pause` to the next, or to that of
/// another hart.
#[derive(Clone, Copy, Debug)]
pub struct Spins {
    /// Instructions of the OS in them.
    instructions: u64,
    /// Those of the weak core.
    own: u64,
    /// Both counts of the half at the last `pause`.
    last: Option<(u64, u64)>,
}

/// Most instructions of the OS in a round.
const MOST_IN_ROUND: u64 = 64;

impl Spins {
    const NONE: Spins = Spins {
        instructions: 0,
        own: 0,
        last: None,
    };

    /// Notes a `pause`, after `instructions` of the OS and `own` ones of the weak core in the half.
    pub fn note(&mut self, instructions: u64, own: u64) {
        if let Some((before, own_before)) = self.last.replace((instructions, own)) {
            let round = instructions.saturating_sub(before);
            if round <= MOST_IN_ROUND {
                self.instructions += round;
                self.own += own.saturating_sub(own_before);
            }
        }
    }
}

/// The work of a half.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    /// Which one.
    pub kind: Kind,
    /// `time` at its start; zero before it and after it.
    pub began: u64,
    /// Times when the hart was given back and then lent again.
    pub hand_backs: u64,
    /// The weak core's own instructions.
    pub own: u64,
    /// The part of spins.
    pub spins: Spins,
}

impl Half {
    /// None is open.
    pub const NONE: Half = Half {
        kind: Kind::Resume,
        began: 0,
        hand_backs: 0,
        own: 0,
        spins: Spins::NONE,
    };

    /// Begins one at `now`.
    #[must_use]
    pub fn begin(kind: Kind, now: u64) -> Self {
        Half {
            kind,
            began: now.max(1),
            ..Half::NONE
        }
    }

    /// Returns whether it has begun and not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.began != 0
    }

    /// Ends it, and returns it as it was.
    pub fn end(&mut self) -> Self {
        core::mem::replace(self, Half::NONE)
    }
}

/// The console's words about a half.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    half: Half,
    end: End,
    ms: u64,
    harts: u32,
    counts: Counts,
}

impl Report {
    /// Takes the harts' counts. `half`: as it ended; `ms`: its time.
    #[must_use]
    pub fn take(half: Half, end: End, ms: u64, all: &mut [VirtualHart]) -> Self {
        let mut counts = Counts::default();
        let mut harts = 0;
        for own in all.iter_mut().map(|hart| core::mem::take(&mut hart.counts)) {
            harts += u32::from(own.instructions > 0);
            counts.instructions = counts.instructions.saturating_add(own.instructions);
            counts.translated = counts.translated.saturating_add(own.translated);
            counts.device_accesses += own.device_accesses;
            counts.interrupts += own.interrupts;
            counts.exceptions += own.exceptions;
        }
        Report {
            half,
            end,
            ms,
            harts,
            counts,
        }
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = match self.half.kind {
            Kind::Suspend => "suspend",
            Kind::Resume => "resume",
        };
        let end = match self.end {
            End::User => "user",
            End::Sleep => "sleep",
            End::Call => "call",
            End::Unknown => "instruction",
            End::Late => "late",
            End::Absent => "absent",
            End::Turn => "turn",
        };
        let Counts {
            instructions,
            translated,
            device_accesses,
            interrupts,
            exceptions,
        } = self.counts;
        let Half { own, spins, .. } = self.half;
        write!(
            formatter,
            "executor half={half} harts={} instructions={instructions} translated={translated} \
             own={own} mmio={device_accesses} interrupts={interrupts} exceptions={exceptions} ms={} end={end} \
             spins={} own_spins={}",
            self.harts, self.ms, spins.instructions, spins.own,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_takes_the_counts_of_all_harts() {
        let hart = |instructions| VirtualHart {
            counts: Counts {
                instructions,
                translated: 1,
                device_accesses: 2,
                interrupts: 3,
                exceptions: 4,
            },
            ..VirtualHart::new()
        };
        let mut harts = vec![hart(10), hart(5), VirtualHart::new()];
        let mut half = Half::begin(Kind::Suspend, 0);
        // Two rounds of six instructions, and one with other work.
        for (instructions, own) in [(100, 900), (106, 1000), (112, 1090), (512, 3000)] {
            half.spins.note(instructions, own);
        }
        assert!(half.is_open());
        let ended = half.end();
        assert!(!half.is_open());
        let report = Report::take(ended, End::Sleep, 7, &mut harts);
        assert_eq!(
            report.to_string(),
            "executor half=suspend harts=2 instructions=15 translated=2 own=0 mmio=4 interrupts=6 exceptions=8 ms=7 end=sleep spins=12 own_spins=190"
        );
        assert!(harts.iter().all(|hart| hart.counts == Counts::default()));
    }
}
