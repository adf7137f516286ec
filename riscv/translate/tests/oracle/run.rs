//! The interpreter and the model side by side.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use fastrand::Rng;
use poorwill_translate::fake::{FakeHost, State};
use poorwill_translate::{Csrs, Host, Mode, Stop, VirtualHart};
use softcore_rv64::Privilege;
use softcore_rv64::prelude::bv;

use crate::draw::{Case, OF_CODE, OF_SATP, POINTERS, one_in, pointer, value};
use crate::model::{End, INTERRUPTS, Model};

const SD: u64 = 1 << 63;

/// A host that notes all stores.
struct Watched {
    host: FakeHost,
    stores: RefCell<Vec<(u64, u64, u64)>>,
}

impl Host for Watched {
    fn is_memory(&self, page: u64) -> bool {
        self.host.is_memory(page)
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        self.host.load(address, bytes)
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        self.stores.borrow_mut().push((address, bytes, value));
        self.host.store(address, bytes, value);
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        self.host.load_device(address, bytes)
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        self.host.store_device(address, bytes, value)?;
        self.stores.borrow_mut().push((address, bytes, value));
        Some(())
    }

    fn fence(&self) {
        self.host.fence();
    }

    fn time(&self) -> u64 {
        self.host.time()
    }

    fn external_interrupt(&self) -> bool {
        self.host.external_interrupt()
    }
}

/// Stored bytes, by their addresses.
fn bytes(stores: &[(u64, u64, u64)]) -> BTreeMap<u64, u8> {
    let bytes = stores.iter().flat_map(|&(address, bytes, value)| {
        (0..bytes).map(move |number| (address + number, (value >> (8 * number)) as u8))
    });
    bytes.collect()
}

pub(crate) struct Pair {
    case: Case,
    rng: Rng,
    seed: u64,
    hart: VirtualHart,
    watched: Watched,
    model: Model,
    /// Instructions so far.
    pub(crate) steps: u64,
}

impl Pair {
    pub(crate) fn new(case: Case, rng: Rng, seed: u64) -> Self {
        let (host, satp) = case.host();
        let watched = Watched {
            host,
            stores: RefCell::default(),
        };
        let mut hart = VirtualHart::new();
        hart.features = case.features;
        hart.mode = case.mode;
        hart.pc = case.pc;
        let csrs = &mut hart.csrs;
        csrs.satp = satp;
        csrs.stvec = case.stvec;
        csrs.sstatus = case.sstatus;
        csrs.sie = case.sie;
        let mut model = Model::new(case.host().0, case.features, satp);
        let core = &mut model.core;
        core.cur_privilege = match case.mode {
            Mode::User => Privilege::User,
            Mode::Supervisor => Privilege::Supervisor,
        };
        core.PC = bv(case.pc);
        core.satp = bv(satp);
        core.stvec.bits = bv(case.stvec);
        let has_dirty_float = case.sstatus & 3 << 13 == 3 << 13;
        let dirty = if has_dirty_float { SD } else { 0 };
        core.mstatus.bits = bv(core.mstatus.bits.bits() | case.sstatus | dirty);
        core.mie.bits = bv(case.sie);
        core.stimecmp = bv(u64::MAX);
        let mut pair = Pair {
            case,
            rng,
            seed,
            hart,
            watched,
            model,
            steps: 0,
        };
        for register in 1..32 {
            let value = value(&mut pair.rng);
            pair.set(register, value);
        }
        pair.point();
        pair.set_deadline();
        pair
    }

    fn set(&mut self, register: u8, value: u64) {
        self.hart.x[usize::from(register)] = value;
        self.model.set(register, value);
    }

    /// Gives the pointers their addresses.
    fn point(&mut self) {
        for register in POINTERS {
            let address = pointer(&mut self.rng, &self.case);
            self.set(register, address);
        }
        self.set(OF_CODE, self.case.pc);
        // The case's own tables, none, and a mode that no hart has.
        let space = self.rng.u64(..1 << 16) << 44;
        let satp = match self.rng.u32(0..8) {
            0 => 0,
            1 => 11 << 60,
            _ if self.model.own_satp == 0 => 0,
            _ => self.model.own_satp & !(0xffff << 44) | space,
        };
        self.set(OF_SATP, satp);
    }

    fn set_deadline(&mut self) {
        let deadline = self.rng.u64(0..100);
        self.hart.csrs.deadline = deadline;
        self.model.deadline = deadline;
        self.model.core.stimecmp = bv(deadline);
    }

    /// Changes what the hart does not change itself: interrupts, time; and leads a lost program
    /// back.
    pub(crate) fn disturb(&mut self) {
        for host in [&self.watched.host, &self.model.host] {
            host.time.set(self.steps);
        }
        if one_in(&mut self.rng, 8) {
            let is_external = one_in(&mut self.rng, 4);
            for host in [&self.watched.host, &self.model.host] {
                host.interrupts.set(is_external);
            }
        }
        if one_in(&mut self.rng, 8) {
            self.point();
        }
        if one_in(&mut self.rng, 16) {
            self.set_deadline();
        }
        if self.hart.csrs.satp >> 60 == 0 && one_in(&mut self.rng, 4) {
            self.hart.csrs.satp = self.model.own_satp;
            self.model.core.satp = bv(self.model.own_satp);
        }
        let handler = self.hart.csrs.stvec & !0xfff;
        let is_in = |start: u64| self.hart.pc.wrapping_sub(start) < 0x2000;
        let is_lost = !is_in(self.case.code) && !is_in(handler);
        if is_lost || one_in(&mut self.rng, 16) {
            let number = self.rng.u64(0..32);
            self.go_to(self.case.pc + 4 * number);
        }
    }

    fn go_to(&mut self, pc: u64) {
        self.hart.pc = pc;
        self.model.set_pc(pc);
    }

    /// Instructions of the next turn.
    pub(crate) fn draw_turn(&mut self) -> u64 {
        [1, 1, 2, 5, 20][self.rng.usize(..5)]
    }

    fn same<T: PartialEq + Debug>(&self, what: &str, own: &T, model: &T) {
        assert!(
            own == model,
            "{what} differs after {} steps; POORWILL_SEED={} POORWILL_PROGRAMS=1 repeats it\n\
             interpreter: {own:x?}\nmodel: {model:x?}\n{:x?}",
            self.steps,
            self.seed,
            self.case
        );
    }

    /// Runs at most `most` instructions on both, and compares; returns how the turn ends.
    pub(crate) fn turn(&mut self, most: u64) -> End {
        let mut end = End::Retired;
        let mut left = most;
        while left > 0 && [End::Retired, End::Exception].contains(&end) {
            end = self.model.step();
            left -= 1;
            self.steps += 1;
        }
        if self.model.has_other_tables {
            // The rest of the program cannot be compared.
            self.steps = u64::MAX;
            return end;
        }
        self.model.reservation = None;
        let stop = self.hart.run(&self.watched, most);
        let wanted = match end {
            End::Retired | End::Exception => Stop::Turn,
            End::Call => Stop::Call,
            End::Waits => Stop::Waits,
            End::Pauses => Stop::Pauses,
            End::User => Stop::User,
            End::GivenBack(_) => Stop::Unknown,
        };
        let model = (wanted, self.model_state());
        self.same("the state", &(stop, State::of(&self.hart)), &model);
        let own = bytes(&self.watched.stores.take());
        self.same("memory", &own, &bytes(&self.model.stores));
        self.model.stores.clear();
        self.go_on(end);
        end
    }

    /// Lets the lent hart make its part.
    fn go_on(&mut self, end: End) {
        match end {
            End::Call => {
                let (error, value) = (self.rng.u64(..), self.rng.u64(..));
                self.hart.answer(error, value);
                self.model.set(10, error);
                self.model.set(11, value);
                self.model.set_pc(self.hart.pc);
            }
            End::GivenBack(_) => {
                let length = 2 * self.rng.u64(1..3);
                self.go_to(self.hart.pc.wrapping_add(length));
            }
            _ => {}
        }
    }

    fn model_state(&mut self) -> State {
        let x = core::array::from_fn(|register| self.model.x(register as u8));
        let core = &self.model.core;
        State {
            x,
            f: self.model.f,
            pc: self.model.pc(),
            mode: self.model.mode(),
            csrs: Csrs {
                fcsr: core.fcsr.bits.bits(),
                sstatus: self.model.sstatus() & !SD,
                sie: core.mie.bits.bits(),
                stvec: core.stvec.bits.bits(),
                scounteren: core.scounteren.bits.bits(),
                senvcfg: core.senvcfg.bits.bits(),
                sscratch: core.sscratch.bits(),
                sepc: core.sepc.bits(),
                scause: core.scause.bits.bits(),
                stval: core.stval.bits(),
                satp: core.satp.bits(),
                software_interrupt: core.mip.bits.bits() & INTERRUPTS[0] != 0,
                deadline: self.model.deadline,
            },
        }
    }
}
