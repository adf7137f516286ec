//! What is not kept, or not put back.

use std::vec;

use super::disk::{Disk, WRITE_QUEUED};
use super::driver::Driver;
use super::port::*;
use super::{cut, one_disk};
use crate::KeeperError;
use crate::tests::machine::FUNCTION;
use crate::tests::{go, stop};

/// A driver whose one disk is special.
fn with_disk(change: impl FnOnce(&mut Disk)) -> Driver {
    let mut disk = Disk::new();
    change(&mut disk);
    Driver::new(vec![Some(disk)])
}

fn refusal(driver: &Driver) -> Option<KeeperError> {
    stop(&driver.machine).err()
}

#[test]
fn a_disk_that_is_not_flushed_in_time_is_not_kept() {
    let driver = with_disk(|disk| disk.flush_us = 20_000);
    assert_eq!(refusal(&driver), Some(KeeperError::NotDone(FUNCTION)));
}

#[test]
fn a_slow_disk_has_the_time_to_be_flushed() {
    let mut driver = with_disk(|disk| {
        disk.latency = 50_000;
        disk.flush_us = 2_000;
    });
    driver.submit(0, 0, WRITE_QUEUED, 0);
    assert_eq!(refusal(&driver), None);
}

#[test]
fn a_disk_with_a_password_is_not_kept() {
    let driver = with_disk(|disk| disk.is_secured = true);
    assert_eq!(refusal(&driver), Some(KeeperError::State(FUNCTION)));
}

#[test]
fn what_is_not_known_is_not_kept() {
    let changes: [fn(&Driver); 4] = [
        |driver| driver.hba.borrow_mut().ports[0].command |= 1 << 17,
        |driver| {
            driver.hba.borrow_mut().capabilities |= 1 << 16;
            driver.hba.borrow_mut().ports[0].switching = 1;
        },
        |driver| driver.hba.borrow_mut().coalescing = 1,
        |driver| driver.hba.borrow_mut().control = 0,
    ];
    for change in changes {
        let driver = one_disk(100);
        change(&driver);
        assert_eq!(refusal(&driver), Some(KeeperError::State(FUNCTION)));
    }
}

#[test]
fn another_disk_is_noticed() {
    let changes: [fn(&mut Disk); 2] = [|disk| disk.serial += 1, |disk| disk.is_packet = true];
    for change in changes {
        let driver = one_disk(100);
        let record = cut(&driver);
        change(driver.hba.borrow_mut().disk(0));
        let error = go(&driver.machine, &record).err();
        assert_eq!(error, Some(KeeperError::Changed(FUNCTION)));
    }
}

#[test]
fn a_disk_that_is_gone_is_noticed() {
    let driver = one_disk(100);
    let record = cut(&driver);
    driver.hba.borrow_mut().ports[0].disk = None;
    let error = go(&driver.machine, &record).err();
    assert_eq!(error, Some(KeeperError::NotDone(FUNCTION)));
}

#[test]
fn another_hba_is_noticed() {
    let driver = one_disk(100);
    let record = cut(&driver);
    driver.hba.borrow_mut().capabilities ^= 1 << 8;
    let error = go(&driver.machine, &record).err();
    assert_eq!(error, Some(KeeperError::Changed(FUNCTION)));
}

#[test]
fn a_command_that_has_failed_is_left_to_the_driver() {
    let mut driver = with_disk(|disk| disk.is_packet = true);
    driver.prepare(0, 0, 0x35, 0);
    driver.issue(0, 0);
    driver.hba.borrow_mut().ports[0].enabled = 0;
    driver.run(1000);
    assert_eq!(driver.port_read(0, CI), 1);
    let before = driver.machine.board.now();
    let record = cut(&driver);
    assert!(
        driver.machine.board.now() - before < 3000,
        "it is not waited for"
    );
    go(&driver.machine, &record).unwrap();
    driver.run(1000);
    assert_eq!(driver.port_read(0, CI), 1, "it has failed again");
}
