//! Sleeps and wakes over memory that keeps only what it was told to.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use common::{Boot, MIB, Machine, START};
use poorwill_medium::mapped::fake::{FakePmem, INJECTED_STATUS};
use poorwill_memory::PAGE_BYTES;
use poorwill_store::NoImage;

/// Memory with room for an area of 7 MiB.
fn pmem() -> FakePmem {
    FakePmem::new(((START + 7 * MIB).div_ceil(PAGE_BYTES)) as usize)
}

#[test]
fn a_committed_image_survives_power_cuts_and_wakes_once() {
    for mut machine in Machine::both() {
        let pmem = pmem();
        for sleep in 1..20 {
            pmem.seed(sleep);
            machine.run(sleep);
            let wanted = machine.memory.contents();
            machine.sleep(&mut pmem.medium()).unwrap();
            pmem.cut_power();
            machine.run(99);
            assert!(matches!(machine.boot(&mut pmem.medium()), Boot::Woken));
            assert!(machine.memory.contents() == wanted);
            pmem.cut_power();
            let boot = machine.boot(&mut pmem.medium());
            assert!(matches!(boot, Boot::Cold(NoImage::None)), "{boot:?}");
        }
    }
}

#[test]
fn memory_that_keeps_nothing_takes_no_image() {
    for mut machine in Machine::both() {
        let pmem = pmem();
        machine.run(1);
        let before = machine.memory.contents();
        pmem.refuse_to_settle();
        let refusal = machine.sleep(&mut pmem.medium()).unwrap_err();
        let told = format!("{refusal:?}");
        assert!(
            told.contains(&format!("Flush({INJECTED_STATUS})")),
            "{told}"
        );
        assert!(machine.memory.contents() == before);
    }
}

#[test]
fn what_was_saved_can_be_damaged_and_is_told() {
    let (mut machine, pmem) = (Machine::new(), pmem());
    machine.run(1);
    machine.sleep(&mut pmem.medium()).unwrap();
    // Page data begins a mebibyte behind the first slot.
    pmem.edit(|bytes| bytes[(START + 2 * MIB + 290 * PAGE_BYTES - 1) as usize] ^= 8);
    let boot = machine.boot(&mut pmem.medium());
    assert!(matches!(boot, Boot::Failed(_)), "{boot:?}");
}
