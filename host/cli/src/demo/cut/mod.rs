//! The demo of cuts: a machine's power fails while it works, and the machine resumes where it was.

mod figures;
mod held;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::console::{FAILURES, Fields};
use poorwill_machine::cut::{Ending, RecordReport, look};
use poorwill_machine::paths::Tiny;
use poorwill_machine::psu::{Power, set};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Board, Disk, Machine, PowerSupply, Qemu, RunningMachine};

use self::figures::{CutFigures, Round};
use self::held::Held;
use super::machine::{COLD_BOOT, explain, power_on};
use super::screen::Screen;

/// The guest's console lines before a copy, and after it with its contents.
const COPYING: &str = "poorwill-redis: copying";
const HELD: &str = "poorwill-redis: held";

/// Longer than a slow host needs; a machine that hangs ends the demo.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const ROUND_LIMIT: Duration = Duration::from_secs(300);
const STOP_LIMIT: Duration = Duration::from_secs(300);

/// Size of the machine's disk, enough for a copy.
const DISK: Bytes = Bytes::mib(16);

/// Longest random delay from a copy's start to the power failure, in ms.
const MOST_MS: u64 = 1500;

/// Options of the demo.
#[derive(Clone, Debug)]
pub(crate) struct CutOptions {
    pub(crate) memory: Bytes,
    pub(crate) harts: u32,
    /// Number of power failures.
    pub(crate) cuts: u32,
    pub(crate) supply: PowerSupply,
    pub(crate) firmware: PathBuf,
    /// Folder for the machine's memory file. The caller removes it.
    pub(crate) folder: PathBuf,
    /// File for a copy of the console's output.
    pub(crate) log: PathBuf,
}

/// Runs the demo, and returns its figures. An error names its step. The machine is then off, and
/// its last console lines are on the screen.
pub(crate) fn pull_the_plug(options: &CutOptions, screen: &Screen) -> anyhow::Result<CutFigures> {
    let ram = options.folder.join("machine.ram");
    let disk = options.folder.join("disk");
    File::create(&disk)
        .and_then(|file| file.set_len(DISK.0))
        .with_context(|| format!("making {}", disk.display()))?;
    let guest = Tiny::with_redis()?;
    let machine = Machine {
        harts: options.harts,
        memory: options.memory,
        ram: Some(ram.clone()),
        power_supply: Some(options.supply.clone()),
        kernel: Some(guest.kernel),
        initrd: Some(guest.initrd),
        command_line: Board::Virt.tiny_command_line().to_owned(),
        disks: vec![Disk::nvme(disk)],
        ..Machine::new(&options.firmware)
    };
    let machine = machine.for_cuts();
    let stage = Stage {
        options,
        screen,
        qemu: &Qemu::find()?,
        machine: &machine,
        ram,
    };
    stage.play()
}

struct Stage<'a> {
    options: &'a CutOptions,
    screen: &'a Screen,
    qemu: &'a Qemu,
    machine: &'a Machine,
    ram: PathBuf,
}

impl Stage<'_> {
    fn play(&self) -> anyhow::Result<CutFigures> {
        let CutOptions {
            harts,
            memory,
            cuts,
            ..
        } = self.options;
        self.screen.step(&format!(
            "Cold boot: a stock kernel on {harts} harts and {memory} of persistent memory"
        ));
        let mut running = self.power_on(FAILURES)?;
        let first = self.held(&mut running, BOOT_LIMIT);
        let mut held = explain(self.screen, &running, first.context("the first copy"))?;
        let (mut figures, mut before) = (CutFigures::default(), Vec::new());
        for number in 1..=*cuts {
            self.screen
                .step(&format!("Power failure {number} of {cuts}"));
            let cut = self.cut(&mut running, &before);
            let cut = explain(self.screen, &running, cut)?;
            self.screen.say(&self.told(&cut));
            // The drop releases the memory file, which the next power-on locks.
            drop(running);
            running = self.power_on(FAILURES.into_iter().chain([COLD_BOOT]))?;
            let went_on = self.until_held(&mut running, &held);
            let (go_us, now) = explain(self.screen, &running, went_on)?;
            self.screen.say(&format!(
                "the same keys and copy; {} copies, counter {}, {} pieces on the disk, up {:.2} s",
                now.copies,
                now.counter,
                now.written,
                now.uptime.as_secs_f64()
            ));
            let round = Round::new(&cut, go_us, self.options.supply.clock);
            figures.rounds.push(round);
            (held, before) = (now, vec![cut]);
        }
        running.kill()?;
        Ok(figures)
    }

    /// Lets the power fail at a random instant of a copy. `before` are the records of earlier cuts.
    fn cut(
        &self,
        running: &mut RunningMachine,
        before: &[RecordReport],
    ) -> anyhow::Result<RecordReport> {
        running.wait_for(COPYING, ROUND_LIMIT)?;
        let wait = Duration::from_millis(fastrand::u64(..MOST_MS));
        running.run_for(wait).context("before its power fails")?;
        set(&self.ram, Power::Fail)?;
        let exit = running.wait_exit(STOP_LIMIT).context("Stop")?;
        let records = look(&self.ram)?;
        let ending = Ending::of(exit.status, before, &records);
        match ending.with_context(|| exit.errors.trim_end().to_owned())? {
            Ending::Cut(record) => Ok(record),
            Ending::Off => bail!("the machine switched itself off, without a cut"),
        }
    }

    /// A cut as text, with the time of Stop on the modelled machine.
    fn told(&self, cut: &RecordReport) -> String {
        let supply = &self.options.supply;
        let took = supply
            .clock
            .time_of_ticks(cut.stop_ticks.unwrap_or_default());
        format!(
            "cut within {:.3} of {:.3} ms: {} harts, {} bytes",
            took.as_secs_f64() * 1000.0,
            supply.hold_up.as_secs_f64() * 1000.0,
            cut.harts.unwrap_or_default(),
            cut.bytes.unwrap_or_default()
        )
    }

    /// Waits until the machine has resumed and reports its contents, which must be unchanged.
    /// Returns the time of Go in the machine's own microseconds.
    fn until_held(
        &self,
        running: &mut RunningMachine,
        before: &Held,
    ) -> anyhow::Result<(u64, Held)> {
        let line = running
            .wait_for("poorwill: go ", BOOT_LIMIT)
            .context("Go")?;
        let fields = Fields::parse(&line.text, "poorwill: go ").unwrap_or_default();
        let held = self.held(running, ROUND_LIMIT)?;
        before.check_gone_on(&held)?;
        Ok((fields.number("us").unwrap_or_default(), held))
    }

    /// Waits for the guest's report after its next copy.
    fn held(&self, running: &mut RunningMachine, limit: Duration) -> anyhow::Result<Held> {
        let line = running.wait_for(HELD, limit)?;
        Ok(Held::parse(&line.text, HELD)?)
    }

    fn power_on<'f>(
        &self,
        failures: impl IntoIterator<Item = &'f str>,
    ) -> anyhow::Result<RunningMachine> {
        let machine = (self.machine, self.qemu);
        power_on(machine, self.screen, &self.options.log, failures)
    }
}
