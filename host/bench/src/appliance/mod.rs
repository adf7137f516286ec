//! Measures snapshot boot with a small appliance: redis with a million keys, and an HTTP service in
//! Python, the "shop". It boots cold, resumes from Linux's hibernation, and wakes from its
//! snapshot. Each start ends with a power cut.

mod figures;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

pub use figures::{Appliance, METHODS, PRINTED, Start, StartsOf};

use super::compare::{HIBERNATION_WORDS, MAX_FAILED_HIBERNATIONS, RESUME_WORDS};
use crate::not_measured::CONSOLE;
use poorwill_machine::console::{FAILURES, Fields};
use poorwill_machine::disk::{NewDisk, fingerprint};
use poorwill_machine::interrupt;
use poorwill_machine::paths;
use poorwill_machine::size::Bytes;
use poorwill_machine::{
    DEBIAN_COMMAND_LINE, Disk, Machine, PowerOn, Qemu, RunningMachine, Watcher,
};

const COLD_BOOT: &str = "poorwill: cold boot";
const SHELL: &str = "poorwill-guest: shell ready";
const SHOP: &str = "poorwill-guest: shop ready";

/// Longer than a slow host needs; a machine that hangs ends the measurement.
const PREPARE_LIMIT: Duration = Duration::from_secs(400);
const BOOT_LIMIT: Duration = Duration::from_secs(240);
const SLEEP_LIMIT: Duration = Duration::from_secs(240);
const WAKE_LIMIT: Duration = Duration::from_secs(60);

/// Longest random time from the shop's answer to the power cut.
const MOST_UNCUT: Duration = Duration::from_millis(1500);

#[derive(Clone, Debug)]
pub struct ApplianceOptions {
    pub firmware: PathBuf,
    /// Folder for the disk. The caller removes it.
    pub folder: PathBuf,
    pub memory: Bytes,
    pub harts: u32,
    /// Whether the machine is set up for figures: see [`Machine::for_figures`].
    pub for_figures: bool,
    /// Number of cold boots, and of hibernations.
    pub others: u32,
    /// Number of wakes from the snapshot.
    pub wakes: u32,
    /// File for a copy of the console's output.
    pub log: Option<PathBuf>,
}

/// Shows the measurement's progress to a user.
pub trait Audience {
    /// Announces a step.
    fn step(&self, text: &str);
    /// Prints a result.
    fn say(&self, text: &str);
    /// A callback that shows the machine's console output.
    fn watcher(&self) -> Option<Watcher>;
}

/// Runs the measurement. After a failure `figures` has the results so far.
///
/// # Errors
///
/// A machine that does not start, sleep, wake or answer; an interruption.
pub fn play(
    options: &ApplianceOptions,
    audience: &dyn Audience,
    figures: &mut Option<Appliance>,
) -> anyhow::Result<()> {
    let qemu = Qemu::find()?;
    let guest = paths::Guest::find(paths::Kernel::Stock)?;
    audience.step("Creating a disk: Debian's root, swap, and an empty sleep area");
    let disk = options.folder.join("appliance.disk");
    let room = Bytes::mib(2 * options.memory.in_mib());
    NewDisk {
        root: Some(guest.root.clone()),
        swap: Some(room),
        areas: vec![room],
    }
    .create(&disk, false, &ProgressBar::hidden())
    .context("creating the appliance's disk")?;
    let figures = figures.insert(Appliance {
        harts: options.harts,
        memory_mib: options.memory.in_mib(),
        ..Appliance::default()
    });
    let stage = Stage {
        options,
        audience,
        qemu: &qemu,
        guest: &guest,
        disk: &disk,
    };
    figures.keys = stage.prepare()?;
    let running = stage.boot_cold(figures)?;
    stage.hibernate(running, figures)?;
    stage.take_snapshot()?;
    stage.wake_and_cut(figures)
}

struct Stage<'s> {
    options: &'s ApplianceOptions,
    audience: &'s dyn Audience,
    qemu: &'s Qemu,
    guest: &'s paths::Guest,
    disk: &'s Path,
}

/// A start, with the shop's answer.
struct Answered {
    start: Start,
    answer: String,
}

impl Stage<'_> {
    /// Boots once with a writable root, and stores the shop's data there.
    fn prepare(&self) -> anyhow::Result<u64> {
        self.audience
            .step("Putting a million keys into redis, and a catalogue beside it");
        let mut running = self.power_on("poorwill.appliance=prepare")?;
        self.explain(&mut running, "creating the shop's data", |running| {
            let line = running.wait_for("poorwill-appliance: prepared", PREPARE_LIMIT)?;
            switched_off(running)?;
            let fields = Fields::parse(&line.text, "poorwill-appliance: prepared");
            let keys = fields.and_then(|fields| fields.number("keys"));
            keys.context("the console does not show the number of keys")
        })
    }

    /// Boots cold and cuts the power after the shop's answer, except the last time.
    fn boot_cold(&self, figures: &mut Appliance) -> anyhow::Result<RunningMachine> {
        self.audience.step(&format!(
            "Cold boots, the root read-only below an overlay in memory: {}",
            self.options.others
        ));
        loop {
            let mut running = self.power_on(&self.run_words())?;
            let answered = self.explain(&mut running, "booting cold", |running| {
                answered(running, COLD_BOOT, BOOT_LIMIT)
            })?;
            self.tell(&answered.start);
            figures.cold.push(answered.start);
            if figures.cold.len() >= self.options.others as usize {
                self.explain(&mut running, "booting cold", settled)?;
                return Ok(running);
            }
            running.kill()?;
        }
    }

    /// Hibernates Linux and resumes it, the number of times that the options say, or until a resume
    /// fails.
    fn hibernate(
        &self,
        mut running: RunningMachine,
        figures: &mut Appliance,
    ) -> anyhow::Result<()> {
        self.audience
            .step(&format!("Linux's own hibernation: {}", self.options.others));
        while figures.resumed.len() < self.options.others as usize
            && figures.failed_resumes.len() < MAX_FAILED_HIBERNATIONS
        {
            match self.hibernate_once(running) {
                Ok((resumed, start)) => {
                    self.tell(&start);
                    figures.resumed.push(start);
                    running = resumed;
                }
                Err(error) => {
                    interrupt::check()?;
                    let why = format!("{error:#}");
                    self.audience
                        .say(&format!("Linux does not resume from hibernation: {why}"));
                    figures.failed_resumes.push(why);
                    running = self.boot_and_settle()?;
                }
            }
        }
        Ok(running.kill().map(drop)?)
    }

    fn boot_and_settle(&self) -> anyhow::Result<RunningMachine> {
        let mut running = self.power_on(&self.run_words())?;
        self.explain(&mut running, "booting cold", settled)?;
        Ok(running)
    }

    fn hibernate_once(
        &self,
        mut running: RunningMachine,
    ) -> anyhow::Result<(RunningMachine, Start)> {
        self.explain(&mut running, "hibernating", |running| {
            running.send(b"hibernate\n")?;
            running.wait_for("poorwill-appliance: hibernating", BOOT_LIMIT)?;
            switched_off(running)
        })?;
        drop(running);
        let mut running = self.power_on(&format!("{} {RESUME_WORDS}", self.run_words()))?;
        let start = self.explain(&mut running, "resuming from hibernation", |running| {
            let answered = answered(running, COLD_BOOT, BOOT_LIMIT)?;
            running.wait_for("poorwill-appliance: resumed", WAKE_LIMIT)?;
            Ok(answered.start)
        })?;
        Ok((running, start))
    }

    fn take_snapshot(&self) -> anyhow::Result<()> {
        self.audience
            .step("Booting it cold, and taking a snapshot: `poorwill-snapshot shop`");
        let mut running = self.boot_and_settle()?;
        self.explain(&mut running, "taking the snapshot", |running| {
            running.send(b"snapshot\n")?;
            running.wait_for("poorwill: sleep mode=snapshot", SLEEP_LIMIT)?;
            switched_off(running)
        })
    }

    /// Wakes the machine from the snapshot. After the first wake, the guest reports the wake as
    /// good. Then the machine wakes as often as the options say. Each time the power is cut without
    /// warning.
    fn wake_and_cut(&self, figures: &mut Appliance) -> anyhow::Result<()> {
        self.audience
            .step("The first wake, after which it reports that it is well");
        let first = self.wake(|running| {
            Ok(running
                .wait_for("poorwill-snapshot: woken, first", WAKE_LIMIT)
                .map(drop)?)
        })?;
        let before = fingerprint(self.disk)?;
        self.audience.step(&format!(
            "Power on, and the power cut without warning: {} times",
            self.options.wakes
        ));
        figures.same_answers = true;
        for _ in 0..self.options.wakes {
            let answered =
                self.wake(|running| Ok(running.run_for(MOST_UNCUT.mul_f64(fastrand::f64()))?))?;
            self.tell(&answered.start);
            figures.same_answers &= answered.answer == first.answer;
            figures.snapshot.push(answered.start);
            figures.loaded_bytes = answered.loaded_bytes;
        }
        figures.disk_unchanged = fingerprint(self.disk)? == before;
        ensure!(figures.same_answers, "the shop's answers differ");
        ensure!(
            figures.disk_unchanged,
            "the snapshot's wakes wrote to the disk"
        );
        self.audience
            .say("the same answer each time, and every byte of the disk as it was");
        Ok(())
    }

    fn wake(
        &self,
        until_cut: impl FnOnce(&mut RunningMachine) -> anyhow::Result<()>,
    ) -> anyhow::Result<Woken> {
        let mut running = self.power_on(&self.run_words())?;
        let failures: Vec<_> = FAILURES.into_iter().chain([COLD_BOOT]).collect();
        running.fail_on(&failures);
        let woken = self.explain(&mut running, "waking from the snapshot", |running| {
            let answered = answered(running, "poorwill: wake ", WAKE_LIMIT)?;
            let lines = running.lines();
            let wake = lines
                .iter()
                .find_map(|line| Fields::parse(&line.text, "poorwill: wake "));
            until_cut(running)?;
            Ok(Woken {
                start: answered.start,
                answer: answered.answer,
                loaded_bytes: wake
                    .and_then(|wake| wake.number("loaded_bytes"))
                    .context("the firmware does not report the loaded bytes")?,
            })
        })?;
        running.kill()?;
        Ok(woken)
    }

    fn run_words(&self) -> String {
        format!("overlayroot=tmpfs poorwill.appliance {HIBERNATION_WORDS}")
    }

    fn power_on(&self, words: &str) -> anyhow::Result<RunningMachine> {
        let machine = Machine {
            harts: self.options.harts,
            memory: self.options.memory,
            kernel: Some(self.guest.kernel.clone()),
            initrd: Some(self.guest.initrd.clone()),
            command_line: format!("{DEBIAN_COMMAND_LINE} {words}"),
            disks: vec![Disk::nvme(self.disk)],
            ..Machine::new(&self.options.firmware)
        };
        let machine = if self.options.for_figures {
            machine.for_figures()
        } else {
            machine
        };
        let options = PowerOn {
            log: self.options.log.clone(),
            watch: self.audience.watcher(),
            ..PowerOn::default()
        };
        let mut running = machine.power_on(self.qemu, options)?;
        running.fail_on(&FAILURES);
        Ok(running)
    }

    fn tell(&self, start: &Start) {
        self.audience.say(&format!(
            "a shell after {:.2} s, the shop's answer after {:.2} s",
            start.shell_ms / 1e3,
            start.application_ms / 1e3
        ));
    }

    /// Runs one step with a machine. An error names the step, and contains the last console lines.
    fn explain<T>(
        &self,
        running: &mut RunningMachine,
        what: &str,
        job: impl FnOnce(&mut RunningMachine) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        job(running).with_context(|| {
            let tail = running.tail(15).join("\n");
            format!("{what}{CONSOLE}\n{tail}\n")
        })
    }
}

/// A wake from the snapshot.
struct Woken {
    start: Start,
    answer: String,
    loaded_bytes: u64,
}

/// Follows a start until the shop answers. `firmware` is part of the firmware's last console line.
fn answered(
    running: &mut RunningMachine,
    firmware: &str,
    limit: Duration,
) -> anyhow::Result<Answered> {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let handed_over = running.wait_for(firmware, limit)?;
    let shell = running.wait_for(SHELL, limit)?;
    let shop = running.wait_for(SHOP, limit)?;
    let fields = Fields::parse(&shop.text, SHOP).unwrap_or_default();
    let answer = fields.get("answer").unwrap_or_default();
    ensure!(!answer.is_empty(), "the shop's answer is empty");
    Ok(Answered {
        start: Start {
            firmware_ms: ms(handed_over.at),
            shell_ms: ms(shell.at),
            application_ms: ms(shop.at),
        },
        answer: answer.to_owned(),
    })
}

/// Waits until the guest's services have started, too.
fn settled(running: &mut RunningMachine) -> anyhow::Result<()> {
    Ok(running
        .wait_for("poorwill-appliance: ready", BOOT_LIMIT)
        .map(drop)?)
}

fn switched_off(running: &mut RunningMachine) -> anyhow::Result<()> {
    Ok(running.wait_exit(SLEEP_LIMIT)?.check()?)
}
