//! A hart by the Sail model (`softcore-rv64`): its registers, CSRs, traps, and all instructions that
//! the crate executes. The rest, which it lacks, is here from the specification's text: accesses,
//! address translation (`common::walk`), and operations of `written`.

use poorwill_isa::{Direction, Format, Instruction, Operation, expand, is_long};
use poorwill_translate::fake::FakeHost;
use poorwill_translate::{Features, Host, Mode};
use softcore_rv64::prelude::bv;
use softcore_rv64::raw::{
    Config, ExceptionType, ExecutionResult, ctl_result, dispatchInterrupt, exception_handler,
    execute, handle_interrupt, lower_mstatus, num_of_ExceptionType, regidx, sync_exception,
    virtaddr,
};
use softcore_rv64::{Core, Privilege, config, new_core};

use crate::common::walk::{self, Access};
use crate::written;

pub(crate) const PAGE: u64 = 4096;
const FS: u64 = 3 << 13;
const SD: u64 = 1 << 63;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;

/// S-mode's interrupts: SSI, STI, SEI.
pub(crate) const INTERRUPTS: [u64; 3] = [1 << 1, 1 << 5, 1 << 9];

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Retired,
    /// S-mode's handler is next.
    Exception,
    /// An SBI call, which does not retire.
    Call,
    /// A wait for interrupts without one.
    Waits,
    /// A hint that the hart spins.
    Pauses,
    /// A return to a program.
    User,
    /// The hart has to be given back, for this reason; the instruction has no effect.
    GivenBack(&'static str),
}

/// Why an instruction does not retire.
pub(crate) enum Stop {
    Exception(u64, u64),
    GivenBack(&'static str),
}

/// The value that `lr` has read: physical address, bytes, value.
type Reservation = (u64, u64, u64);

pub(crate) struct Model {
    pub(crate) core: Core,
    pub(crate) f: [u64; 32],
    pub(crate) host: FakeHost,
    pub(crate) features: Features,
    /// The deadline of S-mode's timer.
    pub(crate) deadline: u64,
    /// Stores to memory and devices: physical address, bytes, value.
    pub(crate) stores: Vec<(u64, u64, u64)>,
    pub(crate) reservation: Option<Reservation>,
    /// `satp` of the program's own tables.
    pub(crate) own_satp: u64,
    /// The program has put other tables into `satp`, without a fence: each result is right.
    pub(crate) has_other_tables: bool,
}

fn core() -> Core {
    let mut all: Config = config::U74;
    let extensions = &mut all.extensions;
    extensions.Sstc.supported = true;
    extensions.Sv48.supported = true;
    extensions.Sv57.supported = true;
    extensions.Svinval.supported = true;
    extensions.Zbs.supported = true;
    extensions.Zicond.supported = true;
    extensions.Zifencei.supported = true;
    let mut core = new_core(all);
    core.reset();
    // Both modes have 64 bits.
    core.mstatus.bits = bv(2 << 32 | 2 << 34);
    core.medeleg.bits = bv(u64::MAX);
    core.mideleg.bits = bv(INTERRUPTS.iter().sum());
    core.mcounteren.bits = bv(u32::MAX.into());
    // STCE
    core.menvcfg.bits = bv(1 << 63);
    core
}

impl Model {
    pub(crate) fn new(host: FakeHost, features: Features, own_satp: u64) -> Self {
        Model {
            core: core(),
            f: [0; 32],
            host,
            features,
            deadline: u64::MAX,
            stores: Vec::new(),
            reservation: None,
            own_satp,
            has_other_tables: false,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.core.cur_privilege {
            Privilege::User => Mode::User,
            Privilege::Supervisor => Mode::Supervisor,
            Privilege::Machine => panic!("no trap goes to machine mode"),
        }
    }

    pub(crate) fn sstatus(&self) -> u64 {
        lower_mstatus(self.core.mstatus).bits.bits()
    }

    pub(crate) fn x(&mut self, register: u8) -> u64 {
        self.core.get(regidx::new(register))
    }

    pub(crate) fn set(&mut self, register: u8, value: u64) {
        self.core.set(regidx::new(register), value);
    }

    pub(crate) fn set_pc(&mut self, pc: u64) {
        self.core.PC = bv(pc);
    }

    pub(crate) fn pc(&self) -> u64 {
        self.core.PC.bits()
    }

    /// Shows the host's interrupts to the hart.
    fn raise_interrupts(&mut self) {
        let [software, timer, external] = INTERRUPTS;
        let mut pending = self.core.mip.bits.bits() & software;
        if self.host.time() >= self.deadline {
            pending |= timer;
        }
        if self.host.external_interrupt() {
            pending |= external;
        }
        self.core.mip.bits = bv(pending);
        self.core.mtime = bv(self.host.time());
    }

    /// Returns whether an interrupt is pending and enabled in `sie`.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.core.mip.bits.bits() & self.core.mie.bits.bits() != 0
    }

    /// Takes an interrupt if there is one, and executes an instruction.
    pub(crate) fn step(&mut self) -> End {
        self.raise_interrupts();
        let core = &mut self.core;
        if let Some((interrupt, privilege)) = dispatchInterrupt(core, core.cur_privilege) {
            handle_interrupt(core, interrupt, privilege);
            core.PC = core.nextPC;
            self.reservation = None;
        }
        match self.execute() {
            Ok(end) => {
                self.core.PC = self.core.nextPC;
                end
            }
            Err(Stop::Exception(cause, value)) => {
                self.trap(cause, value);
                End::Exception
            }
            Err(Stop::GivenBack(reason)) => End::GivenBack(reason),
        }
    }

    fn trap(&mut self, cause: u64, value: u64) {
        const ALL: [ExceptionType; 8] = [
            ExceptionType::E_Fetch_Access_Fault(()),
            ExceptionType::E_Breakpoint(()),
            ExceptionType::E_Load_Access_Fault(()),
            ExceptionType::E_SAMO_Access_Fault(()),
            ExceptionType::E_U_EnvCall(()),
            ExceptionType::E_Fetch_Page_Fault(()),
            ExceptionType::E_Load_Page_Fault(()),
            ExceptionType::E_SAMO_Page_Fault(()),
        ];
        let is_its = |exception: &&ExceptionType| num_of_ExceptionType(**exception) == cause.into();
        let exception = ALL.iter().find(is_its).expect("a known cause");
        let context = sync_exception {
            trap: *exception,
            excinfo: Some(bv(value)),
            ext: None,
        };
        let core = &mut self.core;
        let (privilege, pc) = (core.cur_privilege, core.PC);
        core.PC = exception_handler(core, privilege, ctl_result::CTL_TRAP(context), pc);
        self.reservation = None;
    }

    /// Translates an address for an access that stays in a page, and sets A and D.
    pub(crate) fn translate(&mut self, address: u64, access: Access) -> Result<u64, Stop> {
        let hart = walk::Hart {
            satp: self.core.satp.bits(),
            mode: self.mode(),
            sum: self.sstatus() & SUM != 0,
            mxr: self.sstatus() & MXR != 0,
            features: self.features,
        };
        let host = &self.host;
        let is_memory = |at: u64| host.is_memory(at & !(PAGE - 1));
        let read = |at: u64| is_memory(at).then(|| host.load(at, 8));
        let found = walk::translate(&hart, address, access, read);
        let found = found.map_err(|fault| Stop::Exception(access.cause(fault), address))?;
        if let Some((at, entry)) = found.update {
            self.put(at, 8, entry);
        }
        Ok(found.physical)
    }

    pub(crate) fn is_memory(&self, physical: u64) -> bool {
        self.host.is_memory(physical & !(PAGE - 1))
    }

    pub(crate) fn put(&mut self, physical: u64, bytes: u64, value: u64) {
        self.host.store(physical, bytes, value);
        self.stores.push((physical, bytes, value));
    }

    /// The instruction's bits.
    fn fetch(&mut self) -> Result<u32, Stop> {
        let pc = self.pc();
        let low = self.fetch_half(pc)?;
        if !is_long(low) {
            return Ok(low);
        }
        Ok(self.fetch_half(pc.wrapping_add(2))? << 16 | low)
    }

    fn fetch_half(&mut self, address: u64) -> Result<u32, Stop> {
        let physical = self.translate(address, Access::Fetch)?;
        match self.is_memory(physical) {
            true => Ok(u32::try_from(self.host.load(physical, 2)).expect("16 bits")),
            false => Err(Stop::GivenBack("code outside memory")),
        }
    }

    fn execute(&mut self) -> Result<End, Stop> {
        let bits = self.fetch()?;
        let unknown = Stop::GivenBack("no known instruction");
        let (long, length) = match is_long(bits) {
            true => (Some(bits), 4),
            false => (expand(bits as u16), 2),
        };
        self.core.nextPC = bv(self.pc().wrapping_add(length));
        let Some((long, decoded)) = long.zip(Instruction::decode(bits)) else {
            return Err(unknown);
        };
        let operation = decoded.operation;
        let a = self.x(decoded.rs1);
        let immediate = i64::from(decoded.immediate).cast_unsigned();
        let b = match operation.format() {
            Format::R | Format::S | Format::B => self.x(decoded.rs2),
            _ => immediate,
        };
        if let Some(value) = written::result(operation, a, b) {
            self.set(decoded.rd, value);
        } else if let Some(access) = operation.memory_access() {
            let address = a.wrapping_add(immediate);
            match access.direction {
                Direction::Store => self.store(address, access.bytes, b)?,
                Direction::Load { signed } => {
                    let loaded = self.load(address, access.bytes)?;
                    let unused = 64 - 8 * access.bytes;
                    let value = match signed {
                        true => ((loaded << unused).cast_signed() >> unused).cast_unsigned(),
                        false => loaded,
                    };
                    self.set(decoded.rd, value);
                }
            }
        } else if self.execute_atomic(&decoded, a)? || self.execute_float(&decoded, a)? {
        } else {
            return self.execute_other(&decoded, long, a);
        }
        Ok(End::Retired)
    }

    /// Executes what is not an access: by the core, but for what that lacks.
    fn execute_other(&mut self, decoded: &Instruction, long: u32, a: u64) -> Result<End, Stop> {
        match decoded.operation {
            Operation::Pause | Operation::WrsNto | Operation::WrsSto => return Ok(End::Pauses),
            Operation::Fence | Operation::FenceI => return Ok(End::Retired),
            Operation::CboZero => return self.zero(a),
            Operation::CboClean | Operation::CboFlush | Operation::CboInval => {
                return Err(Stop::GivenBack("a cache block"));
            }
            Operation::Mret => return Err(Stop::GivenBack("machine mode's return")),
            Operation::Ecall if self.mode() == Mode::Supervisor => return Ok(self.call()),
            Operation::SfenceVma
            | Operation::SinvalVma
            | Operation::SfenceWInval
            | Operation::SfenceInvalIr
            | Operation::Sret
            | Operation::Wfi
                if self.mode() == Mode::User =>
            {
                return Err(Stop::GivenBack("a program's privileged instruction"));
            }
            // The model keeps no translations.
            Operation::SfenceVma
            | Operation::SinvalVma
            | Operation::SfenceWInval
            | Operation::SfenceInvalIr => return Ok(End::Retired),
            _ if (0x43..=0x53).contains(&(long & 0x7f)) => {
                return Err(Stop::GivenBack("floating-point arithmetic"));
            }
            _ => {}
        }
        if decoded.operation.format() == Format::Csr {
            self.check_csr(decoded, a)?;
        }
        let sail = self.core.decode_instr(long);
        let result = execute(&mut self.core, sail);
        if decoded.operation.format() == Format::Csr {
            self.after_csr(decoded);
        }
        self.end(decoded.operation, result)
    }

    fn call(&mut self) -> End {
        self.core.nextPC = self.core.PC;
        End::Call
    }

    /// The end of an instruction that the core has executed.
    fn end(&mut self, operation: Operation, result: ExecutionResult) -> Result<End, Stop> {
        match result {
            ExecutionResult::Retire_Success(()) if operation == Operation::Sret => {
                self.reservation = None;
                let is_left = self.mode() == Mode::User;
                Ok(if is_left { End::User } else { End::Retired })
            }
            ExecutionResult::Retire_Success(()) => Ok(End::Retired),
            ExecutionResult::Wait_For_Interrupt(()) if self.is_interrupted() => Ok(End::Retired),
            ExecutionResult::Wait_For_Interrupt(()) => Ok(End::Waits),
            ExecutionResult::Trap((privilege, context, pc)) => {
                self.core.nextPC = exception_handler(&mut self.core, privilege, context, pc);
                self.reservation = None;
                Ok(End::Exception)
            }
            ExecutionResult::Memory_Exception((virtaddr::Virtaddr(address), exception)) => {
                let cause = num_of_ExceptionType(exception);
                let cause = u64::try_from(cause).expect("a cause");
                Err(Stop::Exception(cause, address.bits()))
            }
            ExecutionResult::Illegal_Instruction(()) => {
                panic!("{operation:?} is illegal to the model")
            }
            other => panic!("{other:?}"),
        }
    }

    /// `cbo.zero`
    fn zero(&mut self, address: u64) -> Result<End, Stop> {
        let Some(bytes) = self
            .features
            .zero_block
            .filter(|_| self.mode() == Mode::Supervisor)
        else {
            return Err(Stop::GivenBack("cbo.zero where it may be illegal"));
        };
        let physical = self.translate(address, Access::Store)?;
        if !self.is_memory(physical) {
            return Err(Stop::GivenBack("cbo.zero of a device"));
        }
        let first = physical & !(bytes - 1);
        for at in (first..first + bytes).step_by(8) {
            self.put(at, 8, 0);
        }
        Ok(End::Retired)
    }

    /// Marks the floating-point unit as changed.
    pub(crate) fn touch_float(&mut self) {
        self.core.mstatus.bits = bv(self.core.mstatus.bits.bits() | FS | SD);
    }

    /// Executes loads, stores and moves of floating-point registers; false for others.
    fn execute_float(&mut self, decoded: &Instruction, a: u64) -> Result<bool, Stop> {
        const BOX: u64 = 0xffff_ffff_0000_0000;
        let address = a.wrapping_add_signed(decoded.immediate.into());
        let is_its = matches!(
            decoded.operation,
            Operation::Flw | Operation::Fld | Operation::Fsw | Operation::Fsd
        ) || matches!(
            decoded.operation,
            Operation::FmvXW | Operation::FmvXD | Operation::FmvWX | Operation::FmvDX
        );
        if is_its && self.sstatus() & FS == 0 {
            return Err(Stop::GivenBack("the floating-point unit is off"));
        }
        let (first, second) = (
            self.f[usize::from(decoded.rs1)],
            self.f[usize::from(decoded.rs2)],
        );
        let value = match decoded.operation {
            Operation::Flw => self.load(address, 4)? | BOX,
            Operation::Fld => self.load(address, 8)?,
            Operation::FmvWX => a | BOX,
            Operation::FmvDX => a,
            Operation::Fsw => return self.store(address, 4, second).map(|()| true),
            Operation::Fsd => return self.store(address, 8, second).map(|()| true),
            Operation::FmvXW => {
                let value = i64::from((first & !BOX) as i32).cast_unsigned();
                self.set(decoded.rd, value);
                return Ok(true);
            }
            Operation::FmvXD => {
                self.set(decoded.rd, first);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.f[usize::from(decoded.rd)] = value;
        self.touch_float();
        Ok(true)
    }
}
