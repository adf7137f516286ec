//! A hart's state goes into a part of a record, or its banks into an image, and comes back on
//! another hart; a store that does not fit changes nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

use poorwill_hart::{
    Bank, BankAccess, Csr, CsrAccess, Execution, FileWords, FloatRegisters, HartAccess,
    PRIORITY_WORDS, RECORD_WORDS, Task, VectorRegisters,
};
use poorwill_image::{StateSections, StateWriter};
use poorwill_memory::{EntryPoint, Page};
use poorwill_sleep::cut::{CutReason, Misfit};
use poorwill_sleep::{Core, Moment};
use poorwill_state::HartStart;
use poorwill_state::banks::{self, WakingBanks};
use poorwill_state::part;
use poorwill_state::sleeper;
use proptest::prelude::*;

/// A hart without floating-point and vector registers.
#[derive(Debug)]
struct Model {
    csrs: RefCell<BTreeMap<u16, u64>>,
    banks: RefCell<[Vec<u64>; 3]>,
    /// Maximum words of each bank.
    most: [usize; 3],
    deadline: RefCell<Option<u64>>,
}

fn place(bank: Bank) -> usize {
    let is_it = |other: &Bank| *other == bank;
    Bank::ALL.iter().position(is_it).expect("it is one of them")
}

impl Model {
    fn new(seed: u64, most: [usize; 3], deadline: Option<u64>) -> Self {
        let value = |csr: &Csr| seed.wrapping_mul(u64::from(csr.number()));
        let bank = |words: usize| (0..words as u64).map(|word| word ^ seed).collect();
        Model {
            csrs: RefCell::new(
                (Csr::ALL.iter())
                    .map(|csr| (csr.number(), value(csr)))
                    .collect(),
            ),
            banks: RefCell::new(most.map(bank)),
            most,
            deadline: RefCell::new(deadline),
        }
    }
}

impl CsrAccess for Model {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        self.csrs.borrow().get(&csr.number()).copied()
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        self.csrs.borrow_mut().insert(csr.number(), value);
    }
}

impl HartAccess for Model {
    fn has_float(&self) -> bool {
        false
    }

    fn read_float(&self) -> Option<FloatRegisters> {
        None
    }

    fn write_float(&self, _: &FloatRegisters) {
        unreachable!("it has none")
    }

    fn vector_bytes(&self) -> Option<u64> {
        None
    }

    fn read_vector(&self, _: &mut VectorRegisters) {
        unreachable!("it has none")
    }

    fn write_vector(&self, _: &VectorRegisters) {
        unreachable!("it has none")
    }

    fn file_words(&self) -> Option<usize> {
        None
    }

    fn read_file(&self) -> FileWords {
        unreachable!("it has none")
    }

    fn write_file(&self, _: &[u64]) {
        unreachable!("it has none")
    }

    fn deadline(&self) -> Option<u64> {
        *self.deadline.borrow()
    }

    fn set_deadline(&self, deadline: u64) {
        *self.deadline.borrow_mut() = Some(deadline);
    }
}

impl BankAccess for Model {
    fn bank_words(&self, bank: Bank) -> usize {
        self.most[place(bank)]
    }

    fn read_bank<E>(&self, bank: Bank, each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        let banks = self.banks.borrow();
        banks[place(bank)].iter().copied().try_for_each(each)
    }

    fn write_bank(&self, bank: Bank, words: &[u64]) {
        self.banks.borrow_mut()[place(bank)] = words.to_vec();
    }
}

fn execution(seed: u64) -> Execution {
    Execution {
        x: [seed; 32],
        pc: seed ^ 1,
        status: seed ^ 2,
        address_space: seed ^ 3,
        cycles: seed ^ 4,
        instructions: seed ^ 5,
    }
}

/// Maximum words of the banks of a hart: with or without priorities, some records, some files.
fn sizes() -> impl Strategy<Value = [usize; 3]> {
    (any::<bool>(), 0_usize..40, 0_usize..60).prop_map(|(priorities, records, files)| {
        let priorities = if priorities { PRIORITY_WORDS } else { 0 };
        [priorities, records * RECORD_WORDS, files]
    })
}

proptest! {
    #[test]
    fn a_part_brings_the_hart_back(seed: u64, most in sizes(), deadline: Option<u64>) {
        let hart = Model::new(seed, most, deadline);
        let mut pages = vec![Page::ZERO; 4];
        prop_assert_eq!(part::check_room(&hart, pages.len()), Ok(()));
        let bytes = part::write(7, &hart, execution(seed), &mut pages).unwrap();

        let woken = Model::new(!seed, most, None);
        let context = part::read(7, &woken, &pages, bytes).unwrap();
        prop_assert_eq!(context.execution.as_ref().map(|at| at.pc), Some(seed ^ 1));
        // A part without a deadline is one with a deadline that never comes.
        prop_assert_eq!(context.deadline, Some(deadline.unwrap_or(u64::MAX)));
        context.restore(&woken);
        part::restore_banks(&woken, &pages, bytes).unwrap();
        prop_assert_eq!(&*woken.banks.borrow(), &*hart.banks.borrow());
        prop_assert_eq!(&*woken.csrs.borrow(), &*hart.csrs.borrow());
    }

    #[test]
    fn a_part_of_another_hart_is_refused(seed: u64, most in sizes(), other in sizes()) {
        let hart = Model::new(seed, most, None);
        let mut pages = vec![Page::ZERO; 4];
        let bytes = part::write(7, &hart, execution(seed), &mut pages).unwrap();
        let here = Model::new(0, other, None);
        let fits = [0, 2].iter().all(|bank| most[*bank] == 0 || most[*bank] == other[*bank])
            && most[1] <= other[1];
        let read = part::read(7, &here, &pages, bytes);
        prop_assert_eq!(read.is_ok(), fits);
        if let Err(reason) = read {
            prop_assert!(matches!(reason, CutReason::Misfit(Misfit::Unknown(_))), "{reason:?}");
        }
    }

    #[test]
    fn banks_of_an_image_come_back(seed: u64, most in sizes()) {
        let hart = Model::new(seed, most, None);
        let mut pages = vec![Page::ZERO; 4];
        let mut writer = StateWriter::new(&mut pages);
        banks::write_to_wake(&hart, &mut writer).unwrap();
        let bytes = writer.finish();

        let woken = Model::new(!seed, most, None);
        let mut waking = WakingBanks::new();
        let mut sections = StateSections::parse(&pages, bytes).unwrap();
        waking.take(&woken, &mut sections).unwrap();
        prop_assert!(sections.left().is_empty());
        waking.put_back(&woken);
        prop_assert_eq!(&*woken.banks.borrow(), &*hart.banks.borrow());
        // They are restored once.
        *woken.banks.borrow_mut() = Default::default();
        waking.put_back(&woken);
        prop_assert!(woken.banks.borrow().iter().all(Vec::is_empty));
    }
}

proptest! {
    #[test]
    fn a_sleeper_brings_the_hart_back(seed: u64, most in sizes(), deadline: Option<u64>) {
        let hart = Model::new(seed, most, deadline);
        let mut pages = vec![Page::ZERO; 4];
        let mut writer = StateWriter::new(&mut pages);
        let vector = EntryPoint { address: seed, argument: 2 };
        let now = Moment { ticks: 5, now_ns: None };
        let core = |deadline| Core::new(7, vector, now, deadline);
        sleeper::capture(&hart, core, &mut writer).unwrap();
        let bytes = writer.finish();

        let woken = Model::new(!seed, most, deadline.map(|_| 0));
        let mut waking = WakingBanks::new();
        let mut sections = StateSections::parse(&pages, bytes).unwrap();
        let core = Core::read(&mut sections).unwrap();
        prop_assert_eq!((core.hart(), core.vector()), (7, vector));
        let mut context = sleeper::read(&woken, &mut waking, &mut sections).unwrap();
        prop_assert!(sections.left().is_empty());
        context.deadline = deadline;
        context.restore(&woken);
        waking.put_back(&woken);
        prop_assert_eq!(&*woken.csrs.borrow(), &*hart.csrs.borrow());
        prop_assert_eq!(&*woken.banks.borrow(), &*hart.banks.borrow());
        prop_assert_eq!(&*woken.deadline.borrow(), &*hart.deadline.borrow());
    }
}

#[test]
fn a_hart_with_more_state_than_a_wake_has_room_for_is_refused() {
    let hart = Model::new(1, [PRIORITY_WORDS, 0, 1 << 12], None);
    let mut pages = vec![Page::ZERO; 16];
    assert!(banks::write_to_wake(&hart, &mut StateWriter::new(&mut pages)).is_err());
    assert!(part::check_room(&hart, 2).is_err());
}

#[test]
fn each_hart_has_one_task() {
    let entry = |address| EntryPoint {
        address,
        argument: 0,
    };
    let (vector, pending) = (Some(entry(1)), Some(entry(2)));
    let task = |start: HartStart| (start.id(), start.goes_on(), start.wakes(), start.task());
    for (start, goes_on, wakes, wanted) in [
        (
            HartStart::new(3, true, None, None),
            true,
            false,
            Some(Task::Go),
        ),
        (
            HartStart::new(3, true, vector, None),
            false,
            true,
            Some(Task::Wake(entry(1))),
        ),
        (
            HartStart::new(3, false, vector, pending),
            false,
            false,
            Some(Task::Start(entry(2))),
        ),
        (HartStart::new(3, false, vector, None), false, false, None),
        (HartStart::new(3, false, None, None), false, false, None),
    ] {
        assert_eq!(task(start), (3, goes_on, wakes, wanted));
    }
}
