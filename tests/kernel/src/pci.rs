//! Functions of PCI's bus 0, set up as by their drivers.

use crate::{machine::Machine, mmio};

/// Where a function answers: within the window for such addresses of `virt`'s host bridge.
const REGISTERS: usize = 0x5010_0000;
/// It decodes, and has access to memory.
const COMMAND: u32 = 1 << 1 | 1 << 2;
/// Classes.
const NVME: u32 = 0x01_08_02;
const IOMMU: u32 = 0x08_06_00;

/// The registers of an IOMMU on PCI, which get an address; `None` without one.
pub(crate) fn iommu(machine: &Machine) -> Option<usize> {
    map(machine, IOMMU)
}

/// Starts the first NVMe controller with all its command sets, and stops it. QEMU's controller
/// keeps the namespaces of these sets until a power-off.
///
/// # Panics
/// If there is none, or it does not start.
pub(crate) fn select_all_command_sets(machine: &Machine) {
    const CC: usize = 0x14;
    const CSTS: usize = 0x1c;
    const AQA: usize = 0x24;
    const ASQ: usize = 0x28;
    const ACQ: usize = 0x30;
    const ALL_SETS: u32 = 0b110 << 4;
    const ENTRIES: u32 = 4 << 20 | 6 << 16;
    let registers = map(machine, NVME).expect("an NVMe controller");
    // No command is queued, so the controller accesses no queue.
    let page = machine.ram.end as u64 - 4096;
    mmio::write32(registers + AQA, 1 << 16 | 1);
    for offset in [ASQ, ACQ] {
        mmio::write32(
            registers + offset,
            u32::try_from(page).expect("below 4 GiB"),
        );
        mmio::write32(registers + offset + 4, 0);
    }
    for enable in [1, 0] {
        mmio::write32(registers + CC, ENTRIES | ALL_SETS | enable);
        let is_done = || mmio::read32(registers + CSTS) & 1 == enable;
        assert!((0..10_000_000).any(|_| is_done()), "the controller answers");
    }
}

/// The registers (BAR 0) of the first function of a class, which get an address.
fn map(machine: &Machine, class: u32) -> Option<usize> {
    let ecam = machine.ecam?;
    let mut slots = (0..32).map(|device: usize| ecam + (device << 15));
    let function = slots.find(|slot| mmio::read32(*slot + 8) >> 8 == class)?;
    let address = u32::try_from(REGISTERS).expect("of 32 bits");
    mmio::write32(function + 0x10, address);
    mmio::write32(function + 0x14, 0);
    mmio::write32(function + 4, COMMAND);
    Some(REGISTERS)
}
