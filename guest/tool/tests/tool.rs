//! Tests of the whole program, on a model of Linux's files.

mod common;

use std::fs::{self, File};

use common::Machine;
use poorwill_machine::disk::FileMedium;
use poorwill_medium::Window;
use poorwill_memory::Page;
use poorwill_store::{Area, Configuration, RecordFormat, SleepMode};

const MIB: u64 = 1 << 20;

/// The configuration that the firmware would read in the only area.
fn configuration(machine: &Machine) -> Configuration {
    configuration_in(machine, "nvme0n1p1")
}

fn configuration_in(machine: &Machine, partition: &str) -> Configuration {
    let file = File::open(machine.path("dev").join(partition)).unwrap();
    let mut medium = FileMedium::new(file, 5 * MIB);
    let mut scratch = Page::ZERO;
    let all = Window::new(&mut medium, 0, 5 * MIB).unwrap();
    let configuration = Area::open(all, &mut scratch, None, RecordFormat::Image)
        .unwrap()
        .configuration();
    configuration.unwrap()
}

#[test]
fn a_new_area_sleeps_by_persist() {
    let machine = Machine::with_area();
    let text = b"woken: generation 3 load_ms=41\0\0";
    fs::write(machine.path("told"), text).unwrap();
    let outcome = machine.run(&["status"]);
    outcome.says(
        0,
        &[
            "/dev/nvme0n1p1, 5 MiB\nsleep mode   persist, or cut where RAM is persistent\nstage delay  30min\n",
            "break-even   not set\nslot 0       never used\nslot 1       never used\n",
            "firmware     woken: generation 3 load_ms=41\n",
        ],
        &[],
    );
}

#[test]
fn a_domain_has_no_mode() {
    let machine = Machine::with_area();
    let before = configuration_in(&machine, "nvme0n1p1");
    fs::write(machine.path("domain"), b"linux\0").unwrap();
    let refused = &["this OS is domain linux of a machine with domains: it sleeps by retain"];
    for words in [
        &["mode", "persist"][..],
        &["delay", "10min"],
        &["snapshot"],
        &["well"],
    ] {
        machine.run(words).says(1, &[], refused);
    }
    assert_eq!(configuration_in(&machine, "nvme0n1p1"), before);
    let status = machine.run(&["status"]);
    status.says(0, &["domain       linux: it sleeps by retain\n"], &[]);
}

#[test]
fn the_firmwares_log_is_shown_line_by_line() {
    let machine = Machine::new();
    machine
        .run(&["log"])
        .says(1, &[], &["the firmware left no log"]);
    let text = b"[0.000] start\n[0.012] cold boot: \x1bno image\n\0\0\0";
    fs::write(machine.path("log"), text).unwrap();
    let outcome = machine.run(&["log"]);
    assert_eq!(outcome.out, "[0.000] start\n[0.012] cold boot: ?no image\n");
    assert_eq!(outcome.status, 0);
}

#[test]
fn what_is_set_is_what_the_firmware_reads() {
    let machine = Machine::with_area();
    let disk = machine.device("nvme0n1");
    let before = machine.device("nvme0n1p1");
    let outcome = machine.run(&["mode", "staged"]);
    outcome.says(0, &["sleep mode   staged, persists after 30min\n"], &[]);
    let outcome = machine.run(&["delay", "90s"]);
    outcome.says(0, &["staged, persists after 1min 30s\n"], &[]);
    machine
        .run(&["break-even", "55min"])
        .says(0, &["break-even   55min\n"], &[]);
    let mut wanted = Configuration {
        mode: Some(SleepMode::Staged),
        stage_delay_ms: 90_000,
        break_even_ms: 3_300_000,
        ..Configuration::default()
    };
    assert_eq!(configuration(&machine), wanted);
    machine
        .run(&["mode", "auto"])
        .says(0, &["auto, persists after 55min\n"], &[]);
    machine
        .run(&["break-even", "none"])
        .says(0, &["auto, persists after 1min 30s\n"], &[]);
    (wanted.mode, wanted.break_even_ms) = (Some(SleepMode::Auto), 0);
    assert_eq!(configuration(&machine), wanted);
    let outcome = machine.run(&["status"]);
    outcome.says(0, &["sleep mode   auto, persists after 1min 30s\n"], &[]);

    // Only the configuration's page has changed.
    assert!(machine.device("nvme0n1") == disk);
    assert!(machine.device("nvme0n1p1")[4096..] == before[4096..]);
}

#[test]
fn without_an_area_the_machine_retains() {
    let machine = Machine::new();
    machine.add_disk("nvme0n1", 0);
    let none = "none on any NVMe disk: the machine sleeps by retain\n";
    let silent = "firmware     no report";
    machine.run(&["status"]).says(0, &[none, silent], &[]);
    let outcome = machine.run(&["mode", "staged"]);
    outcome.says(1, &[], &["no sleep area", "sleeps by retain"]);
}

#[test]
fn of_several_areas_none_is_touched() {
    let machine = Machine::with_area();
    machine.add_disk("nvme1n1", 1);
    let nodes = ["nvme0n1", "nvme0n1p1", "nvme1n1", "nvme1n1p1"];
    let before = nodes.map(|node| machine.device(node));
    let both = ["/dev/nvme0n1p1, 5 MiB", "/dev/nvme1n1p1, 5 MiB"];
    machine.run(&["status"]).says(1, &both, &["2 sleep areas"]);
    machine
        .run(&["mode", "retain"])
        .says(1, &[], &["2 sleep areas"]);
    assert!(nodes.map(|node| machine.device(node)) == before);

    let machine = Machine::new();
    machine.add_disk("nvme0n1", 2);
    machine
        .run(&["delay", "1h"])
        .says(1, &[], &["2 sleep areas"]);
}

/// Devices where the firmware does not look, or under which Linux shows the same disk again.
#[test]
fn other_devices_do_not_count() {
    let machine = Machine::with_area();
    machine.add_disk("vda", 1);
    machine.add_disk("nvme0c0n1", 1);
    machine.attribute("nvme0c0n1", "hidden", 1);
    machine.run(&["mode", "retain"]).says(0, &["retain"], &[]);
    assert_eq!(configuration(&machine).mode, Some(SleepMode::Retain));
}

#[test]
fn a_disk_that_cannot_be_looked_at_is_passed_over() {
    let machine = Machine::with_area();
    machine.attribute("nvme1n1", "size", 4096);
    machine.attribute("nvme1n1", "hidden", 0);
    let outcome = machine.run(&["mode", "retain"]);
    outcome.says(
        0,
        &["retain"],
        &["nvme1n1: cannot open nvme1n1: there is no such file"],
    );
}

#[test]
fn a_table_that_linux_has_not_read_is_not_trusted() {
    for (file, value) in [("start", 4096), ("size", 1)] {
        let machine = Machine::with_area();
        machine.attribute("nvme0n1p1", file, value);
        let before = machine.device("nvme0n1p1");
        let outcome = machine.run(&["mode", "retain"]);
        outcome.says(
            1,
            &[],
            &["partition 1 of nvme0n1", "blockdev", "no sleep area"],
        );
        assert!(machine.device("nvme0n1p1") == before);
    }
}

#[test]
fn a_damaged_configuration_is_named_and_mended() {
    let machine = Machine::with_area();
    machine.run(&["mode", "staged"]).says(0, &[], &[]);
    let mut bytes = machine.device("nvme0n1p1");
    bytes[24] ^= 1;
    fs::write(machine.path("dev/nvme0n1p1"), bytes).unwrap();
    let outcome = machine.run(&["status"]);
    outcome.says(
        1,
        &["sleep mode   persist, or cut where RAM is persistent\n"],
        &["damaged", "poorwill-guest mode"],
    );
    let outcome = machine.run(&["mode", "auto"]);
    outcome.says(
        0,
        &["sleep mode   auto"],
        &["damaged", "a new configuration is written"],
    );
    machine
        .run(&["status"])
        .says(0, &["sleep mode   auto"], &[]);
}

#[test]
fn wrong_usage_says_where_help_is() {
    let machine = Machine::with_area();
    let before = machine.device("nvme0n1p1");
    for words in [
        &[][..],
        &["mode"],
        &["mode", "mem"],
        &["delay", "0s"],
        &["wake"],
    ] {
        let outcome = machine.run(words);
        outcome.says(2, &[], &["poorwill-guest: ", "`poorwill-guest help`"]);
        assert!(outcome.out.is_empty());
    }
    assert!(machine.device("nvme0n1p1") == before);
    machine
        .run(&["help"])
        .says(0, &["poorwill-guest mode MODE"], &[]);
}

/// A machine whose root is mounted with `options`.
fn mounted(options: &str) -> Machine {
    let machine = Machine::with_area();
    let mounts = format!(
        "/dev/nvme0n1p2 / ext4 {options} 0 0\ntmpfs /run tmpfs rw,nosuid 0 0\n\
         /dev/zram0 /var/cache ext4 rw 0 0\noverlay /etc overlay rw,lowerdir=/x 0 0\n"
    );
    fs::write(machine.path("mounts"), mounts).unwrap();
    fs::write(machine.path("power"), "").unwrap();
    machine
}

#[test]
fn a_snapshot_is_asked_for_and_then_linux_sleeps() {
    let machine = mounted("ro,relatime");
    machine
        .run(&["snapshot", "kiosk"])
        .says(0, &["woken\n"], &[]);
    let next = configuration(&machine).next_snapshot.unwrap();
    assert_eq!(next.as_str(), "kiosk");
    assert_eq!(fs::read(machine.path("power")).unwrap(), b"mem");
}

#[test]
fn a_disk_that_can_be_written_to_is_no_ground_for_a_snapshot() {
    let machine = mounted("rw,relatime");
    let before = machine.device("nvme0n1p1");
    let outcome = machine.run(&["snapshot"]);
    outcome.says(1, &[], &["nvme0n1p2 is mounted for writing", "overlay"]);
    let machine = mounted("ro");
    let swaps = "Filename\t\t\tType\n/dev/zram1   partition\n/dev/nvme0n1p3   partition\t9\n";
    fs::write(machine.path("swaps"), swaps).unwrap();
    let outcome = machine.run(&["snapshot"]);
    outcome.says(1, &[], &["nvme0n1p3 is in use as swap", "swapoff"]);
    assert!(machine.device("nvme0n1p1") == before);
    assert!(fs::read(machine.path("power")).unwrap().is_empty());
}

#[test]
fn a_snapshot_beside_a_partition_that_cannot_be_guarded_wants_an_option() {
    let machine = Machine::new();
    machine.add_disk_with("nvme0n1", 1, Some(b"LUKS\xba\xbe\0\x02"));
    fs::write(machine.path("power"), "").unwrap();
    let before = machine.device("nvme0n1p2");
    let outcome = machine.run(&["snapshot", "kiosk"]);
    outcome.says(
        1,
        &[],
        &[
            "partition 1 (\"swap\") cannot be guarded: it holds LUKS",
            "--unguarded",
        ],
    );
    assert!(machine.device("nvme0n1p2") == before);
    assert!(fs::read(machine.path("power")).unwrap().is_empty());

    let outcome = machine.run(&["snapshot", "--unguarded", "kiosk"]);
    outcome.says(0, &["woken\n"], &["it holds LUKS"]);
    let configuration = configuration_in(&machine, "nvme0n1p2");
    assert_eq!(configuration.next_snapshot.unwrap().as_str(), "kiosk");
    assert!(configuration.accepts_unguarded);
    machine.run(&["snapshot"]).says(1, &[], &["LUKS"]);
}

#[test]
fn where_linux_does_not_sleep_no_later_sleep_becomes_the_snapshot() {
    let machine = mounted("ro");
    fs::remove_file(machine.path("power")).unwrap();
    let outcome = machine.run(&["snapshot"]);
    outcome.says(1, &[], &["Linux does not sleep"]);
    assert_eq!(configuration(&machine).next_snapshot, None);
}

#[test]
fn without_a_snapshot_none_can_be_well() {
    let machine = Machine::with_area();
    machine
        .run(&["well"])
        .says(1, &[], &["the sleep area holds no snapshot"]);
}

/// The firmware refuses such an area, and then the sleep.
#[test]
fn an_area_that_the_firmware_refuses_is_named() {
    let machine = Machine::with_area();
    let disk = machine.path("dev").join("nvme0n1");
    let mut bytes = fs::read(&disk).unwrap();
    // An entry of the primary table.
    bytes[1024 + 40] ^= 1;
    fs::write(&disk, &bytes).unwrap();
    let refused = &[
        "nvme0n1: partition 1, a sleep area, is only in the backup of the partition table",
        "the machine refuses to sleep",
    ];
    for words in [&["status"][..], &["mode", "retain"], &["snapshot"]] {
        let outcome = machine.run(words);
        outcome.says(1, &[], refused);
        assert!(!outcome.out.contains("sleeps by retain"), "{outcome:#?}");
    }
    assert!(fs::read(&disk).unwrap() == bytes);
}
