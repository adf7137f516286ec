//! A trigger on the execution of one instruction (Sdtrig; debug specification 1.0, chapter 5), by
//! which machine mode stops the OS in S-mode. The OS itself cannot reach triggers.

use super::sync::{AtomicU8, AtomicU64, Ordering};

/// The registers of a hart's triggers, each of which it may lack.
pub trait TriggerAccess {
    /// Reads a register.
    fn read(&self, register: Register) -> Option<u64>;

    /// Writes a register; returns whether it exists.
    fn write(&self, register: Register, value: u64) -> bool;
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// `tselect`: the trigger that the others belong to.
    Select,
    /// `tdata1`: the kind of trigger, and its bits.
    Data1,
    /// `tdata2`: the address.
    Data2,
    /// `tdata3`: the context. Zero stands for any.
    Data3,
}

/// Triggers that are tried.
const MOST: u64 = 16;

/// Bits of `tdata1` in both kinds of match control.
mod data1 {
    pub(super) const TYPE: u64 = 0xf << 60;
    /// `mcontrol` (5.7.11).
    pub(super) const MATCH: u64 = 2 << 60;
    /// `mcontrol6` (5.7.12).
    pub(super) const MATCH_6: u64 = 6 << 60;
    /// A debugger outside owns it.
    pub(super) const DEBUGGER: u64 = 1 << 59;
    /// An action of zero: a breakpoint exception.
    pub(super) const ACTION: u64 = 0xf << 12;
    pub(super) const CHAIN: u64 = 1 << 11;
    /// A match of zero: the address is `tdata2`.
    pub(super) const MATCHES: u64 = 0xf << 7;
    pub(super) const MACHINE: u64 = 1 << 6;
    pub(super) const SUPERVISOR: u64 = 1 << 4;
    pub(super) const USER: u64 = 1 << 3;
    pub(super) const EXECUTE: u64 = 1 << 2;
    pub(super) const ACCESS: u64 = 3;
    /// `mcontrol6`: modes of a guest.
    pub(super) const GUEST: u64 = 3 << 23;
    /// `mcontrol`: fires after the instruction. `mcontrol6`: part of the size, which is zero for any.
    pub(super) const AFTER: u64 = 1 << 18;
    /// Bits that decide when it fires.
    pub(super) const RELEVANT: u64 =
        TYPE | ACTION | CHAIN | MATCHES | MACHINE | SUPERVISOR | USER | EXECUTE | ACCESS | AFTER;
}

/// A trigger of each of `N` harts at one address. Each hart sets and clears its own; harts are named by
/// their places.
#[derive(Debug)]
pub struct Triggers<const N: usize> {
    /// Zero: not known.
    address: AtomicU64,
    /// The numbers of armed triggers.
    armed: [AtomicU8; N],
}

/// The hart has no free trigger for the execution of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTrigger;

/// A hart without an armed trigger.
const NONE: u8 = u8::MAX;

impl<const N: usize> Default for Triggers<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Triggers<N> {
    /// Without an address.
    #[must_use]
    pub fn new() -> Self {
        Triggers {
            address: AtomicU64::new(0),
            armed: [const { AtomicU8::new(NONE) }; N],
        }
    }

    /// Sets the address, which harts use when they arm their triggers.
    pub fn set_address(&self, address: u64) {
        self.address.store(address, Ordering::Release);
    }

    /// Arms the calling hart's trigger. Returns whether there is an address.
    ///
    /// # Errors
    ///
    /// [`NoTrigger`].
    pub fn arm(&self, place: usize, hart: &impl TriggerAccess) -> Result<bool, NoTrigger> {
        let address = self.address.load(Ordering::Acquire);
        if address == 0 {
            return Ok(false);
        }
        let number = set(hart, address).ok_or(NoTrigger)?;
        let number = u8::try_from(number).map_err(|_| NoTrigger)?;
        self.armed[place].store(number, Ordering::Relaxed);
        Ok(true)
    }

    /// Clears the calling hart's trigger; returns whether it was armed.
    pub fn disarm(&self, place: usize, hart: &impl TriggerAccess) -> bool {
        let number = self.armed[place].swap(NONE, Ordering::Relaxed);
        let was_armed = number != NONE;
        if was_armed {
            clear(hart, number.into());
        }
        was_armed
    }

    /// Returns whether a breakpoint of S-mode at `pc` is the calling hart's trigger. It comes before
    /// the instruction's own breakpoint.
    #[must_use]
    pub fn fires(&self, place: usize, pc: u64) -> bool {
        let is_armed = self.armed[place].load(Ordering::Relaxed) != NONE;
        is_armed && pc == self.address.load(Ordering::Acquire)
    }
}

/// Sets a trigger of the calling hart that raises a breakpoint before S-mode executes the instruction
/// at `address`. Returns its number; `None` if the hart has none for that.
#[must_use]
pub fn set(hart: &impl TriggerAccess, address: u64) -> Option<u64> {
    let mut numbers = (0..MOST).take_while(|number| select(hart, *number));
    numbers.find(|_| {
        let data1 = hart.read(Register::Data1).unwrap_or(0);
        if data1 & data1::TYPE == 0 || data1 & data1::DEBUGGER != 0 {
            return false;
        }
        let mut kinds = [data1::MATCH_6, data1::MATCH].into_iter();
        let is_set = kinds.any(|kind| try_kind(hart, kind, address));
        if !is_set {
            disable(hart);
        }
        is_set
    })
}

/// Clears a trigger that [`set`] has set.
pub fn clear(hart: &impl TriggerAccess, number: u64) {
    if select(hart, number) {
        disable(hart);
    }
}

/// Selects a trigger; returns whether there is one of this number.
fn select(hart: &impl TriggerAccess, number: u64) -> bool {
    hart.write(Register::Select, number) && hart.read(Register::Select) == Some(number)
}

/// Disables the selected trigger. It keeps its type, as QEMU ignores a write of zero.
fn disable(hart: &impl TriggerAccess) {
    let kind = hart.read(Register::Data1).unwrap_or(0) & data1::TYPE;
    hart.write(Register::Data1, kind);
}

/// Sets the selected trigger as one of this kind. Returns whether the hart keeps that.
fn try_kind(hart: &impl TriggerAccess, kind: u64, address: u64) -> bool {
    let wanted = kind | data1::SUPERVISOR | data1::EXECUTE;
    let relevant = match kind {
        data1::MATCH_6 => data1::RELEVANT | data1::GUEST,
        _ => data1::RELEVANT,
    };
    // It is off while its address changes (5.7.2).
    disable(hart);
    hart.write(Register::Data3, 0);
    let is_set = hart.write(Register::Data2, address)
        && hart.read(Register::Data2) == Some(address)
        && hart.write(Register::Data1, wanted);
    is_set && (hart.read(Register::Data1)).is_some_and(|kept| kept & relevant == wanted)
}
