//! Reads a RISC-V machine's device tree.
//!
//! [`Machine`] is read once, at power-on, from the previous stage's blob; no other code in the
//! firmware parses device trees. [`fixup`] turns the blob into the next stage's: the firmware's
//! memory is reserved, machine-mode devices are disabled.
//!
//! Nothing here touches hardware. Host tests use trees of real and modelled boards, and damaged
//! ones.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod binding;
mod blob;
mod board;
mod bound;
mod caches;
mod cells;
mod census;
mod chosen;
mod clint;
mod cold_boot;
mod devices;
mod disabled;
mod fixup;
mod flash;
mod hart;
mod hide;
mod identity;
mod interrupts;
mod intruder;
mod isa;
mod limit;
mod machine;
mod mediated;
mod memory;
mod memory_controller;
mod next_tree;
mod node;
mod os_controllers;
mod own_size;
mod partition;
mod pci_wiring;
mod placement;
mod power_fail;
mod raw;
mod reserved;
mod salvage;
mod spare_source;
mod switch;
mod tokens;
mod unknown_devices;
mod visited;
mod weak_hart;

pub use blob::{edit, open};
pub use board::{
    BoardHart, BoardNode, HartState, KNOWN_PCI_HOSTS, KNOWN_TIMERS, KNOWN_UARTS, Purpose, board,
    board_harts, without_driver,
};
pub use bound::TooMany;
pub use caches::{Cache, DataCaches, MAX_CACHES};
pub use cells::{Cells, CellsError};
pub use census::{Census, MAX_NAMED, MAX_UARTS};
pub use chosen::MAX_SEED;
pub use cold_boot::{ColdBootError, ColdBootHarts};
pub use devices::{Ns16550, PciHost, Uart};
pub use dtoolkit::fdt::Fdt;
pub use fixup::{FixupError, Fixups, GenerationId, Placed, SLACK, fixup};
pub use flash::{Flash, VaultBank, VaultPlace};
pub use hart::{Hart, ImsicFile, MAX_HARTS};
pub use identity::{IDENTITY_RULE, harts_fingerprint, memory_fingerprint};
pub use interrupts::{
    Aplic, ImsicLayout, Interrupts, MAX_APLICS, MAX_IMSICS, MAX_MACHINE_CONTEXTS, MAX_PLICS,
    MessageFiles, Plic, TwoImsics,
};
pub use intruder::Intruder;
pub use isa::Extensions;
pub use limit::Limits;
pub use machine::{
    DescriptionError, MAX_FW_CFGS, MAX_IOMMUS, MAX_MTIMES, MAX_PCI_HOSTS, MAX_VIRTIO, Machine,
};
pub use memory_controller::{ControllerBits, MAX_WEAR_RANGES, MemoryController, WearRanges};
pub use next_tree::reserved_of;
pub use node::NodeName;
pub use own_size::MAX_MACHINE_ONLY;
pub use partition::{
    DomainNode, FunctionFault, FunctionRange, MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS,
    MAX_FUNCTION_RANGES, MAX_MACHINE_FUNCTIONS, MAX_MACHINE_RANGES, MAX_PARTITION_HARTS,
    MAX_REGION_DEVICES, MAX_REGION_NODES, MAX_REGIONS, MAX_SPANS, MemoryRegion, NextMode,
    Partition, PartitionError, PermissionFault, Permissions, Span, identity_with,
};
pub use pci_wiring::{IntxSource, PciWiring};
pub use placement::{PLACEMENT_RULE, place, range_bytes, tree_place};
pub use power_fail::{PowerFail, PowerFailError, PowerFailInput};
pub use reserved::{Holder, MAX_RESERVED, Reserved};
pub use spare_source::SpareSource;
pub use switch::{Drive, GpioSwitch, Switch, SwitchError, SwitchFault, Switches, Syscon};
pub use unknown_devices::unknown_devices;
pub use weak_hart::{MAX_LENT, NoExecutor, WeakHart, Without};
