//! NVMe controllers over a cut.

mod driver;
mod model;

use std::vec::Vec;

use poorwill_medium::nvme::ShutdownFacts;
use proptest::prelude::*;

use self::driver::{Driver, OTHERS, REQUEST, STEPS};
use self::model::*;
use super::{HOLD_UP_US, go, go_with_power_failures, stop};
use crate::KeeperError;
use crate::tests::machine::FUNCTION;

/// "Persistent internal error", of the error log's page.
const PERSISTENT_ERROR: u32 = 0x1_0300;

/// Where the first message goes, and what it is.
const MESSAGE: (u64, u32) = (0x2800_0000, 4);

fn cut(driver: &Driver) {
    let record = stop(&driver.machine).unwrap();
    driver.machine.power_cycle();
    go(&driver.machine, &record).unwrap();
}

/// What the driver is told, once, by a message.
fn event(driver: &mut Driver) -> [u32; 4] {
    assert_eq!(driver.machine.board.take_messages(), [MESSAGE]);
    let event = driver.completed(0).expect("an event");
    assert_eq!(driver.completed(0), None);
    event
}

#[test]
fn a_driver_whose_controller_serves_is_told_once_wherever_its_rings_are() {
    for commands in 0..40 {
        let mut driver = Driver::serving();
        for _ in 0..commands {
            driver.admin(IDENTIFY, [0x8000_1000, 0, 0]);
        }
        cut(&driver);
        assert!(!is_enabled(&driver.model.borrow()));
        let [what, _, _, last] = event(&mut driver);
        assert_eq!((what, last & 0xffff), (PERSISTENT_ERROR, REQUEST));
        assert_eq!(driver.buffer(), OTHERS);
        // It resets the controller then.
        (0..STEPS).for_each(|step| driver.step(step));
        driver.write_block(3, 4);
    }
}

#[test]
fn what_was_acknowledged_is_there_behind_the_cut() {
    let mut driver = Driver::serving();
    driver.write_block(3, 33);
    driver.write_block(4, 44);
    cut(&driver);
    assert_eq!(
        driver.model.borrow().hooks.blocks,
        [(3, 33), (4, 44)].into()
    );
}

#[test]
fn a_controller_that_is_set_up_is_set_up_as_far_and_the_driver_goes_on() {
    for steps in 1..STEPS {
        let mut driver = Driver::new();
        // Of an earlier life there is much in the rings.
        (0..STEPS).for_each(|step| driver.step(step));
        for block in 0..5 {
            driver.write_block(block, 50 + u64::from(block));
        }
        // The driver has given its interrupts back.
        for vector in 0..2 {
            crate::Window::write32(&driver.machine.bar(3), 16 * vector + 12, 1);
        }
        (0..steps).for_each(|step| driver.step(step));
        cut(&driver);
        assert_eq!(driver.completed(0), None, "behind {steps} steps");
        (steps..STEPS).for_each(|step| driver.step(step));
        assert_eq!(requests(&driver.model.borrow()), [REQUEST]);
        for block in 0..5 {
            assert_eq!(driver.read_block(block), 50 + u64::from(block));
        }
    }
}

#[test]
fn an_io_queue_that_is_used_before_events_are_asked_for_goes_on() {
    for commands in 0..7 {
        let mut driver = Driver::new();
        (0..STEPS - 1).for_each(|step| driver.step(step));
        for block in 0..commands {
            driver.write_block(block, 7);
        }
        cut(&driver);
        assert_eq!(driver.completed(1), None);
        driver.step(STEPS - 1);
        for block in 0..commands {
            assert_eq!(driver.read_block(block), 7);
        }
    }
}

#[test]
fn doorbells_in_memory_are_as_they_were() {
    for commands in 0..6 {
        let mut driver = Driver::new();
        (0..STEPS - 1).for_each(|step| driver.step(step));
        driver.set_buffer();
        for block in 0..commands {
            driver.write_block(block, 7);
        }
        // A hart is between its two stores.
        driver.begin_to_write(9);
        cut(&driver);
        let done = driver.completed(1).expect("it is completed");
        assert_eq!(done[3] >> 17, 0);
        assert_eq!(driver.completed(1), None);
        driver.step(STEPS - 1);
        driver.write_block(20, 8);
        for block in 0..commands {
            assert_eq!(driver.read_block(block), 7);
        }
        assert_eq!(driver.read_block(20), 8);
    }
}

#[test]
fn a_controller_that_is_off_stays_off() {
    let driver = Driver::new();
    driver.write(AQA, 0x0007_0007);
    driver.write(ASQ, 0x8000_2000);
    cut(&driver);
    let bar = driver.machine.bar(0);
    assert_eq!(crate::Window::read32(&bar, AQA), 0x0007_0007);
    assert_eq!(crate::Window::read32(&bar, ASQ), 0x8000_2000);
    assert!(!is_enabled(&driver.model.borrow()));
    assert_eq!(driver.machine.board.messages(), []);
}

#[test]
fn what_cannot_be_kept_or_does_not_finish_is_refused() {
    let mut driver = Driver::new();
    (0..4).for_each(|step| driver.step(step));
    driver.admin_stuck(IDENTIFY);
    let refused = stop(&driver.machine).map(|_| ());
    assert_eq!(refused, Err(KeeperError::State(FUNCTION)));

    let driver = Driver::serving();
    driver.model.borrow_mut().hooks.never_shuts = true;
    let refused = stop(&driver.machine).map(|_| ());
    assert_eq!(refused, Err(KeeperError::NotDone(FUNCTION)));

    // Rings that are no memory of the OS's.
    let driver = Driver::serving();
    driver.write(ACQ, 0x1000);
    let refused = stop(&driver.machine).map(|_| ());
    assert_eq!(refused, Err(KeeperError::State(FUNCTION)));
}

/// A driver of a controller whose shutdown takes that long, with a write in its cache or on
/// its medium.
fn slow(shuts_us: u64, has_cache: bool) -> Driver {
    let mut driver = Driver::serving();
    driver.write_block(3, 33);
    let mut model = driver.model.borrow_mut();
    model.hooks.shuts_us = shuts_us;
    if !has_cache {
        model.hooks.write_cache();
    }
    drop(model);
    driver.machine.facts.set(Some(ShutdownFacts {
        normal_us: shuts_us.try_into().unwrap(),
        has_cache,
    }));
    driver
}

#[test]
fn a_controller_is_shut_down_in_the_way_that_fits_and_loses_nothing() {
    for (shuts_us, has_cache, told) in [
        (0, true, NORMAL),
        (HOLD_UP_US / 2, true, NORMAL),
        (HOLD_UP_US / 2, false, NORMAL),
        (HOLD_UP_US * 2, false, ABRUPT),
    ] {
        let driver = slow(shuts_us, has_cache);
        let facts = driver.machine.facts.get();
        let record = stop(&driver.machine).unwrap();
        assert_eq!(
            driver.model.borrow().hooks.notifications[0],
            told,
            "{shuts_us}"
        );
        driver.machine.power_cycle();
        go(&driver.machine, &record).unwrap();
        assert_eq!(driver.model.borrow().hooks.blocks, [(3, 33)].into());
        // It may be cut again, though nobody has asked the controller since.
        assert_eq!(driver.machine.facts.get(), facts);
    }
}

#[test]
fn a_cache_that_cannot_be_written_in_time_refuses_the_cut() {
    let driver = slow(HOLD_UP_US * 2, true);
    let refused = stop(&driver.machine).map(|_| ());
    let normal_us = u32::try_from(HOLD_UP_US * 2).unwrap();
    assert_eq!(refused, Err(KeeperError::TooSlow(FUNCTION, normal_us)));
    assert_eq!(driver.model.borrow().hooks.notifications, []);
    // One that does not say how long it takes is waited for.
    for facts in [None, Some((0, true))] {
        let driver = slow(HOLD_UP_US * 2, true);
        driver
            .machine
            .facts
            .set(facts.map(|(normal_us, has_cache)| ShutdownFacts {
                normal_us,
                has_cache,
            }));
        let refused = stop(&driver.machine).map(|_| ());
        assert_eq!(refused, Err(KeeperError::NotDone(FUNCTION)));
        assert_eq!(driver.model.borrow().hooks.notifications, [NORMAL]);
    }
}

#[test]
fn go_may_be_cut_short_anywhere() {
    for steps in [6, STEPS] {
        let fresh = || {
            let mut driver = Driver::new();
            (0..steps).for_each(|step| driver.step(step));
            let record = stop(&driver.machine).unwrap();
            (driver.machine.again(), record)
        };
        go_with_power_failures(fresh, |machine| {
            let command = machine.board.word(0x8000_2000) & 0xff;
            assert_eq!(command, u64::from(IDENTIFY), "the first is as it was");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A record with anything in it is put back, or refused.
    #[test]
    fn no_record_leads_astray(
        steps in 1..=STEPS,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in any::<Option<prop::sample::Index>>(),
    ) {
        let mut driver = Driver::new();
        (0..steps).for_each(|step| driver.step(step));
        let record = stop(&driver.machine).unwrap();
        let other = record.with_payload(b"NVM", |section| {
            let mut payload: Vec<u8> = section.payload.to_vec();
            for (at, byte) in &changes {
                let at = at.index(payload.len());
                payload[at] = *byte;
            }
            if let Some(length) = &length {
                payload.truncate(length.index(payload.len() + 1));
            }
            payload
        });
        driver.machine.power_cycle();
        if crate::check(&driver.machine, &other.sections()).is_ok() {
            // Either is well.
            crate::put_back(&driver.machine, &other.sections()).ok();
        }
    }
}
