//! Tests with shell scripts in place of QEMU.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use poorwill_machine::Version;
use tempfile::TempDir;

use super::*;

/// A guest that is this script, and the script's folder. Redis must answer within a second.
fn guest(script: &str) -> (TempDir, Guest) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("qemu");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let qemu = Qemu {
        program,
        version: Version(10, 0),
    };
    let machine = Machine::new("firmware");
    let running = machine.power_on(&qemu, PowerOn::default()).unwrap();
    let mut guest = Guest::of(running);
    guest.running.fail_on(&FAILURES);
    guest.answer_limit = Duration::from_secs(1);
    (folder, guest)
}

const SLEEP: &str = "poorwill: sleep mode=persist used_bytes=9 saved_bytes=7 ms=5 save_ms=3";
const SAID: &str = "poorwill-compare: sleeping used_kib=2 total_kib=4";
const WAKE: &str = "poorwill: wake loaded_bytes=7 ms=6 load_ms=4";
const WOKE: &str = "poorwill-compare: woke kernel_ms=20 kernel_down_ms=10";

#[test]
fn a_sleep_and_its_wake_are_measured() {
    let (_folder, mut guest) = guest(&format!("read word; echo '{SAID}'; echo '{SLEEP}'"));
    let sleep = guest.sleep().unwrap();
    assert_eq!((sleep.used_bytes, sleep.saved_bytes), (Some(2048), 7));
    assert!(sleep.total_ms.is_some());

    let (_folder, mut guest) = guest_that_wakes(&format!("echo '{REDIS}'; echo '{WOKE}'"));
    let woken = guest.time_wake().unwrap();
    assert!(woken.silent.is_none() && woken.wake.total_ms.is_some());
    assert_eq!((woken.wake.loaded_bytes, woken.used_bytes), (7, None));
    assert!(woken.kernel_down_ms.is_some());
}

fn guest_that_wakes(then: &str) -> (TempDir, Guest) {
    guest(&format!("echo '{WAKE}'; {then}; read word"))
}

#[test]
fn a_line_that_comes_after_the_wake_costs_the_sleeps_time_alone() {
    let (_folder, mut guest) = guest(&format!("read word; echo '{SLEEP}'"));
    let sleep = guest.sleep().unwrap();
    assert_eq!((sleep.used_bytes, sleep.total_ms), (None, None));
    assert_eq!(
        (sleep.saved_bytes, sleep.firmware_ms, sleep.save_ms),
        (7, 5.0, 3.0)
    );

    let late = format!("echo '{SAID}'; echo '{REDIS}'; echo '{WOKE}'");
    let (_folder, mut guest) = guest_that_wakes(&late);
    let woken = guest.time_wake().unwrap();
    assert_eq!(woken.used_bytes, Some(2048));
    assert!(woken.wake.total_ms.is_some());
}

#[test]
fn a_redis_that_is_slow_or_dead_costs_its_own_figures_alone() {
    let slow = format!("sleep 30; echo '{REDIS}'");
    let dead = "echo 'poorwill-compare: FAIL redis is gone'".to_owned();
    let panicked = "echo 'Kernel panic - not syncing'".to_owned();
    let ended = "exit".to_owned();
    for (then, why) in [
        (slow, "within 1 s"),
        (dead, "redis is gone"),
        (panicked, "Kernel panic"),
        (ended, "redis ready"),
    ] {
        let (_folder, mut guest) = guest_that_wakes(&then);
        let woken = guest.time_wake().unwrap();
        assert_eq!((woken.wake.total_ms, woken.wake.kernel_ms), (None, None));
        assert_eq!((woken.wake.loaded_bytes, woken.wake.load_ms), (7, 4.0));
        let not_had = crate::NotMeasured::new("wake", &woken.silent.unwrap()).to_string();
        assert!(not_had.contains(why), "{not_had}");
        assert!(!not_had.contains('\n'), "{not_had}");
    }
}
