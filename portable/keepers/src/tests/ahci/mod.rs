//! Disks behind AHCI over a cut.

mod anything;
mod disk;
mod driver;
mod execute;
mod hba;
mod port;
mod refused;

use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

use self::disk::{Disk, LOOK_AHEAD, READ, READ_QUEUED, WRITE, WRITE_CACHE, WRITE_QUEUED};
use self::driver::Driver;
use self::hba::Hba;
use self::port::*;
use super::machine::Fake;
use super::{Record, go, go_with_power_failures, stop};

/// The disk of a port.
fn disk(driver: &Driver, port: usize) -> Disk {
    driver.hba.borrow_mut().disk(port).clone()
}

fn one_disk(latency: u64) -> Driver {
    let disk = Disk {
        latency,
        ..Disk::new()
    };
    Driver::new(vec![Some(disk)])
}

/// The power fails, and comes back.
fn cut(driver: &Driver) -> Record {
    let record = stop(&driver.machine).unwrap();
    driver.machine.power_cycle();
    record
}

/// All goes well from then on.
fn finish(mut driver: Driver) {
    driver.run(100_000);
    assert!(driver.is_idle(), "a command is lost");
    assert_eq!(driver.errors, 0);
    driver.verify();
}

#[test]
fn what_is_done_in_time_is_not_issued_again() {
    let mut driver = one_disk(300);
    for slot in 0..4 {
        driver.submit(0, slot, WRITE_QUEUED, slot.try_into().unwrap());
    }
    driver.run(50);
    let record = cut(&driver);
    assert_eq!(disk(&driver, 0).executed, [0, 1, 2, 3]);
    assert_eq!(disk(&driver, 0).medium.len(), 4);
    go(&driver.machine, &record).unwrap();
    driver.run(10);
    assert!(driver.is_idle(), "the driver hears of it at once");
    assert_eq!(disk(&driver, 0).executed.len(), 4);
    finish(driver);
}

#[test]
fn what_is_not_done_is_issued_again() {
    for command in [WRITE_QUEUED, READ_QUEUED, WRITE, READ] {
        let mut driver = one_disk(100);
        driver.submit(0, 9, WRITE_QUEUED, 3);
        driver.run(1000);
        driver.hba.borrow_mut().disk(0).latency = 50_000;
        driver.hba.borrow_mut().disk(0).accept_us = 200;
        driver.submit(0, 3, command, 3);
        let record = cut(&driver);
        assert_eq!(disk(&driver, 0).executed, [3], "the disk had not done it");
        go(&driver.machine, &record).unwrap();
        driver.run(10);
        assert!(!driver.is_idle(), "it is not done");
        finish(driver);
    }
}

#[test]
fn commands_behind_one_another_are_issued_again() {
    let mut driver = one_disk(100);
    driver.hba.borrow_mut().disk(0).latency = 6_000;
    for slot in 0..3 {
        driver.submit(0, slot, WRITE, slot.try_into().unwrap());
    }
    let record = cut(&driver);
    go(&driver.machine, &record).unwrap();
    finish(driver);
}

#[test]
fn a_hart_between_its_two_writes_issues_the_command_itself() {
    let mut driver = one_disk(100);
    driver.submit(0, 1, WRITE_QUEUED, 1);
    driver.prepare(0, 2, WRITE_QUEUED, 2);
    driver.activate(0, 2);
    let record = cut(&driver);
    go(&driver.machine, &record).unwrap();
    assert_eq!(driver.port_read(0, SACT), 1 << 2);
    driver.issue(0, 2);
    driver.run(10_000);
    assert_eq!(disk(&driver, 0).executed, [1, 2]);
    finish(driver);
}

#[test]
fn what_may_not_have_been_issued_is_left_to_the_driver() {
    let mut driver = one_disk(100);
    driver.hba.borrow_mut().disk(0).latency = 50_000;
    driver.submit(0, 1, WRITE_QUEUED, 1);
    // The disk has accepted it.
    driver.run(20);
    assert_eq!(driver.port_read(0, CI), 0);
    let record = cut(&driver);
    go(&driver.machine, &record).unwrap();
    driver.run(200_000);
    assert!(!driver.is_idle(), "it is not done");
    driver.time_out(0);
    finish(driver);
}

#[test]
fn no_time_is_wasted_on_disks_that_are_idle() {
    let driver = one_disk(100);
    let before = driver.machine.board.now();
    let flush = disk(&driver, 0).flush_us;
    cut(&driver);
    let took = driver.machine.board.now() - before;
    assert!(took < flush + 500, "{took}");
}

#[test]
fn disks_are_flushed_together() {
    let disk_with = |has_flush_ext| Disk {
        flush_us: 3_000,
        has_flush_ext,
        ..Disk::new()
    };
    let disks = [true, true, false, true, true, false];
    let mut driver = Driver::new(disks.map(|ext| Some(disk_with(ext))).to_vec());
    for port in 0..6 {
        driver.submit(port, 0, WRITE_QUEUED, 7);
    }
    driver.run(1000);
    let record = cut(&driver);
    for port in 0..6 {
        assert_eq!(disk(&driver, port).medium.len(), 1);
    }
    go(&driver.machine, &record).unwrap();
    finish(driver);
}

#[test]
fn caches_are_as_they_were() {
    for features in [0, WRITE_CACHE, LOOK_AHEAD, WRITE_CACHE | LOOK_AHEAD] {
        let driver = one_disk(100);
        driver.hba.borrow_mut().disk(0).features = features;
        let record = cut(&driver);
        go(&driver.machine, &record).unwrap();
        assert_eq!(disk(&driver, 0).features, features);
        finish(driver);
    }
}

/// What a driver sees of a port.
fn port_state(hba: &Hba, port: usize) -> [u32; 11] {
    let port = &hba.ports[port];
    let [list, list_upper] = port.list;
    let [fis, fis_upper] = port.fis;
    [
        hba.control,
        list,
        list_upper,
        fis,
        fis_upper,
        port.enabled,
        port.command,
        port.task_file,
        port.link_control,
        port.active,
        port.issued,
    ]
}

#[test]
fn ports_are_as_they_were() {
    let packet = Disk {
        is_packet: true,
        ..Disk::new()
    };
    let disks = vec![Some(Disk::new()), None, Some(packet), Some(Disk::new())];
    let mut driver = Driver::new(disks);
    driver.port_write(0, SCTL, 0x300);
    // Stopped by its driver.
    driver.port_write(3, CMD, 0b110 | FRE);
    driver.run(10);
    let states = |driver: &Driver| -> Vec<_> {
        let hba = driver.hba.borrow();
        (0..4).map(|port| port_state(&hba, port)).collect()
    };
    let before = states(&driver);
    let record = cut(&driver);
    assert_ne!(states(&driver), before);
    assert_eq!(disk(&driver, 2).flushes, 0);
    assert_eq!(disk(&driver, 3).flushes, 1);
    go(&driver.machine, &record).unwrap();
    assert_eq!(states(&driver), before);
    finish(driver);
}

#[test]
fn a_reset_by_the_driver_goes_on() {
    let mut driver = one_disk(100);
    driver.submit(0, 0, WRITE_QUEUED, 1);
    driver.run(1000);
    driver.port_write(0, CMD, 0b110 | FRE);
    driver.run(10);
    driver.port_write(0, SCTL, 0x301);
    driver.run(1100);
    let record = cut(&driver);
    assert_eq!(
        disk(&driver, 0).medium.len(),
        1,
        "it is flushed all the same"
    );
    go(&driver.machine, &record).unwrap();
    assert_eq!(driver.port_read(0, SCTL), 0x301);
    driver.run(1100);
    driver.time_out(0);
    finish(driver);
}

/// A driver with commands of all kinds under way.
fn busy() -> (Driver, Record) {
    let slow = Disk {
        accept_us: 200,
        latency: 50_000,
        ..Disk::new()
    };
    let mut driver = Driver::new(vec![
        Some(Disk::new()),
        None,
        Some(slow.clone()),
        Some(slow),
    ]);
    driver.submit(0, 1, WRITE_QUEUED, 1);
    driver.run(500);
    driver.submit(0, 2, WRITE_QUEUED, 2);
    driver.submit(3, 7, WRITE, 7);
    driver.submit(2, 3, WRITE_QUEUED, 3);
    driver.submit(2, 4, READ_QUEUED, 4);
    let record = stop(&driver.machine).unwrap();
    (driver, record)
}

#[test]
fn twice_is_once() {
    let (driver, record) = busy();
    driver.machine.power_cycle();
    crate::put_back(&driver.machine, &record.sections()).unwrap();
    go(&driver.machine, &record).unwrap();
    finish(driver);
}

#[test]
fn the_power_may_come_back_before_it_was_gone() {
    let (driver, record) = busy();
    driver.machine.board.take_messages();
    go(&driver.machine, &record).unwrap();
    finish(driver);
}

#[test]
fn the_power_may_fail_at_any_instant_of_go() {
    let current = RefCell::new(None);
    let fresh = || {
        let (driver, record) = busy();
        let machine = driver.machine.again();
        current.replace(Some(driver));
        (machine, record)
    };
    go_with_power_failures(fresh, |machine: &Fake| {
        let driver = current
            .borrow()
            .as_ref()
            .map(|driver| driver.again(machine));
        finish(driver.unwrap());
    });
}
