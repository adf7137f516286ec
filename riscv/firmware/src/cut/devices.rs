//! The machine's access to PCI devices for their keepers.

use core::slice;

use poorwill_arch::pci::{DeviceWindow, Ecam, config_space};
use poorwill_drivers::Registers;
use poorwill_image::{StateSections, StateWriter};
use poorwill_keepers::{self as keepers, Drivers, KeeperError, Machine};
use poorwill_medium::nvme::ShutdownFacts;
use poorwill_memory::{PAGE_BYTES, Page, PhysRange};
use poorwill_pci::{Function, HostBridge, PciError};
use poorwill_sleep::cut::{CutReason, Misfit};

use super::disks;
use super::record::Record;
use crate::hart::this_hart;
use crate::platform::console::say;
use crate::platform::platform;

/// The machine's PCI devices, with the record that holds their state.
pub(super) struct Devices(Record);

impl Devices {
    /// The devices, while no hart runs the OS.
    ///
    /// # Safety
    ///
    /// No hart runs the OS while this value exists. No other code uses the devices, or refers to
    /// the OS's memory.
    pub(super) unsafe fn new(record: Record) -> Self {
        Devices(record)
    }

    // Not inlined: the stack of a stopping hart is short.
    /// Makes all devices quiet by the time `until`, in ticks, and writes their state. Returns the
    /// bytes, and whether all devices are quiet.
    #[inline(never)]
    pub(super) fn stop(
        &self,
        drivers: Drivers,
        until: u64,
        into: &mut [Page],
    ) -> (u64, Result<(), CutReason>) {
        let mut writer = StateWriter::new(into);
        let until = platform().time.microseconds_in(until);
        let quieted = keepers::stop(self, drivers, until, &mut writer).map_err(reason);
        (writer.finish(), quieted)
    }

    /// Lets quiet devices work again after a refused cut, during which the power stayed on.
    #[inline(never)]
    pub(super) fn resume(&self, pages: &[Page], bytes: u64) {
        let sections = StateSections::parse(pages, bytes).map_err(KeeperError::from);
        let resumed = sections.and_then(|sections| {
            keepers::put_back(self, &sections)?;
            keepers::announce(self, &sections)
        });
        if let Err(error) = resumed {
            // The device's driver will notice the error.
            say!("cut: {error}");
        }
    }

    /// Returns whether a device may have changed memory since the OS stopped, or may change it
    /// while its state is restored.
    pub(super) fn reach_memory(&self) -> Result<bool, CutReason> {
        keepers::reach_memory(self).map_err(reason)
    }

    /// Checks that the state can be restored.
    pub(super) fn check(&self, pages: &[Page], bytes: u64) -> Result<(), CutReason> {
        let sections = StateSections::parse(pages, bytes)?;
        keepers::check(self, &sections).map_err(reason)
    }

    /// Restores the state, but raises no interrupts yet.
    pub(super) fn put_back(&self, pages: &[Page], bytes: u64) -> Result<(), CutReason> {
        let sections = StateSections::parse(pages, bytes)?;
        keepers::put_back(self, &sections).map_err(|error| {
            keepers::give_up(self);
            reason(error)
        })
    }

    /// Raises the interrupts that the devices had pending.
    #[inline(never)]
    pub(super) fn announce(&self, pages: &[Page], bytes: u64) {
        let sections = StateSections::parse(pages, bytes);
        let announced = sections
            .map_err(KeeperError::from)
            .and_then(|sections| keepers::announce(self, &sections));
        if let Err(error) = announced {
            // The harts continue, and the device's driver will notice the error.
            say!("cut: {error}");
        }
    }

    /// The memory at an address, if all of it is the OS's memory or lies in the scratch page.
    fn memory(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let length = bytes as u64;
        let scratch = PhysRange::new(self.scratch(), PAGE_BYTES);
        let end = address.checked_add(length)?;
        let is_scratch = scratch.start <= address && end <= scratch.end;
        let is_os = || {
            let domain = this_hart().domain();
            domain.memory.contains(address, length)
        };
        (is_scratch || is_os())
            .then(|| core::ptr::with_exposed_provenance_mut::<u8>(address as usize))
    }
}

impl Machine for Devices {
    type Config = Ecam;
    type Window = DeviceWindow;

    fn hosts(&self) -> usize {
        platform().pci.len()
    }

    fn host(&self, host: usize) -> &HostBridge {
        &platform().pci[host].bridge
    }

    fn config(&self, host: usize) -> Ecam {
        // SAFETY: the device tree describes the bridge, and no hart runs the OS.
        unsafe { config_space(&platform().pci[host]) }
    }

    fn window(&self, cpu_address: u64) -> DeviceWindow {
        // SAFETY: a keeper found it in a window of a host bridge, and no hart runs the OS.
        unsafe { DeviceWindow::new(cpu_address) }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let memory = self.memory(address, into.len())?;
        // SAFETY: this is the scratch page, or memory of the OS, which runs on no hart. Devices may
        // write there: any bits are bytes.
        into.copy_from_slice(unsafe { slice::from_raw_parts(memory, into.len()) });
        Some(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        let memory = self.memory(address, bytes.len())?;
        // SAFETY: as in `read`, and no code refers to this memory.
        unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    fn send(&self, address: u64, data: u32) -> Option<()> {
        if !platform().interrupts.takes_message(address) {
            return None;
        }
        // SAFETY: this is an interrupt file of the OS.
        unsafe { poorwill_arch::Mmio::new(address) }.write(0, data);
        Some(())
    }

    fn scratch(&self) -> u64 {
        self.0.scratch().start
    }

    fn shutdown_facts(&self, host: usize, function: Function) -> Option<ShutdownFacts> {
        disks::facts_of(host, function)
    }

    fn keep_shutdown_facts(&self, host: usize, function: Function, facts: ShutdownFacts) {
        disks::kept(host, function, facts);
    }

    fn microseconds(&self) -> u64 {
        platform().time.microseconds_in(platform().time.ticks())
    }
}

/// The reason in the record for an error of a keeper.
fn reason(error: KeeperError) -> CutReason {
    match error {
        KeeperError::NoKeeper(function) | KeeperError::TooMany(function) => {
            CutReason::LiveFunction(function)
        }
        KeeperError::Unreachable(function) | KeeperError::State(function) => {
            CutReason::FunctionState(function)
        }
        KeeperError::Pci(PciError::CapabilityList(function)) => CutReason::FunctionState(function),
        KeeperError::NotDone(function) => CutReason::FunctionNotDone(function),
        KeeperError::TooSlow(function, us) => CutReason::FunctionTooSlow(function, us),
        KeeperError::Changed(function) => CutReason::FunctionChanged(function),
        KeeperError::Record(error) => error.into(),
        KeeperError::Pci(PciError::VirtualFunctions(function)) => {
            CutReason::VirtualFunctions(function)
        }
        KeeperError::Pci(_) => Misfit::Pci.into(),
    }
}
