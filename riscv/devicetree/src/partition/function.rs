//! PCI functions of a domain, or of machine mode: the property `poorwill,functions`.
//!
//! It is a list of entries of five cells, in the form of `assigned-addresses` (PCI Bus Binding to
//! Open Firmware, 2.2.1.1 and 4.1.1): bus, device, function and register; address; size.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;
use poorwill_pci::Function;
use poorwill_pci::placement::{AddressKind, PlacedFunction};

use super::error::{FunctionFault, PartitionError};
use super::node::{DomainNode, FunctionRange, Partition};
use super::property::{malformed, optional_cells};
use crate::bound;
use crate::node::name_of;

const FUNCTIONS: &str = "poorwill,functions";

/// The only bus of machine mode's functions: below a bridge they would share its window.
const FIRST_BUS: u8 = 0;

/// Cells of an entry.
const ENTRY_CELLS: usize = 5;

/// `t` (aliased) and the reserved bits of the first cell. `n` (not relocatable) may be set or not.
const UNSUPPORTED: u32 = 1 << 29 | 0b111 << 26;

const PREFETCHABLE: u32 = 1 << 30;

/// Primary, secondary and subordinate bus numbers of a bridge.
const BUS_NUMBERS: u8 = 0x18;

struct Entry {
    function: Function,
    register: u8,
    flags: u32,
    address: [u32; 2],
    size: u64,
}

impl Entry {
    fn new([high, middle, low, size_high, size_low]: [u32; ENTRY_CELLS]) -> Self {
        let [_, bus, device_function, register] = high.to_be_bytes();
        Entry {
            function: Function::from_routing_id(u16::from_be_bytes([bus, device_function])),
            register,
            flags: high,
            address: [middle, low],
            size: u64::from(size_high) << 32 | u64::from(size_low),
        }
    }

    /// The kind of address; `None`: configuration space.
    fn kind(&self) -> Option<AddressKind> {
        match self.flags >> 24 & 3 {
            0 => None,
            1 => Some(AddressKind::Io),
            2 => Some(AddressKind::Memory32),
            _ => Some(AddressKind::Memory64),
        }
    }

    /// First and last bus below a bridge; `None` for an entry that only names its function.
    fn buses(&self) -> Result<Option<(u8, u8)>, FunctionFault> {
        if self.size != 0 {
            return Err(FunctionFault::Length);
        }
        match (self.register, self.address) {
            (0, [0, 0]) => Ok(None),
            (BUS_NUMBERS, [first, last]) => {
                let bus = |number| u8::try_from(number).map_err(|_| FunctionFault::Buses);
                let (first, last) = (bus(first)?, bus(last)?);
                let is_below = self.function.bus < first && first <= last;
                is_below
                    .then_some(Some((first, last)))
                    .ok_or(FunctionFault::Buses)
            }
            _ => Err(FunctionFault::Register),
        }
    }

    fn range(&self, kind: AddressKind) -> Result<FunctionRange, FunctionFault> {
        let [middle, low] = self.address;
        let start = u64::from(middle) << 32 | u64::from(low);
        let end = start.checked_add(self.size).filter(|end| *end > start);
        Ok(FunctionRange {
            function: self.function,
            register: self.register,
            kind,
            is_prefetchable: self.flags & PREFETCHABLE != 0,
            range: PhysRange {
                start,
                end: end.ok_or(FunctionFault::Length)?,
            },
        })
    }
}

/// Registers of addresses (PCI Local Bus Specification 3.0, 6.1; PCI-to-PCI Bridge Architecture
/// Specification 1.2, 3.2).
fn has_register(is_bridge: bool, register: u8, kind: AddressKind) -> bool {
    let is_io = kind == AddressKind::Io;
    let is_wide = kind == AddressKind::Memory64;
    match (is_bridge, register) {
        // A bridge's windows.
        (true, 0x1c) => is_io,
        (true, 0x20) => kind == AddressKind::Memory32,
        (true, 0x24) => !is_io,
        // Expansion ROMs.
        (true, 0x38) | (false, 0x30) => kind == AddressKind::Memory32,
        // The last BAR has no other one for the upper half of an address.
        (true, 0x14) | (false, 0x24) => !is_wide,
        (true, 0x10) | (false, 0x10 | 0x14 | 0x18 | 0x1c | 0x20) => true,
        _ => false,
    }
}

impl DomainNode {
    /// Takes the entries of the domain's `poorwill,functions`, in any order.
    pub(super) fn take_functions(&mut self, node: FdtNode<'_>) -> Result<(), PartitionError> {
        let cells = optional_cells(node, FUNCTIONS)?;
        let mut lists = Lists {
            node,
            kinds: [
                "PCI functions of a domain",
                "ranges of a domain's functions",
            ],
            is_of_machine: false,
            functions: &mut self.functions,
            ranges: &mut self.ranges,
        };
        lists.take(cells)
    }
}

impl Partition {
    /// Takes the entries of machine mode's `poorwill,functions`, in any order.
    pub(super) fn take_functions(&mut self, config: FdtNode<'_>) -> Result<(), PartitionError> {
        let cells = optional_cells(config, FUNCTIONS)?;
        let mut lists = Lists {
            node: config,
            kinds: [
                "PCI functions of machine mode",
                "ranges of machine mode's functions",
            ],
            is_of_machine: true,
            functions: &mut self.functions,
            ranges: &mut self.ranges,
        };
        lists.take(cells)
    }
}

/// The lists that the entries of a node fill.
struct Lists<'a, 'tree, const F: usize, const R: usize> {
    node: FdtNode<'tree>,
    /// What the lists hold, for an error.
    kinds: [&'static str; 2],
    is_of_machine: bool,
    functions: &'a mut ArrayVec<PlacedFunction, F>,
    ranges: &'a mut ArrayVec<FunctionRange, R>,
}

impl<const F: usize, const R: usize> Lists<'_, '_, F, R> {
    fn take(&mut self, mut cells: impl Iterator<Item = u32>) -> Result<(), PartitionError> {
        while let Some(first) = cells.next() {
            let mut entry = [first; ENTRY_CELLS];
            for cell in &mut entry[1..] {
                *cell = (cells.next()).ok_or_else(|| malformed(self.node, FUNCTIONS))?;
            }
            self.take_entry(&Entry::new(entry))?;
        }
        self.functions.sort_unstable_by_key(|one| one.function);
        self.ranges
            .sort_unstable_by_key(|range| (range.function, range.register));
        self.check_registers()
    }

    fn take_entry(&mut self, entry: &Entry) -> Result<(), PartitionError> {
        let [functions, ranges] = self.kinds;
        let node = name_of(self.node);
        let refuse = |fault| PartitionError::Function {
            node,
            function: entry.function,
            register: entry.register,
            fault,
        };
        if entry.flags & UNSUPPORTED != 0 {
            return Err(refuse(FunctionFault::Flags));
        }
        if self.is_of_machine && entry.function.bus != FIRST_BUS {
            return Err(refuse(FunctionFault::NotFirstBus));
        }
        let buses = match entry.kind() {
            None => entry.buses().map_err(refuse)?,
            Some(kind) => {
                let range = entry.range(kind).map_err(refuse)?;
                bound::push(self.ranges, ranges, range)?;
                None
            }
        };
        if self.is_of_machine && buses.is_some() {
            return Err(refuse(FunctionFault::OwnBridge));
        }
        let mut known = self.functions.iter_mut();
        match known.find(|one| one.function == entry.function) {
            Some(one) if one.buses.is_some() && buses.is_some() => {
                Err(refuse(FunctionFault::Twice))
            }
            Some(one) => {
                one.buses = one.buses.or(buses);
                Ok(())
            }
            None => {
                let one = PlacedFunction {
                    function: entry.function,
                    buses,
                };
                bound::push(self.functions, functions, one)?;
                Ok(())
            }
        }
    }

    /// Checks that each function has the registers of its sorted ranges, and each once. A BAR of 64
    /// bits takes the next register, too.
    fn check_registers(&self) -> Result<(), PartitionError> {
        let mut before: Option<&FunctionRange> = None;
        for range in self.ranges.iter() {
            let mut functions = self.functions.iter();
            let is_bridge =
                functions.any(|one| one.function == range.function && one.buses.is_some());
            let refuse = |fault| PartitionError::Function {
                node: name_of(self.node),
                function: range.function,
                register: range.register,
                fault,
            };
            if !has_register(is_bridge, range.register, range.kind) {
                return Err(refuse(FunctionFault::Register));
            }
            let is_taken = before.is_some_and(|before| {
                let is_wide = before.kind == AddressKind::Memory64;
                let last = before.register + if is_wide { 4 } else { 0 };
                before.function == range.function && range.register <= last
            });
            if is_taken {
                return Err(refuse(FunctionFault::Twice));
            }
            before = Some(range);
        }
        Ok(())
    }
}
