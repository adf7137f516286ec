//! Runs a power-on: builds the machine, switches it on, and checks its console, disks and memory.

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

/// The reason of a cold boot of a machine that did not sleep.
const NO_IMAGE: &str = "^no image(:|$)";

/// Time limit for a connection to QEMU's control socket.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// Time between a power-off and the next power-on, long enough to see that a wake advances the
/// time.
const PAUSE: Duration = Duration::from_millis(2100);

impl Run<'_> {
    /// Switches the machine on, and checks its end. Returns the end.
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
        // The link's name needs the memory file, which exists now.
        let _link = supply
            .map(|socket| Link::make(&power::memory(self.folder), socket))
            .transpose()?;
        // A line that the plan expects does not end the power-on.
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
        // A machine that cannot seal has no vault, even with a flash: for example one without PMP.
        let seals = (running.lines().iter()).any(|line| line.text.contains(" sealed=yes"));
        let lines = running.lines();
        // QEMU must release the disks first.
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

    /// For a machine that was switched off, checks that the caches lost no line of the OS. Checks
    /// which of the vault's keys are in persistent memory.
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
            // The machine may be starting or loading, with any key in memory.
            _ => None,
        };
        if let Some(keys) = keys.filter(|_| self.trial.row.vault) {
            persistent::check_keys(&power::memory(self.folder), &self.vault(), keys)?;
        }
        Ok(())
    }

    /// The start that the plan requires.
    fn wanted_start(&self, on: &PowerOn) -> Start {
        match (&on.cold_boot, self.asleep || on.wake) {
            (Some(reason), _) => Start::Cold(reason.clone()),
            (None, true) => Start::Wake,
            (None, false) => Start::Cold(NO_IMAGE.to_owned()),
        }
    }

    /// Checks lines against each other, and against lines of earlier power-ons.
    fn check_lines(&mut self, lines: &[Line], on: &PowerOn, ended: End) -> anyhow::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        self.look_for_repeats(&lines, &on.differ, true, ended)?;
        self.look_for_repeats(&lines, on.repeats.as_slice(), false, ended)?;
        self.counts.check(&lines, &on.grows)
    }

    /// Records lines that begin with one of `starts`, and whether one has come before. There must
    /// be such a line, unless the power was cut early. With `differ`, none may have come before.
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

/// A folder for a socket; `None`: no event of the power-on needs one.
fn folder_for(on: &PowerOn, needs: impl Fn(&Deed) -> bool) -> anyhow::Result<Option<TempDir>> {
    let is_needed = on.events.iter().any(|event| needs(&event.does));
    Ok(is_needed.then(socket_folder).transpose()?)
}
