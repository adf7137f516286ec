//! What the OS does about snapshots, and which of them may wake.

use crate::bench::{CONFIGURATION, Effect, Fault, Shared};
use crate::explore::Explorer;
use crate::judge::Violation;
use crate::machine::{Agent, TRIES, configuration};
use crate::sectors::{SECTOR_BYTES, Sectors};
use crate::state::{Kept, Record, Records, State, asks};
use zerocopy::IntoBytes;

impl Explorer {
    /// Writes the configuration of a machine that takes snapshots, for good.
    pub(crate) fn configure(&self, sectors: &mut Sectors, asks: bool) {
        let page = configuration(asks);
        let content = self
            .shared
            .get()
            .contents
            .number(&page.as_bytes()[..SECTOR_BYTES]);
        sectors.settle(CONFIGURATION, content);
    }

    /// An agent in the OS has the next sleep be a snapshot.
    pub(crate) fn ask(&mut self, state: &State) {
        let mut asked = state.clone();
        self.configure(&mut asked.sectors, true);
        self.reach(asked, || "a snapshot is asked for".into());
    }

    /// Whether the sleep on the bench, of `state`, was for a snapshot: the firmware
    /// took the request out of the configuration.
    pub(crate) fn was_asked(&self, state: &State) -> bool {
        let bench = self.shared.get();
        let asked = |sectors: &Sectors| asks(&bench.contents, sectors.now(CONFIGURATION));
        asked(&state.sectors) && !asked(&bench.sectors)
    }

    /// An agent in the OS says something about the machine's snapshot.
    pub(crate) fn manage(
        &mut self,
        state: &State,
        what: Agent,
        fault: Option<Fault>,
    ) -> Result<(), Violation> {
        self.load(state, fault);
        self.shared.get().deleting = what == Agent::Deletes;
        let done = self.machine.manage(what).is_ok();
        let how = || format!("agent ({what:?}) with {fault:?}: {done}");
        let deletes = what == Agent::Deletes;
        self.reach_cuts(
            state,
            &|snapshot, cut| {
                cut.candidate = None;
                cut.kept.certain &= !(deletes && snapshot.changed);
            },
            &how,
        );
        let mut after = self.result(state, None);
        after.running = true;
        if deletes && done {
            self.counts.deleted += 1;
            after.kept = Kept::default();
        } else if deletes {
            after.kept.certain &= !self.shared.get().changed;
        }
        self.reach(after, how);
        Ok(())
    }

    /// A record that cannot be read twice in a row is given up, as nobody knows what it
    /// says: reads that stay damaged may cost the snapshot.
    pub(crate) fn doubt_snapshot(&self, state: &mut State) {
        let fault = self.shared.get().fault;
        let stays = |fault: Fault| fault.effect == Effect::Damaged && fault.lasting;
        state.kept.certain &= !fault.is_some_and(stays);
    }

    /// Whether the snapshot that a sleep took may wake.
    pub(crate) fn may_wake(state: &State, sleep: u64) -> bool {
        state.kept.may.contains(&sleep)
    }

    /// Whether the machine's snapshot must wake at a power-on of `state` without a
    /// fault: not when the latest wake of another image failed, which is named
    /// first, and not when it has failed too often.
    pub(crate) fn snapshot_must_wake(&mut self, state: &State) -> bool {
        let bench = self.shared.get();
        let records = &mut self.records;
        let excused = state.records(&bench.contents, records).any(|record| {
            matches!(
                record,
                Record::Over {
                    unreported: true,
                    ..
                } | Record::Snapshot { tries: TRIES.., .. }
            )
        });
        state.kept.certain && !excused
    }
}

/// The sleep that took the snapshot in a slot; `None` where the slot's record keeps
/// none.
pub(crate) fn snapshot_in(
    shared: &Shared,
    state: &State,
    sectors: &Sectors,
    slot: usize,
) -> Option<u64> {
    let bench = shared.get();
    let content = sectors.now(crate::bench::RECORDS[slot]);
    match Records::default().read(&bench.contents, content) {
        Record::Snapshot { checksum, .. } => {
            Some(state.image(slot, checksum).map_or(0, |image| image.sleep))
        }
        _ => None,
    }
}
