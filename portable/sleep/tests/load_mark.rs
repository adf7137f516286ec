//! Nothing of a sealed image is left in memory by a load that does not end.

mod common;

use common::{Boot, Machine, disk};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::Page;
use poorwill_sleep::Cleared;
use poorwill_sleep::LoadMark::{Clear, Set};
use poorwill_store::{Failure, NoImage};

/// Turns over a bit of what was written last on the disk: the end of the page data.
fn flip_last_data(bytes: &mut [u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
}

/// A disk with the image of the machine, asleep.
fn asleep(machine: &mut Machine) -> FakeMedium {
    let mut disk = disk();
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk
}

fn is_clear(machine: &Machine) -> bool {
    let pages = machine.memory.contents();
    pages.iter().all(|page| *page == Page::ZERO)
}

#[test]
fn the_mark_is_there_while_a_sealed_image_is_loaded() {
    for (mut machine, marks) in [
        (Machine::new(), vec![]),
        (Machine::sealing(), vec![Set, Clear]),
    ] {
        let mut disk = asleep(&mut machine);
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert_eq!(machine.load_marks, marks);
    }
}

#[test]
fn a_load_that_fails_leaves_memory_clear() {
    let mut machine = Machine::sealing();
    let mut disk = asleep(&mut machine);
    disk.edit(flip_last_data);
    let boot = machine.boot(&mut disk);
    assert!(
        matches!(boot, Boot::Failed(Failure::DamagedPiece(1))),
        "{boot:?}"
    );
    assert_eq!(machine.load_marks, [Set, Clear]);
    assert!(is_clear(&machine));
}

#[test]
fn a_start_that_finds_the_mark_clears_memory_before_anything_else() {
    for mut machine in Machine::both() {
        let mut disk = asleep(&mut machine);
        machine.run(2);
        machine.load_mark = Set;
        assert!(matches!(machine.boot(&mut disk), Boot::Cleared));
        assert_eq!(machine.load_marks, [Clear]);
        assert!(is_clear(&machine));
        // The image was not looked at.
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    }
}

#[test]
fn a_start_without_a_wake_clears_memory_too() {
    for mut machine in Machine::both() {
        let mut disk = asleep(&mut machine);
        machine.run(2);
        machine.load_mark = Set;
        assert_eq!(machine.boot_without_wake(&mut disk), Err(Cleared));
        assert_eq!(machine.load_marks, [Clear]);
        assert!(is_clear(&machine));
        // The machine is reset, and the next start discards the image.
        assert_eq!(machine.boot_without_wake(&mut disk), Ok(()));
        assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
    }
}
