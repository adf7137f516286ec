//! The domains of a machine's device tree, for people and as JSON.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_devicetree::{
    DomainNode, FunctionRange, Machine, MemoryRegion, NextMode, Partition, PciWiring, Permissions,
    open,
};
use poorwill_domain::check::{Facts, Unfenced, Unseen, findings, unseen};
use poorwill_domain::pmp::Pmp;
use poorwill_machine::area::{Questions, inspect};
use poorwill_machine::domains::Domains;
use poorwill_machine::{Machine as OnQemu, Qemu};
use poorwill_memory::PhysRange;
use poorwill_pci::Function;
use poorwill_pci::placement::{AddressKind, PlacedFunction};
use serde_json::{Value, json};

/// Bytes of the firmware's first range (`firmware.ld`), where no firmware file says another number.
pub(crate) const FIRMWARE_BYTES: u64 = 1792 << 10;

/// log2 of the PMP granularity that the check assumes: pages, or less.
pub(crate) const GRANULARITY_BITS: u32 = 12;

/// PMP entries of QEMU's harts.
const PMP_ENTRIES: usize = 16;

/// The address at which QEMU loads the firmware.
const FIRMWARE_AT: u64 = 0x8000_0000;

/// Makes a machine with domains and further `arguments` of QEMU, with its trees in `folder`. Checks
/// that the domains can be fenced.
///
/// # Errors
///
/// The machine cannot be made, or a name of each reason against the fence.
pub(crate) fn checked_machine(
    domains: &Domains,
    qemu: &Qemu,
    arguments: &[OsString],
    firmware: &Path,
    folder: &Path,
) -> anyhow::Result<OnQemu> {
    let mut sleep_disks = Vec::new();
    for (bus, slot, disk) in domains.disks() {
        // A disk without a partition table has no sleep area.
        let areas = inspect(disk, Questions::default()).unwrap_or_default();
        if !areas.is_empty() {
            sleep_disks.push(Function {
                bus: u8::try_from(bus)?,
                device: u8::try_from(slot)?,
                function: 0,
            });
        }
    }
    let (machine, tree) = domains.machine(qemu, arguments, firmware, folder)?;
    let verdict = Tree::read(&tree)?.check(Assumed {
        pmp_entries: Some(PMP_ENTRIES),
        firmware_at: FIRMWARE_AT,
        sleep_disks: Some(&sleep_disks),
    });
    ensure!(
        verdict.is_fenced(),
        "the domains cannot be fenced from each other:\n{}",
        verdict.text()
    );
    Ok(machine)
}

/// A device tree with domains.
pub(crate) struct Tree {
    file: PathBuf,
    blob: Vec<u8>,
    machine: Machine,
    partition: Partition,
}

/// Facts that a tree does not state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed<'a> {
    /// PMP entries of each hart.
    pub(crate) pmp_entries: Option<usize>,
    /// Address of the firmware's first range.
    pub(crate) firmware_at: u64,
    /// NVMe controllers with a sleep area; `None`: not known.
    pub(crate) sleep_disks: Option<&'a [Function]>,
}

/// The result of a check.
pub(crate) struct Verdict {
    file: PathBuf,
    findings: Vec<Unfenced>,
    unseen: Vec<Unseen>,
}

impl Tree {
    /// Reads a compiled device tree.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the tree has no domains, or the firmware refuses it.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let place = || file.display().to_string();
        let blob = std::fs::read(file).with_context(place)?;
        let partition = partition_of(&blob).with_context(place)?;
        let machine = Machine::read(&blob).with_context(place)?;
        Ok(Tree {
            file: file.to_owned(),
            blob,
            machine,
            partition,
        })
    }

    /// Checks whether the domains can be fenced from each other.
    pub(crate) fn check(&self, assumed: Assumed<'_>) -> Verdict {
        let pmp = assumed.pmp_entries.map(|entries| Pmp {
            entries,
            granularity_bits: GRANULARITY_BITS,
        });
        let facts = Facts {
            machine: &self.machine,
            wiring: open(&self.blob).and_then(|tree| PciWiring::first(&tree)),
            tree: open(&self.blob),
            firmware: &[PhysRange::new(assumed.firmware_at, FIRMWARE_BYTES)],
            pmp,
            sleep_disks: assumed.sleep_disks,
        };
        let mut all = Vec::new();
        findings(&self.partition, &facts, &mut |finding| all.push(finding));
        Verdict {
            file: self.file.clone(),
            findings: all,
            unseen: unseen(&self.partition, &facts).collect(),
        }
    }

    /// The domains as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for domain in &self.partition.domains {
            text += &text_of(domain);
        }
        let Partition {
            functions, ranges, ..
        } = &self.partition;
        if !functions.is_empty() {
            text += "machine mode\n";
            text += &functions_text(functions, ranges);
        }
        text
    }

    /// The domains as JSON.
    pub(crate) fn value(&self) -> Value {
        json!({
            "digest": format!("{:016x}", self.partition.digest()),
            "cold_boot_harts": self.partition.cold_boot_harts[..],
            "domains": self.partition.domains.iter().map(value_of).collect::<Vec<_>>(),
            "machine_mode": {
                "functions": functions_value(&self.partition.functions),
                "ranges": ranges_value(&self.partition.ranges),
            },
        })
    }
}

/// The partition that a blob describes.
///
/// # Errors
///
/// There is no partition, or there are reasons against it.
fn partition_of(blob: &[u8]) -> anyhow::Result<Partition> {
    let tree = open(blob).context("the device tree is damaged")?;
    let mut partition = Partition::default();
    let mut reasons = Vec::new();
    let is_there = partition.survey(&tree, &mut |error| reasons.push(error.to_string()));
    ensure!(reasons.is_empty(), "{}", reasons.join("\n"));
    ensure!(
        is_there,
        "the device tree describes no domains; docs/domains.md has the bindings"
    );
    Ok(partition)
}

fn text_of(domain: &DomainNode) -> String {
    let mut text = format!("domain {}\n", domain.name);
    let mut line = |name: &str, value: String| text += &line_of(name, &value);
    let harts: Vec<_> = domain.harts.iter().map(ToString::to_string).collect();
    line(
        "harts",
        format!("{}; boot hart {}", harts.join(" "), domain.boot_hart),
    );
    let address = |address: Option<u64>| match address {
        Some(address) => format!("{address:#x}"),
        None => "the previous boot stage's".to_owned(),
    };
    let (start, argument) = (address(domain.next_address), address(domain.next_argument));
    line("next stage", format!("{start}, argument {argument}"));
    if domain.next_mode == NextMode::User {
        line("mode", "U".to_owned());
    }
    line("wake order", domain.wake_order.to_string());
    let rights = [
        (domain.may_suspend, "suspend (the master)"),
        (domain.may_reset, "reset"),
    ];
    let rights: Vec<_> = rights
        .iter()
        .filter(|right| right.0)
        .map(|right| right.1)
        .collect();
    line(
        "rights",
        if rights.is_empty() {
            "none".to_owned()
        } else {
            rights.join(", ")
        },
    );
    for span in domain.spans() {
        let kind = if span.is_mmio { "registers" } else { "memory" };
        let PhysRange { start, end } = span.range;
        line(
            kind,
            format!("{start:#x} to {end:#x} {}", letters(span.permissions)),
        );
    }
    text + &functions_text(&domain.functions, &domain.ranges)
}

fn line_of(name: &str, value: &str) -> String {
    format!("    {name:12} {value}\n")
}

/// A line for each function.
fn functions_text(functions: &[PlacedFunction], ranges: &[FunctionRange]) -> String {
    let mut text = String::new();
    for one in functions {
        let mut value = one.function.to_string();
        if let Some((first, last)) = one.buses {
            write!(value, ", a bridge to buses {first} to {last}").expect("a string");
        }
        for range in ranges.iter().filter(|range| range.function == one.function) {
            let PhysRange { start, end } = range.range;
            write!(value, "; {:#x}: {start:#x} to {end:#x}", range.register).expect("a string");
        }
        text += &line_of("function", &value);
    }
    text
}

/// Permissions of S and U mode, as in `rw-`.
fn letters(permissions: Permissions) -> String {
    let letter = |is_set, letter| if is_set { letter } else { '-' };
    String::from_iter([
        letter(permissions.reads(), 'r'),
        letter(permissions.writes(), 'w'),
        letter(permissions.executes(), 'x'),
    ])
}

fn value_of(domain: &DomainNode) -> Value {
    let region = |region: &MemoryRegion| {
        json!({
            "base": region.base,
            "order": region.order,
            "mmio": region.is_mmio,
            "permissions": letters(region.permissions),
        })
    };
    json!({
        "name": domain.name.as_str(),
        "harts": domain.harts[..],
        "boot_hart": domain.boot_hart,
        "next_address": domain.next_address,
        "next_argument": domain.next_argument,
        "wake_order": domain.wake_order,
        "may_suspend": domain.may_suspend,
        "may_reset": domain.may_reset,
        "regions": domain.regions.iter().map(region).collect::<Vec<_>>(),
        "devices": domain.devices[..],
        "functions": functions_value(&domain.functions),
        "ranges": ranges_value(&domain.ranges),
    })
}

fn functions_value(functions: &[PlacedFunction]) -> Vec<Value> {
    let value = |one: &PlacedFunction| {
        json!({
            "function": one.function.to_string(),
            "buses": one.buses.map(|(first, last)| [first, last]),
        })
    };
    functions.iter().map(value).collect()
}

fn ranges_value(ranges: &[FunctionRange]) -> Vec<Value> {
    let value = |range: &FunctionRange| {
        json!({
            "function": range.function.to_string(),
            "register": range.register,
            "kind": match range.kind {
                AddressKind::Io => "io",
                AddressKind::Memory32 => "memory32",
                AddressKind::Memory64 => "memory64",
            },
            "prefetchable": range.is_prefetchable,
            "start": range.range.start,
            "end": range.range.end,
        })
    };
    ranges.iter().map(value).collect()
}

impl Verdict {
    /// Returns whether no reason is known against the fence.
    pub(crate) fn is_fenced(&self) -> bool {
        self.findings.is_empty()
    }

    /// The verdict as text: a line for each finding, and for each unseen fact.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            text += &format!("{}: {finding}\n", finding.name());
        }
        for fact in &self.unseen {
            text += &format!("unseen: {}: {fact}\n", fact.name());
        }
        let file = self.file.display();
        text += &match (self.findings.len(), self.unseen.len()) {
            (0, 0) => format!("{file}: the domains can be fenced\n"),
            (0, _) => format!(
                "{file}: the domains can be fenced, as far as the tree says; \
                 the firmware checks what is unseen\n"
            ),
            (1, _) => format!("{file}: the domains cannot be fenced: 1 reason\n"),
            (count, _) => format!("{file}: the domains cannot be fenced: {count} reasons\n"),
        };
        text
    }

    /// The verdict as JSON.
    pub(crate) fn value(&self) -> Value {
        let findings = self.findings.iter();
        let findings =
            findings.map(|one| json!({ "name": one.name(), "message": one.to_string() }));
        let unseen = self.unseen.iter();
        let unseen = unseen.map(|one| json!({ "name": one.name(), "message": one.to_string() }));
        json!({
            "fenced": self.is_fenced(),
            "findings": findings.collect::<Vec<_>>(),
            "unseen": unseen.collect::<Vec<_>>(),
        })
    }
}
