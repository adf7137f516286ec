//! A machine of eight domains with one hart each, in the fair time base: a master, and domains that
//! park and wake. They take no external interrupts.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use poorwill_machine::console::FAILURES;
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, PowerOn, tree};

use super::hostile::orders_alone;
use crate::plan::Role;
use crate::setup::{Setup, found};

/// Domains of the machine.
const DOMAINS: u64 = 8;

/// Memory of the first domain, the bytes of each, and the places in it. The firmware has the first
/// 2 MiB.
const MEMORY: u64 = 0x8000_0000;
const ORDER: u32 = 24;
const PROGRAM: u64 = 0x20_0000;
const ORDERS: u64 = 0x80_0000;

/// The domain that asks for sleeps. The first one has the console, and another one's lines do not
/// wait for that.
const MASTER: u64 = 1;

/// Limit of the wait for all refusals.
const LIMIT: Duration = Duration::from_secs(300);

/// What the other domains do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Nothing: they keep the machine awake.
    Idle,
    /// They park and wake without a pause.
    Storm,
}

/// The longest of `refusals` refused sleeps, in nanoseconds of the master's time. The machine
/// counts in steps of 100.
///
/// # Errors
///
/// A missing file, or a machine that does not do this.
pub fn longest_refusal(setup: &Setup, others: Others, refusals: u32) -> anyhow::Result<u64> {
    let (qemu, guest) = (found(&setup.qemu)?, found(&setup.hostile)?);
    let plugin = found(&setup.plugin)?;
    let folder = socket_folder()?;
    let at = |name: &str| folder.path().join(name);

    let mut machine = Machine {
        harts: u32::try_from(DOMAINS)?,
        memory: Bytes::mib(192),
        ..Machine::new(found(&setup.firmware)?)
    };
    tree::write(&machine, qemu, &partition(), &at("tree"))?;
    machine.add("-dtb", at("tree"));
    machine.add("-accel", "tcg,thread=single");
    machine.add("-plugin", format!("{},grace=0", plugin.display()));
    for domain in 0..DOMAINS {
        let role = match others {
            _ if domain == MASTER => Role::Ask(refusals.into()),
            Others::Idle => Role::Idle,
            Others::Storm => Role::Storm,
        };
        let orders = at(&format!("orders{domain}"));
        fs::write(&orders, orders_alone(role))?;
        machine.load(&orders, memory(domain) + ORDERS);
        machine.load(guest, memory(domain) + PROGRAM);
    }

    let mut running = machine.power_on(qemu, PowerOn::default())?;
    running.fail_on(&FAILURES);
    let line = running.wait_for(" sleeps beside ", LIMIT);
    let line = line.with_context(|| running.tail(40).join("\n"))?.text;
    running.kill()?;
    let ticks = line
        .rsplit_once("at most ")
        .context("no number of ticks")?
        .1;
    let ticks: u64 = ticks.split(' ').next().unwrap_or_default().parse()?;
    Ok(ticks * 100)
}

fn memory(domain: u64) -> u64 {
    MEMORY + (domain << ORDER)
}

/// The domains' nodes.
fn partition() -> String {
    let all = |of: fn(u64) -> String| (0..DOMAINS).map(of).collect::<String>();
    format!(
        "/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";\n\
         firmware: firmware {{ compatible = \"opensbi,domain,memregion\"; \
         base = <0 {MEMORY:#x}>; order = <21>; }};\n\
         uart: uart {{ compatible = \"opensbi,domain,memregion\"; \
         base = <0 0x10000000>; order = <12>; mmio; }};\n\
         {}{}}}; }}; cpus {{ {} }}; }};\n",
        all(region),
        all(instance),
        all(owner),
    )
}

fn region(domain: u64) -> String {
    format!(
        "ram{domain}: ram{domain} {{ compatible = \"opensbi,domain,memregion\"; \
         base = <0 {:#x}>; order = <{ORDER}>; }};\n",
        memory(domain)
    )
}

fn instance(domain: u64) -> String {
    let right = match domain {
        MASTER => "system-suspend-allowed;",
        _ => "",
    };
    let console = match domain {
        0 => ", <&firmware 0>, <&uart 0x1b>",
        _ => "",
    };
    format!(
        "domain{domain}: side{domain} {{ compatible = \"opensbi,domain,instance\"; \
         possible-harts = <&{{/cpus/cpu@{domain}}}>; boot-hart = <&{{/cpus/cpu@{domain}}}>; \
         regions = <&ram{domain} 0x3f>{console}; next-mode = <1>; \
         next-addr = <0 {:#x}>; next-arg1 = <0 {:#x}>; \
         poorwill,wake-order = <{domain}>; {right} }};\n",
        memory(domain) + PROGRAM,
        memory(domain) + ORDERS,
    )
}

fn owner(domain: u64) -> String {
    format!("cpu@{domain} {{ opensbi-domain = <&domain{domain}>; }};\n")
}
