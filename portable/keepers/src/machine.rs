use poorwill_medium::nvme::ShutdownFacts;
use poorwill_medium::pci::{ConfigSpace, Function, HostBridge};

/// Registers, or memory, of a device.
pub trait Window {
    /// The 32-bit register at `offset`, a multiple of 4 within the window.
    fn read32(&self, offset: u64) -> u32;

    /// Writes the 32-bit register at `offset`. All memory writes before it are visible to
    /// the device first.
    fn write32(&self, offset: u64, value: u32);

    /// The 64-bit register at `offset`, in two halves, the lower first.
    fn read64(&self, offset: u64) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes the 64-bit register at `offset`, in two halves, the lower first.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    fn write64(&self, offset: u64, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}

/// A machine with PCI devices, while no hart runs an OS.
pub trait Machine {
    /// Configuration space below a host bridge.
    type Config: ConfigSpace;

    /// Registers of a device.
    type Window: Window;

    /// How many host bridges there are.
    fn hosts(&self) -> usize;

    /// What the device tree says of one.
    fn host(&self, host: usize) -> &HostBridge;

    /// The configuration space below one.
    fn config(&self, host: usize) -> Self::Config;

    /// What lies at an address of the CPU's within a window of a host bridge.
    fn window(&self, cpu_address: u64) -> Self::Window;

    /// Reads memory of the OS's, or the [`scratch`](Machine::scratch) page; `None` where any
    /// of it is something else.
    #[must_use]
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()>;

    /// Writes it.
    #[must_use]
    fn write(&self, address: u64, bytes: &[u8]) -> Option<()>;

    /// Sends an interrupt for a device, as a message; `None` where the address takes none
    /// for the OS.
    #[must_use]
    fn send(&self, address: u64, data: u32) -> Option<()>;

    /// The address of a page that is no OS's, and that devices reach.
    fn scratch(&self) -> u64;

    /// What is known of how an NVMe controller shuts down: while its driver has it, it cannot
    /// be asked.
    fn shutdown_facts(&self, host: usize, function: Function) -> Option<ShutdownFacts>;

    /// Keeps the same for the next stop.
    fn keep_shutdown_facts(&self, host: usize, function: Function, facts: ShutdownFacts);

    /// Microseconds since some fixed moment.
    fn microseconds(&self) -> u64;
}

/// Looks at `condition` until it holds, or the time is `until`; whether it holds. It is
/// looked at once more after that.
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
