//! A hart's timers, on a model of them.
#![allow(missing_docs, reason = "a test")]

use std::cell::Cell;

use poorwill_hart::interrupt::{MEI, MSI, MTI, SEI, STI};
use poorwill_hart::{HartTimer, HeldTimer, NEVER, TimerAccess};

/// The registers, and what a wait found in them.
#[derive(Debug)]
struct Model {
    has_sstc: bool,
    has_machine_timer: bool,
    mtimecmp: Cell<u64>,
    stimecmp: Cell<u64>,
    mie: Cell<u64>,
    mip: Cell<u64>,
    /// `mie` and MTIMECMP at the last wait.
    waited: Cell<Option<(u64, u64)>>,
}

/// As a kernel has it that waits for its devices and its timer.
const OS_ENABLED: u64 = STI | SEI | MSI | MEI;

/// With the registers as a reset leaves them, but for `mie`.
fn model(has_sstc: bool, has_machine_timer: bool) -> Model {
    Model {
        has_sstc,
        has_machine_timer,
        mtimecmp: Cell::new(0),
        stimecmp: Cell::new(NEVER),
        mie: Cell::new(OS_ENABLED),
        mip: Cell::new(0),
        waited: Cell::new(None),
    }
}

/// Sets or clears bits.
fn change(register: &Cell<u64>, bits: u64, is_set: bool) {
    let others = register.get() & !bits;
    register.set(if is_set { others | bits } else { others });
}

impl TimerAccess for &Model {
    fn has_sstc(&self) -> bool {
        self.has_sstc
    }

    fn has_machine_timer(&self) -> bool {
        self.has_machine_timer
    }

    fn mtimecmp(&self) -> u64 {
        if self.has_machine_timer {
            self.mtimecmp.get()
        } else {
            NEVER
        }
    }

    fn set_mtimecmp(&self, deadline: u64) {
        if self.has_machine_timer {
            self.mtimecmp.set(deadline);
        }
    }

    fn stimecmp(&self) -> u64 {
        assert!(self.has_sstc, "the CSR is illegal here");
        self.stimecmp.get()
    }

    fn set_stimecmp(&self, deadline: u64) {
        assert!(self.has_sstc, "the CSR is illegal here");
        self.stimecmp.set(deadline);
    }

    fn enabled(&self) -> u64 {
        self.mie.get()
    }

    fn set_enabled(&self, bits: u64) {
        self.mie.set(bits);
    }

    fn enable_machine_timer(&self, is_enabled: bool) {
        change(&self.mie, MTI, is_enabled);
    }

    fn pending(&self) -> u64 {
        self.mip.get()
    }

    fn set_supervisor_pending(&self, is_pending: bool) {
        assert!(!self.has_sstc, "STIP is stimecmp's alone");
        change(&self.mip, STI, is_pending);
    }

    fn wait(&self) {
        self.waited.set(Some((self.mie.get(), self.mtimecmp.get())));
    }
}

#[test]
fn a_timer_that_machine_mode_keeps_is_set_and_told() {
    let model = model(false, true);
    let timer = HartTimer::new(&model);
    timer.stop_machine_timer();
    assert_eq!(
        (model.mtimecmp.get(), timer.supervisor_deadline()),
        (NEVER, Some(NEVER))
    );
    model.mip.set(STI);
    timer.set_supervisor_timer(500);
    assert_eq!(model.mtimecmp.get(), 500);
    assert_eq!(model.mie.get(), OS_ENABLED | MTI);
    assert_eq!(
        model.mip.get(),
        0,
        "a new deadline takes the old one's interrupt back"
    );
    assert_eq!(timer.supervisor_deadline(), Some(500));
}

#[test]
fn a_timer_that_is_not_set_has_no_deadline() {
    let model = model(false, true);
    // What machine mode had it at for itself is nothing to the OS.
    model.mtimecmp.set(77);
    assert_eq!(HartTimer::new(&model).supervisor_deadline(), Some(NEVER));
}

#[test]
fn a_timer_that_has_rung_is_the_oss_and_rings_again() {
    let model = model(false, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(500);
    timer.forward();
    assert_eq!((model.mie.get(), model.mip.get()), (OS_ENABLED, STI));
    assert_eq!(timer.supervisor_deadline(), Some(500));
}

#[test]
fn a_timer_of_the_oss_own_is_left_to_it() {
    let model = model(true, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(500);
    assert_eq!((model.stimecmp.get(), model.mtimecmp.get()), (500, 0));
    assert_eq!(model.mie.get(), OS_ENABLED);
    assert_eq!(timer.supervisor_deadline(), None);
}

#[test]
fn a_timer_of_machine_mode_rings_once_and_leaves_the_os_alone() {
    let model = model(true, true);
    let timer = HartTimer::new(&model);
    timer.set_machine_timer(500);
    assert_eq!(model.mtimecmp.get(), 500);
    assert_eq!(model.mie.get(), OS_ENABLED | MTI);
    timer.forward();
    assert_eq!((model.mie.get(), model.mip.get()), (OS_ENABLED, 0));
    assert_eq!(model.mtimecmp.get(), NEVER);
    // Without Sstc the timer is the OS's.
    let model = self::model(false, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(900);
    timer.set_machine_timer(500);
    assert_eq!(model.mtimecmp.get(), 900);
}

#[test]
fn a_hart_without_any_timer_sets_none() {
    let model = model(false, false);
    let timer = HartTimer::new(&model);
    model.mip.set(STI);
    timer.set_supervisor_timer(500);
    assert_eq!((model.mie.get(), model.mip.get()), (OS_ENABLED, STI));
    assert_eq!(timer.supervisor_deadline(), Some(NEVER));
}

#[test]
fn a_rest_wakes_for_machine_mode_and_leaves_the_oss_timer_as_it_was() {
    let model = model(false, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(900);
    timer.rest_until(500);
    assert_eq!(model.waited.get(), Some((MTI | MSI | MEI, 500)));
    assert_eq!(model.mtimecmp.get(), 900);
    assert_eq!(model.mie.get(), OS_ENABLED | MTI);
}

#[test]
fn a_rest_leaves_a_timer_that_is_not_set_unset() {
    let model = model(false, true);
    let timer = HartTimer::new(&model);
    timer.rest_until(500);
    assert_eq!((model.mtimecmp.get(), model.mie.get()), (NEVER, OS_ENABLED));
    // Nor does a timer that has rung before come twice.
    timer.set_supervisor_timer(300);
    timer.forward();
    let mut held = HeldTimer::hold(timer);
    held.ring_if_due(400);
    held.give_back();
    assert_eq!((model.mie.get(), model.mip.get()), (OS_ENABLED, STI));
}

#[test]
fn a_rest_with_a_timer_of_the_oss_own_stops_machine_modes() {
    let model = model(true, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(900);
    timer.rest_until(500);
    assert_eq!(model.waited.get(), Some((MTI | MSI | MEI, 500)));
    assert_eq!((model.stimecmp.get(), model.mtimecmp.get()), (900, NEVER));
    assert_eq!(model.mie.get(), OS_ENABLED);
}

#[test]
fn a_hart_without_a_timer_does_not_wait() {
    for has_sstc in [false, true] {
        let model = model(has_sstc, false);
        HartTimer::new(&model).rest_until(500);
        assert_eq!((model.waited.get(), model.mie.get()), (None, OS_ENABLED));
    }
}

#[test]
fn a_held_timer_rings_once_when_machine_mode_is_to_ring_it() {
    let model = model(false, true);
    let timer = HartTimer::new(&model);
    timer.set_supervisor_timer(500);
    let mut held = HeldTimer::hold(timer);
    assert_eq!(held.due(), Some(500));
    held.ring_if_due(499);
    assert_eq!(model.mip.get(), 0);
    held.ring_if_due(500);
    assert_eq!(model.mip.get(), STI);
    // The OS's handler is not there to clear it; another look does not ring anew.
    model.mip.set(0);
    held.ring_if_due(501);
    assert_eq!(model.mip.get(), 0);
    held.give_back();
    assert_eq!(
        model.mie.get(),
        OS_ENABLED,
        "what has rung is not to ring again"
    );
    assert_eq!(model.mtimecmp.get(), 500);
}

#[test]
fn a_held_timer_of_the_oss_own_is_looked_at_and_not_rung() {
    let model = model(true, true);
    model.stimecmp.set(500);
    let mut held = HeldTimer::hold(HartTimer::new(&model));
    assert_eq!((held.due(), held.enabled()), (Some(500), OS_ENABLED));
    held.ring_if_due(600);
    assert_eq!(model.mip.get(), 0);
}

#[test]
fn a_timer_whose_interrupt_the_os_has_off_wakes_nothing() {
    let model = model(true, true);
    model.stimecmp.set(500);
    model.mie.set(SEI);
    assert_eq!(HeldTimer::hold(HartTimer::new(&model)).due(), None);
    model.mie.set(STI);
    assert_eq!(HeldTimer::hold(HartTimer::new(&model)).due(), Some(500));
    model.stimecmp.set(NEVER);
    assert_eq!(HeldTimer::hold(HartTimer::new(&model)).due(), None);
}

#[test]
fn a_held_rest_wakes_for_what_the_os_has_enabled() {
    let model = model(false, true);
    model.mie.set(SEI);
    let held = HeldTimer::hold(HartTimer::new(&model));
    held.rest(700);
    assert_eq!(model.waited.get(), Some((SEI | MTI | MSI | MEI, 700)));
    assert_eq!(
        model.mtimecmp.get(),
        NEVER,
        "it is not pending while the hart looks"
    );
    held.give_back();
    assert_eq!(model.mie.get(), SEI);
}
