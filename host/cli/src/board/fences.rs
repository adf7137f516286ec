//! The memory that the firmware takes, and the plan by which it fences itself.

use std::path::PathBuf;

use poorwill_devicetree::{Machine, range_bytes};
use poorwill_domain::pmp::{PlanError, Pmp, PmpPlan};
use poorwill_domain::{ALL_DEVICES, DivideError, Fence, FwDynamic, Loaded, closed};
use poorwill_machine::firmware;
use poorwill_machine::paths::{self, PathError};
use poorwill_manifest::{Added, MemoryLayout, readable_page};
use poorwill_memory::{MemoryMap, PAGE_BYTES, PhysRange};

use crate::domains::{FIRMWARE_BYTES, GRANULARITY_BITS};

/// Numbers of PMP entries for which a plan is made.
const ENTRIES: [usize; 2] = [16, 8];

/// Alignment of the assumed next stage, as QEMU's.
const STAGE_ALIGN: u64 = 2 << 20;

/// What a tree does not state.
#[derive(Clone, Debug)]
pub(crate) struct Assumed {
    /// The firmware's memory, by its file.
    file: Option<(PathBuf, MemoryLayout)>,
    /// The address at which the firmware is loaded; `None`: by its file.
    at: Option<u64>,
}

impl Assumed {
    /// Assumes the memory of the firmware file that is built, or without a file a usual size.
    ///
    /// # Errors
    ///
    /// The file is no firmware.
    pub(crate) fn new(at: Option<u64>) -> anyhow::Result<Self> {
        let file = match paths::firmware() {
            Ok(file) => Some(file),
            Err(PathError::NoFirmware) => None,
            Err(error) => return Err(error.into()),
        };
        let file = match file {
            Some(file) => {
                let layout = firmware::manifest(&file)?.layout;
                Some((file, layout))
            }
            None => None,
        };
        Ok(Assumed { file, at })
    }

    /// Assumes a usual size.
    #[cfg(test)]
    pub(super) fn without_file(at: Option<u64>) -> Self {
        Assumed { file: None, at }
    }

    /// The firmware's first range, and the address that it is linked for if memory is elsewhere.
    fn first_range(&self, memory: &[PhysRange]) -> (PhysRange, Option<u64>) {
        let linked = self.file.as_ref().map(|(_, layout)| layout.loaded);
        let bytes = linked.map_or(FIRMWARE_BYTES, |loaded| loaded.length());
        let at = |start| PhysRange::new(start, bytes);
        let start = memory.first().map_or(0, |range| range.start);
        match (self.at, linked) {
            (Some(address), _) => (at(address), None),
            (None, Some(linked)) if contain(memory, linked) => (linked, None),
            (None, Some(linked)) => (at(start), Some(linked.start)),
            (None, None) => (at(start), None),
        }
    }

    /// Bytes of the second range.
    fn data_bytes(&self, machine: &Machine) -> Option<u64> {
        let Some((_, layout)) = &self.file else {
            return range_bytes(0);
        };
        let lengths = machine.memory.iter().map(PhysRange::length);
        let pages = lengths.fold(0, u64::saturating_add) / PAGE_BYTES;
        let harts = machine.harts.len() as u64;
        let data = layout.data_with(harts, Added::of(machine));
        data.bytes(pages, harts)
    }

    /// The source of the firmware's sizes.
    pub(super) fn source(&self) -> String {
        match &self.file {
            Some((file, _)) => format!("sizes of {}", file.display()),
            None => "sizes assumed, as no firmware is built".to_owned(),
        }
    }
}

fn contain(memory: &[PhysRange], inner: PhysRange) -> bool {
    let mut ranges = memory.iter();
    ranges.any(|range| range.start <= inner.start && inner.end <= range.end)
}

/// The plan for harts with a number of PMP entries.
pub(super) struct Plan {
    pub(super) entries: usize,
    /// The flash holds a vault, which is closed.
    pub(super) with_vault: bool,
    /// The flag says whether PLIC registers are closed, and mediated.
    pub(super) made: Result<(PmpPlan, bool), PlanError>,
}

/// Why the firmware could not divide the board's memory.
pub(super) enum Undivided {
    /// The first range is not in memory.
    Outside,
    Divide(DivideError),
}

/// The memory of the firmware and the OS, and the ranges that are closed.
pub(super) struct Fences {
    /// The range that the firmware is loaded into.
    pub(super) firmware: PhysRange,
    /// The address that the firmware file is linked for, if memory is elsewhere.
    pub(super) linked_for: Option<u64>,
    pub(super) divided: Result<Divided, Undivided>,
}

pub(super) struct Divided {
    /// The firmware's second range.
    pub(super) data: PhysRange,
    pub(super) os: MemoryMap,
    /// The page of the firmware that the OS may read.
    pub(super) readable: Option<PhysRange>,
    /// Flash that is closed if it holds a vault.
    pub(super) vault: Option<PhysRange>,
    /// Closed registers.
    pub(super) registers: Vec<PhysRange>,
    /// Registers that are closed and mediated if there are enough entries.
    pub(super) mediated: Vec<PhysRange>,
    pub(super) plans: Vec<Plan>,
}

impl Fences {
    /// The fences of a machine that is known in full; `None`: domains have its memory.
    pub(super) fn of(machine: &Machine, assumed: &Assumed) -> Option<Self> {
        if machine.has_domains {
            return None;
        }
        let (firmware, linked_for) = assumed.first_range(&machine.memory);
        let divided = match contain(&machine.memory, firmware) {
            true => Divided::of(machine, firmware, assumed).map_err(Undivided::Divide),
            false => Err(Undivided::Outside),
        };
        Some(Fences {
            firmware,
            linked_for,
            divided,
        })
    }

    /// Returns whether the firmware has its memory, and harts with 16 entries can fence it.
    pub(super) fn hold(&self) -> bool {
        let Ok(divided) = &self.divided else {
            return false;
        };
        let plain = divided.plan(ENTRIES[0], false);
        self.linked_for.is_none() && plain.is_some_and(|plan| plan.made.is_ok())
    }
}

impl Divided {
    fn of(machine: &Machine, firmware: PhysRange, assumed: &Assumed) -> Result<Self, DivideError> {
        let next = FwDynamic {
            address: (firmware.end.checked_next_multiple_of(STAGE_ALIGN)).unwrap_or(firmware.end),
            tree: PhysRange::new(0, 0),
            boot_hart: None,
        };
        let [stage, _] = next.taken(&[], |_, _| {});
        let loaded = Loaded {
            firmware,
            taken: [stage, PhysRange::new(stage.start, 0)],
        };
        let bytes = assumed.data_bytes(machine);
        let bytes = bytes.ok_or(DivideError::NoRoom(u64::MAX))?;
        let data = loaded.data_range(machine, bytes)?;
        let os = loaded.os_memory(machine, &machine.memory, data)?;
        let vault = machine.flash.as_ref().and_then(|flash| flash.vault_bank());
        let mut divided = Divided {
            data,
            os,
            readable: machine.spare_source.map(|_| readable_page(firmware)),
            vault: vault.map(|bank| bank.own),
            registers: closed(machine, std::iter::empty()).collect(),
            mediated: machine.mediated_plic_registers().collect(),
            plans: Vec::new(),
        };
        let vaults = [None, divided.vault];
        let vaults = &vaults[..=usize::from(divided.vault.is_some())];
        divided.plans = (ENTRIES.iter())
            .flat_map(|entries| vaults.iter().map(|vault| (*entries, *vault)))
            .map(|(entries, vault)| Plan {
                entries,
                with_vault: vault.is_some(),
                made: divided.made(machine, firmware, vault, entries),
            })
            .collect();
        Ok(divided)
    }

    fn made(
        &self,
        machine: &Machine,
        firmware: PhysRange,
        vault: Option<PhysRange>,
        entries: usize,
    ) -> Result<(PmpPlan, bool), PlanError> {
        let fence = Fence {
            readable: self.readable,
            memory: self.os.ranges(),
            devices: &[ALL_DEVICES],
            registers: &[],
        };
        let own = [firmware, self.data].into_iter().chain(vault);
        let pmp = Pmp {
            entries,
            granularity_bits: GRANULARITY_BITS,
        };
        fence.plan(closed(machine, own), self.mediated.iter().copied(), pmp)
    }

    pub(super) fn plan(&self, entries: usize, with_vault: bool) -> Option<&Plan> {
        let mut plans = self.plans.iter();
        plans.find(|plan| plan.entries == entries && plan.with_vault == with_vault)
    }
}
