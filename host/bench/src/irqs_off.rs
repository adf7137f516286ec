//! Measures the longest time that a hart runs in machine mode with its interrupts off, in
//! instructions, and where. A power-fail interrupt waits for that long.
//!
//! A build of the firmware (`irqs-off`) records the longest interval of each kind, and prints them
//! at each power-off or wake. QEMU counts under `-icount`, on machines of one hart.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_machine::console::Fields;
use poorwill_machine::{Interrupts, Machine, Qemu, RunningMachine};

use crate::BenchOptions;
use crate::counted::{LIMIT, Way, power_on};

/// The limit in instructions: a millisecond at 0.4 GHz with 0.66 instructions a cycle. That is the
/// slowest machine of the papers. Its power supply's hold-up is sixteen milliseconds.
pub const MOST: u64 = 264_000;

/// Start of the firmware's lines with an interval.
const LINE: &str = "poorwill: interrupts off ";

/// Tells the test kernel to end by a call that switches the power off, at which the firmware prints
/// its intervals.
const END: &str = " end=off";

/// The test kernel's cases that are measured besides sleeps.
const CASES: [&str; 3] = ["calls", "mediated", "fuzz seconds=1"];

/// The longest interval with interrupts off that begins and ends at two given places, in
/// instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrqsOff {
    /// Where the interrupts were switched off.
    pub from: String,
    /// Where the interrupts were switched on again, or pending ones were polled.
    pub to: String,
    pub instructions: u64,
}

/// Measures a start, each way to sleep and wake, and SBI calls, on machines with each kind of
/// interrupt controller. The longest interval comes first. A machine that prints no interval is an
/// error.
///
/// # Errors
///
/// A machine fails, or prints no interval.
pub fn measure(options: &BenchOptions, firmware: &Path) -> anyhow::Result<Vec<IrqsOff>> {
    let qemu = Qemu::find()?;
    let mut longest = BTreeMap::new();
    for interrupts in [Interrupts::Aia, Interrupts::Plic] {
        for way in Way::ALL {
            let folder = tempfile::tempdir_in(&options.folder)?;
            let mut machine = way.machine(options, firmware, folder.path())?;
            machine.interrupts = interrupts;
            machine.command_line += END;
            // With powered RAM, the sleep and the wake are in one power-on.
            let power_ons = if way == Way::Retained { 1 } else { 2 };
            for _ in 0..power_ons {
                run(&machine, &qemu, &mut longest).with_context(|| format!("{way:?}"))?;
            }
        }
        for case in CASES {
            let folder = tempfile::tempdir_in(&options.folder)?;
            let mut machine = Way::Plain.machine(options, firmware, folder.path())?;
            machine.interrupts = interrupts;
            machine.command_line = format!("case={case}{END}");
            run(&machine, &qemu, &mut longest).with_context(|| format!("case {case}"))?;
        }
    }
    let named = longest
        .into_iter()
        .map(|((from, to), instructions)| IrqsOff {
            from,
            to,
            instructions,
        });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.instructions));
    Ok(all)
}

/// Runs a machine to its end, and adds its intervals.
fn run(
    machine: &Machine,
    qemu: &Qemu,
    longest: &mut BTreeMap<(String, String), u64>,
) -> anyhow::Result<()> {
    let mut running = power_on(machine, qemu)?;
    running.wait_exit(LIMIT)?.check()?;
    let said = said(&running)?;
    ensure!(
        !said.is_empty(),
        "no line {LINE:?}: not a build with irqs-off"
    );
    for (places, instructions) in said {
        let most = longest.entry(places).or_default();
        *most = instructions.max(*most);
    }
    Ok(())
}

/// The intervals on a machine's console.
fn said(running: &RunningMachine) -> anyhow::Result<Vec<((String, String), u64)>> {
    let lines = running.lines();
    let told = lines.iter().filter(|line| line.text.contains(LINE));
    told.map(|line| {
        let found = Fields::parse(&line.text, LINE).and_then(|fields| {
            let places = (fields.get("from")?.to_owned(), fields.get("to")?.to_owned());
            Some((places, fields.number("instructions")?))
        });
        found.with_context(|| format!("no figures in {:?}", line.text))
    })
    .collect()
}
