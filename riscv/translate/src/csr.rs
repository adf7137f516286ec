//! The CSRs that the weak core keeps for a lent hart. It keeps those that the resume of a stock
//! kernel uses; for each other one, and for a value that it does not know, the hart is given back.

use poorwill_hart::emulation::status;
use poorwill_hart::interrupt::{SEI, SSI, STI};

use crate::hart::{Mode, VirtualHart};
use crate::host::Host;
use crate::trap::{Trap, UNKNOWN};

/// Numbers (privileged specification, chapter 2).
pub(crate) mod number {
    pub(crate) const FFLAGS: u32 = 0x001;
    pub(crate) const FRM: u32 = 0x002;
    pub(crate) const FCSR: u32 = 0x003;
    pub(crate) const SSTATUS: u32 = 0x100;
    pub(crate) const SIE: u32 = 0x104;
    pub(crate) const STVEC: u32 = 0x105;
    pub(crate) const SCOUNTEREN: u32 = 0x106;
    pub(crate) const SENVCFG: u32 = 0x10a;
    pub(crate) const SSCRATCH: u32 = 0x140;
    pub(crate) const SEPC: u32 = 0x141;
    pub(crate) const SCAUSE: u32 = 0x142;
    pub(crate) const STVAL: u32 = 0x143;
    pub(crate) const SIP: u32 = 0x144;
    pub(crate) const STIMECMP: u32 = 0x14d;
    pub(crate) const SATP: u32 = 0x180;
    pub(crate) const TIME: u32 = 0xc01;
}

/// Bits of `sstatus` that the weak core lets change. The others stay, or the hart is given back.
const CHANGEABLE: u64 = status::SIE | status::SPIE | status::SPP | status::SUM | status::MXR;

/// These bits of a CSR's number say that it is read-only.
const READ_ONLY: u32 = 3 << 10;

/// The operation of an instruction on a CSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsrOperation {
    Write,
    Set,
    Clear,
}

impl VirtualHart {
    /// Carries out the operation, and returns the old value. `operand`: `None` if the instruction
    /// only reads.
    pub(crate) fn access_csr(
        &mut self,
        csr: u32,
        operand: Option<(CsrOperation, u64)>,
        host: &impl Host,
    ) -> Result<u64, Trap> {
        // A write of the same value is illegal there, too (2.1).
        if csr & READ_ONLY == READ_ONLY && operand.is_some() {
            return Err(UNKNOWN);
        }
        let old = self.read_csr(csr, host)?;
        if let Some((operation, operand)) = operand {
            let new = match operation {
                CsrOperation::Write => operand,
                CsrOperation::Set => old | operand,
                CsrOperation::Clear => old & !operand,
            };
            self.write_csr(csr, old, new)?;
            self.settle_shortcuts();
        }
        Ok(old)
    }

    fn read_csr(&self, csr: u32, host: &impl Host) -> Result<u64, Trap> {
        let csrs = &self.csrs;
        match csr {
            number::FFLAGS | number::FRM | number::FCSR if !csrs.has_float() => {
                return Err(UNKNOWN);
            }
            number::FFLAGS => return Ok(csrs.fcsr & 0x1f),
            number::FRM => return Ok(csrs.fcsr >> 5 & 7),
            number::FCSR => return Ok(csrs.fcsr),
            _ if self.mode == Mode::User => return Err(UNKNOWN),
            _ => {}
        }
        Ok(match csr {
            number::SSTATUS => csrs.whole_status(),
            number::SIE => csrs.sie,
            number::STVEC => csrs.stvec,
            number::SCOUNTEREN => csrs.scounteren,
            number::SENVCFG => csrs.senvcfg,
            number::SSCRATCH => csrs.sscratch,
            number::SEPC => csrs.sepc,
            number::SCAUSE => csrs.scause,
            number::STVAL => csrs.stval,
            number::SIP => self.pending(host),
            number::STIMECMP if self.features.sstc => csrs.deadline,
            number::SATP => csrs.satp,
            number::TIME => host.time(),
            _ => return Err(UNKNOWN),
        })
    }

    fn write_csr(&mut self, csr: u32, old: u64, new: u64) -> Result<(), Trap> {
        let float = if self.features.float { status::FS } else { 0 };
        let csrs = &mut self.csrs;
        let changed = old ^ new;
        match csr {
            number::FFLAGS => csrs.fcsr = csrs.fcsr & !0x1f | new & 0x1f,
            number::FRM => csrs.fcsr = csrs.fcsr & !0xe0 | (new & 7) << 5,
            number::FCSR => csrs.fcsr = new & 0xff,
            number::SSTATUS if changed & !(CHANGEABLE | float | status::SD) == 0 => {
                csrs.sstatus = new & !status::SD;
            }
            number::SIE if changed & !(SSI | STI | SEI) == 0 => csrs.sie = new,
            number::STVEC if new & 3 < 2 => csrs.stvec = new,
            number::SCOUNTEREN if new & !self.features.counters == 0 => csrs.scounteren = new,
            number::SENVCFG if new & !self.features.environment == 0 => csrs.senvcfg = new,
            number::SSCRATCH => csrs.sscratch = new,
            number::SEPC => csrs.sepc = new & !1,
            number::SCAUSE => csrs.scause = new,
            number::STVAL => csrs.stval = new,
            // Its other bits are read-only.
            number::SIP => csrs.software_interrupt = new & SSI != 0,
            number::STIMECMP => csrs.deadline = new,
            number::SATP => return self.write_satp(new),
            _ if changed == 0 => {}
            _ => return Err(UNKNOWN),
        }
        if [number::FFLAGS, number::FRM, number::FCSR].contains(&csr) {
            self.csrs.touch_float();
        }
        Ok(())
    }

    /// Modes that the lent hart lacks leave `satp` unchanged (12.1.11).
    fn write_satp(&mut self, new: u64) -> Result<(), Trap> {
        const SPACE: u64 = 0xffff << 44;
        let mode = new >> 60;
        if self.features.modes >> mode & 1 == 0 {
            return Err(UNKNOWN);
        }
        self.csrs.satp = new & !SPACE | new & (self.features.space_mask << 44);
        Ok(())
    }
}
