//! Accesses to CSRs: the core makes them, but for those that give the hart back. Which these are is
//! the product's decision (`riscv/translate/src/csr.rs`), here again as rules.

use poorwill_isa::{Instruction, Operation};
use poorwill_translate::Mode;
use softcore_rv64::prelude::bv;

use crate::model::{INTERRUPTS, Model, Stop};

const FFLAGS: u64 = 0x001;
const FCSR: u64 = 0x003;
const SSTATUS: u64 = 0x100;
const SIE: u64 = 0x104;
const STVEC: u64 = 0x105;
const STIMECMP: u64 = 0x14d;
const SATP: u64 = 0x180;
const TIME: u64 = 0xc01;

/// The tables in `satp`.
const ROOT: u64 = (1 << 44) - 1;

/// `scounteren` and `senvcfg`: they keep their values.
const UNCHANGED: [u64; 2] = [0x106, 0x10a];

/// `sscratch`, `sepc`, `scause`, `stval`, `sip`: they take each value.
const FREE: [u64; 5] = [0x140, 0x141, 0x142, 0x143, 0x144];

/// SIE, SPIE, SPP, FS, SUM, MXR and SD.
const CHANGEABLE: u64 = 1 << 1 | 1 << 5 | 1 << 8 | 3 << 13 | 1 << 18 | 1 << 19 | 1 << 63;

fn csr(decoded: &Instruction) -> u64 {
    u64::from(decoded.immediate.cast_unsigned())
}

impl Model {
    /// The value that the instruction writes; `None` if it only reads.
    fn written(&mut self, decoded: &Instruction, a: u64) -> Option<u64> {
        let old = self.csr(csr(decoded));
        let immediate = u64::from(decoded.rs1);
        match decoded.operation {
            Operation::Csrrw => Some(a),
            Operation::Csrrwi => Some(immediate),
            _ if decoded.rs1 == 0 => None,
            Operation::Csrrs => Some(old | a),
            Operation::Csrrsi => Some(old | immediate),
            Operation::Csrrc => Some(old & !a),
            _ => Some(old & !immediate),
        }
    }

    /// A CSR's value, without regard to the mode.
    fn csr(&mut self, number: u64) -> u64 {
        let mode = self.core.cur_privilege;
        self.core.cur_privilege = softcore_rv64::Privilege::Machine;
        let value = self.core.get_csr(number);
        self.core.cur_privilege = mode;
        value.unwrap_or_default()
    }

    /// Returns whether the hart has to be given back.
    pub(crate) fn check_csr(&mut self, decoded: &Instruction, a: u64) -> Result<(), Stop> {
        let number = csr(decoded);
        let is_float = (FFLAGS..=FCSR).contains(&number);
        if is_float && self.sstatus() & 3 << 13 == 0 {
            return Err(Stop::GivenBack("the floating-point unit is off"));
        }
        if !is_float && self.mode() == Mode::User {
            return Err(Stop::GivenBack("a program's access to a CSR"));
        }
        let has_timer = number == STIMECMP && self.features.sstc;
        let is_kept = is_float
            || has_timer
            || FREE.contains(&number)
            || UNCHANGED.contains(&number)
            || [SSTATUS, SIE, STVEC, SATP, TIME].contains(&number);
        if !is_kept {
            return Err(Stop::GivenBack("a CSR that is not kept"));
        }
        let Some(new) = self.written(decoded, a) else {
            return Ok(());
        };
        let changed = self.csr(number) ^ new;
        let is_known = match number {
            SSTATUS => changed & !CHANGEABLE == 0,
            SIE => changed & !INTERRUPTS.iter().sum::<u64>() == 0,
            STVEC => new & 3 < 2,
            SATP => self.features.modes >> (new >> 60) & 1 != 0,
            // It is read-only.
            TIME => false,
            _ => !UNCHANGED.contains(&number) || changed == 0,
        };
        match is_known {
            true => Ok(()),
            false => Err(Stop::GivenBack("a CSR's value that is not known")),
        }
    }

    /// What the core does not do.
    pub(crate) fn after_csr(&mut self, decoded: &Instruction) {
        let number = csr(decoded);
        let writes =
            decoded.rs1 != 0 || [Operation::Csrrw, Operation::Csrrwi].contains(&decoded.operation);
        if !writes {
            return;
        }
        match number {
            FFLAGS..=FCSR => self.touch_float(),
            // The hart keeps fewer bits of an ASID.
            SATP => {
                let lost = (0xffff & !self.features.space_mask) << 44;
                let satp = self.core.satp.bits() & !lost;
                self.core.satp = bv(satp);
                let is_own = (satp ^ self.own_satp) & ROOT == 0;
                self.has_other_tables |= satp >> 60 != 0 && !is_own;
            }
            STIMECMP => self.deadline = self.core.stimecmp.bits(),
            _ => {}
        }
    }
}
