//! A memory controller that levels wear as Start-Gap does, and what becomes of memory without
//! its registers.

use poorwill_sleep::cut::{CutReason, Found, Misfit, NoGo, WearWords, go};

use crate::flash::Flash;
use crate::machine::{At, Kept, Machine, Memory, Mutant, OS_LINES, Words};
use crate::{KEEPS, found, power_on, run_and_stop, run_and_stop_mutant, start};

/// Behind so many stores the gap moves.
const THRESHOLD: u64 = 2;

/// The controller's registers. The OS's lines and one more are cells, of which one is the
/// gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wear {
    pub(crate) is_on: bool,
    start: u64,
    gap: u64,
    stores: u64,
}

/// A cell of the OS's memory.
fn os(cell: u64) -> At {
    At::Os(usize::try_from(cell).expect("a few cells"))
}

impl Wear {
    pub(crate) const fn at_power_on(is_on: bool) -> Self {
        Wear {
            is_on,
            start: 0,
            gap: OS_LINES as u64,
            stores: 0,
        }
    }

    pub(crate) fn words(self) -> WearWords {
        let words = self.is_on.then_some([self.start, self.gap, self.stores]);
        // More than one line of a record has.
        words
            .into_iter()
            .flatten()
            .chain(words.map(|_| [7; 4]).into_iter().flatten())
            .collect()
    }

    pub(crate) fn of(words: &WearWords) -> Self {
        assert_eq!(words[3..], [7; 4]);
        Wear {
            is_on: true,
            start: words[0],
            gap: words[1],
            stores: words[2],
        }
    }

    /// Where a line is.
    pub(crate) fn cell(self, at: At) -> At {
        match at {
            At::Os(line) if self.is_on => {
                let cell = (line as u64 + self.start) % OS_LINES as u64;
                os(cell + u64::from(cell >= self.gap))
            }
            _ => at,
        }
    }

    /// Stores a line, and moves the gap if it is time.
    pub(crate) fn store(&mut self, memory: &mut Memory, at: At, words: Words) {
        memory.insert(self.cell(at), words);
        if !self.is_on || !matches!(at, At::Os(_)) {
            return;
        }
        self.stores += 1;
        if !self.stores.is_multiple_of(THRESHOLD) {
            return;
        }
        let lines = OS_LINES as u64;
        let from = if self.gap == 0 { lines } else { self.gap - 1 };
        let moved = memory.get(&os(from)).copied().unwrap_or_default();
        memory.insert(os(self.gap), moved);
        if self.gap == 0 {
            self.start = (self.start + 1) % lines;
        }
        self.gap = from;
    }
}

/// A machine that has run for a while.
fn kept() -> Kept {
    let machine = Machine::new(Kept {
        memory: Memory::new(),
        flash: Flash::Absent,
        is_levelled: true,
    });
    assert_eq!(go(&machine).err(), Some(NoGo::Cold(None)));
    let kept = machine.power_off(u64::MAX);
    (0..3).fold(kept, |kept, seed| {
        let cut = run_and_stop(&kept, seed, None, 0);
        let (os, left) = power_on(cut.kept, &[]);
        assert_eq!(os, Some(cut.os));
        left
    })
}

/// The registers put back too late, or too old: the OS finds other memory than it left.
#[test]
fn memory_without_its_registers_is_missed() {
    for mutant in [Mutant::NoWear, Mutant::LateWear] {
        let cut = run_and_stop(&kept(), 9, None, 0);
        let machine = Machine::new(cut.kept);
        machine.mutant.set(Some(mutant));
        go(&machine).unwrap();
        assert_ne!(machine.os(), cut.os, "{mutant:?}");
    }
    let cut = run_and_stop_mutant(&kept(), 9, None, 0, Some(Mutant::EarlyWear));
    assert_ne!(power_on(cut.kept, &[]).0, Some(cut.os));
    // The power goes behind what Go has stored: the next Go finds the registers of before.
    let differs = (1..60).any(|at| {
        let cut = run_and_stop(&kept(), 9, None, 0);
        let machine = Machine::new(cut.kept);
        machine.mutant.set(Some(Mutant::OldWear));
        machine.fuel.set(Some((at, u64::MAX)));
        _ = go(&machine);
        let os = power_on(machine.power_off(u64::MAX), &[]).0;
        os.is_some_and(|os| os != cut.os)
    });
    assert!(differs);
}

#[test]
fn every_step_of_stop_and_go_may_be_the_last() {
    let before = kept();
    let steps = run_and_stop(&before, 3, None, 0).steps;
    for at in 1..=steps {
        for keep in KEEPS {
            let cut = run_and_stop(&before, 3, Some((at, keep)), keep);
            if let (Some(os), _) = power_on(cut.kept, &[]) {
                assert_eq!(os, cut.os, "step {at} of {steps}, {keep:x}");
            }
        }
    }
    let cut = run_and_stop(&before, 3, None, 0);
    let (mut went, mut lost) = (0, 0);
    for first in 1..60 {
        for second in [1, 5, 9, 14, 17, 20, 25, 60] {
            for keep in KEEPS {
                let fuel = [(first, keep), (second, keep)];
                let (os, left) = power_on(cut.kept.clone(), &fuel);
                let went_on = os.is_some();
                match os {
                    Some(os) => assert_eq!(os, cut.os, "{first} {second} {keep:x}"),
                    None => lost += 1,
                }
                went += 1;
                // A machine that went on has ended without another cut.
                let told = matches!(found(&left), Found::Refused(CutReason::NoOther(_)));
                assert!(told || found(&left) == Found::Nothing);
                assert!(told || !went_on, "{first} {second} {keep:x}");
            }
        }
    }
    // While Go stores to memory nobody knows its registers.
    assert!(lost > 0 && lost < went / 2, "{lost} of {went}");
}

/// That it was so is told, once.
#[test]
fn registers_that_are_lost_are_a_cold_boot_with_that_reason() {
    let cut = run_and_stop(&kept(), 3, None, 0);
    let reasons = (1..60).filter_map(|at| {
        let (_, left) = start(cut.kept.clone(), Some((at, 0)));
        match start(left, None).0 {
            crate::Start::Cold(reason) => Some(reason),
            _ => None,
        }
    });
    let reasons: Vec<_> = reasons.collect();
    assert!(reasons.contains(&Some(CutReason::WearLost)), "{reasons:?}");
    // The rest had gone on, and was not stopped.
    let is_told = |reason: &Option<CutReason>| {
        matches!(reason, Some(CutReason::WearLost | CutReason::NoOther(_)))
    };
    assert!(reasons.iter().all(is_told), "{reasons:?}");
}

/// Another controller's, or none: the record does not fit.
#[test]
fn a_machine_with_other_registers_does_not_go_on() {
    let mut cut = run_and_stop(&kept(), 3, None, 0).kept;
    cut.is_levelled = false;
    let (started, _) = start(cut, None);
    assert!(matches!(
        started,
        crate::Start::Cold(Some(CutReason::Misfit(Misfit::WearRegisters)))
    ));
}
