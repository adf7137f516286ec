//! Runs a power-on: builds the machine, switches it on, and checks its console, disks and memory.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use poorwill_machine::PowerOn as Switch;
use poorwill_machine::console::Line;
use poorwill_machine::qmp::socket_folder;

use super::Run;
use super::events::{self, Hands};
use crate::console::{CANNOT_START, FATAL, FATAL_IN_DOMAINS, Start, check_numbered};
use crate::disks::TrialDisk;
use crate::domains::Watch;
use crate::evidence::evidence;
use crate::frames::Sent;
use crate::intact;
use crate::persistent::{self, Keys};
use crate::plan::{End, Guest, PowerOn};
use crate::power;
use crate::setup::found;
use crate::stop_stacks;
use crate::update;

/// The reason of a cold boot of a machine that did not sleep.
const NO_IMAGE: &str = "^no image(:|$)";

/// The reason of a machine with domains that has no disk of its own.
const HAS_DOMAINS: &str = "the machine has domains";

/// Time between a power-off and the next power-on, long enough to see that a wake advances the
/// time.
const PAUSE: Duration = Duration::from_millis(2100);

/// Time after each piece of 64 bytes that a slow receiver takes.
const SLOW: Duration = Duration::from_micros(500);

impl Run<'_> {
    /// Switches the machine on, and checks its end. Returns the end.
    pub(super) fn power_on(&mut self, on: &PowerOn) -> anyhow::Result<End> {
        let start = self.wanted_start(on);
        if self.asleep && !matches!(start, Start::Cold(_)) {
            std::thread::sleep(PAUSE);
        }
        let _turn = self.host.turn();
        self.disks.iter().try_for_each(TrialDisk::switch_on)?;
        let sockets = socket_folder()?;
        let mut machine = self.machine(on, sockets.path())?;
        (machine.extra_arguments).extend(events::arguments(on, sockets.path()));
        let qemu = found(&self.setup.qemu)?;
        let watch = (on.frames.is_some()).then(|| Watch::new(self.folder, self.trial.row.fair));
        let switch = Switch {
            log: Some(self.folder.join("console.log")),
            slow_console: on.slow_lines.map(|_| SLOW),
            ..self.counted()
        };
        let mut running = machine.power_on(qemu, switch)?;
        running.fail_on(&self.fatal(on));
        let memory = power::memory(self.folder);
        let limit = Duration::from_secs(self.trial.row.timeout_s);
        let mut hands = Hands::of(sockets.path(), &memory, limit);
        hands.watch = watch;
        hands.connect(on)?;
        let mut outcome = self.follow(&mut running, &mut hands, on, &start);
        if let Ok(ended) = outcome {
            let mut checked = self.check_lines(&running.lines(), on, ended);
            if let Some(watch) = hands.watch.take() {
                let wakes = !matches!(start, Start::Cold(_));
                checked =
                    checked.and_then(|()| self.check_frames(watch, &running.lines(), on, wakes));
            }
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
        if let Some(least) = on.opensbi {
            self.check_opensbi(&lines, on, least)?;
        }
        self.check_power(&lines, on, ended)?;
        if self.trial.row.intact {
            intact::check(&machine.firmware, &self.memory())?;
        }
        self.disks.iter().try_for_each(TrialDisk::switch_off)?;
        // A set's wake is not known before.
        if self.asleep && self.trial.row.foretold && !self.trial.kind.sockets {
            let flash = (self.trial.row.vault && seals).then(|| self.vault());
            let firmware = found(self.setup.firmware_for(self.trial))?;
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

    /// Checks what the critical guest has shown. If it has woken, that goes on from the last
    /// power-on.
    fn check_frames(
        &mut self,
        watch: Watch,
        lines: &[Line],
        on: &PowerOn,
        has_woken: bool,
    ) -> anyhow::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        let wanted = on.frames.unwrap_or_default();
        match has_woken {
            true => self.sent.wakes += 1,
            false => self.sent = Sent::default(),
        }
        let (seen, summary) = watch.finish(&wanted, &lines, has_woken, &mut self.sent)?;
        println!("{}: {summary}", self.trial.name);
        if let Some(most) = on.start_ratio {
            self.check_start(&seen, most)?;
        }
        self.shown.push(seen);
        Ok(())
    }

    /// The start that the plan requires.
    fn wanted_start(&self, on: &PowerOn) -> Start {
        match (&on.cold_boot, self.asleep || on.wake) {
            (Some(reason), _) if on.wake => Start::WakeBeside(reason.clone()),
            (Some(reason), _) => Start::Cold(reason.clone()),
            (None, true) => Start::Wake,
            (None, false) if self.trial.kind.sockets && self.disks.is_empty() => {
                Start::Cold(HAS_DOMAINS.to_owned())
            }
            (None, false) => Start::Cold(NO_IMAGE.to_owned()),
        }
    }

    /// Console lines that end the power-on. A line that the plan expects does not.
    fn fatal(&self, on: &PowerOn) -> Vec<&'static str> {
        let row = &self.trial.row;
        let is_bare = row.guest == Guest::Critical || !row.loads.is_empty();
        let has_domains = self.trial.kind.sockets || is_bare;
        let of_domains = FATAL_IN_DOMAINS.iter().filter(|_| has_domains);
        let is_expected = |text: &&&str| {
            on.expect.iter().any(|line| line.contains(**text))
                || !on.refused.is_empty() && **text == CANNOT_START
        };
        let all = FATAL.iter().chain(of_domains);
        all.filter(|text| !is_expected(text)).copied().collect()
    }

    /// Checks lines against each other, and against lines of earlier power-ons.
    fn check_lines(&mut self, lines: &[Line], on: &PowerOn, ended: End) -> anyhow::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        self.look_for_repeats(&lines, &on.differ, true, ended)?;
        if let Some(count) = on.slow_lines {
            check_numbered(&lines, count)?;
        }
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
