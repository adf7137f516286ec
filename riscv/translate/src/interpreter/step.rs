//! One instruction.

use poorwill_hart::emulation::cause;
use poorwill_hart::page_entry::Intent;
use poorwill_isa::{Direction, Format, Instruction, Operation, is_long};
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
    /// Executes the next instruction.
    pub(super) fn step(&mut self, host: &impl Host) -> Result<Flow, Trap> {
        let instruction = self.fetch_instruction(host)?;
        self.execute(&instruction, host)
    }

    /// Fetches and decodes the next instruction.
    pub(crate) fn fetch_instruction(&mut self, host: &impl Host) -> Result<Instruction, Trap> {
        let bits = self.fetch(host)?;
        Instruction::decode(bits).ok_or(UNKNOWN)
    }

    /// Fetches the next instruction, which may cross a page.
    fn fetch(&mut self, host: &impl Host) -> Result<u32, Trap> {
        let place = self.translate(self.pc, Intent::Fetch, host)?;
        let low = half(place, host)?;
        if !is_long(low) {
            return Ok(low);
        }
        let next = self.pc.wrapping_add(2);
        let place = match next % PAGE_BYTES {
            0 => self.translate(next, Intent::Fetch, host)?,
            _ => Place {
                physical: place.physical + 2,
                ..place
            },
        };
        Ok(half(place, host)? << 16 | low)
    }

    /// Executes an instruction, the one at the program counter.
    pub(crate) fn execute(
        &mut self,
        instruction: &Instruction,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        let operation = instruction.operation;
        let next = self.pc.wrapping_add(instruction.length.into());
        let immediate = i64::from(instruction.immediate).cast_unsigned();
        let a = self.get(instruction.rs1);
        let b = match operation.format() {
            Format::R | Format::S | Format::B => self.get(instruction.rs2),
            _ => immediate,
        };
        if integer::is_calculation(operation)
            && let Some(value) = integer::result(operation, a, b)
        {
            self.set(instruction.rd, value);
        } else if let Some(access) = operation.memory_access() {
            let address = a.wrapping_add(immediate);
            match access.direction {
                Direction::Store => self.store(address, access.bytes, b, host)?,
                Direction::Load { .. } => {
                    let loaded = self.load(address, access.bytes, host)?;
                    self.set(instruction.rd, access.extended(loaded));
                }
            }
        } else if let Some(is_taken) = branch(operation, a, b) {
            let target = self.pc.wrapping_add(immediate);
            self.pc = if is_taken { target } else { next };
            return Ok(Flow::Next);
        } else if let Some(bytes) = atomic::bytes(operation) {
            self.atomic(instruction, bytes, host)?;
        } else {
            return self.execute_other(instruction, next, host);
        }
        self.pc = next;
        Ok(Flow::Next)
    }

    /// Executes jumps, CSR accesses, fences and floating-point moves.
    fn execute_other(
        &mut self,
        instruction: &Instruction,
        next: u64,
        host: &impl Host,
    ) -> Result<Flow, Trap> {
        let immediate = i64::from(instruction.immediate).cast_unsigned();
        let a = self.get(instruction.rs1);
        let mut flow = Flow::Next;
        match instruction.operation {
            Operation::Auipc => self.set(instruction.rd, self.pc.wrapping_add(immediate)),
            Operation::Jal => {
                self.set(instruction.rd, next);
                self.pc = self.pc.wrapping_add(immediate);
                return Ok(flow);
            }
            Operation::Jalr => {
                self.set(instruction.rd, next);
                self.pc = a.wrapping_add(immediate) & !1;
                return Ok(flow);
            }
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
                self.execute_csr(instruction, a, host)?;
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
            _ if self.csrs.has_float() && self.execute_float(instruction, a, host)? => {}
            _ if self.mode == Mode::Supervisor => {
                return self.execute_privileged(instruction, next, host);
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

/// Returns whether a branch is taken; `None` for other operations.
fn branch(operation: Operation, a: u64, b: u64) -> Option<bool> {
    Some(match operation {
        Operation::Beq => a == b,
        Operation::Bne => a != b,
        Operation::Blt => a.cast_signed() < b.cast_signed(),
        Operation::Bge => a.cast_signed() >= b.cast_signed(),
        Operation::Bltu => a < b,
        Operation::Bgeu => a >= b,
        _ => return None,
    })
}
