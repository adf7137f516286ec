//! The search: every state that the protocol can get into, whatever happens.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::Config;
use crate::bench::{Device, Effect, Fault, Kind, Shared, Snapshot};

use crate::count::Count;
use crate::judge::Violation;
use crate::machine::{Agent, Boot, Machine, NOISE, Slept};
use crate::sectors::{Sectors, Tears};
use crate::snapshots::snapshot_in;
use crate::state::{Candidate, Kept, Key, Records, State, after_cut};

/// What happened, and all that came before it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) violation: Violation,
    pub(crate) history: Vec<String>,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// States that differ.
    pub(crate) states: u64,
    /// Instants at which the power was cut.
    pub(crate) cuts: u64,
    /// Media that those cuts left.
    pub(crate) media: u64,
    pub(crate) sleeps: u64,
    pub(crate) power_ons: u64,
    pub(crate) committed: u64,
    pub(crate) in_doubt: u64,
    pub(crate) failed_sleeps: u64,
    pub(crate) wakes: u64,
    /// Of those, of snapshots.
    pub(crate) snapshot_wakes: u64,
    /// Snapshots committed.
    pub(crate) snapshots: u64,
    pub(crate) deleted: u64,
    pub(crate) cold_boots: u64,
    pub(crate) partially_restored: u64,
    /// Wakes of a part of a set's domains.
    pub(crate) partly_woken: u64,
    /// Cold boots whose medium failed so that nothing could be given up, on a
    /// machine without a count: that no protocol can help.
    pub(crate) helpless: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "states={} cuts={} media={} sleeps={} committed={} in_doubt={} failed={} power_ons={} wakes={} cold_boots={} partially_restored={} partly_woken={} helpless={}",
            self.states,
            self.cuts,
            self.media,
            self.sleeps,
            self.committed,
            self.in_doubt,
            self.failed_sleeps,
            self.power_ons,
            self.wakes,
            self.cold_boots,
            self.partially_restored,
            self.partly_woken,
            self.helpless,
        )?;
        if self.snapshots == 0 {
            return Ok(());
        }
        write!(
            f,
            " snapshots={} snapshot_wakes={} deleted={}",
            self.snapshots, self.snapshot_wakes, self.deleted
        )
    }
}

/// What a power-on is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerOn {
    Wake,
    ColdBoot,
}

struct Node {
    state: State,
    parent: Option<usize>,
    how: String,
}

pub(crate) struct Explorer {
    pub(crate) config: Config,
    pub(crate) shared: Shared,
    pub(crate) counts: Counts,
    pub(crate) machine: Machine,
    pub(crate) records: Records,
    nodes: Vec<Node>,
    seen: HashMap<Key, usize>,
    /// The state whose actions are being tried.
    current: Option<usize>,
}

impl Explorer {
    pub(crate) fn new(config: Config) -> Self {
        let shared = Shared::new(config);
        Explorer {
            config,
            machine: Machine::new(&shared),
            shared,
            counts: Counts::default(),
            records: Records::default(),
            nodes: Vec::new(),
            seen: HashMap::new(),
            current: None,
        }
    }

    /// A machine that is switched off for the first time, with an area of zeros.
    pub(crate) fn new_machine(&self) -> State {
        State {
            running: false,
            sectors: Sectors::default(),
            count: self.config.sealed.then_some(Count::NEW),
            used: 0,
            images: Vec::new(),
            sleeps: 0,
            candidate: None,
            kept: Kept::default(),
            loaded: BTreeSet::new(),
        }
    }

    /// Tries everything in every state that `starts` lead to, until no state is
    /// new.
    pub(crate) fn run(&mut self, starts: Vec<State>) -> Result<Counts, Found> {
        for start in starts {
            self.reach(start, || "start".into());
        }
        let mut next = 0;
        while next < self.nodes.len() {
            self.current = Some(next);
            let state = self.nodes[next].state.clone();
            if state.running {
                self.lose_power(&state);
                self.try_all(|explorer, fault| explorer.sleep(&state, fault))?;
                if self.config.snapshots {
                    self.ask(&state);
                    for what in [Agent::SaysWell, Agent::Deletes] {
                        self.try_all(|explorer, fault| explorer.manage(&state, what, fault))?;
                    }
                }
            } else {
                for what in [PowerOn::Wake, PowerOn::ColdBoot] {
                    self.try_all(|explorer, fault| explorer.power_on(&state, what, fault))?;
                }
            }
            next += 1;
        }
        self.counts.states = self.nodes.len() as u64;
        Ok(self.counts)
    }

    /// Does something without a fault, and then with every fault.
    fn try_all(
        &mut self,
        action: impl Fn(&mut Self, Option<Fault>) -> Result<(), Violation>,
    ) -> Result<(), Found> {
        let run = |explorer: &mut Self, fault| {
            action(explorer, fault).map_err(|violation| explorer.found(violation))
        };
        run(self, None)?;
        if !self.config.faults {
            return Ok(());
        }
        let kinds = self.shared.get().kinds.clone();
        for (device, kinds) in [Device::Disk, Device::Count].into_iter().zip(kinds) {
            for (nth, kind) in kinds.into_iter().enumerate() {
                for (effect, lasting) in effects(kind) {
                    let fault = Fault {
                        device,
                        nth,
                        effect: *effect,
                        lasting: *lasting,
                    };
                    run(self, Some(fault))?;
                }
            }
        }
        Ok(())
    }

    fn found(&self, violation: Violation) -> Found {
        let fault = self.shared.get().fault;
        let mut history = vec![format!("then, with {fault:?}: {violation:?}")];
        let mut at = self.current;
        while let Some(index) = at {
            let node = &self.nodes[index];
            history.push(node.how.clone());
            at = node.parent;
        }
        history.reverse();
        Found { violation, history }
    }

    /// Notes a state, if it is new.
    pub(crate) fn reach(&mut self, mut state: State, how: impl FnOnce() -> String) {
        let shared = self.shared.clone();
        let bench = shared.get();
        let key = state.key(&bench.contents, &mut self.records);
        if self.seen.contains_key(&key) {
            return;
        }
        state.forget_images(&bench.contents, &mut self.records);
        self.seen.insert(key, self.nodes.len());
        self.nodes.push(Node {
            state,
            parent: self.current,
            how: how(),
        });
    }

    /// Notes every state in which a machine may be after a power cut.
    fn reach_off(&mut self, state: &State, how: &dyn Fn() -> String) {
        self.counts.cuts += 1;
        let mut media = Vec::new();
        {
            let shared = self.shared.clone();
            let bench = shared.get();
            let tears = self.tears();
            let records = &mut self.records;
            after_cut(
                &state.sectors,
                &bench.contents,
                records,
                tears,
                &mut |sectors| {
                    media.push(sectors);
                },
            );
        }
        self.counts.media += media.len() as u64;
        for sectors in media {
            let off = State {
                running: false,
                sectors,
                count: state.count.map(Count::reopened),
                ..state.clone()
            };
            self.reach(off, how);
        }
    }

    pub(crate) fn tears(&self) -> Tears {
        if self.config.sealed {
            Tears::ByPage
        } else {
            Tears::EverySector
        }
    }

    /// The power goes while the OS runs: no image may wake any more.
    fn lose_power(&mut self, state: &State) {
        self.reach_off(state, &|| "the power goes while the OS runs".into());
    }

    /// Puts a state on the bench.
    pub(crate) fn load(&mut self, state: &State, fault: Option<Fault>) {
        let mut bench = self.shared.get();
        bench.reset(fault);
        bench.sectors.clone_from(&state.sectors);
        bench.count = state.count;
        bench.used = state.used;
        bench.images.clone_from(&state.images);
    }

    /// The state on the bench, after an action in `state`.
    pub(crate) fn result(&self, state: &State, candidate: Option<Candidate>) -> State {
        let bench = self.shared.get();
        let mut result = State {
            running: false,
            sectors: bench.sectors.clone(),
            count: bench.count,
            used: bench.used,
            images: bench.images.clone(),
            sleeps: state.sleeps,
            candidate,
            kept: state.kept.clone(),
            loaded: state.loaded.clone(),
        };
        drop(bench);
        self.doubt_snapshot(&mut result);
        result
    }

    /// Notes what power cuts during the action in `state` leave; `judge` says
    /// which image may wake after a cut.
    pub(crate) fn reach_cuts(
        &mut self,
        state: &State,
        judge: &dyn Fn(&Snapshot, &mut State),
        how: &dyn Fn() -> String,
    ) {
        let snapshots = std::mem::take(&mut self.shared.get().snapshots);
        let count = snapshots.len();
        for (number, snapshot) in snapshots.into_iter().enumerate() {
            let mut cut = State {
                running: false,
                sectors: snapshot.sectors.clone(),
                count: snapshot.count,
                used: snapshot.used,
                images: snapshot.images.clone(),
                ..state.clone()
            };
            judge(&snapshot, &mut cut);
            self.doubt_snapshot(&mut cut);
            self.reach_off(&cut, &|| {
                format!("{}, cut at instant {number} of {count}", how())
            });
        }
    }

    /// The OS sleeps.
    pub(crate) fn sleep(&mut self, state: &State, fault: Option<Fault>) -> Result<(), Violation> {
        let mut state = state.clone();
        state.sleeps += 1;
        let sleep = state.sleeps;
        self.load(&state, fault);
        self.shared.get().sleep = Some(sleep);
        self.machine.use_memory(sleep);
        let slept = self.machine.sleep(sleep);
        self.counts.sleeps += 1;
        self.check_bench([false; 2])?;
        let is_snapshot = self.was_asked(&state);
        let purpose = if is_snapshot { "snapshot" } else { "sleep" };
        let how = || format!("{purpose} {sleep} with {fault:?}: {slept:?}");
        let doubtful = Candidate {
            sleep,
            certain: false,
        };
        let judge = |snapshot: &Snapshot, cut: &mut State| {
            // The OS has not gone on: its image may wake if it is whole.
            cut.candidate = (snapshot.captured && !is_snapshot).then_some(doubtful);
            if snapshot.captured && is_snapshot {
                cut.kept.may.insert(sleep);
            }
        };
        self.reach_cuts(&state, &judge, &how);
        match slept {
            Slept::Committed => {
                self.counts.committed += 1;
                let certain = Candidate {
                    sleep,
                    certain: true,
                };
                let mut asleep = self.result(&state, (!is_snapshot).then_some(certain));
                if is_snapshot {
                    self.counts.snapshots += 1;
                    asleep
                        .kept
                        .replace(sleep, fault.is_some() && !self.config.sealed);
                }
                self.reach_off(&asleep, &how);
            }
            _ if fault.is_none() => return Err(Violation::NoSleep),
            Slept::InDoubt => {
                self.counts.in_doubt += 1;
                let mut reset = self.result(&state, (!is_snapshot).then_some(doubtful));
                if is_snapshot {
                    reset.kept.may.insert(sleep);
                }
                self.reach_off(&reset, &how);
            }
            Slept::Not => {
                self.counts.failed_sleeps += 1;
                let mut goes_on = self.result(&state, None);
                goes_on.running = true;
                self.reach(goes_on, how);
            }
        }
        if slept != Slept::Committed && !self.machine.memory_is(sleep) {
            return Err(Violation::OsMemoryChanged);
        }
        Ok(())
    }

    /// The machine is switched on.
    pub(crate) fn power_on(
        &mut self,
        state: &State,
        what: PowerOn,
        fault: Option<Fault>,
    ) -> Result<(), Violation> {
        let committed = {
            let bench = self.shared.get();
            let records = &mut self.records;
            [0, 1].map(|slot| State::commits(&state.sectors, slot, &bench.contents, records))
        };
        self.load(state, fault);
        self.machine.use_memory(NOISE);
        let boot = match what {
            PowerOn::Wake => self.machine.power_on(),
            PowerOn::ColdBoot => self.machine.cold_boot(),
        };
        self.counts.power_ons += 1;
        self.check_bench(committed)?;
        self.check_loading(state)?;
        let how = || format!("power-on ({what:?}) with {fault:?}: {boot:?}");
        let shared = self.shared.clone();
        let judge = |snapshot: &Snapshot, cut: &mut State| note_cut(&shared, snapshot, cut);
        self.reach_cuts(state, &judge, &how);
        let mut after = self.result(state, state.candidate);
        match boot {
            Boot::Mixed => return Err(Violation::Mixed),
            Boot::Woken(sleep) => {
                self.counts.wakes += 1;
                self.counts.partly_woken += u64::from(!self.machine.all_woke());
                self.check_wake(state, sleep, fault)?;
                self.note_wake(&mut after, sleep);
                after.running = true;
                self.reach(after, how);
            }
            Boot::Cold { gave_up } => {
                self.check_cold_boot(state, what, fault, gave_up)?;
                let helpless = !gave_up && !self.config.sealed && state.candidate.is_some();
                self.counts.cold_boots += 1;
                self.counts.helpless += u64::from(helpless);
                if !helpless {
                    after.candidate = None;
                    after.running = true;
                    self.reach(after, how);
                }
            }
            Boot::PartiallyRestored => {
                self.note_partial(state, &mut after, fault)?;
                self.reach_off(&after, &how);
            }
        }
        Ok(())
    }

    /// An image was let wake, and could not be loaded as a whole.
    fn note_partial(
        &mut self,
        state: &State,
        after: &mut State,
        fault: Option<Fault>,
    ) -> Result<(), Violation> {
        let snapshot = self.loaded_snapshot(state);
        if fault.is_none() {
            return Err(Violation::Lost);
        }
        self.counts.partially_restored += 1;
        match snapshot {
            Some(_) => after.candidate = None,
            None => note_loaded(after),
        }
        Ok(())
    }

    /// The image of a sleep has woken: nothing else may behind it, but snapshots.
    fn note_wake(&mut self, after: &mut State, sleep: u64) {
        if after.kept.may.contains(&sleep) {
            self.counts.snapshot_wakes += 1;
            after.candidate = None;
        } else {
            note_loaded(after);
        }
    }
}

/// How a command of this kind can go wrong, and whether for good.
fn effects(kind: Kind) -> &'static [(Effect, bool)] {
    const ALL: [(Effect, bool); 6] = [
        (Effect::Undone, false),
        (Effect::Undone, true),
        (Effect::Done, false),
        (Effect::Done, true),
        (Effect::Damaged, false),
        (Effect::Damaged, true),
    ];
    match kind {
        Kind::Read => &ALL,
        Kind::Write | Kind::Flush | Kind::Step => &ALL[..4],
    }
}

/// Notes in `cut` what a power-on had come to when the power was cut.
fn note_cut(shared: &Shared, snapshot: &Snapshot, cut: &mut State) {
    if let Some(slot) = snapshot.loading {
        match snapshot_in(shared, cut, &snapshot.sectors, slot) {
            Some(_) => cut.candidate = None,
            None => note_loaded(cut),
        }
    } else if snapshot.changed
        && let Some(candidate) = &mut cut.candidate
    {
        candidate.certain = false;
    }
}

/// The candidate has been loaded, if only in part: it must not be again.
pub(crate) fn note_loaded(state: &mut State) {
    if let Some(candidate) = state.candidate.take() {
        state.loaded.insert(candidate.sleep);
    }
}
