//! `cargo test -p poorwill-tests --test critical`: the critical guest alone on a machine, with
//! heartbeats at half load, through sleeps that its serial line and its timer end. QEMU counts
//! instructions as time, so the host's load delays no heartbeat. `POORWILL_WAKES=100` is another
//! number of sleeps.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::domains::critical_devices;
use poorwill_machine::qmp::{Control, socket_arguments, socket_folder};
use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, tree};
use poorwill_tests::{frames, number, suite};

/// Sleeps of each machine, unless `POORWILL_WAKES` gives another number.
const SLEEPS: usize = 5;

/// The most that a heartbeat may be late, in units of 100 ns: a hundredth of its period.
const MOST_LATE: u64 = 100;

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// Nanoseconds of an instruction, as a power of two.
const SHIFT: u32 = 4;

/// Configuration space of bus 0, and the bytes of a slot in it.
const CONFIGURATION: u64 = 0x3000_0000;
const SLOT_BYTES: u64 = 1 << 15;

/// The hart's S-level IMSIC file, and an interrupt that none of its devices sends.
const IMSIC: u64 = 0x2800_0000;
const FOREIGN: u64 = 7;

/// I/O ports of the functions' BARs, by slot. They are the addresses in [`NODES`] without the
/// window's, 0x3000000.
const BARS: [(u64, &[u64]); 2] = [(4, &[0x1000, 0x1080, 0x1100]), (5, &[0x1108])];

/// The guest's functions, as its own device tree has them (guest/critical/critical.dts).
const NODES: &str = r#"
/ { soc {
    can@3001000 { compatible = "pci10e8,8406"; interrupts = <32 4>;
        interrupt-parent = <&{/soc/interrupt-controller@d000000}>;
        reg = <0 0x3001000 0 0x80>, <0 0x3001080 0 0x80>, <0 0x3001100 0 0x8>; };
    serial@3001108 { compatible = "pci1b36,2"; interrupts = <33 4>;
        interrupt-parent = <&{/soc/interrupt-controller@d000000}>;
        reg = <0 0x3001108 0 0x8>; };
}; };
"#;

/// What ends a machine's sleeps.
#[derive(Clone, Copy, PartialEq)]
enum Waker {
    Serial,
    Timer,
}

fn main() -> anyhow::Result<()> {
    suite("critical", |setup| &setup.critical, run_all)
}

/// Runs a machine for each way to end a sleep.
fn run_all(qemu: &Qemu, firmware: &Path, guest: &Path) -> anyhow::Result<()> {
    let sleeps = number("POORWILL_WAKES")?.unwrap_or(SLEEPS);
    for (waker, has_sstc) in [
        (Waker::Serial, true),
        (Waker::Timer, true),
        (Waker::Timer, false),
    ] {
        let machine = Machine {
            harts: 1,
            memory: "256M".parse()?,
            kernel: Some(guest.to_owned()),
            ..Machine::new(firmware)
        };
        run(machine, qemu, waker, has_sstc, sleeps)?;
    }
    Ok(())
}

/// Runs one machine through its sleeps, and checks its frames.
fn run(
    machine: Machine,
    qemu: &Qemu,
    waker: Waker,
    has_sstc: bool,
    sleeps: usize,
) -> anyhow::Result<()> {
    let folder = socket_folder()?;
    let at = |name: &str| folder.path().join(name);
    let mut machine = machine.for_counts(SHIFT);
    if !has_sstc {
        machine.add("-cpu", "rv64,sstc=off");
    }
    let chosen = match waker {
        Waker::Serial => "",
        // Shorter than a control period: only a reset makes the pipeline initialise again.
        Waker::Timer => "poorwill,wake-after-ms = <5>;",
    };
    let source = format!("{NODES}/ {{ chosen {{ poorwill,load-us = <500>; {chosen} }}; }};\n");
    // Devices come later: QEMU's tree does not have them.
    tree::write(&machine, qemu, &source, &at("tree"))?;
    add_devices(&mut machine, folder.path());

    let mut running = machine.power_on(qemu, PowerOn::default())?;
    running.fail_on(&["FAIL", "panic"]);
    let mut control = Control::connect(&at("qmp"), LIMIT)?;
    let mut bus = Bus::connect(&at("qtest"))?;
    bus.place_bars()?;
    control.switch_on()?;
    let outcome = sleep_and_wake(&mut running, &mut bus, &at("trigger"), waker, sleeps);
    outcome.with_context(|| running.tail(20).join("\n"))?;
    control.quit()?;
    running.wait_exit(LIMIT)?;

    let frames = frames::frames(&fs::read_to_string(at("trace"))?)?;
    frames::check(&frames, sleeps)?;
    let latest = frames.iter().map(|frame| frame.lateness_100ns).max();
    let (count, latest) = (frames.len(), latest.context("no frame")?);
    ensure!(
        latest <= MOST_LATE,
        "a heartbeat is {latest} times 100 ns late"
    );
    println!("critical: {count} frames, {sleeps} sleeps, at most {latest} times 100 ns late");
    Ok(())
}

/// Adds the guest's functions, the files in `folder` that lead to them, and the trace. QEMU then
/// waits for the BARs.
fn add_devices(machine: &mut Machine, folder: &Path) {
    for (option, value) in critical_devices(Some(&folder.join("trigger"))) {
        machine.add(option, value);
    }
    let qtest = folder.join("qtest");
    machine.add(
        "-qtest",
        format!("unix:{},server=on,wait=off", qtest.display()),
    );
    machine.add("-qtest-log", "/dev/null");
    machine.add("-dtb", folder.join("tree"));
    machine.add("-trace", frames::WRITES);
    machine.add("-D", folder.join("trace"));
    (machine.extra_arguments).extend(socket_arguments(&folder.join("qmp")));
    machine.extra_arguments.push("-S".into());
}

/// Sends the machine to sleep, and waits for its wakes.
fn sleep_and_wake(
    running: &mut RunningMachine,
    bus: &mut Bus,
    trigger: &Path,
    waker: Waker,
    sleeps: usize,
) -> anyhow::Result<()> {
    let mut line = UnixStream::connect(trigger)?;
    running.wait_for("critical: start ", LIMIT)?;
    for wake in 1..=sleeps {
        running.run_for(Duration::from_millis(200))?;
        if wake == sleeps {
            bus.write(IMSIC, FOREIGN)?;
        }
        line.write_all(b"s")?;
        running.wait_for("poorwill: sleep mode=retain", LIMIT)?;
        let by = match waker {
            Waker::Serial => {
                line.write_all(b"w")?;
                "serial"
            }
            Waker::Timer => "timer",
        };
        let report = running.wait_for("critical: wake ", LIMIT)?.text;
        let start = format!("critical: wake by={by} wakes={wake} ");
        let foreign = format!(" missed=0 foreign={} ", u32::from(wake == sleeps));
        ensure!(
            report.starts_with(&start) && report.contains(&foreign),
            "{report:?} lacks {start:?} or {foreign:?}"
        );
    }
    // The last wake's pipeline has data again.
    running.run_for(Duration::from_millis(500))?;
    Ok(())
}

/// QEMU's test socket, which accesses the machine's bus.
struct Bus {
    commands: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Bus {
    fn connect(socket: &Path) -> anyhow::Result<Self> {
        let commands = UnixStream::connect(socket)?;
        commands.set_read_timeout(Some(LIMIT))?;
        let answers = BufReader::new(commands.try_clone()?);
        Ok(Bus { commands, answers })
    }

    fn write(&mut self, address: u64, value: u64) -> anyhow::Result<()> {
        let command = format!("writel {address:#x} {value:#x}");
        self.commands.write_all(format!("{command}\n").as_bytes())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(
            answer.trim_end() == "OK",
            "QEMU answers {answer:?} to {command}"
        );
        Ok(())
    }

    /// Places the functions' BARs, as the firmware will for domains.
    fn place_bars(&mut self) -> anyhow::Result<()> {
        for (slot, bars) in BARS {
            let function = CONFIGURATION + slot * SLOT_BYTES;
            for (register, bar) in (function + 0x10..).step_by(4).zip(bars) {
                self.write(register, *bar)?;
            }
            // The command register: I/O ports are decoded.
            self.write(function + 4, 1)?;
        }
        Ok(())
    }
}
