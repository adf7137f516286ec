//! Sleeps torn in every way, without the reduction that the search relies on.

use std::collections::HashSet;

use crate::count::Count;
use crate::explore::{Explorer, PowerOn, note_loaded};
use crate::judge::Violation;
use crate::machine::{Boot, NOISE, Slept};
use crate::sectors::every_outcome;
use crate::state::{Candidate, State};

impl Explorer {
    /// No reduction: every subset of what a sleep of `state` had written and not
    /// flushed, at every instant of it. From each medium that differs the machine
    /// is switched on, sleeps, and wakes, all without a fault; `depth` further
    /// sleeps are torn in the same way before that. Tells how many media that
    /// were.
    pub(crate) fn tear_exactly(&mut self, state: &State, depth: u32) -> Result<u64, Violation> {
        self.load(state, None);
        let sleep = state.sleeps + 1;
        self.shared.get().sleep = Some(sleep);
        self.machine.use_memory(sleep);
        if self.machine.sleep(sleep) != Slept::Committed {
            return Err(Violation::NoSleep);
        }
        self.shared.get().note();
        let snapshots = std::mem::take(&mut self.shared.get().snapshots);
        let last = snapshots.len() - 1;
        let mut seen = HashSet::new();
        for (number, snapshot) in snapshots.into_iter().enumerate() {
            let mut media = Vec::new();
            let listed: Vec<u32> = snapshot.sectors.pending.keys().copied().collect();
            every_outcome(&snapshot.sectors, &listed, self.tears(), &mut |sectors| {
                media.push(sectors);
            });
            let count = snapshot.count.map(Count::reopened);
            let certain = number == last;
            for sectors in media {
                if !seen.insert((sectors.durable.clone(), count.map(|c| c.kept), certain)) {
                    continue;
                }
                let candidate = snapshot.captured.then_some(Candidate { sleep, certain });
                let off = State {
                    sectors,
                    count,
                    used: snapshot.used,
                    images: snapshot.images.clone(),
                    sleeps: sleep,
                    candidate,
                    ..state.clone()
                };
                let running = self.wake_once(&off)?;
                if depth > 0 {
                    self.counts.media += self.tear_exactly(&running, depth - 1)?;
                } else {
                    self.sleep_and_wake(&running)?;
                }
            }
        }
        Ok(seen.len() as u64)
    }

    /// A power-on without a fault; the state in which the OS then runs.
    fn wake_once(&mut self, off: &State) -> Result<State, Violation> {
        self.load(off, None);
        self.machine.use_memory(NOISE);
        let boot = self.machine.power_on();
        self.check_loading(off)?;
        match boot {
            Boot::Woken(sleep) => {
                self.counts.wakes += 1;
                self.check_wake(off, sleep, None)?;
            }
            Boot::Cold { gave_up } => {
                self.counts.cold_boots += 1;
                self.check_cold_boot(off, PowerOn::Wake, None, gave_up)?;
            }
            Boot::Mixed => return Err(Violation::Mixed),
            Boot::PartiallyRestored => return Err(Violation::Lost),
        }
        let mut running = self.result(off, off.candidate);
        note_loaded(&mut running);
        running.running = true;
        Ok(running)
    }

    fn sleep_and_wake(&mut self, running: &State) -> Result<(), Violation> {
        let mut state = running.clone();
        state.sleeps += 1;
        let sleep = state.sleeps;
        self.load(&state, None);
        self.shared.get().sleep = Some(sleep);
        self.machine.use_memory(sleep);
        if self.machine.sleep(sleep) != Slept::Committed {
            return Err(Violation::NoSleep);
        }
        let certain = Candidate {
            sleep,
            certain: true,
        };
        let mut asleep = self.result(&state, Some(certain));
        // All that counts was flushed, so nothing that was not is needed.
        asleep.sectors.pending.clear();
        asleep.count = asleep.count.map(Count::reopened);
        self.wake_once(&asleep).map(drop)
    }
}
