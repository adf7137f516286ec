//! A board as JSON.

use poorwill_devicetree::{Drive, HartState, Machine, Ns16550, Purpose, Switch, Uart};
use poorwill_memory::PhysRange;
use serde_json::{Value, json};

use super::fences::{Divided, Fences, Plan, Undivided};
use super::read::{Board, Unknown};
use super::sleeps::{Allowed, Sleep};
use crate::doctor::Finding;

impl Board {
    /// The same as the [findings](Self::findings), and these, as JSON.
    pub(crate) fn value(&self) -> Value {
        let machine = &self.machine;
        json!({
            "tree": self.file.display().to_string(),
            "compatible": self.compatible,
            "starts": self.starts(),
            "error": self.error.map(|error| error.to_string()),
            "console": machine.console.map(console),
            "timebase_hz": machine.timebase_hz,
            "mtime": machine.mtime[..],
            "harts": self.harts(),
            "interrupts": interrupts(machine),
            "memory": ranges(&machine.memory),
            "fences": self.fences.as_ref().map(fences),
            "power_off": machine.switches.power_off.map(switch),
            "reset": machine.switches.reset.map(switch),
            "clock": machine.rtc,
            "pci": machine.pci.iter().map(|host| range(&host.ecam)).collect::<Vec<_>>(),
            "wake_sources": self.sleeps.wake_sources,
            "sleeps": self.sleeps.all.iter().map(sleep).collect::<Vec<_>>(),
            "without_driver": self.unknown.iter().map(without_driver).collect::<Vec<_>>(),
            "findings": self.findings().iter().map(Finding::value).collect::<Vec<_>>(),
        })
    }

    fn harts(&self) -> Vec<Value> {
        let state = |state| match state {
            HartState::Usable => "usable",
            HartState::Disabled => "disabled",
            HartState::NoMmu => "no-mmu",
            HartState::Incomplete => "incomplete",
        };
        let harts = self.harts.iter();
        harts
            .map(|hart| {
                json!({
                    "id": hart.id,
                    "state": state(hart.state),
                    "suits_weak_core": hart.suits_weak_core(),
                })
            })
            .collect()
    }
}

fn without_driver(unknown: &Unknown) -> Value {
    let purpose = match unknown.purpose {
        Purpose::Stdout => "stdout",
        Purpose::Uart => "uart",
        Purpose::Timer => "timer",
        Purpose::Ipi => "ipi",
        Purpose::Interrupts => "interrupts",
        Purpose::PciHost => "pci-host",
        Purpose::Clock => "clock",
        Purpose::Watchdog => "watchdog",
    };
    json!({
        "purpose": purpose,
        "name": unknown.name,
        "compatible": unknown.compatible,
    })
}

fn console(uart: Uart) -> Value {
    match uart {
        Uart::Ns16550(Ns16550 { base, shift, width }) => json!({
            "kind": "16550",
            "address": base,
            "shift": shift,
            "width": width,
        }),
        Uart::Sifive { base } => json!({ "kind": "sifive", "address": base }),
    }
}

fn interrupts(machine: &Machine) -> Value {
    let found = &machine.interrupts;
    let plics = found.plics.iter().map(|plic| (plic.base, plic.sources));
    let aplics = found.os_aplics.iter();
    let aplics = aplics.map(|aplic| (aplic.base, aplic.sources));
    let value = |(address, sources): (u64, u32)| json!({ "address": address, "sources": sources });
    json!({
        "plics": plics.map(value).collect::<Vec<_>>(),
        "aplics": aplics.map(value).collect::<Vec<_>>(),
        "announcing_source": machine.spare_source.map(|spare| spare.source),
    })
}

fn range(range: &PhysRange) -> Value {
    json!({ "start": range.start, "end": range.end })
}

fn ranges(all: &[PhysRange]) -> Vec<Value> {
    all.iter().map(range).collect()
}

fn fences(fences: &Fences) -> Value {
    let (divided, error) = match &fences.divided {
        Ok(divided) => (Some(divided_value(divided)), None),
        Err(Undivided::Outside) => (None, Some("the firmware is not in memory".to_owned())),
        Err(Undivided::Divide(error)) => (None, Some(error.to_string())),
    };
    json!({
        "firmware": range(&fences.firmware),
        "linked_for": fences.linked_for,
        "error": error,
        "divided": divided,
    })
}

fn divided_value(divided: &Divided) -> Value {
    json!({
        "data": range(&divided.data),
        "os": ranges(divided.os.ranges()),
        "readable": divided.readable.as_ref().map(range),
        "vault": divided.vault.as_ref().map(range),
        "registers": ranges(&divided.registers),
        "mediated": ranges(&divided.mediated),
        "plans": divided.plans.iter().map(plan).collect::<Vec<_>>(),
    })
}

/// A plan with the values of the registers.
fn plan(plan: &Plan) -> Value {
    let made = plan.made.as_ref();
    let registers = made.ok().map(|(made, _)| {
        let entries = made.entries().iter();
        let value = entries.map(|one| json!({ "config": one.config, "address": one.address }));
        value.collect::<Vec<_>>()
    });
    json!({
        "entries": plan.entries,
        "vault": plan.with_vault,
        "used": registers.as_ref().map(Vec::len),
        "closes_mediated": made.ok().map(|(_, closes)| *closes),
        "registers": registers,
        "error": made.err().map(ToString::to_string),
    })
}

fn switch(switch: Switch) -> Value {
    match switch {
        Switch::Syscon(syscon) => json!({
            "kind": "syscon",
            "address": syscon.address,
            "value": syscon.value,
            "mask": syscon.mask,
        }),
        Switch::Gpio(gpio) => json!({
            "kind": "gpio",
            "address": gpio.controller,
            "pin": gpio.pin,
            "active_low": gpio.is_active_low,
            "drive": match gpio.drive {
                Drive::Both => "both",
                Drive::Low => "low",
                Drive::High => "high",
            },
            "active_ms": gpio.active_ms,
            "inactive_ms": gpio.inactive_ms,
            "wait_ms": gpio.wait_ms,
        }),
    }
}

fn sleep(sleep: &Sleep) -> Value {
    let (allowed, reasons): (_, &[String]) = match &sleep.allowed {
        Allowed::Yes => ("yes", &[]),
        Allowed::WithArea => ("with-area", &[]),
        Allowed::No(reasons) => ("no", reasons),
    };
    json!({ "modes": sleep.modes, "allowed": allowed, "reasons": reasons })
}
