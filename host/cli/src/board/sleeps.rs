//! The sleeps that a board allows.

use poorwill_devicetree::Machine;

/// Whether a board allows a sleep.
pub(super) enum Allowed {
    Yes,
    /// With a sleep area on a disk or in persistent memory, which the tree does not show.
    WithArea,
    /// The reasons against it.
    No(Vec<String>),
}

/// Sleeps that need the same.
pub(super) struct Sleep {
    pub(super) modes: &'static [&'static str],
    pub(super) allowed: Allowed,
}

/// All sleeps.
pub(super) struct Sleeps {
    pub(super) all: Vec<Sleep>,
    /// What wakes a retained machine.
    pub(super) wake_sources: Vec<&'static str>,
}

const NO_PCI: &str = "no PCIe host bridge with ECAM, so no disk";
const NO_POWER_OFF: &str = "no power-off";

impl Sleeps {
    pub(super) fn of(machine: &Machine) -> Self {
        let interrupts = &machine.interrupts;
        let takes_interrupts = !interrupts.plics.is_empty() || !interrupts.os_aplics.is_empty();
        let sources = [
            (!machine.mtime.is_empty(), "timer"),
            (machine.rtc.is_some(), "alarm"),
            (takes_interrupts, "interrupt"),
            (machine.console.is_some(), "console"),
        ];
        let sources = sources.into_iter().filter(|(is_there, _)| *is_there);
        let wake_sources: Vec<_> = sources.map(|(_, source)| source).collect();
        let retain = match wake_sources.is_empty() {
            true => Allowed::No(vec!["nothing wakes the machine".to_owned()]),
            false => Allowed::Yes,
        };
        let sleep = |modes, allowed| Sleep { modes, allowed };
        let all = vec![
            sleep(&["retain"], retain),
            sleep(&["persist", "staged", "snapshot"], saved(machine)),
            sleep(&["cut"], cut(machine)),
        ];
        Sleeps { all, wake_sources }
    }
}

/// Whether an image can be saved.
fn saved(machine: &Machine) -> Allowed {
    let needed = [
        (machine.pci.is_empty(), NO_PCI),
        (machine.switches.power_off.is_none(), NO_POWER_OFF),
    ];
    let missing = needed.iter().filter(|(is_missing, _)| *is_missing);
    let missing: Vec<_> = missing.map(|(_, reason)| (*reason).to_owned()).collect();
    match missing.is_empty() {
        true => Allowed::WithArea,
        false => Allowed::No(missing),
    }
}

/// Whether the power may be cut. The firmware judges the caches, and devices on PCI, at its start.
fn cut(machine: &Machine) -> Allowed {
    if let Some(error) = machine.power_fail_error {
        return Allowed::No(vec![error.to_string()]);
    }
    if machine.power_fail.is_none() {
        return Allowed::No(vec!["no power-fail line".to_owned()]);
    }
    if machine.has_domains {
        return Allowed::No(vec!["the machine has domains".to_owned()]);
    }
    let unkept = &machine.census.unkept;
    let names: Vec<_> = unkept
        .iter()
        .map(|name| format!("the state of {name} is not kept"))
        .collect();
    match names.is_empty() {
        true => Allowed::Yes,
        false => Allowed::No(names),
    }
}
