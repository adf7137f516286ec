//! Saves that the power does not let end: what they have sealed in memory is opened later,
//! however often the power fails meanwhile, and nothing that is to be sealed reaches the
//! medium as it was.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{GENERATION, HERE, MIB, Machine, Threads, key};
use poorwill_image::{
    ImageKind, NotOpened, PowerFails, Salt, SaveError, SaveRequest, Saved, Seal, SealedMemory,
    StateWriter, Workers, Workspace, open_in_place, save,
};
use poorwill_medium::fake::FakeMedium;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

/// Harts that may go on for so many looks, and the looks.
struct Harts(Threads, u64, AtomicU64);

impl Harts {
    fn new(threads: usize, looks: u64) -> Self {
        Harts(Threads(threads), looks, AtomicU64::new(0))
    }
}

impl Workers for Harts {
    fn run(&self, coordinate: &mut dyn FnMut(), work: &(dyn Fn() + Sync)) {
        self.0.run(coordinate, work);
    }

    fn idle(&self) {
        self.0.idle();
    }

    fn go_on(&self) -> Result<(), PowerFails> {
        match self.2.fetch_add(1, Ordering::AcqRel) < self.1 {
            true => Ok(()),
            false => Err(PowerFails),
        }
    }
}

/// Saves a machine that seals; tells what is left sealed, too.
fn save_sealed(
    machine: &mut Machine,
    medium: &mut FakeMedium,
    harts: &Harts,
) -> (Result<Saved, SaveError>, Option<SealedMemory>) {
    let os = machine.memory.os();
    let mut workspace = Workspace::new(&mut machine.workspace, os.pages()).unwrap();
    let mut state = StateWriter::new(workspace.state);
    state.section(7, 0, 1, &[1_u64]).unwrap();
    let key = key(7);
    let request = SaveRequest {
        identity: HERE,
        generation: GENERATION,
        kind: ImageKind::Once,
        saved_at_ns: 1,
        state_bytes: state.finish(),
        seal: Some(Seal {
            key: &key,
            salt: Salt([5; 8]),
        }),
    };
    let saved = save(medium, os, &request, &mut workspace, harts, &mut |_| ());
    (saved, workspace.take_left_sealed())
}

/// Opens what is sealed, with the power failing after so many looks each time. How often.
fn open_again(machine: &mut Machine, mut sealed: SealedMemory, threads: usize, looks: u64) -> u64 {
    for tries in 1.. {
        // As a record has it.
        sealed = SealedMemory::read_from_bytes(sealed.as_bytes()).unwrap();
        let os = machine.memory.os();
        let mut workspace = Workspace::new(&mut machine.workspace, os.pages()).unwrap();
        let harts = Harts::new(threads, looks);
        match open_in_place(sealed, &key(7), os, &mut workspace, &harts) {
            Ok(()) => return tries,
            Err(NotOpened::PowerFails(left)) => sealed = left,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// Pages of a machine with more than two pieces.
const PAGES: u64 = 700;

fn machine() -> Machine {
    let mut machine = Machine::filled(&[300, PAGES - 300], |index| index % 9 != 0);
    machine.fill_table(20..90);
    machine
}

/// Looks of a save that is not ended.
fn looks_of_a_save() -> u64 {
    let harts = Harts::new(0, u64::MAX);
    let (saved, left) = save_sealed(&mut machine(), &mut FakeMedium::new(4 * MIB), &harts);
    assert!(saved.is_ok() && left.is_none());
    harts.2.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn memory_is_as_it_was(
        part in 0.0..1.0_f64, threads in 0..4_usize, first in 0..400_u64, again in 40..400_u64,
    ) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let looks = 1 + ((looks_of_a_save() - 1) as f64 * part) as u64;
        let mut machine = machine();
        let before = machine.memory.contents();
        let mut medium = FakeMedium::new(4 * MIB);
        let (saved, left) = save_sealed(&mut machine, &mut medium, &Harts::new(threads, looks));
        // With several harts it may have fewer.
        prop_assume!(saved.is_err());
        prop_assert_eq!(saved, Err(SaveError::PowerFails(PowerFails)));
        let mut sealed = left.unwrap();
        // Once with a number of its own, so that what is open already differs.
        let os = machine.memory.os();
        let mut workspace = Workspace::new(&mut machine.workspace, os.pages()).unwrap();
        match open_in_place(sealed, &key(7), os, &mut workspace, &Harts::new(threads, first)) {
            Ok(()) => {}
            Err(NotOpened::PowerFails(left)) => {
                sealed = left;
                open_again(&mut machine, sealed, threads, again);
            }
            Err(error) => panic!("{error}"),
        }
        prop_assert!(machine.memory.contents() == before);
        // Each page has a number that is in no other; none is on the medium in the clear.
        for index in (0..PAGES).filter(|index| index % 9 != 0 && !(20..90).contains(index)) {
            let page = common::pattern(index, 1);
            let word = page.0.iter().find(|word| **word != 0).unwrap().to_le_bytes();
            let is_there = medium.bytes().chunks(4096).any(|found| found == page.as_bytes());
            prop_assert!(!is_there, "page {} with {:x?}", index, word);
        }
    }
}

#[test]
fn a_save_that_is_stopped_at_once_leaves_nothing_sealed() {
    let mut machine = machine();
    let before = machine.memory.contents();
    let mut medium = FakeMedium::new(4 * MIB);
    for looks in 0..3 {
        let harts = Harts::new(0, looks);
        let (saved, left) = save_sealed(&mut machine, &mut medium, &harts);
        assert_eq!(saved, Err(SaveError::PowerFails(PowerFails)));
        assert!(machine.memory.contents() == before);
        // Before anything is written there is nothing to be opened.
        assert_eq!(left.is_none(), looks == 0);
        if let Some(left) = left {
            assert_eq!(open_again(&mut machine, left, 0, 100), 1);
        }
        assert!(machine.memory.contents() == before);
    }
}
