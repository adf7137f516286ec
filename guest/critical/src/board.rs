//! The guest's machine, from its device tree.

use dtoolkit::fdt::FdtNode;
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property, ToCellInt};
use poorwill_devicetree::open;
use thiserror::Error;

/// Cause number of an external interrupt of S-mode.
const SUPERVISOR_EXTERNAL: u32 = 9;

/// The CAN card, by PCI vendor and device.
const CAN: &str = "pci10e8,8406";
/// QEMU's `pci-serial`.
const SERIAL: &str = "pci1b36,2";

/// Why the guest cannot run with its device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BoardError {
    #[error("the device tree is damaged")]
    Damaged,
    #[error("the device tree has no hart {0}")]
    NoHart(u64),
    #[error("/cpus has no timebase-frequency of at least 10000")]
    NoTimebase,
    #[error("no riscv,imsics node has hart {0}'s S-mode interrupts")]
    NoImsic(u64),
    #[error("the IMSIC node has group bits: give the domain a node of its own")]
    SharedImsic,
    #[error("no riscv,aplic node has the hart's IMSIC as its msi-parent")]
    NoAplic,
    #[error("no node {0} with {1} register ranges and an interrupt source from 1 to 1023")]
    NoFunction(&'static str, usize),
}

/// A PCI function whose BARs the firmware has placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// CPU addresses of the first two BARs; 0 for one that the driver does not use.
    pub bars: [u64; 2],
    /// APLIC source of its interrupt.
    pub source: u32,
}

/// The hart's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    /// Ticks of `time` in a second, at least 10,000.
    pub timebase: u64,
    /// The hart's timer is `stimecmp` (`sstc` in `riscv,isa-extensions`); else the SBI's.
    pub has_sstc: bool,
    /// The hart's index in its IMSIC node.
    pub hart_index: u32,
    /// Address of the APLIC.
    pub aplic: u64,
    /// The CAN card.
    pub can: Function,
    /// The serial line that asks for sleeps.
    pub serial: Function,
    /// Milliseconds after which the guest's timer ends a sleep (`poorwill,wake-after-ms`).
    pub wake_after_ms: Option<u32>,
    /// Microseconds that each heartbeat works (`poorwill,load-us`).
    pub load_us: u32,
}

impl Board {
    /// Reads a device tree for the hart with this ID.
    ///
    /// # Errors
    ///
    /// What the tree lacks.
    pub fn read(blob: &[u8], hart: u64) -> Result<Self, BoardError> {
        let root = open(blob).ok_or(BoardError::Damaged)?.root();
        let cpus = root.child("cpus").ok_or(BoardError::NoHart(hart))?;
        let cpu = (cpus.children()).find(|cpu| address(*cpu, 0) == Some(hart));
        let cpu = cpu.ok_or(BoardError::NoHart(hart))?;
        let controller = cpu.child("interrupt-controller");
        let controller = controller.and_then(|node| cells(node, "phandle").next());
        let timebase = cells(cpus, "timebase-frequency").next();
        let timebase = timebase.filter(|hertz| *hertz >= 10_000);

        let devices = || {
            let soc = root.child("soc").into_iter();
            root.children().chain(soc.flat_map(|soc| soc.children()))
        };
        let mut imsics = devices().filter(|node| node.is_compatible("riscv,imsics"));
        let (imsic, hart_index) = imsics
            .find_map(|node| Some((node, place_of(node, controller?)?)))
            .ok_or(BoardError::NoImsic(hart))?;
        if cells(imsic, "riscv,group-index-bits").any(|bits| bits != 0) {
            return Err(BoardError::SharedImsic);
        }
        let imsic = cells(imsic, "phandle").next();
        let aplic = devices().find(|node| {
            node.is_compatible("riscv,aplic")
                && imsic.is_some()
                && cells(*node, "msi-parent").next() == imsic
        });
        let function = |name, count| {
            let node = devices().find(|node| node.is_compatible(name));
            let function = node.and_then(|node| function(node, count));
            function.ok_or(BoardError::NoFunction(name, count))
        };
        let option = |name| cells(root.child("chosen")?, name).next();
        Ok(Board {
            timebase: timebase.ok_or(BoardError::NoTimebase)?.into(),
            has_sstc: (cpu.property("riscv,isa-extensions")).is_some_and(|list| {
                list.value()
                    .split(|byte| *byte == 0)
                    .any(|name| name == b"sstc")
            }),
            hart_index,
            aplic: aplic
                .and_then(|node| address(node, 0))
                .ok_or(BoardError::NoAplic)?,
            can: function(CAN, 2)?,
            serial: function(SERIAL, 1)?,
            wake_after_ms: option("poorwill,wake-after-ms"),
            load_us: option("poorwill,load-us").unwrap_or(0),
        })
    }
}

/// Reads a PCI function's node, of which `count` BARs are used.
fn function(node: FdtNode<'_>, count: usize) -> Option<Function> {
    let mut bars = [0; 2];
    for (number, bar) in bars.iter_mut().enumerate().take(count) {
        *bar = address(node, number)?;
    }
    let source = cells(node, "interrupts").next()?;
    ((1..1024).contains(&source)).then_some(Function { bars, source })
}

/// The place of a hart's S-mode interrupts in an IMSIC's `interrupts-extended`.
fn place_of(imsic: FdtNode<'_>, controller: u32) -> Option<u32> {
    let pairs = imsic
        .property("interrupts-extended")?
        .as_prop_encoded_array([2])
        .ok()?;
    let wanted = u64::from(controller) << 32 | u64::from(SUPERVISOR_EXTERNAL);
    let mut places = (0..).zip(pairs);
    places.find_map(|(place, [pair])| (pair.to_int() == Ok(wanted)).then_some(place))
}

/// The address of a node's range with this number.
fn address(node: FdtNode<'_>, number: usize) -> Option<u64> {
    node.reg().ok()??.nth(number)?.address().ok()
}

/// The cells of a property.
fn cells<'a>(node: FdtNode<'a>, name: &str) -> impl Iterator<Item = u32> + use<'a> {
    let words = node
        .property(name)
        .and_then(|property| property.as_prop_encoded_array([1]).ok());
    words
        .into_iter()
        .flatten()
        .filter_map(|[cells]| cells.to_int().ok())
}
