//! A machine with RAM that is persistent, behind a cache, and flash that may hold a vault.
//! Every step of it may be the last one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use poorwill_image::Digest;
use poorwill_memory::Page;
use poorwill_sleep::cut::{
    CutMemory, CutReason, GoMachine, Layout, Line, PartEntry, Place, Proof, Prover, RequestMachine,
    StopMachine, WearWords,
};
use poorwill_sleep::{VaultFault, VaultState};
use poorwill_vault::{CutVault, Key};
use zerocopy::{FromBytes, IntoBytes};

use crate::flash::{Flash, TestVault};
use crate::traffic::Traffic;
use crate::wear::Wear;

pub(crate) const HARTS: usize = 3;
pub(crate) const PART_WORDS: usize = 8;
/// The word of a hart's part that says what interrupts it.
const INTERRUPTED: usize = PART_WORDS - 1;
/// The OS's memory, in words of a line each.
pub(crate) const OS_LINES: usize = 4;

/// A line of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    Record(usize),
    Part(usize),
    Os(usize),
    /// Where the key of the next cut is kept.
    Key,
}

pub(crate) type Words = [u64; PART_WORDS];
pub(crate) type Memory = BTreeMap<At, Words>;
/// What the OS has: its harts and its memory.
pub(crate) type Os = ([u64; HARTS], [Words; OS_LINES]);

/// What outlives the power.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) memory: Memory,
    pub(crate) flash: Flash,
    /// The OS's memory is wear-levelled.
    pub(crate) is_levelled: bool,
}

impl Kept {
    /// The line of the record there.
    pub(crate) fn record(place: Place) -> At {
        At::Record(layout().line_offset(place))
    }

    /// The key of a cut is in memory, or a part of one.
    pub(crate) fn has_key(&self) -> bool {
        self.memory
            .get(&At::Key)
            .is_some_and(|words| *words != [0; _])
    }
}

pub(crate) fn layout() -> Layout {
    Layout::new(HARTS, 1)
}

/// What memory holds when the power has gone: of the dirty lines, those that `keep` says.
fn lost(machine: &Machine, keep: u64) -> Memory {
    let mut memory = machine.memory.borrow().clone();
    let mut wear = machine.wear.get();
    for (number, (at, words)) in machine.dirty.borrow().iter().enumerate() {
        match keep >> (2 * number % 64) & 3 {
            0 => {}
            1 => {
                // Half of its words.
                let line = memory.entry(wear.cell(*at)).or_default();
                line[..PART_WORDS / 2].copy_from_slice(&words[..PART_WORDS / 2]);
            }
            _ => wear.store(&mut memory, *at, *words),
        }
    }
    memory
}

/// The machine, from a power-on to the next.
#[derive(Debug)]
pub(crate) struct Machine {
    memory: RefCell<Memory>,
    dirty: RefCell<Memory>,
    /// The memory controller's registers.
    wear: Cell<Wear>,
    /// What they held before the flush, or are to hold behind all else.
    early: Cell<Wear>,
    pub(crate) flash: Cell<Flash>,
    /// What the flash is to hold once the step is done.
    pub(crate) writes: Cell<Option<Flash>>,
    /// What the harts execute.
    harts: RefCell<[u64; HARTS]>,
    /// Steps until the power goes, and what memory it leaves, chosen by the number.
    pub(crate) fuel: Cell<Option<(usize, u64)>>,
    pub(crate) left: RefCell<Option<Kept>>,
    /// One hart does not stop.
    pub(crate) stuck: Cell<Option<u64>>,
    /// One hart cannot write its caches back.
    pub(crate) unclean: Cell<Option<u64>>,
    /// A hart uses the key, and does not end.
    pub(crate) is_key_used: Cell<bool>,
    /// The calls of Stop so far.
    pub(crate) calls: RefCell<Vec<&'static str>>,
    pub(crate) steps: Cell<usize>,
    /// A step that is left out, to see that it is missed.
    pub(crate) mutant: Cell<Option<Mutant>>,
    /// A write of the flash that fails, counted from 1.
    pub(crate) failing_write: Cell<usize>,
    pub(crate) proof: RefCell<Option<Proof>>,
    /// An OS has started without the record since.
    pub(crate) started_without: Cell<bool>,
    /// The memory controller tells of an error; from then on that Go puts devices back.
    pub(crate) has_error: Cell<bool>,
    /// Lines of the record that were written back one by one.
    pub(crate) single_lines: Cell<u64>,
    pub(crate) fails_in_restore: Cell<bool>,
    /// It wipes memory, and the record with it.
    pub(crate) can_wipe: Cell<bool>,
    pub(crate) wipes_record: Cell<bool>,
    /// A device is not what it was.
    pub(crate) changed: Cell<Option<CutReason>>,
    /// Why no cut is to be taken.
    pub(crate) fault: Cell<Option<VaultFault>>,
    /// What cannot be kept: a device, or a hart's state.
    pub(crate) unkept: Cell<Option<CutReason>>,
    /// What harts and devices send, and whether these are quiet.
    pub(crate) traffic: Traffic,
    /// What interrupts each hart behind Go.
    pub(crate) interrupted: Cell<[u64; HARTS]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    NoFlush,
    NoLineWrittenBack(Place),
    /// The vault does not move.
    NoNextCut,
    /// The key is not forgotten.
    NotForgotten,
    /// Devices that were quieted stay so.
    NotResumed,
    /// The wear registers are not put back, or behind all else.
    NoWear,
    LateWear,
    /// They are read before the caches are written back; or not again behind all that Go
    /// stores.
    EarlyWear,
    OldWear,
    /// Harts write their parts as they stop; or before devices are quiet.
    PartsAtStop,
    PartsBeforeQuiet,
    /// Controllers go on sending messages.
    NotShut,
    /// Harts do not look for what others have posted.
    NotTaken,
}

impl Machine {
    /// At a power-on.
    pub(crate) fn new(kept: Kept) -> Self {
        Machine {
            memory: RefCell::new(kept.memory),
            dirty: RefCell::default(),
            wear: Cell::new(Wear::at_power_on(kept.is_levelled)),
            early: Cell::new(Wear::at_power_on(kept.is_levelled)),
            flash: Cell::new(kept.flash),
            writes: Cell::new(None),
            harts: RefCell::default(),
            fuel: Cell::new(None),
            left: RefCell::new(None),
            stuck: Cell::new(None),
            unclean: Cell::new(None),
            is_key_used: Cell::new(false),
            calls: RefCell::default(),
            steps: Cell::new(0),
            mutant: Cell::new(None),
            failing_write: Cell::new(0),
            proof: RefCell::new(None),
            started_without: Cell::new(false),
            has_error: Cell::new(false),
            single_lines: Cell::new(0),
            fails_in_restore: Cell::new(false),
            can_wipe: Cell::new(false),
            wipes_record: Cell::new(false),
            changed: Cell::new(None),
            fault: Cell::new(None),
            unkept: Cell::new(None),
            traffic: Traffic::default(),
            interrupted: Cell::default(),
        }
    }

    /// Whether the power has not gone yet.
    pub(crate) fn is_on(&self) -> bool {
        self.left.borrow().is_none()
    }

    pub(crate) fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        self.traffic.step(self.steps.get());
        match self.fuel.get() {
            Some((0, _)) | None => {}
            Some((1, keep)) => {
                self.fuel.set(Some((0, keep)));
                // A word of flash is written or not, by its last bit.
                let torn = self.writes.get().filter(|_| keep & 1 == 1);
                *self.left.borrow_mut() = Some(Kept {
                    is_levelled: self.wear.get().is_on,
                    memory: lost(self, keep),
                    flash: torn.unwrap_or(self.flash.get()),
                });
            }
            Some((steps, keep)) => self.fuel.set(Some((steps - 1, keep))),
        }
    }

    fn call(&self, name: &'static str) {
        self.calls.borrow_mut().push(name);
    }

    fn write(&self, at: At, words: Words) {
        self.dirty.borrow_mut().insert(at, words);
        self.step();
    }

    fn read(&self, at: At) -> Words {
        let dirty = self.dirty.borrow().get(&at).copied();
        let cell = self.wear.get().cell(at);
        let memory = self.memory.borrow().get(&cell).copied();
        dirty.or(memory).unwrap_or_default()
    }

    fn clean(&self, at: At) {
        if let Some(words) = self.dirty.borrow_mut().remove(&at) {
            let mut wear = self.wear.get();
            wear.store(&mut self.memory.borrow_mut(), at, words);
            self.wear.set(wear);
        }
        self.step();
    }

    fn write_part(&self, part: usize, sequence: u64, words: Words) {
        self.write(At::Part(part), words);
        let bytes = size_of::<Words>() as u64;
        let digest = self.with_proof(|proof| self.digest(part, bytes, proof));
        let digest = digest.unwrap().unwrap();
        self.store(
            Place::Part(part),
            &Line::part(sequence, PartEntry { bytes, digest }),
        );
    }

    pub(crate) fn os(&self) -> Os {
        let memory = std::array::from_fn(|line| self.read(At::Os(line)));
        (*self.harts.borrow(), memory)
    }

    /// The OS runs.
    pub(crate) fn run(&self, seed: u64) {
        self.harts
            .replace(std::array::from_fn(|hart| seed + hart as u64));
        for line in 0..OS_LINES {
            self.write(At::Os(line), [seed ^ line as u64; PART_WORDS]);
        }
    }

    /// All of memory, caches and all.
    pub(crate) fn as_harts_see(&self) -> Memory {
        let mut memory = self.memory.borrow().clone();
        memory.extend(self.dirty.borrow().iter());
        memory
    }

    /// Loads and stores the OS's memory, as what puts devices back does.
    fn store_in_go(&self) {
        if self.mutant.get() != Some(Mutant::LateWear) {
            self.early.set(self.wear.get());
        }
        for line in 0..OS_LINES {
            let words = self.read(At::Os(line));
            self.write(At::Os(line), words);
        }
        if self.mutant.get() == Some(Mutant::LateWear) {
            self.wear.set(self.early.get());
        }
        // Some of it reaches memory at once.
        (0..OS_LINES / 2).for_each(|line| self.clean(At::Os(line)));
    }

    /// Has each hart write its part that `is_one`.
    fn write_parts(&self, sequence: u64, is_one: impl Fn(usize) -> bool) {
        let harts = *self.harts.borrow();
        for (place, context) in harts.into_iter().enumerate().filter(|(at, _)| is_one(*at)) {
            let mut words = [context; PART_WORDS];
            words[INTERRUPTED] = match self.mutant.get() {
                Some(Mutant::NotTaken) => self.traffic.in_file(place),
                _ => self.traffic.take(place),
            };
            self.write_part(Layout::hart(place), sequence, words);
        }
    }

    /// What the next power-on finds.
    pub(crate) fn power_off(&self, keep: u64) -> Kept {
        let left = self.left.borrow_mut().take();
        left.unwrap_or_else(|| Kept {
            is_levelled: self.wear.get().is_on,
            memory: lost(self, keep),
            flash: self.flash.get(),
        })
    }
}

impl CutMemory for Machine {
    fn layout(&self) -> Layout {
        layout()
    }

    fn line(&self, place: Place) -> Line {
        let words = self.read(Kept::record(place));
        Line::read_from_bytes(words.as_bytes()).unwrap()
    }

    fn store(&self, place: Place, line: &Line) {
        let words = Words::read_from_bytes(line.as_bytes()).unwrap();
        self.write(Kept::record(place), words);
    }

    fn write_back(&self, place: Place) {
        self.single_lines.set(self.single_lines.get() + 1);
        if self.mutant.get() == Some(Mutant::NoLineWrittenBack(place)) {
            return;
        }
        self.clean(Kept::record(place));
    }

    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest> {
        let mut page = Page::ZERO;
        page.0[..PART_WORDS].copy_from_slice(&self.read(At::Part(part)));
        let digest = proof.of_part(part, &[page], bytes);
        digest.filter(|_| bytes == size_of::<Words>() as u64)
    }
}

impl StopMachine for Machine {
    fn record(&self) -> &impl CutMemory {
        self
    }

    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        let proof = self.proof.borrow();
        proof.as_ref().map(job).ok_or(CutReason::Vault)
    }

    fn forget(&self) -> Result<(), CutReason> {
        self.call("forget");
        if self.is_key_used.get() {
            return Err(CutReason::KeyLeft);
        }
        if self.mutant.get() != Some(Mutant::NotForgotten) {
            self.proof.replace(None);
            self.write(At::Key, [0; PART_WORDS]);
        }
        Ok(())
    }

    fn halt(&self, sequence: u64) -> Result<(), CutReason> {
        self.call("halt");
        if let Some(hart) = self.stuck.get() {
            return Err(CutReason::HartNotStopped(hart));
        }
        let mut is_written = [false; HARTS];
        loop {
            self.step();
            if self.mutant.get() == Some(Mutant::PartsAtStop) {
                for (place, is_written) in is_written.iter_mut().enumerate() {
                    let writes = self.traffic.has_stopped(place) && !*is_written;
                    *is_written |= writes;
                    self.write_parts(sequence, |at| at == place && writes);
                }
            }
            if self.traffic.have_stopped() {
                break;
            }
        }
        if self.mutant.get() == Some(Mutant::PartsBeforeQuiet) {
            self.write_parts(sequence, |_| true);
        }
        Ok(())
    }

    fn shut(&self) -> Result<(), CutReason> {
        self.call("shut");
        if self.mutant.get() != Some(Mutant::NotShut) {
            self.traffic.is_shut.set(true);
        }
        self.step();
        Ok(())
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        self.call("gather");
        let are_written = [Mutant::PartsAtStop, Mutant::PartsBeforeQuiet].map(Some);
        if !are_written.contains(&self.mutant.get()) {
            self.write_parts(sequence, |_| true);
        }
        Ok(())
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        self.call("capture");
        self.early.set(self.wear.get());
        let mut shared = [sequence; PART_WORDS];
        shared[..HARTS].copy_from_slice(&self.traffic.pending());
        self.write_part(Layout::SHARED, sequence, shared);
        self.write_part(Layout::TREE, sequence, [7; PART_WORDS]);
        Ok(())
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        self.call("quiet");
        self.traffic.is_quiet.set(true);
        self.step();
        self.unkept.get().map_or(Ok(()), Err)?;
        self.write_part(Layout::DEVICES, sequence, [9; PART_WORDS]);
        Ok(())
    }

    fn ticks(&self) -> u64 {
        17
    }

    fn flush(&self) -> Result<(), CutReason> {
        self.call("flush");
        if self.mutant.get() == Some(Mutant::NoFlush) {
            return Ok(());
        }
        if let Some(hart) = self.unclean.get() {
            return Err(CutReason::CachesLeft(hart));
        }
        let all: Vec<At> = self.dirty.borrow().keys().copied().collect();
        all.into_iter().for_each(|at| self.clean(at));
        Ok(())
    }

    fn has_memory_error(&self) -> bool {
        self.call("has_memory_error");
        self.has_error.get()
    }

    fn wear(&self) -> WearWords {
        self.call("wear");
        self.step();
        match self.mutant.get() {
            Some(Mutant::EarlyWear) => self.early.get().words(),
            _ => self.wear.get().words(),
        }
    }
}

impl RequestMachine for Machine {
    fn resume(&self) {
        if self.mutant.get() != Some(Mutant::NotResumed) {
            self.traffic.is_quiet.set(false);
            self.traffic.is_shut.set(false);
        }
        self.step();
    }
}

impl Prover for Machine {
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
        match self.flash.get() {
            Flash::Absent => job(VaultState::Absent),
            Flash::Broken => job(VaultState::Broken(crate::flash::FAULT)),
            Flash::Vault { .. } => job(VaultState::Open(&mut TestVault::new(self))),
        }
    }

    fn new_key(&self) -> Key {
        Key::new(&[0x33; 32])
    }

    fn keep(&self, proof: Result<Proof, VaultFault>) {
        self.fault.set(proof.as_ref().err().copied());
        if let Ok(Proof::Tags { number, .. }) = &proof {
            self.write(At::Key, [*number; PART_WORDS]);
        }
        self.proof.replace(proof.ok());
    }
}

impl GoMachine for Machine {
    /// Contexts, and what interrupts them.
    type State = [[u64; HARTS]; 2];

    fn record(&self) -> &impl CutMemory {
        self
    }

    fn is_last_record(&self) -> bool {
        !self.started_without.get()
    }

    fn has_memory_error(&self) -> bool {
        self.has_error.get()
    }

    fn can_wipe(&self) -> bool {
        self.can_wipe.get()
    }

    fn wipe(&self) {
        let is_kept = |at: &At| matches!(at, At::Record(_)) && !self.wipes_record.get();
        self.memory.borrow_mut().retain(|at, _| is_kept(at));
        self.dirty.borrow_mut().retain(|at, _| is_kept(at));
        self.has_error.set(false);
        self.step();
    }

    fn wear_words(&self) -> usize {
        self.wear.get().words().len()
    }

    fn put_back_wear(&self, words: &WearWords) {
        self.step();
        let wear = Wear::of(words);
        match self.mutant.get() {
            Some(Mutant::NoWear) => {}
            Some(Mutant::LateWear) => self.early.set(wear),
            _ => self.wear.set(wear),
        }
    }

    fn wear(&self) -> Result<WearWords, CutReason> {
        if self.mutant.get() == Some(Mutant::OldWear) {
            return Ok(self.early.get().words());
        }
        StopMachine::flush(self)?;
        Ok(StopMachine::wear(self))
    }

    fn check(&self) -> Result<Self::State, CutReason> {
        self.step();
        let parts: [Words; HARTS] =
            std::array::from_fn(|place| self.read(At::Part(Layout::hart(place))));
        let shared = self.read(At::Part(Layout::SHARED));
        let interrupted = |place: usize| parts[place][INTERRUPTED] | shared[place];
        Ok([parts.map(|part| part[0]), std::array::from_fn(interrupted)])
    }

    fn wait_for_power(&self) {
        self.step();
    }

    fn restore(&self, [harts, interrupted]: Self::State) -> Result<(), CutReason> {
        self.step();
        self.changed.get().map_or(Ok(()), Err)?;
        self.harts.replace(harts);
        self.interrupted.set(interrupted);
        self.has_error
            .set(self.has_error.get() || self.fails_in_restore.get());
        if self.wear.get().is_on {
            self.store_in_go();
        }
        Ok(())
    }
}
