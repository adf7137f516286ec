//! A disk's errors and its silence, by QEMU's block drivers `blkdebug` and `throttle`.

use anyhow::Context;
use poorwill_machine::Disk;
use serde_json::{Map, Value, json};

use crate::layout::Found;
use crate::plan::{Fault, Operation, PowerOn};

/// Linux's `EIO`.
const IO_ERROR: u32 = 5;

/// blkdebug counts in sectors of 512 bytes, for each block size of a disk.
const SECTOR: u64 = 512;

/// The throttle group of a disk that falls silent.
const SILENCE: &str = "silence";

/// Adds the faults of a power-on to a disk.
pub(crate) fn add(
    on: &PowerOn,
    disk: &mut Disk,
    found: impl Fn() -> anyhow::Result<Found>,
) -> anyhow::Result<()> {
    disk.faults = rules(&on.faults, found)?;
    disk.throttle = on.silent_after.map(|_| SILENCE.to_owned());
    Ok(())
}

/// QEMU's arguments for a disk that falls silent: it reads a byte a second after the burst.
pub(crate) fn silence(on: &PowerOn) -> Option<[String; 2]> {
    let burst = on.silent_after?;
    let group = format!("throttle-group,id={SILENCE},x-bps-read=1,x-bps-read-max={burst}");
    Some(["-object".to_owned(), group])
}

/// The rules for some faults. They apply from power-on to the end of QEMU.
fn rules(
    faults: &[Fault],
    found: impl Fn() -> anyhow::Result<Found>,
) -> anyhow::Result<Option<Map<String, Value>>> {
    if faults.is_empty() {
        return Ok(None);
    }
    let (mut errors, mut counters) = (Vec::new(), Vec::new());
    for fault in faults {
        let (event, kind) = match fault.on {
            Operation::Read => ("read_aio", "read"),
            Operation::Write => ("write_aio", "write"),
            Operation::Flush => ("flush_to_disk", "flush"),
        };
        let mut rule = json!({ "event": event, "iotype": kind, "errno": IO_ERROR });
        if let Some(place) = fault.at {
            rule["sector"] = (found()?.offset(fault.part, place)? / SECTOR).into();
        }
        if let Some(nth) = fault.nth {
            // blkdebug cannot count events. It has states, and each event leads to the next state.
            counters.extend(
                (1..nth).map(|n| json!({ "event": event, "state": n, "new_state": n + 1 })),
            );
            rule["state"] = nth.into();
            rule["once"] = true.into();
        }
        errors.push(rule);
    }
    let mut rules = json!({ "inject-error": errors });
    if !counters.is_empty() {
        // QEMU refuses an empty list.
        rules["set-state"] = counters.into();
    }
    Ok(Some(
        rules.as_object().context("an object was made")?.clone(),
    ))
}
