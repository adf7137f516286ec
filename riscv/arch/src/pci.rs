//! Memory-mapped access to PCI configuration space, NVMe registers and device memory.

use poorwill_devicetree::PciHost;
use poorwill_drivers::Registers;
use poorwill_keepers::Window;
use poorwill_medium::{mapped, nvme};
use poorwill_memory::PhysRange;
use poorwill_pci::DeviceHandle;

use crate::{Mmio, cache, fence};

/// The configuration space of a host bridge.
pub type Ecam = poorwill_drivers::Ecam<Mmio>;

/// The configuration space that the device tree names.
///
/// # Safety
///
/// `host` describes a host bridge of this machine. No OS uses it while the value exists.
pub unsafe fn config_space(host: &PciHost) -> Ecam {
    // SAFETY: passed on to the caller.
    let registers = unsafe { Mmio::new(host.ecam.start) };
    Ecam::new(registers, host)
}

/// Addresses that a function decodes.
#[derive(Clone, Copy, Debug)]
pub struct DeviceWindow(Mmio);

impl DeviceWindow {
    /// The window from `address` on.
    ///
    /// # Safety
    ///
    /// It lies within a window of a host bridge. No OS uses it while the value exists.
    pub unsafe fn new(address: u64) -> Self {
        // SAFETY: passed on to the caller.
        DeviceWindow(unsafe { Mmio::new(address) })
    }
}

impl Window for DeviceWindow {
    fn read32(&self, offset: u64) -> u32 {
        let value = self.0.read(offset);
        fence::after_device_read();
        value
    }

    fn write32(&self, offset: u64, value: u32) {
        fence::before_device_write();
        self.0.write(offset, value);
    }
}

/// The registers of a claimed NVMe controller.
#[derive(Clone, Copy, Debug)]
pub struct NvmeRegisters<'a> {
    registers: DeviceWindow,
    handle: &'a DeviceHandle,
    config: &'a Ecam,
}

impl<'a> NvmeRegisters<'a> {
    /// The registers of the claimed function.
    pub fn new(handle: &'a DeviceHandle, config: &'a Ecam) -> Self {
        NvmeRegisters {
            // SAFETY: acquiring made the function decode that address, and the handle outlives this
            // value.
            registers: unsafe { DeviceWindow::new(handle.cpu_address()) },
            handle,
            config,
        }
    }
}

impl nvme::Registers for NvmeRegisters<'_> {
    fn length(&self) -> u64 {
        self.handle.length()
    }

    fn read32(&self, offset: u64) -> u32 {
        self.registers.read32(offset)
    }

    fn write32(&self, offset: u64, value: u32) {
        self.registers.write32(offset, value);
    }

    fn cut_dma(&self) {
        self.handle.cut_dma(self.config);
    }
}

/// Makes stores to a claimed device's memory durable.
///
/// Harts with Zicbom write their caches back. On other harts the range must be uncached, as PCI
/// ranges usually are, or the caches must outlast the power. A load from the device completes after
/// all stores to it, so no store is in flight once it has returned.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMemory<'a> {
    memory: Mmio,
    handle: &'a DeviceHandle,
    config: &'a Ecam,
    cache_block: Option<u64>,
}

impl<'a> DeviceMemory<'a> {
    /// The memory that the claimed function decodes at `range`.
    pub fn new(
        range: PhysRange,
        (handle, config): (&'a DeviceHandle, &'a Ecam),
        cache_block: Option<u64>,
    ) -> Self {
        DeviceMemory {
            // SAFETY: as for `NvmeRegisters`.
            memory: unsafe { Mmio::new(range.start) },
            handle,
            config,
            cache_block,
        }
    }
}

impl mapped::Persistence for DeviceMemory<'_> {
    fn write_back(&self, bytes: PhysRange) {
        if let Some(block_bytes) = self.cache_block {
            cache::write_back(bytes, block_bytes);
        }
    }

    fn settle(&self) -> Result<(), u16> {
        fence::everything();
        let _: u64 = self.memory.read(0);
        fence::everything();
        Ok(())
    }

    fn is_present(&self) -> bool {
        self.handle.is_present(self.config)
    }
}
