use super::*;

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
    let property = functions::property(0, &domains.domains[0]);
    for entry in [
        "<0x818 1 1 0 0>",
        "<0x2000820 0 0x50000000 0 0x10000000>",
        "<0x3010810 0 0x50000000 0 0x4000>",
        "<0x43012820 0 0x50100000 0 0x4000>",
        "<0x2012814 0 0x50104000 0 0x1000>",
    ] {
        assert!(property.contains(entry), "{entry}: {property}");
    }
}
