//! Go: from a power-on to the instruction at which the power failed.

use super::find::{CutReport, Found, find, last_sequence, running};
use super::guard::{Guard, Prover, advance};
use super::layout::Place;
use super::line::Line;
use super::proof::Proof;
use super::reason::CutReason;
use super::{CutMemory, put};
use crate::vault_state::VaultFault;
use crate::vault_state::VaultState;

/// The machine that goes on.
pub trait GoMachine: Prover {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// What is needed to put everything back.
    type State;

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
    let found = {
        let guard = machine.with_vault(Guard::at_start);
        find(machine.record(), &guard)
    };
    let reason = match found {
        Found::Nothing => None,
        Found::Refused(reason) => Some(reason),
        Found::Cut(report) => match prepare(machine) {
            Ok(state) => return finish(machine, state, report),
            Err(reason) => Some(reason),
        },
    };
    give_up(machine, machine.record());
    Err(NoGo::Cold(reason))
}

/// All that may take long, or fail, before anything is touched.
fn prepare<M: GoMachine>(machine: &M) -> Result<M::State, CutReason> {
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
    if let Err(reason) = machine.restore(state) {
        give_up(machine, machine.record());
        return Err(NoGo::Cold(Some(reason)));
    }
    machine.wait_for_power();
    let record = machine.record();
    match next(machine) {
        Ok(proof) => {
            put(record, Place::Consumed, &Line::running(report.sequence));
            machine.keep(Ok(proof));
            Ok(Ready(report))
        }
        Err(_) => {
            let begun = Line::begun(report.sequence.saturating_add(1), CutReason::Vault);
            put(record, Place::Begun, &begun);
            Err(NoGo::Reset(CutReason::Vault))
        }
    }
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
