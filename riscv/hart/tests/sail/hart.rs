//! A hart of the Sail model: `softcore-rv64`'s core, with a step for loads and stores
//! (`base_insts.sail`), which that crate lacks.

use std::cell::RefCell;

use poorwill_hart::emulation::{Fault, PhysicalMemory};
use poorwill_hart::{Csr, CsrAccess};
use softcore_rv64::prelude::{bv, sail_sign_extend};
use softcore_rv64::raw::{
    AccessType, Config, ConfigPmp, ExceptionType, Ext_DataAddr_Check, ctl_result,
    exception_handler, exceptionType_to_bits, ext_data_get_addr, regidx, sync_exception, virtaddr,
};
use softcore_rv64::{Core, Privilege, ast, config, new_core};

use crate::decode::{bytes, decode};
use crate::draw::Case;
use crate::memory::{Memory, RAM, RAM_BYTES, reach};

const MSTATUS: u64 = 0x300;
/// Bits of `mstatus` that the return from machine mode changes: MIE, MPIE and MPP.
const OF_MACHINE_MODE: u64 = 1 << 3 | 1 << 7 | 3 << 11;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Retired,
    Exception(ExceptionType, u64),
    /// Another instruction than an integer load or store.
    Other(u32),
}

/// A store: address, bytes, value.
pub(crate) type Store = (u64, u64, u64);

/// Everything of a hart that the OS can see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    x: [u64; 32],
    pc: u64,
    privilege: Privilege,
    mstatus: u64,
    trap: [u64; 3],
    stores: Vec<Store>,
    memory: Memory,
}

#[derive(Debug)]
pub(crate) struct Hart {
    core: RefCell<Core>,
    pub(crate) memory: Memory,
    pub(crate) stores: Vec<Store>,
    /// The form of the load or store that was last decoded, and whether it is aligned.
    pub(crate) last: Option<(&'static str, bool)>,
}

/// The value that the device has at an address.
pub(crate) fn device(address: u64, bytes: u64) -> u64 {
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) & (u64::MAX >> (64 - 8 * bytes))
}

impl Hart {
    /// A hart after reset: two PMP entries, for memory and for all else.
    pub(crate) fn new() -> Self {
        let mut config: Config = config::U74;
        config.extensions.Sv48.supported = true;
        config.extensions.Sv57.supported = true;
        config.memory.pmp = ConfigPmp {
            count: 16,
            grain: 0,
        };
        let mut core = new_core(config);
        core.reset();
        core.set_pmpaddr(0, RAM >> 2 | ((RAM_BYTES >> 3) - 1));
        // All 56 bits of a physical address.
        core.set_pmpaddr(1, (1 << 53) - 1);
        Hart {
            core: RefCell::new(core),
            memory: Memory::default(),
            stores: Vec::new(),
            last: None,
        }
    }

    /// Puts the case's state into the hart. `device` opens all that is not memory; `delegated`
    /// lets S-mode handle every exception itself.
    pub(crate) fn set(&mut self, case: &Case, device: bool, delegated: bool) {
        const NAPOT: u64 = 3 << 3;
        const RWX: u64 = 7;
        let core = self.core.get_mut();
        core.cur_privilege = Privilege::Machine;
        let open = if device { RWX } else { 0 };
        core.set_pmpcfg(0, (NAPOT | RWX) | (NAPOT | open) << 8);
        // Both registers have 64 bits.
        core.mstatus.bits = bv(2 << 32 | 2 << 34);
        core.set_csr(MSTATUS, case.mstatus | 2 << 32 | 2 << 34);
        core.medeleg.bits = bv(if delegated { u64::MAX } else { 0 });
        core.stvec.bits = bv(case.stvec);
        core.satp = bv(case.satp);
        [core.sepc, core.stval] = [bv(0x1234), bv(0x5678)];
        core.scause.bits = bv(0x9a);
        core.cur_privilege = case.privilege();
        self.memory.clone_from(&case.memory);
        self.rewind(case);
    }

    /// Puts back the registers, after an instruction that the bus is to refuse. Page tables keep
    /// their changes.
    pub(crate) fn rewind(&mut self, case: &Case) {
        let core = self.core.get_mut();
        for number in 0..32 {
            core.set(regidx::new(number), case.x[usize::from(number)]);
        }
        core.PC = bv(case.pc);
        self.stores.clear();
    }

    /// Executes the instruction at the program counter.
    pub(crate) fn step(&mut self) -> Step {
        self.last = None;
        match self.execute() {
            Ok(step) => step,
            Err((exception, value)) => Step::Exception(exception, value),
        }
    }

    fn execute(&mut self) -> Result<Step, (ExceptionType, u64)> {
        let (bits, length) = self.fetch()?;
        let core = self.core.get_mut();
        let Some((name, decoded)) = decode(core, bits) else {
            return Ok(Step::Other(bits));
        };
        let (imm, rs1, width, access) = match decoded {
            ast::LOAD((imm, rs1, _, _, width, ..)) => (imm, rs1, width, AccessType::Read(())),
            ast::STORE((imm, _, rs1, width, ..)) => (imm, rs1, width, AccessType::Write(())),
            other => panic!("{other:?}"),
        };
        let offset = sail_sign_extend::<12, 64>(imm, 64);
        let bytes = bytes(width);
        let Ext_DataAddr_Check::Ext_DataAddr_OK(virtaddr::Virtaddr(address)) =
            ext_data_get_addr(core, rs1, offset, access, bytes.into())
        else {
            panic!("no extension checks addresses");
        };
        let address = address.bits();
        self.last = Some((name, address.is_multiple_of(bytes)));
        let physical = reach(core, &mut self.memory, address, access, bytes)
            .map_err(|exception| (exception, address))?;
        match decoded {
            ast::LOAD((_, _, rd, is_unsigned, ..)) => {
                let unused = 64 - 8 * bytes as u32;
                let value = device(physical, bytes) << unused;
                let extended = if is_unsigned {
                    value >> unused
                } else {
                    (value.cast_signed() >> unused).cast_unsigned()
                };
                core.set(rd, extended);
            }
            ast::STORE((_, rs2, ..)) => {
                let value = core.get(rs2) & (u64::MAX >> (64 - 8 * bytes));
                self.stores.push((physical, bytes, value));
            }
            _ => {}
        }
        core.PC = bv(core.PC.bits().wrapping_add(length));
        Ok(Step::Retired)
    }

    /// The instruction and its length (`fetch.sail`).
    fn fetch(&mut self) -> Result<(u32, u64), (ExceptionType, u64)> {
        let core = self.core.get_mut();
        let pc = core.PC.bits();
        let memory = &mut self.memory;
        let mut parcel = |at: u64| {
            let access = AccessType::InstructionFetch(());
            let physical = reach(core, memory, at, access, 2).map_err(|fault| (fault, at))?;
            let read = memory.read(physical, 2);
            let missing = (ExceptionType::E_Fetch_Access_Fault(()), at);
            read.map(|parcel| parcel as u32).ok_or(missing)
        };
        let low = parcel(pc)?;
        if low & 3 != 3 {
            return Ok((low, 2));
        }
        Ok((parcel(pc.wrapping_add(2))? << 16 | low, 4))
    }

    /// Takes an exception to the mode that handles it.
    pub(crate) fn trap(&mut self, exception: ExceptionType, value: u64) {
        let core = self.core.get_mut();
        let context = sync_exception {
            trap: exception,
            excinfo: Some(bv(value)),
            ext: None,
        };
        let (privilege, pc) = (core.cur_privilege, core.PC);
        core.PC = exception_handler(core, privilege, ctl_result::CTL_TRAP(context), pc);
    }

    /// The exception that machine mode has taken.
    pub(crate) fn fault(&self) -> Fault {
        let core = self.core.borrow();
        assert_eq!(core.cur_privilege, Privilege::Machine);
        Fault {
            cause: core.mcause.bits.bits(),
            pc: core.mepc.bits(),
            status: core.mstatus.bits.bits(),
            value: core.mtval.bits(),
            instruction: 0,
            guest_address: 0,
            satp: core.satp.bits(),
        }
    }

    /// The registers as the trap's entry has saved them. The first is never used.
    pub(crate) fn x(&self) -> [usize; 32] {
        let mut core = self.core.borrow_mut();
        core::array::from_fn(|number| match number {
            0 => 0x5555,
            _ => core.get(regidx::new(number as u8)) as usize,
        })
    }

    /// Returns from machine mode with these values.
    pub(crate) fn leave(&mut self, x: &[usize; 32], pc: u64, status: u64) {
        let core = self.core.get_mut();
        for number in 1..32 {
            core.set(regidx::new(number), x[usize::from(number)] as u64);
        }
        core.set_csr(MSTATUS, status);
        core.mepc = bv(pc);
        let pc = core.PC;
        core.PC = exception_handler(core, Privilege::Machine, ctl_result::CTL_MRET(()), pc);
    }

    pub(crate) fn state(&self) -> State {
        let mut core = self.core.borrow_mut();
        let mut memory = self.memory.clone();
        memory.words.sort_unstable();
        State {
            x: core::array::from_fn(|number| core.get(regidx::new(number as u8))),
            pc: core.PC.bits(),
            privilege: core.cur_privilege,
            mstatus: core.mstatus.bits.bits() & !OF_MACHINE_MODE,
            trap: [core.sepc, core.scause.bits, core.stval].map(|csr| csr.bits()),
            stores: self.stores.clone(),
            memory,
        }
    }
}

/// The number of an exception.
pub(crate) fn number(exception: ExceptionType) -> u64 {
    exceptionType_to_bits(exception).bits()
}

impl CsrAccess for Hart {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        self.core.borrow_mut().get_csr(csr.number().into())
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        self.core.borrow_mut().set_csr(csr.number().into(), value);
    }
}
