//! Checks the firmware's handover at a cold boot.

use core::ops::Range;

use crate::{
    arch::guard,
    check,
    machine::{self, Machine},
    mmio, say,
};

pub(super) fn run(machine: &Machine) {
    report(machine);
    memory(machine);
    entropy(machine);
    generation_id(machine);
}

/// The loader's word at the start and at the end of an initrd that it has put right behind
/// the device tree.
const LOADED: u64 = 0x1bad_f00d_5eed_cafe;

/// What is reserved is written so that Linux reads it, and what was loaded is there.
fn memory(machine: &Machine) {
    check!(
        machine.reserves_as_root,
        "/reserved-memory has the cells of the root"
    );
    let is_reserved = |range: &Range<usize>| range.contains(&machine.firmware_address());
    check!(
        machine.reserved.iter().any(is_reserved),
        "the firmware's memory is reserved: {:x?}",
        machine.reserved
    );
    if machine::option_of(&machine.command_line, "initrd") != Some("loaded") {
        return;
    }
    let initrd = machine
        .initrd
        .as_ref()
        .expect("an initrd in the device tree");
    for at in [initrd.start, initrd.end - 8] {
        let found = mmio::read64(at);
        check!(found == LOADED, "the initrd at {at:#x}: {found:#x}");
    }
}

/// Says how the machine came up, as `/chosen/poorwill,boot` has it.
fn report(machine: &Machine) {
    let told = machine.boot_report.as_deref();
    say!("told: {}", told.unwrap_or("nothing"));
    check!(
        told.is_some_and(|told| told.starts_with("cold boot: ")),
        "the device tree says how the machine came up: {told:?}"
    );
    let log = machine.log.as_deref().unwrap_or_default();
    check!(
        log.contains(" start\n") && log.contains("] cold boot: "),
        "the device tree has the firmware's log: {log:?}"
    );
    check!(
        machine.seed.iter().any(|byte| *byte != 0),
        "the device tree has a seed: {:x?}",
        machine.seed
    );
}

/// There is one wherever an APLIC can tell of a new one.
fn generation_id(machine: &Machine) {
    let Some(id) = &machine.generation_id else {
        check!(
            machine.aplic.is_none(),
            "with an APLIC there is a generation ID"
        );
        return;
    };
    check!(machine.aplic.is_some(), "the generation ID is of an APLIC");
    check!(id.place.len() == 16, "the generation ID: {:x?}", id.place);
    let lies_in = |range: &Range<usize>| range.contains(&id.place.start);
    check!(
        machine.reserved.iter().any(lies_in),
        "the generation ID at {:x?} lies in reserved memory",
        id.place
    );
    check!(
        id.source > machine.uart_interrupt,
        "its interrupt source: {}",
        id.source
    );
    let bytes = id.read();
    check!(
        bytes.iter().all(|word| *word != 0),
        "the generation ID is random: {bytes:x?}"
    );
}

/// With `zkr=1` on the command line the seed CSR is open to S-mode.
fn entropy(machine: &Machine) {
    const STATE: usize = 3 << 30;
    const RANDOM: usize = 2 << 30;
    let read = guard::read_seed();
    if machine.number("zkr", 0) == 0 {
        check!(
            read == Err(guard::ILLEGAL_INSTRUCTION),
            "no seed CSR: {read:x?}"
        );
        return;
    }
    let random = |read: Result<usize, usize>| read.is_ok_and(|seed| seed & STATE == RANDOM);
    let more = [guard::read_seed(), guard::read_seed()];
    check!(
        random(read) && more.into_iter().all(random),
        "random bits: {read:x?}, {more:x?}"
    );
}
