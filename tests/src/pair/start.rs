//! Counts the firmware's instructions from power-on to Linux's first one, in the fair time base.

use std::time::Instant;

use anyhow::{Context, ensure};
use poorwill_machine::PowerOn;
use poorwill_machine::domains::{DomainOnQemu, Domains};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_plugin::log::{Entry, What};

use super::critical::{LIMIT, LOOK_EVERY, TO_OS, add_plugin};
use super::growing::Growing;
use crate::Setup;
use crate::instant::symbol;
use crate::setup::found;

/// The hart that starts Linux, by its index.
const HART: usize = 0;

/// What the previous boot stage left on a machine of two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// One OS.
    Linux,
    /// A partition: Linux, and a critical guest that starts first.
    Domains,
}

/// Starts a machine. Returns the nanoseconds of the fair time base until Linux's first instruction,
/// which are also the instructions of the hart that starts it.
///
/// # Errors
///
/// A missing file, QEMU does not start, or Linux is not entered.
pub fn instructions_to_linux(setup: &Setup, left: Left) -> anyhow::Result<u64> {
    let (qemu, firmware) = (found(&setup.qemu)?, found(&setup.firmware)?);
    let folder = socket_folder()?;
    let kernel = found(&setup.kernel)?;
    let domains = Domains {
        memory: Bytes::mib(256),
        harts: 2,
        domains: vec![
            DomainOnQemu {
                name: "linux".into(),
                wake_order: 2,
                kernel: Some(kernel.clone()),
                ..DomainOnQemu::default()
            },
            DomainOnQemu {
                name: "critical".into(),
                wake_order: 1,
                critical: Some(found(&setup.critical)?.clone()),
                may_sleep: true,
                ..DomainOnQemu::default()
            },
        ],
    };
    let mut machine = match left {
        Left::Domains => domains.machine(qemu, &[], firmware, folder.path())?.0,
        Left::Linux => domains.board(firmware),
    };
    if left == Left::Linux {
        machine.kernel = Some(kernel.clone());
    }
    let log = folder.path().join("log");
    let to_os = symbol(firmware, TO_OS)?;
    add_plugin(&mut machine, found(&setup.plugin)?, &log, to_os);
    let mut running = machine.power_on(qemu, PowerOn::default())?;
    let started = running.wait_for("poorwill: cold boot", LIMIT);
    started.with_context(|| running.tail(20).join("\n"))?;
    let mut log = Growing::open(&log)?;
    let until = Instant::now() + LIMIT;
    loop {
        running.run_for(LOOK_EVERY)?;
        let entries = log.read()?;
        let mut entries = entries.lines().map(serde_json::from_str::<Entry>);
        if let Some(entry) = entries.find(is_start) {
            running.kill()?;
            return Ok(entry?.time);
        }
        ensure!(
            Instant::now() < until,
            "no Linux after {LIMIT:?}:\n{}",
            running.tail(20).join("\n")
        );
    }
}

/// Whether a line of the log is Linux's start, or damaged.
fn is_start(entry: &serde_json::Result<Entry>) -> bool {
    (entry.as_ref()).map_or(true, |entry| {
        entry.hart == HART && matches!(entry.what, What::Executes { .. })
    })
}
