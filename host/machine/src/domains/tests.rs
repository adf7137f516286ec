use indicatif::ProgressBar;

use super::*;
use crate::Disk;
use crate::disk::NewDisk;

const TWO: &str = r#"
memory = "1G"
[[domain]]
name = "linux"
wake_order = 2
kernel = "Image"
initrd = "initrd"
append = "console=ttyS0"
disks = ["a"]
network = ""
[[domain]]
name = "critical"
wake_order = 1
critical = "critical.bin"
may_sleep = true
"#;

fn parsed(text: &str) -> Result<Domains, String> {
    let domains: Domains = toml::from_str(text).map_err(|error| error.to_string())?;
    domains.check().map_err(|error| error.to_string())?;
    Ok(domains)
}

#[test]
fn a_description_is_read() {
    let domains = parsed(TWO).unwrap();
    assert_eq!(domains.memory, Bytes::gib(1));
    assert_eq!(domains.harts, 2);
    assert_eq!(domains.memory_of(1), 0xc000_0000..0x1_0000_0000);
    assert!(domains.domains[1].may_sleep && !domains.domains[0].may_sleep);
}

#[test]
fn faults_are_named() {
    for (from, to, expected) in [
        (
            "memory = \"1G\"",
            "memory = \"3G\"",
            "domain linux: `memory` is",
        ),
        ("memory = \"1G\"", "memory = \"lots\"", "is not a size"),
        ("wake_order = 2", "wake-order = 2", "unknown field"),
        ("kernel = \"Image\"", "", "either `kernel` or `critical`"),
        ("name = \"linux\"", "name = \"a b\"", "a name has letters"),
        (
            "critical = \"critical.bin\"",
            "critical = \"c\"\ndisks = [\"a\"]",
            "has neither",
        ),
        (
            "memory = \"1G\"",
            "memory = \"1G\"\nharts = 3",
            "must be 1, 2 or 4",
        ),
        (
            "may_sleep = true",
            "may_sleep = true\nmemory = \"384M\"",
            "domain critical: `memory` is 384.00 MiB; it must be a multiple of 256 MiB",
        ),
        (
            "may_sleep = true",
            "may_sleep = true\nharts = 0",
            "domain critical: `harts` is 0",
        ),
        (
            "may_sleep = true",
            "may_sleep = true\nuses = \"8M\"",
            "domain critical: `uses` is 8.00 MiB; it must be a power of two from 16.00 MiB",
        ),
        (
            "may_sleep = true",
            "may_sleep = true\nuses = \"48M\"",
            "domain critical: `uses` is 48.00 MiB; it must be a power of two",
        ),
        (
            "may_sleep = true",
            "may_sleep = true\nuses = \"2G\"",
            "at most the domain's memory, 1.00 GiB",
        ),
        ("name = \"linux\"", "name = \"critical\"", "name = critical"),
        ("wake_order = 2", "wake_order = 1", "wake_order = 1; change"),
        ("may_sleep = true", "", "in 0 domains; set it in one"),
    ] {
        let error = parsed(&TWO.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let (one, _) = TWO.split_once("[[domain]]\nname = \"critical\"").unwrap();
    assert!(parsed(one).unwrap_err().contains("2 to 4 domains"));
}

#[test]
fn names_of_files_and_command_lines_are_quoted() {
    let mut domains = parsed(TWO).unwrap();
    domains.domains[0].disks = vec!["a,b".into()];
    domains.domains[0].append = r#"x="\" y"#.into();
    let arguments = functions::arguments(0, &domains.domains[0]);
    let drive = |(_, value): &(&str, String)| value.ends_with("file=a,,b");
    assert!(arguments.iter().any(drive), "{arguments:?}");
    let source = trees::of_linux(&domains, 0, "", 0);
    assert!(source.contains(r#"bootargs = "x=\"\\\" y""#), "{source}");
}

#[test]
fn an_old_qemu_is_refused() {
    let qemu = Qemu {
        program: "qemu".into(),
        version: Version(9, 2),
    };
    let made = parsed(TWO)
        .unwrap()
        .machine(&qemu, &[], "fw".as_ref(), "".as_ref());
    assert!(made.unwrap_err().to_string().contains("QEMU 9.2 lacks"));
}

#[test]
fn an_own_tree_is_refused() {
    let qemu = Qemu {
        program: "qemu".into(),
        version: RECOMMENDED,
    };
    let arguments = ["-dtb".into(), "mine.dtb".into()];
    let made = parsed(TWO)
        .unwrap()
        .machine(&qemu, &arguments, "fw".as_ref(), "".as_ref());
    assert!(
        made.unwrap_err()
            .to_string()
            .contains("`-dtb` is not allowed")
    );
}

#[test]
fn a_kernel_that_is_no_image_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = Qemu {
        program: "qemu".into(),
        version: RECOMMENDED,
    };
    for contents in [&b""[..], b"\x1f\x8b, compressed", &[0; 4096]] {
        let kernel = folder.path().join("vmlinuz");
        fs::write(&kernel, contents).unwrap();
        let mut domains = parsed(TWO).unwrap();
        domains.domains[0].kernel = Some(kernel);
        let made = domains.machine(&qemu, &[], "fw".as_ref(), folder.path());
        let error = made.unwrap_err().to_string();
        assert!(error.contains("domain linux: ") && error.contains("is no Linux `Image`"));
    }
}

#[test]
fn domains_have_harts_and_memory_of_their_own() {
    let text = TWO.replace("memory = \"1G\"", "memory = \"512M\"\nharts = 4");
    let text = text.replace(
        "may_sleep = true",
        "may_sleep = true\nharts = 1\nmemory = \"1G\"",
    );
    let domains = parsed(&text).unwrap();
    assert_eq!([0, 1].map(|socket| domains.harts_of(socket)), [0..4, 4..5]);
    let memory = [0x8000_0000..0xa000_0000, 0xa000_0000..0xe000_0000];
    assert_eq!([0, 1].map(|socket| domains.memory_of(socket)), memory);
    let machine = domains.board("fw".as_ref());
    assert_eq!((machine.harts, machine.memory), (5, Bytes::mib(1536)));
    for argument in [
        "memory-backend-ram,id=socket1,size=1024M",
        "node,nodeid=0,memdev=socket0,cpus=0-3",
        "node,nodeid=1,memdev=socket1,cpus=4-4",
    ] {
        let is_there = machine.extra_arguments.iter().any(|one| one == argument);
        assert!(is_there, "{argument}: {:?}", machine.extra_arguments);
    }
    let tree = trees::of_machine(&domains);
    for node in [
        "riscv,hart-index-bits = <0>; reg = <0 0x29000000 0 0x1000>",
        "cpu@4 { opensbi-domain = <&domain1>; }",
        "base = <0x0 0xa0000000>; order = <29>",
        "base = <0x0 0xc0000000>; order = <29>",
    ] {
        assert!(tree.contains(node), "{node}: {tree}");
    }
}

#[test]
fn an_initrd_ends_before_the_machines_tree() {
    let ends = |text: &str| {
        let domains = parsed(text).unwrap();
        [0, 1].map(|socket| domains.end_of_room(socket))
    };
    // The tree is before 3 GiB: at the end of the first domain's memory, or amid it.
    assert_eq!(ends(TWO), [0x3fe0_0000, 0x4000_0000]);
    assert_eq!(
        ends(&TWO.replace("\"1G\"", "\"1280M\"")),
        [0x3fe0_0000, 0x5000_0000]
    );
    assert_eq!(
        ends(&TWO.replace("\"1G\"", "\"256M\"")),
        [0x1000_0000, 0xfe0_0000]
    );
}

#[test]
fn functions_have_slots_of_one_source_and_addresses_of_their_own() {
    let domains = parsed(TWO).unwrap();
    let property = functions::of_domain(0, &domains.domains[0]);
    for entry in [
        "<0x818 1 1 0 0>",
        "<0x2000820 0x0 0x50000000 0x0 0x10000000>",
        "<0x3010810 0x0 0x50000000 0x0 0x4000>",
        "<0x43012820 0x0 0x50100000 0x0 0x4000>",
        "<0x2012814 0x0 0x50104000 0x0 0x1000>",
    ] {
        assert!(property.contains(entry), "{entry}: {property}");
    }
}

/// The rest is free for an image, and for the firmware.
#[test]
fn a_domain_may_use_a_part_of_its_sockets_memory() {
    let text = TWO.replace("may_sleep = true", "may_sleep = true\nuses = \"16M\"");
    let text = text.replace("append =", "uses = \"128M\"\nappend =");
    let domains = parsed(&text).unwrap();
    let memory = [0x8000_0000..0x8800_0000, 0xc000_0000..0xc100_0000];
    assert_eq!([0, 1].map(|socket| domains.memory_of(socket)), memory);
    assert_eq!(domains.board("fw".as_ref()).memory, Bytes::gib(2));
    let offsets = |domains: &Domains, socket| (domains.tree_of(socket), domains.initrd_of(socket));
    assert_eq!(offsets(&domains, 0), (0x3f0_0000, 0x400_0000));
    assert_eq!(offsets(&domains, 1), (0x70_0000, 0x80_0000));
    assert_eq!(offsets(&parsed(TWO).unwrap(), 0), (0x7f0_0000, 0x800_0000));
    assert_eq!(
        [0, 1].map(|socket| domains.end_of_room(socket)),
        [0x800_0000, 0x100_0000]
    );
    let tree = trees::of_machine(&domains);
    for node in [
        "base = <0x0 0x80000000>; order = <27>",
        "next-arg1 = <0x0 0x83f00000>",
        "base = <0x0 0xc0000000>; order = <24>",
        "next-arg1 = <0x0 0xc0700000>",
    ] {
        assert!(tree.contains(node), "{node}: {tree}");
    }
    let linux = trees::of_linux(&domains, 0, "memory@c0000000 {", 0x1000);
    for node in [
        "&{/memory@80000000} { reg = <0x0 0x80200000 0x0 0x7e00000>; }",
        "/delete-node/ &{/memory@c0000000}",
        "linux,initrd-start = <0x0 0x84000000>",
    ] {
        assert!(linux.contains(node), "{node}: {linux}");
    }
    let critical = trees::of_critical(&domains, 1);
    let node =
        "memory@c0000000 { device_type = \"memory\"; reg = <0x0 0xc0000000 0x0 0x1000000>; }";
    assert!(critical.contains(node), "{critical}");
    let mut two = domains.clone();
    two.domains[1] = two.domains[0].clone();
    let second = trees::of_linux(&two, 1, "", 0);
    let node = "&{/memory@c0000000} { reg = <0x0 0xc0000000 0x0 0x8000000>; }";
    assert!(second.contains(node), "{second}");
}

/// A Linux `Image` of some bytes that takes `memory`.
fn image(bytes: usize, memory: u64) -> Vec<u8> {
    let mut image = vec![0; bytes];
    image[16..24].copy_from_slice(&memory.to_le_bytes());
    image[56..60].copy_from_slice(b"RSC\x05");
    image
}

#[test]
fn files_that_have_no_room_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [kernel, tree, initrd] = ["Image", "tree", "initrd"].map(|name| folder.path().join(name));
    let text = TWO.replace("append =", "uses = \"16M\"\nappend =");
    let mut domains = parsed(&text).unwrap();
    domains.domains[0].kernel = Some(kernel.clone());
    domains.domains[0].initrd = Some(initrd.clone());
    fs::write(&tree, "tree").unwrap();
    let refused = |memory: u64, initrd_bytes: u64| {
        fs::write(&kernel, image(4096, memory)).unwrap();
        File::create(&initrd)
            .unwrap()
            .set_len(initrd_bytes)
            .unwrap();
        let mut machine = domains.board("fw".as_ref());
        let loaded = domains.load(&mut machine, 0, &tree);
        loaded.err().map(|error| error.to_string())
    };
    let (program, end) = (5 << 20, 8 << 20);
    assert_eq!(refused(program, end), None);
    let error = refused(program + 1, end).unwrap();
    let words = "Image takes 5242881 bytes, and the domain's memory has room for 5242880; raise `memory`, \
                 or `uses`";
    assert!(
        error.starts_with("domain linux: ") && error.ends_with(words),
        "{error}"
    );
    let error = refused(program, end + 1).unwrap();
    assert!(error.contains("initrd takes 8388609 bytes"), "{error}");
}

fn with_sleep_disk() -> String {
    format!("sleep_disk = \"sleep,disk\"\n{TWO}")
}

#[test]
fn machine_mode_has_an_nvme_disk() {
    let domains = parsed(&with_sleep_disk()).unwrap();
    assert_eq!(domains.sleep, Some(Sleep::Nvme(Disk::nvme("sleep,disk"))));
    let machine = domains.board("fw".as_ref());
    for argument in [
        r#"{"discard":"unmap","driver":"raw","file":{"discard":"unmap","driver":"file","filename":"sleep,disk"},"node-name":"sleep"}"#,
        "nvme,serial=sleep,drive=sleep,addr=7",
    ] {
        let is_there = machine.extra_arguments.iter().any(|one| one == argument);
        assert!(is_there, "{argument}: {:?}", machine.extra_arguments);
    }
    let tree = trees::of_machine(&domains);
    let config = "compatible = \"opensbi,domain,config\";\n\
                  poorwill,functions = <0x3003810 0x0 0x44000000 0x0 0x4000>;";
    assert!(tree.contains(config), "{tree}");
    let plain = parsed(TWO).unwrap();
    assert_eq!(plain.sleep, None);
    let without = tree.replace(
        "poorwill,functions = <0x3003810 0x0 0x44000000 0x0 0x4000>;",
        "",
    );
    assert_eq!(trees::of_machine(&plain), without);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.toml");
    fs::write(&file, with_sleep_disk()).unwrap();
    let read = Domains::read(&file).unwrap().sleep.unwrap();
    assert_eq!(read.file(), folder.path().join("sleep,disk"));
}

#[test]
fn machine_mode_has_memory_of_a_device() {
    let mut domains = parsed(TWO).unwrap();
    let memory = |mib| {
        let (file, bytes) = ("sleep.ram".into(), Bytes::mib(mib));
        Some(Sleep::Memory { file, bytes })
    };
    domains.sleep = memory(64);
    domains.check().unwrap();
    let machine = domains.board("fw".as_ref());
    for argument in [
        "memory-backend-file,id=sleep,share=on,mem-path=sleep.ram,size=67108864",
        "ivshmem-plain,memdev=sleep,addr=7",
    ] {
        let is_there = machine.extra_arguments.iter().any(|one| one == argument);
        assert!(is_there, "{argument}: {:?}", machine.extra_arguments);
    }
    let functions = "poorwill,functions = <0x2003810 0x0 0x44000000 0x0 0x100>, \
                     <0x43003818 0x4 0x0 0x0 0x4000000>;";
    assert!(trees::of_machine(&domains).contains(functions));
    for mib in [0, 3, 32 << 10] {
        domains.sleep = memory(mib);
        let error = domains.check().unwrap_err().to_string();
        assert!(
            error.contains("a power of two from 1 MiB"),
            "{mib}: {error}"
        );
    }
}

#[test]
fn a_sleep_disk_without_one_area_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = Qemu {
        program: "qemu".into(),
        version: RECOMMENDED,
    };
    let [kernel, disk] = ["Image", "disk"].map(|name| folder.path().join(name));
    fs::write(&kernel, image(4096, 4096)).unwrap();
    let mut domains = parsed(TWO).unwrap();
    domains.domains[0].kernel = Some(kernel);
    domains.sleep = Some(Sleep::Nvme(Disk::nvme(&disk)));
    let refused = |areas: usize| {
        let areas = vec![Bytes::mib(64); areas];
        let new = NewDisk {
            root: None,
            swap: None,
            areas,
        };
        new.create(&disk, true, &ProgressBar::hidden()).unwrap();
        let made = domains.machine(&qemu, &[], "fw".as_ref(), folder.path());
        made.unwrap_err().to_string()
    };
    let none = refused(0);
    let words = "has no sleep area: add a partition of type";
    assert!(none.contains(words), "{none}");
    assert!(refused(2).contains("has 2 sleep areas, and a machine accepts only one"));
    assert!(!refused(1).contains("sleep area"), "QEMU is missing");
    File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let made = domains.machine(&qemu, &[], "fw".as_ref(), folder.path());
    let error = made.unwrap_err().to_string();
    assert!(
        error.contains("`poorwill disk create` makes one"),
        "{error}"
    );
}
