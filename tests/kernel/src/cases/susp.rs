//! SUSP calls that must return an error, with the machine running on.

use super::calls::bad_code_addresses;
use crate::{
    arch::sleep::{self, Outcome, suspend_invalid, wake_vector},
    check,
    machine::Machine,
    memory::Memory,
    mmio, pci, say, sriov,
    state::State,
    verdict::check_error,
    workers,
};
use sbi_spec::binary::Error::*;

/// Arguments that no machine takes.
pub(super) fn errors(machine: &Machine, hart: usize) {
    let state = State::set_up(machine, hart, 1, Memory::new(machine, 1));
    for (what, address) in bad_code_addresses(machine) {
        check_error(what, suspend_invalid(0, address), &[InvalidAddress]);
    }
    for kind in [1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        let answer = suspend_invalid(kind, wake_vector());
        check_error(
            "a type that is reserved or unknown",
            answer,
            &[InvalidParam],
        );
    }
    // The type has 32 bits; what stands above them changes nothing.
    for kind in [1 << 32 | 1, usize::MAX, usize::MAX << 32 | 2] {
        let answer = suspend_invalid(kind, wake_vector());
        check_error(
            "an unknown type with more bits above",
            answer,
            &[InvalidParam],
        );
    }
    for other in workers::others(machine, hart) {
        if workers::start(machine, other) {
            let answer = suspend_invalid(0, wake_vector());
            check_error("with another hart running", answer, &[Denied]);
            check!(workers::stop(machine, other), "hart {other} stops");
        }
    }
    state.check_unchanged(machine, hart);
}

/// A good call, on a machine that cannot sleep as its area wants. `times=N`
/// repeats it; before it the IOMMU is told to translate, if there is one on its own or on PCI,
/// and devices on virtio's bus are taken into use, and with `vf=1` virtual functions of PCI's.
pub(super) fn refused(machine: &Machine, hart: usize) {
    if let Some(iommu) = machine.iommu.or_else(|| pci::iommu(machine)) {
        // A directory of one level, in the last page; no device uses it.
        const ONE_LEVEL: u64 = 2;
        let page = machine.ram.end as u64 / 4096 - 1;
        mmio::write64(iommu + 0x10, page << 10 | ONE_LEVEL);
    }
    for device in &machine.virtio {
        // Acknowledged, with a driver, which is ready: of a device, if there is one.
        mmio::write32(device + 0x70, 7);
    }
    if machine.number("vf", 0) == 1 {
        sriov::enable(machine);
    }
    let dense_mib = machine.number("fill_mib", 16);
    for time in 1..=machine.number("times", 1) {
        let state = State::set_up(machine, hart, time, Memory::new(machine, dense_mib));
        match sleep::suspend(0, &mut sleep::Context::default()) {
            Outcome::Returned(answer) => check_error("a good call", answer, &[Failed]),
            Outcome::Woke(_) => check!(false, "the machine slept, which it could not"),
        }
        state.check_unchanged(machine, hart);
        say!("refused {time}: the machine runs on");
    }
}
