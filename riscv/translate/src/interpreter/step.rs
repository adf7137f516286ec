//! One instruction.

use poorwill_hart::emulation::cause;
use poorwill_hart::page_entry::Intent;
use poorwill_isa::{Direction, Instruction, Operation, is_long};
use poorwill_memory::PAGE_BYTES;

use super::{Flow, atomic, integer};
use crate::csr::CsrOperation;
use crate::hart::{Mode, Stop, VirtualHart};
use crate::host::Host;
use crate::translation::Place;
use crate::trap::{Exception, Trap, UNKNOWN};

/// Upper half of a register that holds a single-precision number.
const BOX: u64 = 0xffff_ffff << 32;

impl VirtualHart {
    /// Executes the next instruction, which has these bits, after [`execute_quickly`](Self::execute_quickly)
    /// has left it.
    #[inline(never)]
    pub(super) fn execute_slowly(&mut self, bits: u32, host: &impl Host) -> Result<Flow, Trap> {
        let instruction = *self.decoded.decode(bits).ok_or(UNKNOWN)?;
        self.execute_remaining(instruction, host)
    }

    /// Fetches and decodes the next instruction.
    pub(crate) fn fetch_instruction(&mut self, host: &impl Host) -> Result<Instruction, Trap> {
        let bits = self.fetch(host)?;
        self.decoded.decode(bits).copied().ok_or(UNKNOWN)
    }

    /// Fetches the next instruction.
    #[inline(always)]
    pub(super) fn fetch(&mut self, host: &impl Host) -> Result<u32, Trap> {
        let Some(physical) = self.shortcuts.find(Intent::Fetch, self.pc, 1) else {
            return self.fetch_slowly(host);
        };
        let word = (host.load(physical & !7, 8) >> (8 * (physical % 8))) as u32;
        let next = physical + 2;
        match is_long(word) {
            false => Ok(word & 0xffff),
            true if physical % 8 < 6 => Ok(word),
            true if next % PAGE_BYTES != 0 => Ok(word | (host.load(next, 2) as u32) << 16),
            true => self.fetch_slowly(host),
        }
    }

    /// Fetches the next instruction, which may cross a page.
    #[inline(never)]
    fn fetch_slowly(&mut self, host: &impl Host) -> Result<u32, Trap> {
        let place = self.code_place(self.pc, host)?;
        let low = half(place, host)?;
        if !is_long(low) {
            return Ok(low);
        }
        let next = self.pc.wrapping_add(2);
        let place = match next % PAGE_BYTES {
            0 => self.code_place(next, host)?,
            _ => Place {
                physical: place.physical + 2,
                ..place
            },
        };
        Ok(half(place, host)? << 16 | low)
    }

    #[inline(always)]
    fn code_place(&mut self, address: u64, host: &impl Host) -> Result<Place, Trap> {
        match self.shortcuts.find(Intent::Fetch, address, 1) {
            Some(physical) => Ok(Place {
                physical,
                is_memory: true,
            }),
            None => Ok(self.translate(address, Intent::Fetch, host)?),
        }
    }

    /// Executes an instruction, the one at the program counter.
    pub(crate) fn execute(
        &mut self,
        instruction: Instruction,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        match self.execute_by_registers(&instruction, host) {
            true => Ok(Flow::Next),
            false => self.execute_remaining(instruction, host),
        }
    }

    /// Executes an instruction that needs more than registers and shortcuts.
    fn execute_remaining(
        &mut self,
        instruction: Instruction,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        let operation = instruction.operation;
        let next = self.pc.wrapping_add(instruction.length.into());
        let Some(access) = operation.memory_access() else {
            return self.execute_other(instruction, next, host);
        };
        let address = self.get(instruction.rs1);
        let address = address.wrapping_add_signed(instruction.immediate.into());
        match access.direction {
            Direction::Store => {
                let value = self.get(instruction.rs2);
                self.store(address, access.bytes, value, host)?;
            }
            Direction::Load { .. } => {
                let loaded = self.load(address, access.bytes, host)?;
                self.set(instruction.rd, access.extended(loaded));
            }
        }
        self.pc = next;
        Ok(Flow::Next)
    }

    /// Executes the next instruction, which has these bits, if it needs registers alone, or memory that a
    /// shortcut leads to. Returns false, with nothing changed, for other instructions.
    #[inline(always)]
    pub(super) fn execute_quickly(&mut self, bits: u32, host: &impl Host) -> bool {
        let Some(instruction) = self.decoded.decode(bits).copied() else {
            return false;
        };
        self.execute_by_registers(&instruction, host)
    }

    #[inline(always)]
    fn execute_by_registers(&mut self, instruction: &Instruction, host: &impl Host) -> bool {
        let operation = instruction.operation;
        let rd = instruction.rd;
        let next = self.pc.wrapping_add(instruction.length.into());
        let immediate = i64::from(instruction.immediate).cast_unsigned();
        let a = self.get(instruction.rs1);
        let second = self.get(instruction.rs2);
        // An operation has one of the two, and the other is zero.
        let b = second.wrapping_add(immediate);
        let address = || a.wrapping_add(immediate);
        if let Some(value) = integer::frequent(operation, a, b) {
            self.set(rd, value);
            self.pc = next;
            return true;
        }
        let is_done = match operation {
            Operation::Lb => self.load_quickly(rd, address(), 1, |it| it as i8 as u64, host),
            Operation::Lh => self.load_quickly(rd, address(), 2, |it| it as i16 as u64, host),
            Operation::Lw => self.load_quickly(rd, address(), 4, |it| it as i32 as u64, host),
            Operation::Ld => self.load_quickly(rd, address(), 8, |it| it, host),
            Operation::Lbu => self.load_quickly(rd, address(), 1, |it| it, host),
            Operation::Lhu => self.load_quickly(rd, address(), 2, |it| it, host),
            Operation::Lwu => self.load_quickly(rd, address(), 4, |it| it, host),
            Operation::Sb => self.store_quickly(address(), 1, second, host),
            Operation::Sh => self.store_quickly(address(), 2, second, host),
            Operation::Sw => self.store_quickly(address(), 4, second, host),
            Operation::Sd => self.store_quickly(address(), 8, second, host),
            Operation::Beq => return self.branch(a == second, immediate, next),
            Operation::Bne => return self.branch(a != second, immediate, next),
            Operation::Blt => {
                return self.branch(a.cast_signed() < second.cast_signed(), immediate, next);
            }
            Operation::Bge => {
                return self.branch(a.cast_signed() >= second.cast_signed(), immediate, next);
            }
            Operation::Bltu => return self.branch(a < second, immediate, next),
            Operation::Bgeu => return self.branch(a >= second, immediate, next),
            Operation::Auipc => {
                self.set(rd, self.pc.wrapping_add(immediate));
                true
            }
            Operation::Jal => {
                self.set(rd, next);
                return self.branch(true, immediate, next);
            }
            Operation::Jalr => {
                self.set(rd, next);
                self.pc = address() & !1;
                return true;
            }
            _ => return false,
        };
        if is_done {
            self.pc = next;
        }
        is_done
    }

    #[inline(always)]
    fn branch(&mut self, is_taken: bool, distance: u64, next: u64) -> bool {
        let target = self.pc.wrapping_add(distance);
        self.pc = if is_taken { target } else { next };
        true
    }

    #[inline(always)]
    fn load_quickly(
        &mut self,
        register: u8,
        address: u64,
        bytes: u64,
        extended: impl Fn(u64) -> u64,
        host: &impl Host,
    ) -> bool {
        let Some(physical) = self.shortcuts.find(Intent::Load, address, bytes) else {
            return false;
        };
        self.set(register, extended(host.load(physical, bytes)));
        true
    }

    #[inline(always)]
    fn store_quickly(&mut self, address: u64, bytes: u64, value: u64, host: &impl Host) -> bool {
        let Some(physical) = self.shortcuts.find(Intent::Store, address, bytes) else {
            return false;
        };
        host.store(physical, bytes, value & (u64::MAX >> (64 - 8 * bytes)));
        true
    }

    /// Executes rare instructions.
    #[inline(never)]
    fn execute_other(
        &mut self,
        instruction: Instruction,
        next: u64,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        let operation = instruction.operation;
        let a = self.get(instruction.rs1);
        let mut flow = Flow::Next;
        if let Some(bytes) = atomic::bytes(operation) {
            self.atomic(&instruction, bytes, host)?;
            self.pc = next;
            return Ok(flow);
        }
        if let Some(value) = integer::rare(operation, a, self.get(instruction.rs2)) {
            self.set(instruction.rd, value);
            self.pc = next;
            return Ok(flow);
        }
        match operation {
            Operation::Fence => host.fence(),
            // Instructions are read from memory each time.
            Operation::FenceI => self.fence_instructions(),
            Operation::CboZero => self.zero_block(a, host)?,
            Operation::Csrrw
            | Operation::Csrrs
            | Operation::Csrrc
            | Operation::Csrrwi
            | Operation::Csrrsi
            | Operation::Csrrci => {
                self.execute_csr(&instruction, a, host)?;
                flow = Flow::Look;
            }
            Operation::Ebreak => {
                return Err(Trap::Exception(Exception {
                    cause: cause::BREAKPOINT,
                    value: self.pc,
                }));
            }
            Operation::Pause | Operation::WrsNto | Operation::WrsSto => {
                flow = Flow::Stop(Stop::Pauses);
            }
            Operation::Ecall if self.mode == Mode::User => {
                return Err(Trap::Exception(Exception {
                    cause: cause::USER_CALL,
                    value: 0,
                }));
            }
            Operation::Ecall => return Err(Trap::Stop(Stop::Call)),
            _ if self.csrs.has_float() && self.execute_float(&instruction, a, host)? => {}
            _ if self.mode == Mode::Supervisor => {
                return self.execute_privileged(&instruction, next, host);
            }
            _ => return Err(UNKNOWN),
        }
        self.pc = next;
        Ok(flow)
    }

    fn execute_privileged(
        &mut self,
        instruction: &Instruction,
        next: u64,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        let mut flow = Flow::Next;
        match instruction.operation {
            Operation::Sret => {
                self.leave_handler();
                return Ok(match self.mode {
                    Mode::Supervisor => Flow::Look,
                    Mode::User => Flow::Stop(Stop::User),
                });
            }
            Operation::Wfi if self.is_interrupted(host) => flow = Flow::Look,
            Operation::Wfi => flow = Flow::Stop(Stop::Waits),
            Operation::SfenceVma | Operation::SinvalVma => {
                let value = |register| (register != 0).then(|| self.get(register));
                let (address, space) = (value(instruction.rs1), value(instruction.rs2));
                self.drop_translations(address, space);
            }
            Operation::SfenceWInval | Operation::SfenceInvalIr => {}
            _ => return Err(UNKNOWN),
        }
        self.pc = next;
        Ok(flow)
    }

    fn execute_csr(
        &mut self,
        instruction: &Instruction,
        register: u64,
        host: &impl Host,
    ) -> Result<(), Trap> {
        let immediate = u64::from(instruction.rs1);
        let (operation, operand) = match instruction.operation {
            Operation::Csrrw => (CsrOperation::Write, register),
            Operation::Csrrs => (CsrOperation::Set, register),
            Operation::Csrrc => (CsrOperation::Clear, register),
            Operation::Csrrwi => (CsrOperation::Write, immediate),
            Operation::Csrrsi => (CsrOperation::Set, immediate),
            _ => (CsrOperation::Clear, immediate),
        };
        let writes = operation == CsrOperation::Write || instruction.rs1 != 0;
        let operand = writes.then_some((operation, operand));
        let old = self.access_csr(instruction.immediate.cast_unsigned(), operand, host)?;
        self.set(instruction.rd, old);
        Ok(())
    }

    /// Executes floating-point loads, stores and moves; returns false for other instructions.
    fn execute_float(
        &mut self,
        instruction: &Instruction,
        a: u64,
        host: &impl Host,
    ) -> Result<bool, Trap> {
        let address = a.wrapping_add_signed(instruction.immediate.into());
        let (first, second) = (usize::from(instruction.rs1), usize::from(instruction.rs2));
        let value = match instruction.operation {
            Operation::Flw => BOX | self.load(address, 4, host)?,
            Operation::Fld => self.load(address, 8, host)?,
            Operation::FmvWX => BOX | a & !BOX,
            Operation::FmvDX => a,
            Operation::Fsw => {
                self.store(address, 4, self.f[second], host)?;
                return Ok(true);
            }
            Operation::Fsd => {
                self.store(address, 8, self.f[second], host)?;
                return Ok(true);
            }
            Operation::FmvXW => {
                let value = self.f[first] as u32 as i32 as u64;
                self.set(instruction.rd, value);
                return Ok(true);
            }
            Operation::FmvXD => {
                self.set(instruction.rd, self.f[first]);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.f[usize::from(instruction.rd)] = value;
        self.csrs.touch_float();
        Ok(true)
    }

    /// `cbo.zero`. A block lies in one page.
    fn zero_block(&mut self, address: u64, host: &impl Host) -> Result<(), Trap> {
        let bytes = self.features.zero_block.ok_or(UNKNOWN)?;
        // `senvcfg` decides whether it is illegal there, before any fault.
        if self.mode == Mode::User {
            return Err(UNKNOWN);
        }
        let place = self.translate(address, Intent::Store, host)?;
        if !place.is_memory {
            return Err(UNKNOWN);
        }
        let first = place.physical & !(bytes - 1);
        let word = bytes.min(8);
        for offset in (0..bytes).step_by(word as usize) {
            host.store(first + offset, word, 0);
        }
        Ok(())
    }
}

/// Fetches 16 bits. The lent hart itself executes code that is not in memory.
fn half(place: Place, host: &impl Host) -> Result<u32, Trap> {
    match place.is_memory {
        true => Ok(host.load(place.physical, 2) as u32),
        false => Err(UNKNOWN),
    }
}
