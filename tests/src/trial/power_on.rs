//! Runs a power-on: builds the machine, switches it on, and checks its console, disks and memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use poorwill_machine::PowerOn as Switch;
use poorwill_machine::console::Line;
use poorwill_machine::psu::Link;
use poorwill_machine::qmp::{Control, socket_arguments, socket_folder};

use super::Run;
use super::events::Hands;
use crate::console::{CANNOT_START, FATAL, FATAL_IN_DOMAINS, Start};
use crate::disks::TrialDisk;
use crate::evidence::evidence;
use crate::intact;
use crate::persistent::{self, Keys};
use crate::plan::{Deed, End, PowerOn};
use crate::power;
use crate::setup::found;
use crate::stop_stacks;
use crate::update;

/// The reason of a cold boot of a machine that did not sleep.
const NO_IMAGE: &str = "^no image(:|$)";

/// The reason of a machine with domains.
const HAS_DOMAINS: &str = "the machine has domains";

/// The most starts of OpenSBI for one answer, and the limit of each line.
const OPENSBI_STARTS: usize = 8;
const OPENSBI_LIMIT: Duration = Duration::from_secs(15);

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
        let sockets = socket_folder()?;
        let mut machine = self.machine(on, sockets.path())?;
        let qmp = sockets.path().join("qmp");
        let has_control = has(on, |deed| matches!(deed, Deed::Break | Deed::Reset));
        if has_control {
            machine.extra_arguments.extend(socket_arguments(&qmp));
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
        let memory = power::memory(self.folder);
        let _link = has_supply(on)
            .then(|| Link::make(&memory, psu(sockets.path())))
            .transpose()?;
        running.fail_on(&self.fatal(on));
        let mut hands = Hands {
            control: has_control
                .then(|| Control::connect(&qmp, CONNECT_LIMIT))
                .transpose()?,
            sockets: sockets.path(),
            memory: &memory,
            limit: Duration::from_secs(self.trial.row.timeout_s),
            line: None,
        };
        let mut outcome = self.follow(&mut running, &mut hands, on, &start);
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
        if on.opensbi {
            self.check_opensbi(&lines, on)?;
        }
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
            (None, false) if self.trial.board.sockets => Start::Cold(HAS_DOMAINS.to_owned()),
            (None, false) => Start::Cold(NO_IMAGE.to_owned()),
        }
    }

    /// Console lines that end the power-on. A line that the plan expects does not.
    fn fatal(&self, on: &PowerOn) -> Vec<&'static str> {
        let has_domains = self.trial.board.sockets || !self.trial.row.loads.is_empty();
        let of_domains = FATAL_IN_DOMAINS.iter().filter(|_| has_domains);
        let is_expected = |text: &&&str| {
            on.expect.iter().any(|line| line.contains(**text))
                || !on.refused.is_empty() && **text == CANNOT_START
        };
        let all = FATAL.iter().chain(of_domains);
        all.filter(|text| !is_expected(text)).copied().collect()
    }

    /// Checks that the machine shows the same lines with OpenSBI in place of Poorwill, whose console
    /// had these `lines`.
    fn check_opensbi(&self, lines: &[Line], on: &PowerOn) -> anyhow::Result<()> {
        let probes = |lines: &[Line]| {
            let lines = lines.iter();
            let probes =
                lines.filter_map(|line| Some(line.text.split_once("probe ")?.1.to_owned()));
            probes.collect::<Vec<_>>()
        };
        let run = || {
            let sockets = socket_folder()?;
            let mut machine = self.machine(on, sockets.path())?;
            machine.firmware = found(&self.setup.opensbi)?.clone();
            let mut running = machine.power_on(found(&self.setup.qemu)?, Switch::default())?;
            let mut hands = Hands::without_control(sockets.path(), OPENSBI_LIMIT);
            hands.follow(&mut running, on)?;
            anyhow::Ok(probes(&running.lines()))
        };
        // OpenSBI starts a domain before all of its calls work, so that some starts hang.
        let mut starts = (0..OPENSBI_STARTS).map(|_| run());
        let other = starts.find_map(Result::ok);
        let (own, other) = (probes(lines), other.context("OpenSBI does not start")?);
        ensure!(
            own == other,
            "Poorwill and OpenSBI differ:\n{own:#?}\n{other:#?}"
        );
        Ok(())
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

/// Whether an event of the power-on does this.
fn has(on: &PowerOn, does: impl Fn(&Deed) -> bool) -> bool {
    on.events.iter().any(|event| does(&event.does))
}

pub(super) fn has_supply(on: &PowerOn) -> bool {
    has(on, |deed| {
        matches!(deed, Deed::PowerFails | Deed::PowerGood)
    })
}

/// The power supply's socket.
pub(super) fn psu(sockets: &Path) -> PathBuf {
    sockets.join("psu")
}
