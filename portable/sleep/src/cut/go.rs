//! Go: from a power-on to the instruction at which the power failed.

use super::find::{CutReport, Found, find, last_sequence, running};
use super::guard::{Guard, Prover, advance};
use super::layout::Place;
use super::line::Line;
use super::misfit::Misfit;
use super::proof::Proof;
use super::reason::CutReason;
use super::wear::{self, WearWords};
use super::{CutMemory, put};
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// The machine that goes on.
pub trait GoMachine: Prover {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// What is needed to put everything back.
    type State;

    /// Whether the memory controller tells of an error that cannot be corrected.
    fn has_memory_error(&self) -> bool;

    /// Whether the controller can wipe memory.
    fn can_wipe(&self) -> bool;

    /// Wipes memory. What was loaded into it at this power-on may be lost with all else: the
    /// machine is to be reset.
    fn wipe(&self);

    /// How many words the wear registers have.
    fn wear_words(&self) -> usize;

    /// Puts the wear registers back: memory that they map is as it was.
    fn put_back_wear(&self, words: &WearWords);

    /// What they hold. All that was stored to memory that they map is there, and nothing more
    /// is stored to it until the harts are released.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn wear(&self) -> Result<WearWords, CutReason>;

    /// Reads all of the record, and finds that it fits this machine. Nothing is touched.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn check(&self) -> Result<Self::State, CutReason>;

    /// Waits until the power is good, and will hold up for another cut.
    fn wait_for_power(&self);

    /// Puts memory, devices and clocks back as they were. Done twice, it is done once: the
    /// power may fail midway.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a device is not what it was. None reaches memory then.
    fn restore(&self, state: Self::State) -> Result<(), CutReason>;
}

/// That everything is as it was, and that the cut will not be gone on with again: the
/// harts may be released. Nothing else makes one.
#[derive(Debug)]
pub struct Ready(CutReport);

impl Ready {
    /// What is told of the cut.
    #[must_use]
    pub fn report(&self) -> CutReport {
        self.0
    }
}

/// Why no cut is gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGo {
    /// There is none, or it is of no use: the machine boots without it.
    Cold(Option<CutReason>),
    /// Everything was put back, and then it must not be gone on with: the machine is to be
    /// reset, and says so at the next start.
    Reset(CutReason),
}

/// Gives up whatever cut there is: the next start will know of none.
pub fn discard(memory: &impl CutMemory) {
    // Of a line that is written over half may be in memory when the power goes: where this one
    // says of which cut the machine ran, another must say first that it is over.
    end(memory);
    let consumed = Line::consumed(last_sequence(memory));
    put(memory, Place::Consumed, &consumed);
}

/// Says that the OS ends in order: it has the machine switched off or reset, or sleeps. Where
/// a machine that was gone on with ends without this, and without another cut, the next start
/// says so.
pub fn end(memory: &impl CutMemory) {
    if let Some(sequence) = running(memory) {
        let ended = Line::begun(sequence.saturating_add(1), CutReason::Ended);
        put(memory, Place::Begun, &ended);
    }
}

/// Goes on with a cut that was [found](find()), as far as the harts' release; or gives up
/// one that is of no use, or that does not fit. Either way no cut up to now is gone on with
/// any more, by the record and by the vault, and the machine knows what proves its next.
///
/// # Errors
///
/// [`NoGo`].
pub fn go<M: GoMachine>(machine: &M) -> Result<Ready, NoGo> {
    // Before anything in memory is believed; told by an earlier Stop, or now.
    let found = {
        let guard = machine.with_vault(Guard::at_start);
        find(machine.record(), &guard)
    };
    let told = found == Found::Refused(CutReason::MemoryError);
    if told || machine.has_memory_error() && !matches!(found, Found::Refused(CutReason::Wiped)) {
        return Err(refuse_memory(machine));
    }
    let reason = match found {
        Found::Nothing => None,
        Found::Refused(reason) => Some(reason),
        Found::Cut(report) => match prepare(machine, report) {
            Ok(state) => return finish(machine, state, report),
            Err(reason) => Some(reason),
        },
    };
    give_up(machine, machine.record());
    Err(NoGo::Cold(reason))
}

/// All that may take long, or fail, before anything is touched.
///
/// The wear registers come first: before, nobody finds in memory what was there.
fn prepare<M: GoMachine>(machine: &M, report: CutReport) -> Result<M::State, CutReason> {
    if report.wear_words != machine.wear_words() as u64 {
        return Err(Misfit::WearRegisters.into());
    }
    let words = wear::saved(machine.record(), report.sequence, report.wear_words)?;
    if !words.is_empty() {
        machine.put_back_wear(&words);
    }
    let state = machine.check()?;
    let has_room = machine.with_vault(|vault| match vault {
        VaultState::Open(vault) => vault.make_room().is_ok(),
        VaultState::Absent | VaultState::Broken(_) => true,
    });
    if !has_room {
        return Err(CutReason::Vault);
    }
    machine.wait_for_power();
    Ok(state)
}

/// What is put back stays so until the vault's number is moved on: until then another power
/// failure leads to another Go. A device that is not what it was leads to a cold boot: the cut
/// is given up, as any other that is refused.
///
/// What follows the second look at the power is done within the hold-up, whatever comes: a
/// few words of flash and a line, and the harts are released. If the power fails there, they
/// stop again.
fn finish<M: GoMachine>(machine: &M, state: M::State, report: CutReport) -> Result<Ready, NoGo> {
    if let Err(reason) = restore(machine, state, report) {
        give_up(machine, machine.record());
        return Err(NoGo::Cold(Some(reason)));
    }
    machine.wait_for_power();
    let record = machine.record();
    if machine.has_memory_error() {
        // Devices reach memory again.
        begin_again(record, CutReason::MemoryError);
        return Err(NoGo::Reset(CutReason::MemoryError));
    }
    match next(machine) {
        Ok(proof) => {
            put(record, Place::Consumed, &Line::running(report.sequence));
            machine.keep(Ok(proof));
            Ok(Ready(report))
        }
        Err(_) => {
            begin_again(record, CutReason::Vault);
            Err(NoGo::Reset(CutReason::Vault))
        }
    }
}

/// Puts everything back. Where memory's wear is levelled, what is stored to it for that may
/// change its registers: until they are saved again the record says that they are lost, so
/// that a power that fails without a hold-up leads to a cold boot that says so.
fn restore<M: GoMachine>(machine: &M, state: M::State, report: CutReport) -> Result<(), CutReason> {
    if report.wear_words == 0 {
        return machine.restore(state);
    }
    wear::forget(machine.record());
    machine.restore(state)?;
    wear::save(machine.record(), report.sequence, &machine.wear()?);
    Ok(())
}

/// Gives everything up that memory holds, and wipes it, if the controller can. The next start
/// says why, and wipes nothing more, whatever the controller tells then.
fn refuse_memory<M: GoMachine>(machine: &M) -> NoGo {
    give_up(machine, machine.record());
    if !machine.can_wipe() {
        return NoGo::Cold(Some(CutReason::MemoryError));
    }
    begin_again(machine.record(), CutReason::Wiped);
    machine.wipe();
    let is_told = machine.record().line(Place::Begun).read_begun().is_some();
    match is_told || !machine.has_memory_error() {
        true => NoGo::Reset(CutReason::MemoryError),
        // The next start would not know that this one has done it.
        false => NoGo::Cold(Some(CutReason::MemoryError)),
    }
}

/// Has the next start say so.
fn begin_again(record: &impl CutMemory, reason: CutReason) {
    let sequence = last_sequence(record).saturating_add(1);
    put(record, Place::Begun, &Line::begun(sequence, reason));
}

/// Sees to it that no cut up to now is gone on with.
pub(super) fn give_up(machine: &impl Prover, record: &impl CutMemory) {
    let proof = next(machine);
    match &proof {
        // Numbers that are not the vault's would hide those that will be.
        Ok(Proof::Tags { number, .. }) if last_sequence(record) >= *number => {
            put(record, Place::Begun, &Line::EMPTY);
            put(record, Place::Committed, &Line::EMPTY);
            put(record, Place::Consumed, &Line::consumed(number - 1));
        }
        _ => discard(record),
    }
    machine.keep(proof);
}

fn next(machine: &impl Prover) -> Result<Proof, VaultFault> {
    machine.with_vault(|vault| advance(vault, || machine.new_key()))
}
