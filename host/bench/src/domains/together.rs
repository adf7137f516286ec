//! The machine with domains: Linux on the first socket, the critical guest on the second one.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use poorwill_machine::console::FAILURES;
use poorwill_machine::domains::frames::WRITES;
use poorwill_machine::domains::{DomainOnQemu, Domains as OnQemu};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{Machine, PowerOn, RunningMachine, interrupt};

use super::figures::{Domains, Start};
use super::frames::{Bus, Frame, now};
use super::setting::{
    BOOT_LIMIT, LIMIT, MEMORY, READY, SLEEP, Setting, command_line, explain, field, time_answer,
};
use crate::compare::guest::{REDIS, ms};

/// Time between two looks at the trace.
const TICK: Duration = Duration::from_millis(10);

/// The report of the domain that wakes last.
const WAKE: &str = "poorwill: wake domain=linux ";

/// Boots the machine, and adds its figures and those of `wakes` wakes.
pub(super) fn measure(
    setting: &Setting<'_>,
    wakes: usize,
    figures: &mut Domains,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(&setting.options.folder)?;
    let sockets = socket_folder()?;
    let trigger = sockets.path().join("trigger");
    let trace = folder.path().join("trace");
    let mut machine = machine(setting, folder.path(), &trigger)?;
    machine.add("-msg", "timestamp=on");
    machine.add("-trace", WRITES);
    machine.add("-D", &trace);
    let power_on = now();
    let mut running = machine.power_on(&setting.qemu, PowerOn::default())?;
    running.fail_on(&FAILURES);
    let mut bus = Bus::new(&trace);
    let measured = time(&mut running, &mut bus, power_on, &trigger, wakes, figures);
    explain(&running, measured, "the machine with domains")?;
    running.kill()?;
    bus.new_frames()?;
    figures.frames += bus.count();
    Ok(())
}

fn machine(setting: &Setting<'_>, folder: &Path, trigger: &Path) -> anyhow::Result<Machine> {
    let disk = folder.join("together.disk");
    setting.make_disk(&disk, Vec::new())?;
    let linux = DomainOnQemu {
        name: "linux".into(),
        wake_order: 2,
        kernel: Some(setting.guest.kernel.clone()),
        initrd: Some(setting.guest.initrd.clone()),
        append: command_line(),
        disks: vec![disk],
        ..DomainOnQemu::default()
    };
    let critical = DomainOnQemu {
        name: "critical".into(),
        wake_order: 1,
        critical: Some(setting.options.critical.clone()),
        trigger: Some(trigger.to_owned()),
        may_sleep: true,
        ..DomainOnQemu::default()
    };
    let domains = OnQemu {
        memory: MEMORY,
        harts: setting.options.harts,
        sleep: None,
        domains: vec![linux, critical],
    };
    Ok(domains
        .machine(&setting.qemu, &[], &setting.options.firmware, folder)?
        .0)
}

fn time(
    running: &mut RunningMachine,
    bus: &mut Bus,
    power_on: Duration,
    trigger: &Path,
    wakes: usize,
    figures: &mut Domains,
) -> anyhow::Result<()> {
    let first = first_frame(bus)?;
    let redis = running.wait_for(REDIS, BOOT_LIMIT)?;
    running.wait_for(READY, BOOT_LIMIT)?;
    figures.cold_boots.push(Start {
        first_frame_ms: ms(first.at.saturating_sub(power_on)),
        answer_ms: ms(redis.at),
    });
    let mut trigger = UnixStream::connect(trigger).context("the trigger's line")?;
    for _ in 0..wakes {
        running.send(b"sleep\n")?;
        running.wait_for("poorwill: park domain=linux", LIMIT)?;
        trigger.write_all(b"s").context("the trigger's line")?;
        running.wait_for("poorwill: sleep mode=retain", LIMIT)?;
        running.run_for(SLEEP)?;
        bus.new_frames()?;
        let (woken, of_running) = (now(), running.elapsed());
        trigger.write_all(b"w").context("the trigger's line")?;
        let line = running.wait_for(WAKE, LIMIT)?;
        let own_ms = field(&line, WAKE, "us")? / 1000.0;
        let (answer, linux_ms) = time_answer(running, &line, own_ms)?;
        let first = first_frame(bus)?;
        figures.wakes.push(Start {
            first_frame_ms: ms(first.at.saturating_sub(woken)),
            answer_ms: ms(answer.saturating_sub(of_running)),
        });
        figures.linux_ms.push(linux_ms);
    }
    Ok(())
}

/// Waits for the first frame since the last look at the bus.
fn first_frame(bus: &mut Bus) -> anyhow::Result<Frame> {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(frame) = bus.new_frames()?.first() {
            return Ok(*frame);
        }
        interrupt::check()?;
        if Instant::now() > until {
            bail!("no frame on the CAN bus in {LIMIT:?}");
        }
        std::thread::sleep(TICK);
    }
}
