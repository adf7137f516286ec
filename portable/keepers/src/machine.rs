use poorwill_medium::nvme::ShutdownFacts;
use poorwill_pci::{ConfigSpace, Function, HostBridge};

/// A device's registers or memory.
pub trait Window {
    /// The 32-bit register at `offset`, a multiple of 4 within the window.
    fn read32(&self, offset: u64) -> u32;

    /// Writes the 32-bit register at `offset`, after all earlier memory writes are
    /// visible to the device.
    fn write32(&self, offset: u64, value: u32);

    /// Reads a 64-bit register as two halves, the lower first.
    fn read64(&self, offset: u64) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes a 64-bit register as two halves, the lower first.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    fn write64(&self, offset: u64, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}

/// A machine with PCI devices, while no hart runs an OS.
pub trait Machine {
    /// The type of configuration space.
    type Config: ConfigSpace;

    /// The type of a device's registers.
    type Window: Window;

    /// The number of host bridges.
    fn hosts(&self) -> usize;

    /// A host bridge's node in the device tree.
    fn host(&self, host: usize) -> &HostBridge;

    /// The configuration space below a host bridge.
    fn config(&self, host: usize) -> Self::Config;

    /// The registers at a CPU address within a window of a host bridge.
    fn window(&self, cpu_address: u64) -> Self::Window;

    /// Reads OS memory or the [`scratch`](Machine::scratch) page; `None` if any of the
    /// range is outside these.
    #[must_use]
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()>;

    /// Writes the same kinds of memory as [`read`](Machine::read).
    #[must_use]
    fn write(&self, address: u64, bytes: &[u8]) -> Option<()>;

    /// Sends a device's interrupt message; `None` if the address does not belong to an
    /// interrupt controller of the OS.
    #[must_use]
    fn send(&self, address: u64, data: u32) -> Option<()>;

    /// The address of a page that devices can access and the OS does not own.
    fn scratch(&self) -> u64;

    /// The saved shutdown facts of an NVMe controller. They cannot be queried while its
    /// driver uses the controller.
    fn shutdown_facts(&self, host: usize, function: Function) -> Option<ShutdownFacts>;

    /// Saves shutdown facts for the next stop.
    fn keep_shutdown_facts(&self, host: usize, function: Function, facts: ShutdownFacts);

    /// Microseconds since a fixed moment.
    fn microseconds(&self) -> u64;
}

/// Polls `condition` until it holds or the time is `until`. Returns whether it held. The
/// last poll starts after `until`.
pub(crate) fn wait_until(
    machine: &impl Machine,
    until: u64,
    mut condition: impl FnMut() -> bool,
) -> bool {
    loop {
        let is_late = machine.microseconds() >= until;
        if condition() {
            return true;
        }
        if is_late {
            return false;
        }
        core::hint::spin_loop();
    }
}
