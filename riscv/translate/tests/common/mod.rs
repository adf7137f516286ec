//! A hart that runs code from [`CODE`].
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod flags;
pub(crate) mod walk;
pub(crate) mod wall;

use poorwill_isa::{FORMS, encode};
use poorwill_translate::fake::{FakeHost, RAM};
use poorwill_translate::{Stop, VirtualHart};

pub(crate) const CODE: u64 = RAM + 0x1000;

/// The fixed bits of an instruction.
pub(crate) fn of(mnemonic: &str) -> u32 {
    let mut forms = FORMS.iter();
    let form = forms.find(|form| form.mnemonic == mnemonic);
    form.unwrap_or_else(|| panic!("{mnemonic}")).value
}

pub(crate) fn r(mnemonic: &str, rd: u32, rs1: u32, rs2: u32) -> u32 {
    encode::r(of(mnemonic), rd, rs1, rs2)
}

pub(crate) fn i(mnemonic: &str, rd: u32, rs1: u32, immediate: i32) -> u32 {
    encode::i(of(mnemonic), rd, rs1, immediate)
}

pub(crate) fn s(mnemonic: &str, rs1: u32, rs2: u32, offset: i32) -> u32 {
    encode::s(of(mnemonic), rs1, rs2, offset)
}

pub(crate) struct Machine {
    pub(crate) host: FakeHost,
    pub(crate) hart: VirtualHart,
}

impl Machine {
    /// A machine with 64 pages and this code.
    pub(crate) fn new(code: &[u32]) -> Self {
        let host = FakeHost::new(64);
        host.put_code(CODE, code);
        let mut hart = VirtualHart::new();
        hart.pc = CODE;
        hart.features.modes = 1 | 1 << 8 | 1 << 9 | 1 << 10;
        hart.features.space_mask = 0xffff;
        Machine { host, hart }
    }

    pub(crate) fn run(&mut self, most: u64) -> Stop {
        self.hart.run(&self.host, most)
    }

    /// Asserts that the next instruction stops the hart, which has not changed.
    #[track_caller]
    pub(crate) fn stops_at_once(&mut self, stop: Stop) {
        let before = (self.hart.x, self.hart.f, self.hart.pc, self.hart.csrs);
        assert_eq!(self.run(1), stop);
        let after = (self.hart.x, self.hart.f, self.hart.pc, self.hart.csrs);
        assert_eq!(after, before);
    }

    /// Asserts that the next instruction enters the handler with this cause and value.
    #[track_caller]
    pub(crate) fn raises(&mut self, cause: u64, value: u64) {
        let (pc, x) = (self.hart.pc, self.hart.x);
        assert_eq!(self.run(1), Stop::Turn);
        let csrs = &self.hart.csrs;
        assert_eq!((csrs.scause, csrs.stval, csrs.sepc), (cause, value, pc));
        assert_eq!(self.hart.pc, csrs.stvec & !3);
        assert_eq!(self.hart.x, x);
        self.hart.pc = pc;
    }
}
