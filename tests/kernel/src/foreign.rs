//! Memory that the device tree reserves for others than the OS. A loader has put a word at its
//! start before the firmware ran, as a previous stage would load its own program.

use crate::{check, machine::Machine, mmio};

/// The loader's word.
const LOADED: u64 = 0x1bad_f00d_5eed_cafe;

/// The loader's word is there; and then something else, everywhere, which an image must not
/// bring back.
pub(crate) fn overwrite(machine: &Machine) {
    check!(
        machine.foreign.len() == 2,
        "somebody else's memory: {:x?}",
        machine.foreign
    );
    for range in &machine.foreign {
        check!(
            mmio::read64(range.start) == LOADED,
            "before the sleep, what was loaded at {:#x}",
            range.start
        );
        range
            .clone()
            .step_by(8)
            .for_each(|at| mmio::write64(at, !LOADED));
    }
}

/// After a power-on there is what was loaded since, and nothing else.
pub(crate) fn check_untouched(machine: &Machine) {
    for range in &machine.foreign {
        let found = mmio::read64(range.start);
        check!(
            found == LOADED,
            "what was loaded at {:#x} is there: {found:#x}",
            range.start
        );
        let mut rest = range.clone().step_by(8).skip(1);
        check!(
            rest.all(|at| mmio::read64(at) == 0),
            "and nothing of before the sleep at {:#x}",
            range.start
        );
    }
}
