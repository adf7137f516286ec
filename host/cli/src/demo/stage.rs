use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use poorwill_machine::console::{FAILURES, Fields, Line};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::paths::{Guest, Kernel};
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Disk, Machine, Qemu, RunningMachine};

use super::compare::{Held, compare};
use super::figures::{Column, Figures};
use super::machine::{COLD_BOOT, explain, power_on};
use super::screen::Screen;
use crate::progress;

/// Longer than a slow host needs; a machine that hangs ends the demo.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const FILL_LIMIT: Duration = Duration::from_secs(180);
const SLEEP_LIMIT: Duration = Duration::from_secs(120);
const WAKE_LIMIT: Duration = Duration::from_secs(180);
const POWER_OFF_LIMIT: Duration = Duration::from_secs(180);

/// Size of the sleep area, with room for two images. Unwritten parts of the file take no space.
const AREA: Bytes = Bytes::gib(3);

/// Options of the demo.
#[derive(Clone, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) memory: Bytes,
    pub(crate) harts: u32,
    /// MiB of data for redis, and again for tmpfs.
    pub(crate) data_mib: u32,
    pub(crate) firmware: PathBuf,
    /// Folder for the machine's disk. The caller removes it.
    pub(crate) folder: PathBuf,
    /// File for a copy of the console's output.
    pub(crate) log: PathBuf,
}

/// Runs the demo, and returns its figures. An error names its step. The machine is then off, and
/// its last console lines are on the screen.
pub(crate) fn play(options: &DemoOptions, screen: &Screen) -> anyhow::Result<Figures> {
    let qemu = Qemu::find()?;
    let machine = prepare(options, screen)?;
    let stage = Stage {
        options,
        screen,
        qemu: &qemu,
        machine: &machine,
    };
    let before = stage.cold_boot_and_sleep()?;
    stage.wake(&before)
}

fn prepare(options: &DemoOptions, screen: &Screen) -> anyhow::Result<Machine> {
    let guest = Guest::find(Kernel::Stock)?;
    screen.step("Creating a disk: Debian's root and an empty sleep area");
    let disk = options.folder.join("machine.disk");
    let bar = progress::bytes("    copying", 0);
    NewDisk {
        root: Some(guest.root),
        swap: None,
        areas: vec![AREA],
    }
    .create(&disk, false, &bar)
    .context("creating the machine's disk")?;
    bar.finish_and_clear();
    Ok(Machine {
        harts: options.harts,
        memory: options.memory,
        kernel: Some(guest.kernel),
        initrd: Some(guest.initrd),
        command_line: format!(
            "{DEBIAN_COMMAND_LINE} poorwill.demo poorwill.demo_mib={}",
            options.data_mib
        ),
        disks: vec![Disk::nvme(disk)],
        ..Machine::new(&options.firmware)
    })
}

struct Stage<'a> {
    options: &'a DemoOptions,
    screen: &'a Screen,
    qemu: &'a Qemu,
    machine: &'a Machine,
}

/// Facts from before the sleep, for the comparison after the wake.
struct Asleep {
    held: Held,
    cold_boot: Column,
    sleep_total: Duration,
    sleep: Fields,
    since: Instant,
}

impl Stage<'_> {
    fn cold_boot_and_sleep(&self) -> anyhow::Result<Asleep> {
        self.screen.step(&format!(
            "Cold boot: Debian on {} harts and {} of RAM",
            self.options.harts, self.options.memory
        ));
        let mut running = self.power_on(FAILURES)?;
        let outcome = self.until_asleep(&mut running);
        explain(self.screen, &running, outcome)
    }

    fn until_asleep(&self, running: &mut RunningMachine) -> anyhow::Result<Asleep> {
        let cold_boot = time_cold_boot(running).context("cold boot")?;
        self.screen.step(&format!(
            "Filling redis and tmpfs with {} MiB each",
            self.options.data_mib
        ));
        let ready = running
            .wait_for("poorwill-demo: ready", FILL_LIMIT)
            .context("filling")?;
        let held = Held::parse(&ready.text, "poorwill-demo: ready")?;

        self.screen.step("Going to sleep: `systemctl suspend`");
        let resident = running.resident();
        let line = running
            .wait_for("poorwill: sleep ", SLEEP_LIMIT)
            .context("going to sleep")?;
        let sleep = Fields::parse(&line.text, "poorwill: sleep ").unwrap_or_default();
        let exit = running
            .wait_exit(POWER_OFF_LIMIT)
            .context("switching off after the save")?;
        exit.check()?;
        self.show_gone(running, resident)?;
        let sleep_total = exit.at.saturating_sub(ready.at);
        Ok(Asleep {
            held,
            cold_boot,
            sleep_total,
            sleep,
            since: Instant::now(),
        })
    }

    /// Shows that QEMU has ended, and that only the disk is left.
    fn show_gone(&self, running: &RunningMachine, resident: Option<Bytes>) -> anyhow::Result<()> {
        let pid = running.pid();
        ensure!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "QEMU (process {pid}) still runs"
        );
        let memory = resident.map_or(String::new(), |bytes| {
            format!(" and the {bytes} that it held")
        });
        self.screen.step("The power is off");
        self.screen.say(&format!(
            "QEMU (process {pid}) has ended{memory}; only the disk is left"
        ));
        Ok(())
    }

    fn wake(&self, asleep: &Asleep) -> anyhow::Result<Figures> {
        self.screen.step("Power on again: the same command line");
        let failures = FAILURES.into_iter().chain([COLD_BOOT]);
        let mut running = self.power_on(failures)?;
        let outcome = self.until_off(&mut running, asleep);
        explain(self.screen, &running, outcome)
    }

    fn until_off(&self, running: &mut RunningMachine, asleep: &Asleep) -> anyhow::Result<Figures> {
        let slept = asleep.since.elapsed().saturating_sub(running.elapsed());
        let handed_over = running
            .wait_for("poorwill: wake ", WAKE_LIMIT)
            .context("waking")?;
        let wake = Fields::parse(&handed_over.text, "poorwill: wake ").unwrap_or_default();
        let answer = running
            .wait_for("poorwill-guest: redis ready", WAKE_LIMIT)
            .context("waiting for redis's first answer after the wake")?;
        let woke = running
            .wait_for("poorwill-demo: woke", WAKE_LIMIT)
            .context("asking the woken guest for its contents")?;
        let held = Held::parse(&woke.text, "poorwill-demo: woke")?;
        let woke = Fields::parse(&woke.text, "poorwill-demo: woke").unwrap_or_default();

        self.screen.step(&format!(
            "Awake after {:.2} s without power. Comparing",
            slept.as_secs_f64()
        ));
        for compared in compare(&asleep.held, &held)? {
            self.screen
                .say(&format!("{:28} {}", compared.what, compared.outcome));
        }
        let exit = running.wait_exit(POWER_OFF_LIMIT);
        exit.context("switching off at the end")?.check()?;
        Ok(Figures {
            sleep: Column::of_sleep(asleep.sleep_total, &asleep.sleep, &woke),
            wake: Column::of_wake(handed_over.at, answer.at, &wake, &woke),
            cold_boot: asleep.cold_boot,
            used: asleep.sleep.number("used_bytes").map(Bytes),
        })
    }

    fn power_on<'f>(
        &self,
        failures: impl IntoIterator<Item = &'f str>,
    ) -> anyhow::Result<RunningMachine> {
        let machine = (self.machine, self.qemu);
        let running = power_on(machine, self.screen, &self.options.log, failures)?;
        self.screen
            .say(&format!("QEMU is process {}", running.pid()));
        Ok(running)
    }
}

fn time_cold_boot(running: &mut RunningMachine) -> anyhow::Result<Column> {
    let handed_over = running.wait_for("poorwill: cold boot", BOOT_LIMIT)?;
    let redis = "poorwill-guest: redis ready";
    let mut line = running.wait_where("the kernel's first program", BOOT_LIMIT, |line| {
        line.contains("Run /init") || line.contains(redis)
    })?;
    let mut first_program = None;
    if !line.text.contains(redis) {
        first_program = Some(line.at);
        line = running.wait_for(redis, BOOT_LIMIT)?;
    }
    let Line { at: total, .. } = line;
    Ok(Column::of_cold_boot(handed_over.at, first_program, total))
}
