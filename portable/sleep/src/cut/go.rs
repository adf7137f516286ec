//! Go: the steps from a power-on to the instruction at which Stop stopped each hart.

use super::find::{CutReport, Found, find, last_sequence, running};
use super::guard::{Guard, Prover, advance};
use super::layout::Place;
use super::line::Line;
use super::memory::{CutMemory, put};
use super::misfit::Misfit;
use super::proof::Proof;
use super::reason::CutReason;
use super::wear::{self, WearWords};
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// The machine that resumes a cut.
pub trait GoMachine: Prover {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// Returns whether the last start of an OS had this record. After a start without a record, or
    /// with one in another place, memory holds what another OS has left.
    fn is_last_record(&self) -> bool;

    /// The state that [`check`](Self::check) has read, for [`restore`](Self::restore).
    type State;

    /// Returns whether the memory controller reports an uncorrectable error.
    fn has_memory_error(&self) -> bool;

    /// Returns whether the memory controller can wipe memory.
    fn can_wipe(&self) -> bool;

    /// Wipes memory. This may also wipe the files that were loaded at this power-on, so the machine
    /// must be reset.
    fn wipe(&self);

    /// Number of words of the wear registers.
    fn wear_words(&self) -> usize;

    /// Restores the wear registers. After this, reads of the memory that they map return the stored
    /// data.
    fn put_back_wear(&self, words: &WearWords);

    /// Reads the wear registers. All earlier stores to memory that they map have arrived there, and
    /// no hart stores to it before the harts are released.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn wear(&self) -> Result<WearWords, CutReason>;

    /// Reads the whole record, and checks that it fits this machine. Changes no state.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn check(&self) -> Result<Self::State, CutReason>;

    /// Waits until the power is good, so that it lasts for another cut.
    fn wait_for_power(&self);

    /// Restores memory, devices and clocks. A second run has the same result, because the power may
    /// fail during the first.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a device changed. No device can access memory then.
    fn restore(&self, state: Self::State) -> Result<(), CutReason>;
}

/// Proof that everything is restored, and that the cut cannot be resumed again: the harts may be
/// released. Only [`go()`] makes it.
#[derive(Debug)]
pub struct Ready(CutReport);

impl Ready {
    /// The facts of the cut.
    #[must_use]
    pub fn report(&self) -> CutReport {
        self.0
    }
}

/// Why no cut is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGo {
    /// There is no cut, or it cannot be resumed: the machine boots cold.
    Cold(Option<CutReason>),
    /// Everything was restored, but the cut must not be resumed. The machine must be reset, and the
    /// next start reports the reason.
    Reset(CutReason),
}

/// Discards the cut in the record: the next start finds no cut.
pub fn discard(memory: &impl CutMemory) {
    // The power may be lost while a line is half overwritten. If the old line says that the machine
    // has resumed a cut, another line must first say that the cut is over.
    end(memory);
    let consumed = Line::consumed(last_sequence(memory));
    put(memory, Place::Consumed, &consumed);
}

/// Notes that the OS ends in an orderly way: it asked for a power-off or a reset, or sleeps. After
/// a resumed cut without this note, and without another cut, the next start reports an unexpected
/// loss of power or reset.
pub fn end(memory: &impl CutMemory) {
    if let Some(sequence) = running(memory) {
        let ended = Line::begun(sequence.saturating_add(1), CutReason::Ended);
        put(memory, Place::Begun, &ended);
    }
}

/// Resumes the cut that [`find()`] has found, up to the release of the harts. Discards a cut that
/// cannot be resumed. In both cases the record and the vault make all cuts up to now invalid, and
/// the machine has the proof of its next cut.
///
/// # Errors
///
/// [`NoGo`].
pub fn go<M: GoMachine>(machine: &M) -> Result<Ready, NoGo> {
    // This comes before any use of memory. The error may be from an earlier Stop, or new at this
    // start.
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
        Found::Cut(_) if !machine.is_last_record() => Some(CutReason::Old),
        Found::Cut(report) => match prepare(machine, report) {
            Ok(state) => return finish(machine, state, report),
            Err(reason) => Some(reason),
        },
    };
    give_up(machine, machine.record());
    Err(NoGo::Cold(reason))
}

/// Runs all steps that may take long or fail, before any state is changed.
///
/// The wear registers come first: without them, reads do not return the stored data.
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

/// Restores everything. Until the vault's number advances, another power failure leads to another
/// Go. A changed device leads to a cold boot, and ends the cut.
///
/// After the second check of the power, the remaining steps take less than the hold-up: a few words
/// of flash, a line, and the release of the harts. If the power fails then, the harts stop again.
fn finish<M: GoMachine>(machine: &M, state: M::State, report: CutReport) -> Result<Ready, NoGo> {
    if let Err(reason) = restore(machine, state, report) {
        give_up(machine, machine.record());
        return Err(NoGo::Cold(Some(reason)));
    }
    machine.wait_for_power();
    let record = machine.record();
    if machine.has_memory_error() {
        // This is no cold boot, because devices can already access memory.
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

/// Restores everything. On a machine with wear registers, stores to memory may change the
/// registers. Until they are saved again, the record says that they are lost. If the power is lost
/// without a hold-up then, the next start boots cold and reports that.
fn restore<M: GoMachine>(machine: &M, state: M::State, report: CutReport) -> Result<(), CutReason> {
    if report.wear_words == 0 {
        return machine.restore(state);
    }
    wear::forget(machine.record());
    machine.restore(state)?;
    wear::save(machine.record(), report.sequence, &machine.wear()?);
    Ok(())
}

/// Abandons the contents of memory, and wipes it if the controller can. The next start reports the
/// reason. It does not wipe again, even if the controller still reports an error.
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
        // The record does not hold the reason, so the next start would wipe memory again.
        false => NoGo::Cold(Some(CutReason::MemoryError)),
    }
}

/// Notes the reason for the next start.
fn begin_again(record: &impl CutMemory, reason: CutReason) {
    let sequence = last_sequence(record).saturating_add(1);
    put(record, Place::Begun, &Line::begun(sequence, reason));
}

/// Makes all cuts up to now invalid.
pub(super) fn give_up(machine: &impl Prover, record: &impl CutMemory) {
    let proof = next(machine);
    match &proof {
        // Numbers in the record that the vault did not give would hide the vault's next numbers.
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
