//! Compares a machine with another one: with OpenSBI in place of Poorwill, or without domains.

use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::PowerOn as Switch;
use poorwill_machine::console::Line;
use poorwill_machine::qmp::socket_folder;

use super::Run;
use super::events::Hands;
use crate::domains::{Seen, add_fair, time_first_os};
use crate::plan::PowerOn;
use crate::setup::found;

/// The most starts of OpenSBI for one answer, and the limit of each line.
const OPENSBI_STARTS: usize = 8;
const OPENSBI_LIMIT: Duration = Duration::from_secs(15);

impl Run<'_> {
    /// Checks that the machine shows the same lines with OpenSBI in place of Poorwill, whose console
    /// had these `lines`.
    pub(super) fn check_opensbi(
        &self,
        lines: &[Line],
        on: &PowerOn,
        least: usize,
    ) -> anyhow::Result<()> {
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
            let mut running = machine.power_on(found(&self.setup.qemu)?, self.counted())?;
            let mut hands = Hands::of(sockets.path(), sockets.path(), OPENSBI_LIMIT);
            hands.follow(&mut running, on)?;
            anyhow::Ok(probes(&running.lines()))
        };
        // OpenSBI starts a domain before all of its calls work, so that some starts hang.
        let mut starts = (0..OPENSBI_STARTS).map(|_| run());
        let other = starts.find_map(Result::ok);
        let (own, other) = (probes(lines), other.context("OpenSBI does not start")?);
        ensure!(
            own == other && own.len() >= least,
            "Poorwill and OpenSBI differ, or have less than {least} lines:\n{own:#?}\n{other:#?}"
        );
        Ok(())
    }

    /// Compares a start with that of a machine with Linux alone.
    pub(super) fn check_start(&self, seen: &Seen, most: f64) -> anyhow::Result<()> {
        let folder = socket_folder()?;
        let firmware = found(self.setup.firmware_for(self.trial))?;
        let mut machine = self.sockets()?.alone(firmware, folder.path())?;
        add_fair(&mut machine, found(&self.setup.plugin)?, folder.path())?;
        let mut running = machine.power_on(found(&self.setup.qemu)?, self.counted())?;
        let limit = Duration::from_secs(self.trial.row.timeout_s);
        let alone = time_first_os(&mut running, folder.path(), limit)?;
        let own = seen.to_first_os().context("no OS has started")?;
        let name = &self.trial.name;
        println!("{name}: {own} instructions until the first OS, {alone} without domains");
        // A float represents these numbers exactly.
        ensure!(
            own as f64 <= alone as f64 * most,
            "a start with domains takes more than {most} times the instructions"
        );
        Ok(())
    }

    /// A power-on whose CPU time is the trial's.
    pub(super) fn counted(&self) -> Switch {
        Switch {
            cpu_time: self.host.cpu_time.clone(),
            ..Switch::default()
        }
    }
}
