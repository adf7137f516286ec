//! Nothing of a sealed image is left in memory by a load that does not end.

mod common;

use common::{Boot, Machine, START, disk};
use poorwill_memory::Page;
use poorwill_sleep::LoadMark::{Clear, Set};
use poorwill_store::Failure;

/// Bytes behind the start of the image's slot where its page data begins, in an area
/// with its record before it.
fn flip_last_data(bytes: &mut [u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
}

#[test]
fn the_mark_is_there_while_a_sealed_image_is_loaded() {
    for (mut machine, marks) in [
        (Machine::new(), vec![]),
        (Machine::sealing(), vec![Set, Clear]),
    ] {
        let mut disk = disk();
        machine.run(1);
        machine.sleep(&mut disk).unwrap();
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert_eq!(machine.load_marks, marks);
    }
}

#[test]
fn a_load_that_fails_leaves_memory_clear() {
    let mut machine = Machine::sealing();
    let mut disk = disk();
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk.edit(flip_last_data);
    let boot = machine.boot(&mut disk);
    assert!(
        matches!(boot, Boot::Failed(Failure::DamagedPiece(1))),
        "{boot:?}"
    );
    assert_eq!(machine.load_marks, [Set, Clear]);
    assert!(
        machine
            .memory
            .contents()
            .iter()
            .all(|page| *page == Page::ZERO)
    );
}

#[test]
fn a_start_that_finds_the_mark_clears_memory_before_anything_else() {
    for mut machine in Machine::both() {
        let mut disk = disk();
        machine.run(1);
        machine.sleep(&mut disk).unwrap();
        machine.run(2);
        machine.load_mark = Set;
        assert!(matches!(machine.boot(&mut disk), Boot::Cleared));
        assert_eq!(machine.load_marks, [Clear]);
        assert!(
            machine
                .memory
                .contents()
                .iter()
                .all(|page| *page == Page::ZERO)
        );
        // The image was not looked at.
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    }
    let _ = START;
}
