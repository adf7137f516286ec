//! State of the machine that a sleep, or a refused sleep, must leave unchanged: set to odd values
//! before, checked after.

use crate::{
    arch::{
        self, SSTATUS_FS, SSTATUS_MXR, SSTATUS_SIE, SSTATUS_SUM, SSTATUS_VS, guard, sleep::Found,
    },
    check, clock,
    irqchip::Chip,
    machine::Machine,
    memory::Memory,
    read_csr, say,
    units::{self, Units},
    workers, write_csr,
};

/// What the state was before.
#[derive(Debug)]
pub(crate) struct State {
    memory: Memory,
    /// Which sleep this is: memory's content depends on it.
    number: usize,
    csrs: Found,
    senvcfg: Option<usize>,
    /// Interrupts that are pending for a guest of ours.
    hip: Option<usize>,
    units: Units,
    chip: Chip,
    /// The real-time clock, in nanoseconds.
    clock: Option<u64>,
}

/// The wake vector was given what the specification promises it.
pub(crate) fn check_arguments(found: &Found, hart: usize, opaque: usize) {
    check!(found.a0 == hart, "a0 is the hart's id: {:#x}", found.a0);
    check!(
        found.a1 == opaque,
        "a1 is the opaque argument: {:#x}",
        found.a1
    );
}

/// How far the time may be off after a wake, in seconds^-1.
const TIME_TOLERANCE: u64 = 2;

impl State {
    /// Fills memory and registers for the sleep number `number`.
    pub(crate) fn set_up(machine: &Machine, hart: usize, number: usize, memory: Memory) -> Self {
        memory.fill(number);
        let senvcfg = set_csrs(number);
        let units = Units::set(machine, number);
        let chip = Chip::set_up(machine, hart, number);
        // Off does not destroy what the units hold.
        if !number.is_multiple_of(3) {
            units::turn_off();
        }
        Self {
            memory,
            number,
            senvcfg,
            hip: read_hip(),
            units,
            chip,
            clock: machine.clock.map(clock::read),
            // Last, as all the rest may change `sstatus` and `time`.
            csrs: arch::sleep::csrs_now(),
        }
    }

    /// Leaves an interrupt pending, which is to stay so.
    pub(crate) fn leave_pending(&mut self, machine: &Machine) {
        self.chip.leave_pending(machine);
    }

    /// Bytes of memory that are not zero, the test kernel's own left out.
    pub(crate) fn filled_bytes(&self) -> usize {
        self.memory.filled_bytes(self.number)
    }

    /// After a call that failed: nothing may be different.
    pub(crate) fn check_unchanged(&self, machine: &Machine, hart: usize) {
        let now = arch::sleep::csrs_now();
        check_same("sstatus", now.sstatus, self.csrs.sstatus);
        check_same("sie", now.sie, self.csrs.sie);
        self.check_csrs(&now);
        check!(now.time >= self.csrs.time, "time goes on");
        self.chip.check_generation_id(machine, false);
        self.check_rest(machine, hart);
    }

    /// After a wake, with what the wake vector found; `from_ram` if the power
    /// stayed on.
    pub(crate) fn check_after_wake(
        &self,
        machine: &Machine,
        hart: usize,
        found: &Found,
        from_ram: bool,
    ) {
        check!(found.satp == 0, "satp is zero: {:#x}", found.satp);
        check!(
            found.sstatus & SSTATUS_SIE == 0,
            "sstatus.SIE is off: {:#x}",
            found.sstatus
        );
        let kept = SSTATUS_SUM | SSTATUS_MXR | SSTATUS_FS | SSTATUS_VS;
        check!(
            found.sstatus & kept == self.csrs.sstatus & kept,
            "sstatus: {:#x}, was {:#x}",
            found.sstatus,
            self.csrs.sstatus
        );
        self.check_csrs(found);
        check!(
            found.time > self.csrs.time,
            "time goes on: {} after {}",
            found.time,
            self.csrs.time
        );
        // A guest's timer that nobody has set does not ring.
        let hip = read_hip();
        check!(hip == self.hip, "hip: {hip:x?}, was {:x?}", self.hip);
        self.chip.check_generation_id(machine, !from_ram);
        self.check_rest(machine, hart);
    }

    fn check_csrs(&self, now: &Found) {
        let was = &self.csrs;
        check_same("stvec", now.stvec, was.stvec);
        check_same("sscratch", now.sscratch, was.sscratch);
        check_same("sepc", now.sepc, was.sepc);
        check_same("scause", now.scause, was.scause);
        check_same("stval", now.stval, was.stval);
        check_same("scounteren", now.scounteren, was.scounteren);
        if let Some(was) = self.senvcfg {
            check_same("senvcfg", read_csr!("senvcfg"), was);
        }
    }

    /// Time goes on by the time slept, as the real-time clock has it.
    pub(crate) fn check_time(&self, machine: &Machine) {
        let (Some(before), Some(registers)) = (self.clock, machine.clock) else {
            return;
        };
        let ticks = arch::time().wrapping_sub(self.csrs.time as u64);
        // QEMU's goldfish clock starts at a whole second at each power-on, so two
        // power-ons' clocks differ by up to one, and may even go back.
        let least = (machine.number("slept_ms", 0) as u64).saturating_sub(1000);
        let Some(slept_ns) = clock::read(registers).checked_sub(before) else {
            check!(least == 0, "the real-time clock went back");
            return;
        };
        let ticks_by_clock = slept_ns / 1000 * machine.timebase / 1_000_000;
        let off = ticks.abs_diff(ticks_by_clock);
        check!(
            off < machine.timebase / TIME_TOLERANCE,
            "time went on by {ticks} ticks, the real-time clock by {ticks_by_clock}"
        );
        let slept_ms = ticks_by_clock * 1000 / machine.timebase;
        check!(slept_ms >= least, "slept {slept_ms} ms, at least {least}");
        say!(
            "slept {slept_ms} ms, time is off by {} us",
            off * 1_000_000 / machine.timebase
        );
    }

    /// What is the same after a wake and after a refused sleep.
    fn check_rest(&self, machine: &Machine, hart: usize) {
        self.units.check();
        self.chip.check(machine);
        let wrong = self.memory.verify(self.number);
        check!(wrong == 0, "{wrong} pages are not as they were");
        self.chip.check_delivery(machine);
        check_timer(machine);
        check_own_ipi(machine, hart);
        workers::check_all(machine, hart);
    }
}

/// A register is as it was.
fn check_same(name: &str, now: usize, was: usize) {
    check!(now == was, "{name}: {now:#x}, was {was:#x}");
}

/// Sets the CSRs to values that no reset leaves there; returns `senvcfg`'s.
fn set_csrs(number: usize) -> Option<usize> {
    write_csr!("sscratch", 0x5c5c_0000 + number);
    write_csr!("sepc", 0x8040_0000 + number * 4);
    write_csr!("scause", 2 + number % 2);
    write_csr!("stval", 0x57a1_0000 + number);
    write_csr!("scounteren", 0b101 + number % 2 * 2);
    write_csr!("sie", arch::TIMER | (number % 2 * arch::SOFTWARE));
    let flags = if number % 2 == 1 {
        SSTATUS_SUM
    } else {
        SSTATUS_MXR
    };
    let others = read_csr!("sstatus") & !(SSTATUS_SUM | SSTATUS_MXR | SSTATUS_SIE);
    write_csr!("sstatus", others | flags);
    // This reads first, as reading tells whether there is one.
    let cause = read_csr!("scause");
    if guard::read_senvcfg().is_some() {
        write_csr!("scause", cause);
        return None;
    }
    // FIOM, the one bit that every hart of version 1.12 with an MMU has.
    write_csr!("senvcfg", 1);
    Some(read_csr!("senvcfg"))
}

/// `hip`. Where there is none, finding out changes `scause` and the like.
fn read_hip() -> Option<usize> {
    let kept = (read_csr!("sepc"), read_csr!("scause"), read_csr!("stval"));
    let pending = guard::read_hip();
    write_csr!("sepc", kept.0);
    write_csr!("scause", kept.1);
    write_csr!("stval", kept.2);
    pending
}

/// A timer set now fires.
fn check_timer(machine: &Machine) {
    let set = sbi_rt::set_timer(arch::time() + machine.timebase / 100);
    check!(set.is_ok(), "set_timer: {set:?}");
    let cause = guard::wait_for_interrupt(arch::TIMER, machine.timebase);
    check!(
        cause == Some(arch::interrupt_cause(arch::TIMER)),
        "the timer interrupt arrives: {cause:x?}"
    );
    let _ = sbi_rt::set_timer(u64::MAX);
}

/// An IPI to this hart arrives.
fn check_own_ipi(machine: &Machine, hart: usize) {
    let sent = sbi_rt::send_ipi(sbi_rt::HartMask::from_mask_base(1, hart));
    check!(sent.is_ok(), "send_ipi: {sent:?}");
    let cause = guard::wait_for_interrupt(arch::SOFTWARE, machine.timebase);
    check!(
        cause == Some(arch::interrupt_cause(arch::SOFTWARE)),
        "the IPI arrives: {cause:x?}"
    );
    write_csr!("sip", 0);
}
