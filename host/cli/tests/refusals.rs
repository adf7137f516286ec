//! What the command refuses, and that it says what to do.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::{MIB, Outcome, World, names};
use rustix::fs::{FlockOperation, fcntl_lock};

fn disk(world: &World) -> String {
    let made = world.run(&["disk", "create", "disk", "--area", "8M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    "disk".to_owned()
}

#[test]
fn no_qemu() {
    let world = World::with_qemu("exit 0");
    let mut command = world.poorwill(&["run"]);
    command
        .env_remove("POORWILL_QEMU")
        .env("PATH", world.folder.path());
    Outcome::of(&mut command).refuses(1, &["no qemu-system-riscv64 in PATH", "tools/setup"]);
}

#[test]
fn a_qemu_that_is_too_old_or_none() {
    let world = World::with_qemu("");
    world.set_program("qemu", "#!/bin/sh\necho QEMU emulator version 7.2.19\n");
    world
        .run(&["run"])
        .refuses(1, &["version 7.2", "8.2 or later", "tools/setup"]);
    world.set_program("qemu", "#!/bin/sh\necho hello\n");
    world.run(&["run"]).refuses(1, &["prints no version"]);
    fs::remove_file(world.path("qemu")).unwrap();
    world.run(&["run"]).refuses(1, &["does not start"]);
}

#[test]
fn domains_that_cannot_be_described() {
    let world = World::with_qemu("exit 0");
    let run = |text: &str| {
        fs::write(world.path("machine.toml"), text).unwrap();
        world.run(&["run", "--domains", "machine.toml"])
    };
    run("memory = \"1G\"\nharts = 2\nmemry = 1\n")
        .refuses(1, &["machine.toml", "line 3", "unknown field `memry`"]);
    run("memory = \"1G\"\n[[domain]]\nname = \"a\"\nwake_order = 1\nkernel = \"k\"\n")
        .refuses(1, &["2 to 4 domains"]);
    let of = |name: &str, rest: &str| format!("[[domain]]\nname = \"{name}\"\n{rest}\n");
    let two = of("a", "wake_order = 1\nkernel = \"k\"\nharts = 3")
        + &of("b", "wake_order = 2\nkernel = \"k\"");
    run(&format!("memory = \"1G\"\n{two}")).refuses(1, &["domain a: `harts` is 3", "1, 2 or 4"]);
    world
        .run(&["run", "--domains", "absent.toml"])
        .refuses(1, &["absent.toml", "No such file"]);
    world
        .run(&["run", "--domains", "machine.toml", "--tiny"])
        .refuses(2, &["cannot be used with"]);
}

#[test]
fn no_firmware_no_guest_no_kernel() {
    let world = World::with_qemu("exit 0");
    world
        .run(&["run", "--firmware", "absent"])
        .refuses(1, &["cannot read firmware absent"]);
    world
        .run(&["run", "--kernel", "absent"])
        .refuses(1, &["cannot read kernel absent"]);
    world
        .run(&["run", "--initrd", "."])
        .refuses(1, &["cannot read initrd .", "directory"]);
    fs::remove_file(world.path("cache/guest/root.ext4")).unwrap();
    for command in ["run", "demo"] {
        world
            .run(&[command])
            .refuses(1, &["root.ext4 is missing", "tools/guest"]);
    }
    // Neither in nor above / or the command's folder is a build/poorwill.elf.
    let moved = world.path("poorwill");
    common::copy_to_run(env!("CARGO_BIN_EXE_poorwill").as_ref(), &moved);
    let mut command = std::process::Command::new(moved);
    command
        .arg("demo")
        .current_dir("/")
        .env_remove("POORWILL_FIRMWARE");
    Outcome::of(&mut command).refuses(1, &["no firmware found", "make firmware"]);
}

#[test]
fn a_disk_that_is_missing_or_none() {
    let world = World::with_qemu("exit 0");
    for arguments in [["run", "--disk", "absent"].as_slice(), &["area", "absent"]] {
        world
            .run(arguments)
            .refuses(1, &["cannot read disk absent", "No such file"]);
    }
    for arguments in [["run", "--disk", "cache"].as_slice(), &["area", "cache"]] {
        world
            .run(arguments)
            .refuses(1, &["cache is neither a file nor a block device"]);
    }
}

#[test]
fn a_disk_that_is_in_use() {
    let world = World::with_qemu("exit 0");
    let disk = disk(&world);
    let holder = File::options()
        .read(true)
        .write(true)
        .open(world.path(&disk))
        .unwrap();
    fcntl_lock(&holder, FlockOperation::LockShared).unwrap();
    let process = format!("process {}", std::process::id());
    world
        .run(&["run", "--disk", &disk])
        .refuses(1, &["disk disk is in use by", &process]);
    world
        .run(&["disk", "create", &disk, "--force"])
        .refuses(1, &["disk disk is in use by"]);
    let looked_at = world.run(&["area", &disk]);
    assert_eq!(looked_at.code, Some(0));
    assert!(looked_at.out.contains(&process), "{looked_at:#?}");
    drop(holder);
    assert_eq!(world.run(&["run", "--disk", &disk]).code, Some(0));
}

#[test]
fn qcow2() {
    let world = World::with_qemu("exit 0");
    fs::write(world.path("disk.qcow2"), b"QFI\xfb\0\0\0\x03 and more").unwrap();
    for arguments in [
        ["run", "--disk", "disk.qcow2"].as_slice(),
        &["area", "disk.qcow2"],
    ] {
        world
            .run(arguments)
            .refuses(1, &["is a qcow2 image", "qemu-img convert -O raw"]);
    }
}

#[test]
fn disks_without_a_table_or_an_area() {
    let world = World::empty();
    for (name, bytes) in [("none", 0), ("small", 100), ("zeros", 4 * MIB)] {
        File::create(world.path(name))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        world
            .run(&["area", name])
            .refuses(1, &[name, "no GPT", "poorwill disk create"]);
    }
    let disk = disk(&world);
    // The only entry goes: first in one copy of the table, then in both.
    let file = File::options().write(true).open(world.path(&disk)).unwrap();
    file.write_all_at(&[0; 128], 1024).unwrap();
    world
        .run(&["area", &disk])
        .refuses(1, &["only in the backup", "gdisk", "wipefs"]);
    let end = file.metadata().unwrap().len();
    file.write_all_at(&[0; 128], end - 33 * 512).unwrap();
    world
        .run(&["area", &disk])
        .refuses(1, &["partition table are damaged"]);
}

#[test]
fn a_disk_that_was_cut_short() {
    let world = World::empty();
    let disk = disk(&world);
    File::options()
        .write(true)
        .open(world.path(&disk))
        .unwrap()
        .set_len(4 * MIB)
        .unwrap();
    world.run(&["area", &disk]).refuses(1, &["disk"]);
    assert!(world.run(&["area", &disk]).err.contains("cut short"));
}

#[test]
fn disks_are_not_overwritten() {
    let world = World::empty();
    fs::write(world.path("precious"), "precious").unwrap();
    world
        .run(&["disk", "create", "precious"])
        .refuses(1, &["precious exists", "--force"]);
    assert_eq!(fs::read(world.path("precious")).unwrap(), b"precious");
    world
        .run(&["disk", "create", "d", "--root", "absent"])
        .refuses(1, &["root file system absent"]);
    world
        .run(&["disk", "create", "no/d"])
        .refuses(1, &["cannot write no/d", "No such file"]);
    assert_eq!(names(world.folder.path()), ["precious"]);
}

#[test]
fn a_full_file_system() {
    let world = World::empty();
    fs::write(world.path("root"), vec![1; 4 << 20]).unwrap();
    let command = env!("CARGO_BIN_EXE_poorwill");
    // A file system of 1 MiB, seen by nobody else.
    let script = "mkdir full && mount -t tmpfs -o size=1M full full || exit 77
        \"$0\" disk create full/disk --root root; code=$?; ls -A full; exit $code";
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--map-root-user", "--mount", "sh", "-c", script, command]);
    let Ok(output) = unshare.current_dir(world.folder.path()).output() else {
        return;
    };
    let outcome = Outcome::from(output);
    if outcome.code == Some(77) || outcome.err.contains("unshare") {
        eprintln!("skipped: no mounts here: {}", outcome.err);
        return;
    }
    outcome.refuses(1, &["no room for full/disk"]);
    assert_eq!(outcome.out, "", "something was left behind");
}

#[test]
fn wrong_usage() {
    let world = World::empty();
    for arguments in [
        ["run", "--memory", "lots"].as_slice(),
        &["run", "--harts", "0"],
        &["run", "--interrupts", "none"],
        &["area"],
        &["disk", "create", "d", "--area", "3X"],
        &["nonsense"],
        &[],
    ] {
        let outcome = world.run(arguments);
        outcome.refuses(2, &["--help"]);
        assert!(
            !outcome.err.contains("panicked") && outcome.out.is_empty(),
            "{outcome:#?}"
        );
    }
}

#[test]
fn parts_that_a_board_lacks() {
    // A QEMU that starts a machine would leave a file.
    let world = World::with_qemu("touch started");
    let cases: [(&[&str], &str); 10] = [
        (
            &["--disk", "d"],
            "--disk cannot be used with --machine sifive_u: it has no PCI",
        ),
        (
            &["--extra-disk", "d"],
            "--extra-disk cannot be used with --machine sifive_u: it has no PCI",
        ),
        (
            &["--flash", "f"],
            "--flash cannot be used with --machine sifive_u: it has no flash",
        ),
        (
            &["--interrupts", "aia"],
            "its interrupt controller is a PLIC",
        ),
        (&["--cut", "--ram", "r"], "its memory cannot be persistent"),
        (&["--domains", "d"], "it has no IOMMU"),
        (
            &["--harts", "5"],
            "--harts 5 cannot be used with --machine sifive_u: it has at most 4 harts",
        ),
        (
            &["--append", "quiet poorwill.mode=persist"],
            "poorwill.mode=persist cannot be used",
        ),
        (
            &["--append", "poorwill.mode=staged"],
            "it sleeps by retain alone",
        ),
        (&["--append", "poorwill.wake_s=5"], "it has no clock"),
    ];
    for (arguments, reason) in cases {
        let all = [&["run", "--machine", "sifive_u"], arguments].concat();
        world.run(&all).refuses(2, &[reason, "--help"]);
    }
    let unknown = world.run(&["run", "--machine", "sifive"]);
    unknown.refuses(2, &["virt, sifive_u", "--help"]);
    for name in ["started", "r", "f", "data"] {
        assert!(!world.path(name).exists(), "{name}");
    }
}

#[test]
fn a_board_without_disks_has_the_tiny_guest() {
    let world = World::with_qemu("echo \"$@\"");
    fs::write(world.path("cache/guest/tiny.img"), "contents").unwrap();
    let started = |more: &[&str]| {
        let all = [&["run", "--machine", "sifive_u"], more].concat();
        let outcome = world.run(&all);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        outcome.out
    };
    let arguments = started(&["--harts", "4", "--append", "poorwill.mode=retain"]);
    for word in [
        "-machine sifive_u ",
        "-smp 5 ",
        "tiny.img ",
        "-append console=ttySIF0 poorwill.mode=retain ",
    ] {
        assert!(arguments.contains(word), "{word}: {arguments}");
    }
    assert!(!arguments.contains("-device"), "{arguments}");
    fs::write(world.path("own"), "contents").unwrap();
    assert!(started(&["--interrupts", "plic"]).contains("-smp 3 "));
    assert!(started(&["--kernel", "own"]).contains("-kernel own -append console=ttySIF0 "));
    assert!(!world.path("data").exists(), "a disk was made");
}

#[test]
fn doctor_with_nothing() {
    let world = World::empty();
    let mut command = world.poorwill(&["doctor"]);
    command.env("PATH", "").env_remove("POORWILL_QEMU");
    let outcome = Outcome::of(&mut command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    for (what, cure) in [
        ("QEMU", "tools/setup"),
        ("guest", "tools/guest"),
        ("firmware", "POORWILL_FIRMWARE"),
    ] {
        let found = outcome
            .out
            .lines()
            .position(|line| line.starts_with("missing") && line.contains(what));
        let at = found.unwrap_or_else(|| panic!("{what} is not missing: {outcome:#?}"));
        assert!(
            outcome.out.lines().nth(at + 1).unwrap().contains(cure),
            "{outcome:#?}"
        );
    }
}

#[test]
fn doctor_with_everything_of_ours() {
    let world = World::with_qemu("exit 0");
    let outcome = world.run(&["doctor"]);
    for what in ["QEMU", "firmware", "guest "] {
        let good = |line: &str| line.starts_with("ok") && line.contains(what);
        assert!(outcome.out.lines().any(good), "{what}: {outcome:#?}");
    }
}

#[test]
fn doctor_names_devices_that_lose_their_state() {
    let world = World::with_qemu("exit 0");
    let lines = |words: &[&str]| {
        let outcome = world.run(words);
        let lines = outcome.out.lines().filter(|line| line.contains("devices"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["doctor"]), [""; 0]);
    let good = lines(&["doctor", "--", "-device", "nvme,serial=x"]);
    assert!(good.len() == 1 && good[0].starts_with("ok"), "{good:?}");
    let bad = lines(&["doctor", "--", "-device", "lsi53c895a", "-virtfs", "local"]);
    assert_eq!(bad.len(), 2, "{bad:?}");
    for (line, words) in bad.iter().zip(["lsi53c895a loses", "virtio-9p-pci loses"]) {
        assert!(
            line.starts_with("warning") && line.contains(words),
            "{line}"
        );
    }
}
