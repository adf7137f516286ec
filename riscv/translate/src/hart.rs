use crate::decoded::DecodedInstructions;
use crate::difference::Difference;
use crate::features::Features;
use crate::shortcuts::Shortcuts;
use crate::state::{Csrs, Reservation};
use crate::tlb::Tlb;

/// Privilege mode of a virtual hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A program.
    User,
    /// The OS.
    Supervisor,
}

/// Why a run has ended. The hart's state is that between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All instructions of the turn have run.
    Turn,
    /// The hart spins: it has executed `pause` or a wait for a reservation.
    Pauses,
    /// The hart has executed `wfi`, and no interrupt is pending.
    Waits,
    /// S-mode makes an SBI call; the program counter is at the call.
    Call,
    /// A program's first instruction is next.
    User,
    /// The hart's next instruction is one that the interpreter does not know, or does not carry out
    /// as the lent hart would.
    Unknown,
    /// Translated code has left its region. The hart's state is unknown.
    Lost,
    /// A block's result is not the interpreter's. The hart's state is the block's.
    Differs(Difference),
}

/// Fences of a hart since it last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    None,
    /// Of one address.
    Page(u64),
    All,
}

/// What a virtual hart does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs no OS.
    Stopped,
    /// It executes instructions when its turn comes.
    Runs,
    /// It waits for an interrupt.
    Waits,
}

/// Counts of a lent hart's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions that took effect.
    pub instructions: u64,
    /// Of these, the ones of translated code. They are counted only if blocks count.
    pub translated: u64,
    /// Accesses to devices.
    pub device_accesses: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Exceptions that S-mode handles.
    pub exceptions: u64,
}

/// A lent hart, as the weak core runs it.
#[derive(Debug)]
pub struct VirtualHart {
    /// x0 to x31; the first is zero.
    pub x: [u64; 32],
    /// The program counter.
    pub pc: u64,
    /// Privilege mode.
    pub mode: Mode,
    /// f0 to f31.
    pub f: [u64; 32],
    /// The CSRs that the weak core keeps.
    pub csrs: Csrs,
    /// Properties of the lent hart.
    pub features: Features,
    /// What the hart does.
    pub activity: Activity,
    /// Counts since the caller last took them.
    pub counts: Counts,
    pub(crate) reservation: Option<Reservation>,
    pub(crate) tlb: Tlb,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) decoded: DecodedInstructions,
    pub(crate) fences: Fences,
    /// Instructions may have changed.
    pub(crate) fences_instructions: bool,
}

impl Default for VirtualHart {
    fn default() -> Self {
        Self::new()
    }
}

impl VirtualHart {
    /// A hart without state.
    #[must_use]
    pub const fn new() -> Self {
        VirtualHart {
            x: [0; 32],
            pc: 0,
            mode: Mode::Supervisor,
            f: [0; 32],
            csrs: Csrs::new(),
            features: Features::LEAST,
            activity: Activity::Stopped,
            counts: Counts {
                instructions: 0,
                translated: 0,
                device_accesses: 0,
                interrupts: 0,
                exceptions: 0,
            },
            reservation: None,
            tlb: Tlb::new(),
            shortcuts: Shortcuts::new(),
            decoded: DecodedInstructions::new(),
            fences: Fences::None,
            fences_instructions: false,
        }
    }

    /// Starts the stopped hart `id`, with the state that HSM defines (SBI 3.0, table 9.1).
    /// Floating-point registers are zero, and FS is Initial.
    pub fn start(&mut self, id: u64, address: u64, argument: u64) {
        const FS_INITIAL: u64 = 1 << 13;
        const UXL_64: u64 = 2 << 32;
        self.forget();
        self.x = [0; 32];
        self.x[10] = id;
        self.x[11] = argument;
        self.pc = address;
        self.mode = Mode::Supervisor;
        self.f = [0; 32];
        let float = if self.features.float { FS_INITIAL } else { 0 };
        self.csrs = Csrs {
            sstatus: UXL_64 | float,
            scounteren: self.features.counters_at_start,
            ..Csrs::new()
        };
        self.activity = Activity::Runs;
    }

    /// Drops translations and reservation, at the end of a lending.
    pub fn forget(&mut self) {
        self.tlb.clear();
        self.shortcuts.forget();
        self.fences = Fences::All;
        self.reservation = None;
    }

    /// Completes an SBI call with a0 and a1.
    pub fn answer(&mut self, error: u64, value: u64) {
        self.x[10] = error;
        self.x[11] = value;
        self.pc = self.pc.wrapping_add(4);
        self.counts.instructions += 1;
    }

    /// Lets the hart execute the instructions that memory has now (`fence.i`).
    pub fn fence_instructions(&mut self) {
        self.fences_instructions = true;
    }

    /// Drops translations of an address or of all, in one address space or in all.
    pub fn drop_translations(&mut self, address: Option<u64>, space: Option<u64>) {
        let space = space.map(|space| space & self.features.space_mask);
        self.tlb.drop_of(address, space);
        self.shortcuts.forget();
        self.fences = match (self.fences, address) {
            (Fences::None, Some(address)) => Fences::Page(address),
            (Fences::Page(other), Some(address)) if other == address => Fences::Page(address),
            _ => Fences::All,
        };
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, register: u8, value: u64) {
        self.x[usize::from(register & 31)] = value;
        self.x[0] = 0;
    }

    #[inline(always)]
    pub(crate) fn get(&self, register: u8) -> u64 {
        self.x[usize::from(register & 31)]
    }
}
