use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use dtoolkit::{Cells, Node, Property, ToCellInt};
use poorwill_memory::PhysRange;
use poorwill_pci::{HostBridge, MAX_WINDOWS, Window, WindowKind};

use crate::binding::Binding;
use crate::bound::{self, TooMany};
use crate::node::{cell, cells, reg};

/// A 16550 UART.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ns16550 {
    /// Address of the first register.
    pub base: u64,
    /// Registers are `1 << shift` bytes apart.
    pub shift: u32,
    /// Width of an access in bytes: 1 or 4.
    pub width: u32,
}

impl Ns16550 {
    fn read(node: FdtNode<'_>) -> Option<Self> {
        let offset = u64::from(cell(node, "reg-offset").unwrap_or(0));
        Some(Ns16550 {
            base: reg(node, 0)?.start.checked_add(offset)?,
            shift: cell(node, "reg-shift").unwrap_or(0).min(8),
            width: if cell(node, "reg-io-width") == Some(4) {
                4
            } else {
                1
            },
        })
    }
}

/// A UART.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uart {
    /// A 16550.
    Ns16550(Ns16550),
    /// SiFive's.
    Sifive {
        /// Address of the first register.
        base: u64,
    },
}

impl Uart {
    pub(crate) fn read(node: FdtNode<'_>) -> Option<Self> {
        match Binding::of(node)? {
            Binding::SifiveUart => reg(node, 0).map(|range| Uart::Sifive { base: range.start }),
            _ => Ns16550::read(node).map(Uart::Ns16550),
        }
    }

    /// Address of the first register.
    #[must_use]
    pub fn base(self) -> u64 {
        match self {
            Uart::Ns16550(uart) => uart.base,
            Uart::Sifive { base } => base,
        }
    }
}

/// A PCI host bridge whose configuration space is mapped (ECAM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciHost {
    /// The mapped configuration space.
    pub ecam: PhysRange,
    /// Buses and memory windows.
    pub bridge: HostBridge,
}

impl PciHost {
    pub(crate) fn read(node: FdtNode<'_>) -> Result<Option<Self>, TooMany> {
        let Some(ecam) = reg(node, 0) else {
            return Ok(None);
        };
        let mut buses = cells(node, "bus-range").into_iter().flatten();
        let mut bus = |default: u8| {
            buses
                .next()
                .and_then(|number| u8::try_from(number).ok())
                .unwrap_or(default)
        };
        let bridge = HostBridge {
            first_bus: bus(0),
            last_bus: bus(255),
            windows: read_windows(node)?,
        };
        Ok(Some(PciHost { ecam, bridge }))
    }
}

/// The entries of `ranges`: each has one cell of flags, two of bus address, two of CPU address, two
/// of length (PCI Bus Binding to Open Firmware, 2.2.1.1).
fn entries<'a>(node: FdtNode<'a>) -> impl Iterator<Item = [Cells<'a>; 4]> + use<'a> {
    let entries = node
        .property("ranges")
        .and_then(|ranges| ranges.as_prop_encoded_array([1, 2, 2, 2]).ok());
    entries.into_iter().flatten()
}

/// The CPU's addresses of all windows of a host bridge, that of its ports included.
pub(crate) fn all_windows<'a>(node: FdtNode<'a>) -> impl Iterator<Item = PhysRange> + use<'a> {
    entries(node).filter_map(|[_, _, cpu, length]| Some(PhysRange::new(int(cpu)?, int(length)?)))
}

fn read_windows(node: FdtNode<'_>) -> Result<ArrayVec<Window, MAX_WINDOWS>, TooMany> {
    let window = |[flags, pci, cpu, length]: [_; 4]| {
        let flags = int(flags)?;
        let kind = match (flags >> 24) & 3 {
            2 => WindowKind::Memory32,
            3 => WindowKind::Memory64,
            _ => return None,
        };
        Some(Window {
            kind,
            prefetchable: flags & (1 << 30) != 0,
            pci_address: int(pci)?,
            cpu_address: int(cpu)?,
            length: int(length)?,
        })
    };
    let windows = entries(node).filter_map(window);
    bound::collect("memory windows of a PCI host bridge", windows)
}

pub(crate) fn int(cells: impl ToCellInt) -> Option<u64> {
    cells.to_int().ok()
}
