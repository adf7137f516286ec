//! One power-on: the machine is made and switched on, and what it leaves behind is checked.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use poorwill_machine::PowerOn as Switch;
use poorwill_machine::console::Line;
use poorwill_machine::psu::Link;
use poorwill_machine::qmp::{Control, socket_arguments, socket_folder};
use tempfile::TempDir;

use super::Run;
use crate::console::{FATAL, Start};
use crate::disks::TrialDisk;
use crate::evidence::evidence;
use crate::intact;
use crate::persistent::{self, Keys};
use crate::plan::{Deed, End, PowerOn};
use crate::power;
use crate::stop_stacks;
use crate::update;

/// Why a machine boots cold that did not sleep.
const NO_IMAGE: &str = "^no image(:|$)";

/// Until QEMU's control answers.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// Time between a power-off and the next power-on, so that time can be seen to
/// have been set forward.
const PAUSE: Duration = Duration::from_millis(2100);

impl Run<'_> {
    /// Switches the machine on, and checks how it ends; tells how.
    pub(super) fn power_on(&mut self, on: &PowerOn) -> anyhow::Result<End> {
        let start = self.wanted_start(on);
        if self.asleep && matches!(start, Start::Wake) {
            std::thread::sleep(PAUSE);
        }
        let _turn = self.host.turn();
        self.disks.iter().try_for_each(TrialDisk::switch_on)?;
        let socket = folder_for(on, |deed| matches!(deed, Deed::Break | Deed::Reset))?;
        let supply = folder_for(on, |deed| {
            matches!(deed, Deed::PowerFails | Deed::PowerGood)
        })?;
        let supply = supply.as_ref().map(|folder| folder.path().join("psu"));
        let mut machine = self.machine(on, supply.as_deref())?;
        if let Some(socket) = &socket {
            let arguments = socket_arguments(&socket.path().join("qmp"));
            machine.extra_arguments.extend(arguments);
        }
        let qemu = self.setup.qemu.as_ref().map_err(|what| anyhow!("{what}"))?;
        let log = self.folder.join("console.log");
        let mut running = machine.power_on(
            qemu,
            Switch {
                log: Some(log),
                watch: None,
                cpu_time: self.host.cpu_time.clone(),
            },
        )?;
        // The file that it is named beside is there now.
        let _link = supply
            .map(|socket| Link::make(&power::memory(self.folder), socket))
            .transpose()?;
        // What is to come ends nothing.
        let is_expected = |text: &&str| on.expect.iter().any(|line| line.contains(text));
        let fatal: Vec<_> = (FATAL.into_iter())
            .filter(|text| !is_expected(text))
            .collect();
        running.fail_on(&fatal);
        let control = socket
            .map(|socket| Control::connect(&socket.path().join("qmp"), CONNECT_LIMIT))
            .transpose()?;
        let mut outcome = self.follow(&mut running, control, on, &start);
        if let Ok(ended) = outcome {
            let checked = self.check_lines(&running.lines(), on, ended);
            outcome = outcome.and(checked.map(|()| ended));
        }
        self.asleep = matches!(outcome, Ok(End::Sleep));
        let ended = outcome
            .map_err(|error| anyhow!("{error:#}\n{}", evidence(&running, &machine, qemu)))?;
        // A machine that seals nothing has no vault, whatever its flash: one without PMP.
        let seals = (running.lines().iter()).any(|line| line.text.contains(" sealed=yes"));
        let lines = running.lines();
        // QEMU has to let go of the disks first.
        drop(running);
        self.check_power(&lines, on, ended)?;
        if self.trial.row.intact {
            intact::check(&machine.firmware, &self.memory())?;
        }
        self.disks.iter().try_for_each(TrialDisk::switch_off)?;
        if self.asleep && self.trial.row.foretold {
            let flash = (self.trial.row.vault && seals).then(|| self.vault());
            let firmware = self.setup.firmware_for(self.trial).as_deref();
            let firmware = firmware.map_err(|what| anyhow!("{what}"))?;
            update::check(&self.disks, flash.as_deref(), firmware)?;
        }
        Ok(ended)
    }

    /// Checks that nothing was lost as the power went, if it was switched off; and which of a
    /// vault's keys are in memory that outlived it.
    fn check_power(&mut self, lines: &[Line], on: &PowerOn, ended: End) -> anyhow::Result<()> {
        if !self.trial.row.plugin {
            return Ok(());
        }
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        if let Some(kept) = power::kept(&lines) {
            self.kept = kept;
        }
        if ended == End::Off
            && !on.loses
            && let Some(instructions) = power::check(self.folder, &self.kept, on)?
        {
            println!("{}: Stop took {instructions} instructions", self.trial.name);
            if let Some(bytes) = stop_stacks::check(&power::memory(self.folder))? {
                println!("{}: Stop took {bytes} bytes of a stack", self.trial.name);
            }
        }
        let keys = match (on.power_on, ended) {
            (_, End::Off | End::Sleep) => Some(Keys::None),
            (End::PowerLost, _) if on.fails.is_none() => Some(Keys::Cut),
            // It may be starting, or loading, with any key on its way.
            _ => None,
        };
        if let Some(keys) = keys.filter(|_| self.trial.row.vault) {
            persistent::check_keys(&power::memory(self.folder), &self.vault(), keys)?;
        }
        Ok(())
    }

    /// How the machine is to start.
    fn wanted_start(&self, on: &PowerOn) -> Start {
        match (&on.cold_boot, self.asleep || on.wake) {
            (Some(reason), _) => Start::Cold(reason.clone()),
            (None, true) => Start::Wake,
            (None, false) => Start::Cold(NO_IMAGE.to_owned()),
        }
    }

    /// Checks what lines say of others, and of lines of earlier power-ons.
    fn check_lines(&mut self, lines: &[Line], on: &PowerOn, ended: End) -> anyhow::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        self.look_for_repeats(&lines, &on.differ, true, ended)?;
        self.look_for_repeats(&lines, on.repeats.as_slice(), false, ended)?;
        self.counts.check(&lines, &on.grows)
    }

    /// Looks whether a line that begins with one of `starts` was there before. There
    /// must be one, unless the power was cut too early to tell; with `differ` none that
    /// was.
    fn look_for_repeats(
        &mut self,
        lines: &[&str],
        starts: &[String],
        differ: bool,
        ended: End,
    ) -> anyhow::Result<()> {
        for start in starts {
            let mut named = lines
                .iter()
                .filter(|line| line.starts_with(start))
                .peekable();
            ensure!(
                ended == End::Cut || named.peek().is_some(),
                "no line begins with {start:?}"
            );
            for line in named {
                self.is_repeated |= !self.seen.insert((*line).to_owned());
                ensure!(!differ || !self.is_repeated, "a line came twice: {line:?}");
            }
        }
        Ok(())
    }
}

/// A folder for a socket, if an event of the power-on does what `needs` one.
fn folder_for(on: &PowerOn, needs: impl Fn(&Deed) -> bool) -> anyhow::Result<Option<TempDir>> {
    let is_needed = on.events.iter().any(|event| needs(&event.does));
    Ok(is_needed.then(socket_folder).transpose()?)
}
