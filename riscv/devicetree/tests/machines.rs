//! The trees of QEMU's machines (`-machine …,dumpdtb=`), read and handed on.

use std::path::PathBuf;
use std::sync::LazyLock;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use poorwill_devicetree::{
    Cache, ColdBootError, ColdBootHarts, DataCaches, DescriptionError, FixupError, Fixups,
    GenerationId, Limits, Machine, Plic, PowerFail, PowerFailError, PowerFailInput, SLACK,
    SpareSource, Switch, Syscon, TwoImsics, Uart, VaultPlace, fixup, open, unknown_devices,
};
use poorwill_memory::{MachineIdentity, PhysRange};
use proptest::prelude::*;

mod dtc;

use dtc::{compile, force};

/// Compiles a tree of `tests/machines`, by the device tree compiler.
fn blob(name: &str) -> Vec<u8> {
    compile(&source(name))
}

fn source(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/machines", name]
        .iter()
        .collect();
    std::fs::read_to_string(path).unwrap()
}

fn machine(name: &str) -> Machine {
    Machine::read(&blob(name)).expect("the tree is good")
}

const FIRMWARE: PhysRange = PhysRange {
    start: 0x8000_0000,
    end: 0x8020_0000,
};

const DATA: PhysRange = PhysRange {
    start: 0xbbe0_0000,
    end: 0xbc00_0000,
};

/// The second bank of the `virt` machines' flash.
const BANK: PhysRange = PhysRange {
    start: 0x2200_0000,
    end: 0x2400_0000,
};

const FIXUPS: Fixups<'_> = Fixups {
    firmware: &[FIRMWARE, DATA],
    flash: &[BANK],
    seed: [0x5e; 32],
    generation_id: Some(GenerationId {
        address: 0x8010_f000,
        source: SpareSource {
            controller: 8,
            source: 96,
        },
    }),
    report: &[b'r'; 128],
    log: &[b'l'; 512],
    cut: Some(&[b'c'; 128]),
    domain: None,
    limits: None,
};

#[test]
fn what_all_virt_machines_share() {
    for name in ["plic", "aia", "aplic", "aclint", "aclint-imsic"] {
        let machine = machine(&format!("virt-{name}.dts"));
        assert_eq!(
            machine.harts.iter().map(|hart| hart.id).collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(machine.memory[..], [PhysRange::new(0x8000_0000, 1 << 30)]);
        assert_eq!(machine.timebase_hz, 10_000_000);
        assert_eq!(machine.console.map(Uart::base), Some(0x1000_0000));
        let switches = [machine.switches.power_off, machine.switches.reset];
        let syscon = |value| {
            Some(Switch::Syscon(Syscon {
                address: 0x10_0000,
                value,
                mask: u32::MAX,
            }))
        };
        assert_eq!(switches, [0x5555, 0x7777].map(syscon));
        assert_eq!(machine.rtc, Some(0x10_1000));
        // Without MSWI the ACLINT's timer lies at the front.
        let timer = if name == "aclint-imsic" {
            0x200_0000
        } else {
            0x200_4000
        };
        assert_eq!(machine.mtime[..], [timer + 0x7ff8]);
        let compare = machine.harts.iter().map(|hart| hart.mtimecmp.unwrap());
        assert_eq!(compare.collect::<Vec<_>>(), [timer, timer + 8]);
        let [host] = &machine.pci[..] else {
            panic!("{name}: one host bridge")
        };
        assert_eq!(host.ecam, PhysRange::new(0x3000_0000, 0x1000_0000));
        assert_eq!((host.bridge.first_bus, host.bridge.last_bus), (0, 255));
        assert_eq!(host.bridge.windows.len(), 2);
        assert_eq!(host.bridge.windows[0].cpu_address, 0x4000_0000);
        assert!(machine.harts[0].extensions.sstc && machine.harts[0].extensions.float);
        assert!(!machine.harts[0].extensions.vector);
        assert_eq!(machine.cache_block(), Some(64));
        let flash = machine.flash.as_ref().unwrap();
        assert_eq!(
            (&flash.banks[..], flash.width),
            (&[PhysRange::new(0x2000_0000, 0x200_0000), BANK][..], 4)
        );
    }
}

/// A tree of `tests/machines`, as text, with some of it replaced.
fn changed(name: &str, from: &str, to: &str) -> Vec<u8> {
    let folder = [env!("CARGO_MANIFEST_DIR"), "tests/machines"].join("/");
    let text = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    assert!(text.contains(from), "{from}");
    let number = {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        NUMBER.fetch_add(1, Ordering::Relaxed)
    };
    let file = std::env::temp_dir().join(format!("poorwill-{}-{number}.dts", std::process::id()));
    std::fs::write(&file, text.replace(from, to)).unwrap();
    let blob = blob(file.to_str().unwrap());
    std::fs::remove_file(file).unwrap();
    blob
}

#[test]
fn flash_is_found_if_it_can_be_used() {
    assert_eq!(machine("sifive-u.dts").flash, None);
    for (from, to) in [
        ("bank-width = <0x04>;", ""),
        ("bank-width = <0x04>;", "bank-width = <0x03>;"),
        (
            "bank-width = <0x04>;",
            "bank-width = <0x04>; status = \"disabled\";",
        ),
    ] {
        let blob = changed("virt-aia.dts", from, to);
        assert_eq!(Machine::read(&blob).unwrap().flash, None, "{to}");
    }
}

#[test]
fn seeds_and_entropy_sources() {
    let plain = machine("virt-aia.dts");
    assert!(plain.seed.is_empty() && !plain.harts[0].extensions.zkr);
    let seeded = |bytes: &str| {
        let seed = format!("chosen {{ rng-seed = [{bytes}];");
        Machine::read(&changed("virt-aia.dts", "chosen {", &seed)).unwrap()
    };
    let (one, other) = (seeded("01 02 03"), seeded("04"));
    assert_eq!((&one.seed[..], &other.seed[..]), (&[1, 2, 3][..], &[4][..]));
    assert_eq!(identity(&one).compare(&identity(&other)), Ok(()));
    assert_eq!(seeded(&"ab".repeat(100)).seed[..], [0xab; 64]);
    let zkr = changed("virt-aia.dts", "\\0zbb", "\\0zbb\\0zkr");
    let zkr = Machine::read(&zkr).unwrap();
    assert!(zkr.harts.iter().all(|hart| hart.extensions.zkr));
}

#[test]
fn doorbells_and_interrupt_controllers() {
    let plic = machine("virt-plic.dts");
    assert_eq!(plic.harts[1].msip, Some(0x200_0004));
    let [controller] = &plic.interrupts.plics[..] else {
        panic!("one PLIC")
    };
    assert_eq!(
        (&controller.contexts[..], controller.sources),
        (&[1, 3][..], 95)
    );
    assert_eq!(controller.machine_contexts[..], [0, 2]);
    assert!(plic.interrupts.os_aplics.is_empty());

    let aia = machine("virt-aia.dts");
    let root = aia.interrupts.machine_aplics.first().unwrap();
    assert_eq!(
        (root.base, &root.delegated[..]),
        (0xc00_0000, &[(0, 1, 96)][..])
    );
    let os = aia.interrupts.os_aplics.first().unwrap();
    assert!(os.base == 0xd00_0000 && os.msi_parent.is_some());
    let [machine_files, files] = root.imsics.unwrap();
    assert_eq!(machine_files.base, 0x2400_0000);
    assert_eq!((files.base, files.hart_bits), (0x2800_0000, 1));
    assert_eq!(aia.harts[1].machine_imsic.unwrap().address, 0x2400_1000);
    assert_eq!(aia.harts[1].os_imsic.unwrap().identities, 255);

    let direct = machine("virt-aplic.dts");
    let os = direct.interrupts.os_aplics.first().unwrap();
    assert!(os.msi_parent.is_none());
    assert_eq!(os.harts[..], [0, 1]);

    let aclint = machine("virt-aclint.dts");
    assert_eq!(aclint.harts[1].msip, Some(0x200_0004));
    let imsic_only = machine("virt-aclint-imsic.dts");
    assert!(imsic_only.harts.iter().all(|hart| hart.msip.is_none()));
    assert_eq!(
        imsic_only.harts[0].machine_imsic.unwrap().address,
        0x2400_0000
    );
}

/// PIC64GX has a monitor hart, which it does not connect: its pair holds its place all the
/// same. So do those of harts that a tree leaves out or puts in another order.
#[test]
fn a_pair_that_is_not_connected_has_its_place() {
    let clint = "0x04 0x03 0x04 0x07 0x02 0x03 0x02 0x07";
    // Phandle 5 is the PLIC's, and stands for a hart that is not the OS's.
    for (pairs, soft, timer) in [
        (clint, [Some(0), Some(1)], [Some(0), Some(1)]),
        (
            "0x05 0xffffffff 0x05 0xffffffff 0x04 0x03 0x04 0x07 0x02 0x03 0x02 0x07",
            [Some(1), Some(2)],
            [Some(1), Some(2)],
        ),
        (
            "0x05 0xffffffff 0x05 0x07 0x04 0x03 0x04 0x07 0x02 0x03 0x02 0x07",
            [Some(1), Some(2)],
            [Some(1), Some(2)],
        ),
        (
            "0x05 0xffffffff 0x04 0x03 0x04 0x07 0x02 0x03 0x02 0x07",
            [Some(1), Some(2)],
            [Some(1), Some(2)],
        ),
        (
            "0x04 0x03 0x02 0x03 0x04 0x07 0x02 0x07",
            [Some(0), Some(1)],
            [Some(0), Some(1)],
        ),
        (
            "0x04 0xffffffff 0x04 0x07 0x02 0x03 0x02 0x07",
            [None, Some(1)],
            [Some(0), Some(1)],
        ),
        (
            "0x02 0x03 0x02 0x07 0x04 0x03 0x04 0x07",
            [Some(1), Some(0)],
            [Some(1), Some(0)],
        ),
    ] {
        let blob = changed("virt-plic.dts", clint, pairs);
        let machine = Machine::read(&blob).unwrap();
        assert_eq!(msip(&machine), at(soft, 0x200_0000, 4), "{pairs}");
        assert_eq!(compare(&machine), at(timer, 0x200_4000, 8), "{pairs}");
    }
}

/// Where the harts' MSIP registers lie.
fn msip(machine: &Machine) -> Vec<Option<u64>> {
    machine.harts.iter().map(|hart| hart.msip).collect()
}

/// Where their MTIMECMP registers lie.
fn compare(machine: &Machine) -> Vec<Option<u64>> {
    machine.harts.iter().map(|hart| hart.mtimecmp).collect()
}

/// The addresses of registers by their numbers.
fn at(numbers: [Option<u64>; 2], base: u64, step: u64) -> Vec<Option<u64>> {
    numbers
        .map(|number| number.map(|number| base + step * number))
        .to_vec()
}

#[test]
fn controllers_with_one_interrupt_of_each_hart_count_pairs() {
    let aclint =
        |name: &str, from: &str, to: &str| Machine::read(&changed(name, from, to)).unwrap();
    let of_mswi = (
        "0x04 0x03 0x02 0x03",
        "0x05 0xffffffff 0x04 0x03 0x02 0xffffffff",
    );
    let machine = aclint("virt-aclint.dts", of_mswi.0, of_mswi.1);
    assert_eq!(msip(&machine), at([Some(1), None], 0x200_0000, 4));
    let of_timer = ("0x04 0x07 0x02 0x07", "0x05 0xffffffff 0x04 0x07 0x02 0x07");
    let machine = aclint("virt-aclint.dts", of_timer.0, of_timer.1);
    assert_eq!(compare(&machine), at([Some(1), Some(2)], 0x200_4000, 8));
    let of_plic = ("0x04 0x0b 0x04 0x09", "0x05 0xffffffff 0x04 0x0b 0x04 0x09");
    let machine = aclint("virt-plic.dts", of_plic.0, of_plic.1);
    assert_eq!(machine.interrupts.plics[0].contexts[..], [2, 4]);
    assert_eq!(machine.interrupts.plics[0].machine_contexts[..], [1, 3]);
    let of_files = ("0x04 0x0b 0x02 0x0b", "0x04 0xffffffff 0x02 0x0b");
    let machine = aclint("virt-aia.dts", of_files.0, of_files.1);
    let files = machine.harts.iter().map(|hart| hart.machine_imsic);
    let files = files.map(|file| file.map(|file| file.address));
    assert_eq!(files.collect::<Vec<_>>(), [None, Some(0x2400_1000)]);
    let of_idc = ("0x04 0x09 0x02 0x09", "0x05 0xffffffff 0x04 0x09 0x02 0x09");
    let machine = aclint("virt-aplic.dts", of_idc.0, of_idc.1);
    assert_eq!(machine.interrupts.os_aplics[0].harts[..], [1, 2]);
}

#[test]
fn each_socket_has_interrupt_files_of_its_own() {
    let machine = machine("virt-sockets.dts");
    let files: Vec<_> = machine
        .harts
        .iter()
        .map(|hart| hart.machine_imsic.map(|file| file.address))
        .collect();
    assert_eq!(
        files,
        [0x2400_0000, 0x2400_1000, 0x2500_0000, 0x2500_1000].map(Some)
    );
    let of_os = machine.harts.iter().map(|hart| hart.os_imsic);
    let of_os = of_os.map(|file| file.map(|file| file.address));
    assert_eq!(
        of_os.collect::<Vec<_>>(),
        [0x2800_0000, 0x2800_1000, 0x2900_0000, 0x2900_1000].map(Some)
    );
    for file in files.into_iter().flatten() {
        let closed = machine
            .machine_only
            .iter()
            .filter(|range| range.contains(file) && range.contains(file + 0xfff));
        assert_eq!(closed.count(), 1, "{file:#x}");
    }
    let roots = machine.interrupts.machine_aplics.iter();
    let roots = roots.map(|root| (root.base, &root.delegated[..]));
    let all = &[(0, 1, 96)][..];
    assert_eq!(
        roots.collect::<Vec<_>>(),
        [(0xc00_0000, all), (0xc00_8000, all)]
    );
    let of_os = machine.interrupts.os_aplics.iter();
    let of_os: Vec<_> = of_os.map(|domain| domain.base).collect();
    assert_eq!(of_os, [0xd00_0000, 0xd00_8000]);
    let aplics = machine
        .machine_only
        .iter()
        .filter(|range| range.length() == 0x8000);
    assert_eq!(aplics.count(), 2);
}

/// The change to `virt-sockets.dts` that gives each socket IMSIC nodes of its own, without group
/// bits; the second OS node has fewer identities.
const NODE_PER_SOCKET: &str = "
    / { soc {
        interrupt-controller@28000000 {
            /delete-property/ riscv,group-index-bits;
            /delete-property/ riscv,group-index-shift;
            reg = <0 0x28000000 0 0x2000>;
            interrupts-extended = <8 9 6 9>;
        };
        interrupt-controller@24000000 {
            /delete-property/ riscv,group-index-bits;
            /delete-property/ riscv,group-index-shift;
            reg = <0 0x24000000 0 0x2000>;
            interrupts-extended = <8 11 6 11>;
        };
        interrupt-controller@29000000 {
            phandle = <0x29>;
            compatible = \"riscv,imsics\";
            interrupt-controller; msi-controller; #interrupt-cells = <0>;
            riscv,num-ids = <63>; riscv,hart-index-bits = <1>;
            reg = <0 0x29000000 0 0x2000>;
            interrupts-extended = <4 9 2 9>;
        };
        interrupt-controller@25000000 {
            phandle = <0x25>;
            compatible = \"riscv,imsics\";
            interrupt-controller; msi-controller; #interrupt-cells = <0>;
            riscv,num-ids = <255>; riscv,hart-index-bits = <1>;
            reg = <0 0x25000000 0 0x2000>;
            interrupts-extended = <4 11 2 11>;
        };
        interrupt-controller@d008000 { msi-parent = <0x29>; };
        interrupt-controller@c008000 { msi-parent = <0x25>; };
    }; };";

#[test]
fn an_aplic_delivers_to_the_imsic_node_that_it_names() {
    let joint = machine("virt-sockets.dts");
    for root in &joint.interrupts.machine_aplics {
        let [of_machine, of_os] = root.imsics.unwrap();
        assert_eq!((of_machine.base, of_os.base), (0x2400_0000, 0x2800_0000));
        assert_eq!((of_os.group_bits, of_os.group_shift), (1, 24));
    }
    let apart = Machine::read(&compile(&(source("virt-sockets.dts") + NODE_PER_SOCKET))).unwrap();
    let bases = [(0x2400_0000, 0x2800_0000), (0x2500_0000, 0x2900_0000)];
    for (root, bases) in apart.interrupts.machine_aplics.iter().zip(bases) {
        let [of_machine, of_os] = root.imsics.unwrap();
        assert_eq!((of_machine.base, of_os.base), bases);
        assert_eq!((of_machine.group_bits, of_os.group_bits), (0, 0));
        assert_eq!(of_os.hart_bits, 1);
    }
    let files = apart.harts.iter().map(|hart| hart.os_imsic.unwrap());
    let files: Vec<_> = files.map(|file| (file.address, file.identities)).collect();
    assert_eq!(
        files,
        [
            (0x2800_0000, 255),
            (0x2800_1000, 255),
            (0x2900_0000, 63),
            (0x2900_1000, 63)
        ]
    );
    // One child of the first root sends elsewhere.
    let torn = NODE_PER_SOCKET.to_owned()
        + "/ { soc { interrupt-controller@c000000 { riscv,children = <0x0e 0x0c>; }; }; };";
    assert_eq!(
        Machine::read(&compile(&(source("virt-sockets.dts") + &torn))).err(),
        Some(DescriptionError::TwoImsics(TwoImsics { root: 0xc00_0000 }))
    );
}

/// A machine whose root has that many cells, and `/reserved-memory` these nodes and
/// properties, if there is one.
fn with_cells(cells: (u32, u32), reserved: Option<&str>) -> Vec<u8> {
    let number = |value: u64, cells: u32| match cells {
        0 => String::new(),
        1 => format!("{value:#x} "),
        _ => {
            "0 ".repeat(cells as usize - 2)
                + &format!("{:#x} {:#x} ", value >> 32, value & 0xffff_ffff)
        }
    };
    let (address, size) = cells;
    let reg = |start, length| number(start, address) + &number(length, size);
    let reserved = reserved.map_or(String::new(), |inner| {
        format!("reserved-memory {{ {inner} }};")
    });
    force(&format!(
        "/dts-v1/; / {{ #address-cells = <{address}>; #size-cells = <{size}>;
            chosen {{ }}; {reserved}
            memory@80000000 {{ device_type = \"memory\"; reg = <{}>; }};
            clint@2000000 {{ compatible = \"riscv,clint0\"; reg = <{}>; interrupts-extended = <1 3 1 7>; }};
            cpus {{ #address-cells = <1>; #size-cells = <0>; timebase-frequency = <10000000>;
                cpu@0 {{ device_type = \"cpu\"; reg = <0>; mmu-type = \"riscv,sv39\"; riscv,isa = \"rv64imac\";
                    interrupt-controller {{ #interrupt-cells = <1>; phandle = <1>; }}; }}; }};
        }};",
        reg(0x8000_0000, 0x4000_0000),
        reg(0x200_0000, 0x10000)
    ))
}

/// What is reserved in the tree that is handed on, as its own cells have it.
fn reserved_after(blob: &[u8], firmware: &[PhysRange]) -> Result<Vec<PhysRange>, FixupError> {
    let mut buffer = blob.to_vec();
    buffer.resize(blob.len() + 8192, 0);
    fixup(&mut buffer, &Fixups { firmware, ..FIXUPS })?;
    let tree = handed_over(&buffer);
    let (root, node) = (tree.root(), tree.root().child("reserved-memory").unwrap());
    for name in ["#address-cells", "#size-cells"] {
        let value =
            |property: Option<dtoolkit::fdt::FdtProperty<'_>>| property.unwrap().value().to_vec();
        assert_eq!(
            value(node.property(name)),
            value(root.property(name)),
            "{name}: Linux compares"
        );
    }
    assert!(node.property("ranges").unwrap().value().is_empty());
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    let machine = Machine::read(&buffer[..total]).unwrap();
    let id = tree.find_node("/vmgenid@8010f000").unwrap();
    let id = id.reg().unwrap().unwrap().next().unwrap();
    assert_eq!(id.address::<u64>().unwrap(), 0x8010_f000);
    assert_eq!(id.size::<u64>().unwrap(), 16);
    Ok(machine
        .reserved
        .iter()
        .map(|reserved| reserved.range)
        .collect())
}

#[test]
fn what_is_reserved_reads_back_under_any_root() {
    let other = PhysRange::new(0x9000_0000, 0x1000);
    for address in 1..=2 {
        for size in 1..=2 {
            let cells = (address, size);
            let node =
                |value: u64, cells: u32| "0 ".repeat(cells as usize - 1) + &format!("{value:#x} ");
            let reg = node(other.start, address) + &node(other.length(), size);
            let full = format!(
                "#address-cells = <{address}>; #size-cells = <{size}>; ranges; tee@90000000 {{ reg = <{reg}>; no-map; }};"
            );
            for (reserved, there) in [
                (None, &[][..]),
                (Some(""), &[]),
                (Some("ranges;"), &[]),
                (Some(&full[..]), &[other]),
            ] {
                let blob = with_cells(cells, reserved);
                let mut expected = there.to_vec();
                expected.extend([FIRMWARE, DATA]);
                let found = reserved_after(&blob, &[FIRMWARE, DATA]);
                assert_eq!(found.as_ref(), Ok(&expected), "{cells:?} {reserved:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_reserved_is_told() {
    let high = PhysRange::new(0x1_0000_0000, 0x20_0000);
    let long = PhysRange::new(0x8000_0000, 0x1_0000_0000);
    for (cells, range, is_named) in [
        ((1, 1), high, false),
        ((2, 1), high, true),
        ((2, 1), long, false),
        ((1, 2), long, true),
        ((1, 2), high, false),
    ] {
        let found = reserved_after(&with_cells(cells, None), &[range]);
        assert_eq!(found.is_ok(), is_named, "{cells:?} {range:x?}: {found:?}");
    }
    let error = reserved_after(&with_cells((1, 1), None), &[high]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the device tree cannot name 0x100000000..0x100200000 with 1 address and 1 size cells"
    );
    let half = "#size-cells = <2>; ranges;";
    let error = reserved_after(&with_cells((1, 1), Some(half)), &[FIRMWARE]);
    assert!(matches!(error, Err(FixupError::Cells(_))), "{error:?}");
    let other = "#address-cells = <2>; #size-cells = <2>; ranges;";
    let error = reserved_after(&with_cells((1, 1), Some(other)), &[FIRMWARE]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/reserved-memory in the device tree has 2 address and 2 size cells, and its root 1 address and 1 size cells: an OS ignores it"
    );
}

/// A tree with these nodes below the root, beside its own.
fn with_nodes(name: &str, nodes: &str) -> Result<Machine, DescriptionError> {
    with_nodes_in(&source(name), nodes)
}

/// The same, of a tree's source.
fn with_nodes_in(tree: &str, nodes: &str) -> Result<Machine, DescriptionError> {
    let end = tree.rfind("};").unwrap();
    Machine::read(&compile(&format!(
        "{}{nodes}{}",
        &tree[..end],
        &tree[end..]
    )))
}

#[test]
fn each_socket_has_a_plic_of_its_own() {
    let second = "plic@1c000000 { compatible = \"riscv,plic0\"; riscv,ndev = <0x3ff>; \
                  reg = <0x00 0x1c000000 0x00 0x600000>; \
                  interrupts-extended = <0x02 0x0b 0x02 0x09>; };";
    let machine = with_nodes("virt-plic.dts", second).unwrap();
    let mut plics = machine.interrupts.plics.iter();
    let of = |plic: &Plic| (plic.base, plic.sources, plic.contexts.to_vec());
    assert!(machine.interrupts.plics.len() == 2);
    // The tree's root has the new one behind its other children.
    assert_eq!(of(plics.next().unwrap()), (0xc00_0000, 95, vec![1, 3]));
    assert_eq!(of(plics.next().unwrap()), (0x1c00_0000, 1023, vec![1]));
}

/// A power supply's node, of which the line ends at `controller`.
fn power_fail(controller: u32, source: u32) -> String {
    format!(
        "power-fail {{ compatible = \"poorwill,power-fail\"; hold-up-us = <16000>; \
         interrupts-extended = <{controller} {source} 4>; }};"
    )
}

#[test]
fn the_power_supply_tells_when_the_power_fails() {
    let of = |tree: &str, controller, source| {
        with_nodes(tree, &power_fail(controller, source))
            .unwrap()
            .power_fail
    };
    let aplic = PowerFailInput::Aplic {
        place: 0,
        source: 60,
        hart: 0,
    };
    let expected = |input| PowerFail {
        input,
        hold_up_us: 16_000,
    };
    assert_eq!(of("virt-aia.dts", 7, 60), Some(expected(aplic)));
    // The first hart of the tree has the controller 4, and its contexts come first.
    let plic = PowerFailInput::Plic {
        place: 0,
        source: 60,
        context: 0,
    };
    assert_eq!(of("virt-plic.dts", 5, 60), Some(expected(plic)));
    let plic = with_nodes("virt-plic.dts", &power_fail(5, 60)).unwrap();
    let context = PhysRange::new(0xc20_0000, 0x1000);
    assert!(plic.machine_only.contains(&context));
    assert_eq!(machine("virt-aia.dts").power_fail, None);
    assert_eq!(machine("virt-aia.dts").power_fail_error, None);
    // The OS is not to wait for it, nor is the source one for the firmware to raise.
    let mut tree = source("virt-aia.dts");
    let end = tree.rfind("};").unwrap();
    tree.insert_str(end, &power_fail(7, 96));
    let blob = compile(&tree);
    assert_ne!(Machine::read(&blob).unwrap().power_fail, None);
    assert_eq!(spare(&blob), Some((95, 8)));
    assert_eq!(handed_on(&blob, &[]).power_fail, None);
}

/// The devices that nothing keeps, of a tree with these nodes beside its own.
fn unkept(name: &str, controller: u32, nodes: &str) -> (Vec<String>, usize) {
    let nodes = format!("{} {nodes}", power_fail(controller, 60));
    let census = with_nodes(name, &nodes).unwrap().census;
    let names = census.unkept.iter().map(|name| name.to_string());
    (names.collect(), census.more_unkept)
}

#[test]
fn every_device_of_a_known_machine_is_accounted_for() {
    for (name, controller) in [
        ("virt-aia.dts", 7),
        ("virt-plic.dts", 5),
        ("virt-aplic.dts", 5),
        ("virt-aclint.dts", 5),
    ] {
        assert_eq!(unkept(name, controller, ""), (vec![], 0), "{name}");
    }
    // Without a line nobody asks.
    let quiet = with_nodes(
        "virt-aia.dts",
        "gpio@10060000 { reg = <0 0x10060000 0 1>; };",
    );
    assert!(quiet.unwrap().census.unkept.is_empty());
    let uarts = with_nodes(
        "virt-aia.dts",
        &format!(
            "{} serial@10002000 {{ compatible = \"ns16550a\"; reg = <0 0x10002000 0 0x100>; }};",
            power_fail(7, 60)
        ),
    );
    let uarts = uarts.unwrap().uarts;
    let bases: Vec<_> = uarts.iter().map(|uart| uart.base()).collect();
    assert_eq!(bases, [0x1000_0000, 0x1000_2000]);
}

/// A sleep keeps their registers, with or without a power-fail line.
#[test]
fn uarts_on_the_bus_of_memory_are_listed() {
    let uart =
        |name: &str| format!("{name} {{ compatible = \"ns16550a\"; reg = <0 0x10002000 0 1>; }};");
    let bases = |nodes: &str| -> Vec<_> {
        let machine = with_nodes("virt-aia.dts", nodes).unwrap();
        machine.uarts.iter().map(|uart| uart.base()).collect()
    };
    let both = [0x1000_0000, 0x1000_2000];
    assert_eq!(bases(&uart("serial@10002000")), both);
    let cells = "#address-cells = <2>; #size-cells = <2>;";
    let mapped = format!("bus {{ {cells} ranges; {} }};", uart("serial@10002000"));
    assert_eq!(bases(&mapped), both);
    let behind = format!("bridge {{ {cells} {} }};", uart("serial@10002000"));
    assert_eq!(bases(&behind), both[..1], "its addresses are another bus's");
    let disabled = uart("serial@10002000").replace("reg", "status = \"disabled\"; reg");
    assert_eq!(bases(&disabled), both[..1]);
}

#[test]
fn a_device_that_nothing_keeps_is_named() {
    let named = |nodes: &str| unkept("virt-aia.dts", 7, nodes).0;
    // Wherever it is on the bus of memory.
    assert_eq!(
        named("gpio@10060000 { reg = <0 0x10060000 0 0x1000>; };"),
        ["gpio@10060000"]
    );
    assert_eq!(
        named(
            "bus { #address-cells = <2>; #size-cells = <2>; ranges;
               dma@3000000 { compatible = \"sifive,pdma0\"; reg = <0 0x3000000 0 0x8000>; };
             };"
        ),
        ["dma@3000000"]
    );
    // One that is disabled, what a bus of its own leads to, and what has no registers.
    assert_eq!(
        named(
            "off@1 { reg = <0 1 0 1>; status = \"disabled\"; };
             i2c { #address-cells = <1>; #size-cells = <0>; eeprom@50 { reg = <0x50>; }; };
             clock { compatible = \"fixed-clock\"; };
             reserved-memory { #address-cells = <2>; #size-cells = <2>; ranges;
               tee@86000000 { reg = <0 0x86000000 0 0x1000>; no-map; }; };"
        ),
        Vec::<String>::new()
    );
    // A second one of a kind of which one is kept.
    for (second, name) in [
        (
            "rtc@20 { compatible = \"google,goldfish-rtc\"; reg = <0 0x20 0 0x20>; };",
            "rtc@101000",
        ),
        (
            "nor@40000000 { compatible = \"cfi-flash\"; bank-width = <4>;
               reg = <0 0x40000000 0 0x100000>; };",
            "nor@40000000",
        ),
        (
            "uart@40 { compatible = \"ns16550a\"; };
             serial@50 { compatible = \"ns16550\"; reg = <>; };",
            "serial@50",
        ),
    ] {
        assert_eq!(named(second), [name]);
    }
}

#[test]
fn more_devices_than_are_named_are_counted() {
    let nodes: String = (0..20)
        .map(|number| format!("gpio@{number:x} {{ reg = <0 {number} 0 1>; }};"))
        .collect();
    let (names, more) = unkept("virt-aia.dts", 7, &nodes);
    assert_eq!((names.len(), more), (4, 16));
    let uart = |number| {
        format!("serial@{number:x} {{ compatible = \"ns16550a\"; reg = <0 {number} 0 1>; }};")
    };
    let uarts: String = (0..4).map(uart).collect();
    assert_eq!(unkept("virt-aia.dts", 7, &uarts).0.len(), 1);
}

#[test]
fn a_power_fail_node_that_is_passed_over_is_told_by_name() {
    let error = |tree: &str, node: &str| {
        let machine = with_nodes(tree, node).unwrap();
        assert_eq!(
            machine.power_fail.is_none(),
            machine.power_fail_error.is_some()
        );
        machine.power_fail_error
    };
    let node = |properties: &str| {
        format!("power-fail {{ compatible = \"poorwill,power-fail\"; {properties} }};")
    };
    // The OS's own domain, the interrupt controller of a hart, and nothing.
    for (tree, controller) in [
        ("virt-aia.dts", 8),
        ("virt-plic.dts", 4),
        ("virt-plic.dts", 99),
    ] {
        let found = error(tree, &power_fail(controller, 60));
        assert_eq!(found, Some(PowerFailError::Controller), "{controller}");
    }
    for (tree, controller, source) in [("virt-aia.dts", 7, 97), ("virt-plic.dts", 5, 0)] {
        let found = error(tree, &power_fail(controller, source));
        assert_eq!(found, Some(PowerFailError::Source(source)));
    }
    for (properties, expected) in [
        (
            "hold-up-us = <1>;",
            PowerFailError::Missing("interrupts-extended"),
        ),
        (
            "hold-up-us = <1>; interrupts-extended = <7>;",
            PowerFailError::Missing("interrupts-extended"),
        ),
        (
            "interrupts-extended = <7 60 4>;",
            PowerFailError::Missing("hold-up-us"),
        ),
        (
            "interrupts-extended = <7 60 4>; hold-up-us = <0>;",
            PowerFailError::NoHoldUp,
        ),
    ] {
        assert_eq!(error("virt-aia.dts", &node(properties)), Some(expected));
    }
    // An APLIC without messages, and a PLIC that interrupts the first hart in S-mode alone.
    for (tree, from, to, controller) in [
        ("virt-aia.dts", "riscv,imsics", "none", 7),
        ("virt-plic.dts", "0x04 0x0b 0x04 0x09", "0x04 0x09", 5),
    ] {
        let tree = source(tree).replace(from, to);
        let machine = with_nodes_in(&tree, &power_fail(controller, 60)).unwrap();
        assert_eq!(machine.power_fail_error, Some(PowerFailError::FirstHart));
    }
}

#[test]
fn caches_are_known_where_all_are_named() {
    let with_line = || {
        let mut tree = source("virt-aia.dts");
        let end = tree.rfind("};").unwrap();
        tree.insert_str(end, &power_fail(7, 60));
        tree
    };
    let one = with_line().replacen(
        "riscv,cbom-block-size",
        "d-cache-size = <0x4000>; riscv,cbom-block-size",
        1,
    );
    let caches = |tree: &str| Machine::read(&compile(tree)).unwrap().caches.unwrap();
    assert_eq!(caches(&one).first, None);
    let all = with_line().replace(
        "riscv,cbom-block-size",
        "d-cache-size = <0x4000>; riscv,cbom-block-size",
    );
    let cache = |bytes, is_lru| Some(Cache { bytes, is_lru });
    let mut expected = DataCaches {
        first: cache(0x4000, false),
        further: cache(0, true),
        shared: cache(0, true),
        flush_registers: None,
    };
    assert_eq!(caches(&all), expected);
    let common = with_line().replace(
        "timebase-frequency",
        "d-cache-size = <0x4000>; timebase-frequency",
    );
    assert_eq!(caches(&common), expected);
    let lru = common.replace("d-cache-size", "poorwill,lru; d-cache-size");
    assert_eq!(caches(&lru).first, cache(0x4000, true));
    let end = all.rfind("};").unwrap();
    let l2 = "l2 { compatible = \"cache\"; cache-size = <0x80000>; };";
    let both = format!("{}{l2}{}", &all[..end], &all[end..]);
    expected.shared = cache(0x8_0000, false);
    assert_eq!(caches(&both), expected);
    let sizeless = both.replace("cache-size = <0x80000>;", "");
    assert_eq!(caches(&sizeless).shared, None, "it is there");
}

#[test]
fn the_memory_controller_is_what_the_lines_node_says() {
    let with = |more: &str| with_nodes("virt-aia.dts", &power_fail(7, 60).replace("};", more));
    let all = "wear-registers = <0 0x50000000 0 0x18 1 0x60000008 0 0x8>;
        wear-levelled = <0 0x90000000 0 0x1000000>;
        memory-error = <0 0x50000100 0x6>; memory-reset = <1 0x60000010 0x1>; };";
    let machine = with(all).unwrap();
    let controller = &machine.memory_controller;
    let range = PhysRange::new;
    assert_eq!(
        controller.wear_registers[..],
        [range(0x5000_0000, 0x18), range(0x1_6000_0008, 8)]
    );
    assert_eq!(
        controller.wear_levelled[..],
        [range(0x9000_0000, 0x100_0000)]
    );
    let error = controller.error.unwrap();
    assert_eq!((error.address, error.bits), (0x5000_0100, 6));
    let reset = controller.reset.unwrap();
    assert_eq!((reset.address, reset.bits), (0x1_6000_0010, 1));
    // The OS has none of it: two pages, each closed once.
    for page in [range(0x5000_0000, 0x1000), range(0x1_6000_0000, 0x1000)] {
        let closed = machine.machine_only.iter();
        assert_eq!(closed.filter(|closed| **closed == page).count(), 1);
    }
    let none = with("};").unwrap().memory_controller;
    assert_eq!(none, Default::default());
    // Bits that are none tell nothing.
    let none = with("memory-error = <0 0x50000100 0>; };").unwrap();
    assert_eq!(none.memory_controller.error, None);
    let many = format!("wear-registers = <{}>; }};", "0 0x50000000 0 8 ".repeat(5));
    assert!(with(&many).is_err());
}

/// Each hart has a cache of its own behind its first, and all have one behind that.
#[test]
fn caches_are_those_that_harts_name() {
    let line = |harts: &str, own: &str| {
        let mut tree = source("virt-aia.dts");
        let end = tree.rfind("};").unwrap();
        let l3 = "cache-controller@2010000 { compatible = \"sifive,fu740-c000-ccache\", \"cache\";
            reg = <0 0x2010000 0 0x1000>; cache-size = <0x200000>; phandle = <0x903>; };";
        tree.insert_str(end, &format!("{}{own}", power_fail(7, 60)));
        tree += &format!("/ {{ soc {{ {l3} }}; }};");
        let mut harts = harts.split(',');
        while tree.contains("riscv,cbom-block-size") {
            let next = harts.next().map_or(String::new(), |next| {
                format!("next-level-cache = <{next}>;")
            });
            tree = tree.replacen(
                "riscv,cbom-block-size",
                &format!("d-cache-size = <0x4000>; {next} block-size"),
                1,
            );
        }
        Machine::read(&compile(&tree)).unwrap().caches.unwrap()
    };
    let l2 = |phandle: u32, size: u32, next: &str| {
        format!(
            "l2-{phandle} {{ compatible = \"cache\"; cache-size = <{size:#x}>; {next} phandle = <{phandle}>; }};"
        )
    };
    let cache = |bytes, is_lru| Some(Cache { bytes, is_lru });
    let to_l3 = "next-level-cache = <0x903>;";
    let own = l2(0x901, 0x8000, to_l3) + &l2(0x902, 0x1_0000, to_l3);
    let all = line("0x901,0x902", &own);
    assert_eq!(all.flush_registers, Some(0x201_0000));
    assert_eq!(all.further, cache(0x1_0000, false));
    assert_eq!(all.shared, cache(0x20_8000, false));
    // Named by one, or by nobody: it is emptied by the first hart all the same.
    let all = line("0x903", "");
    assert_eq!(
        (all.further, all.shared),
        (cache(0, true), cache(0x20_0000, false))
    );
    let nobody = line("", "");
    assert_eq!((nobody.further, nobody.shared), (all.further, all.shared));
    // One that is not there, of whichever hart, and one that is behind itself.
    assert_eq!(line("0x904", "").shared, None);
    assert_eq!(line("0x903,0x904", "").further, None);
    assert_eq!(
        line("0x901", &l2(0x901, 1, "next-level-cache = <0x901>;")).shared,
        None
    );
    // Who has two does not know whose a line is.
    let second = "ccache@3000000 { compatible = \"sifive,ccache0\", \"cache\"; reg = <0 0x3000000 0 0x1000>; cache-size = <64>; };";
    assert_eq!(line("", second).flush_registers, None);
}

#[test]
fn what_there_is_no_room_for_is_named() {
    let node = |compatible: &str, more: &str| {
        format!("compatible = \"{compatible}\"; reg = <0x00 0x50000000 0x00 0x1000>; {more}")
    };
    // What the tree has, what a list takes.
    for (has, most, what, node) in [
        (1, 4, "PLICs", node("riscv,plic0", "riscv,ndev = <1>;")),
        (1, 4, "MTIME registers", node("riscv,clint0", "")),
        (
            1,
            16,
            "register ranges of machine mode",
            node("riscv,aclint-mswi", ""),
        ),
        (1, 4, "PCI host bridges", node("pci-host-ecam-generic", "")),
    ] {
        let nodes = |count: u32| {
            let one = |number| format!("device@{number} {{ {node} }}; ");
            (0..count).map(one).collect::<String>()
        };
        assert!(
            with_nodes("virt-plic.dts", &nodes(most - has)).is_ok(),
            "{what}"
        );
        let error = with_nodes("virt-plic.dts", &nodes(most - has + 1)).unwrap_err();
        let expected = format!("the device tree has more than {most} {what}");
        assert_eq!(error.to_string(), expected);
    }
    let bank = "0x00 0x24000000 0x00 0x2000000 ".repeat(3);
    let delegations = " 0x08 0x01 0x60".repeat(4);
    for (name, from, more, expected) in [
        (
            "virt-plic.dts",
            "<0x00 0x20000000 0x00 0x2000000 ",
            &bank[..],
            "4 banks of flash",
        ),
        (
            "virt-aia.dts",
            "<0x08 0x01 0x60",
            &delegations,
            "12 cells of an APLIC's delegation",
        ),
        (
            "virt-aia.dts",
            "riscv,children = <0x08",
            " 1 2 3 4",
            "4 children of an APLIC domain",
        ),
    ] {
        let to = format!("{from}{more}");
        let error = Machine::read(&changed(name, from, &to)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the device tree has more than {expected}")
        );
    }
}

#[test]
fn of_a_machine_that_is_refused_the_console_is_known() {
    let many = "riscv,children = <0x08 1 2 3 4";
    let harts = (2..40).map(|hart| {
        format!(
            "cpu@{hart} {{ device_type = \"cpu\"; reg = <{hart}>; mmu-type = \"riscv,sv39\"; \
             interrupt-controller {{ }}; }}; "
        )
    });
    for (from, to) in [
        ("riscv,children = <0x08", many.to_owned()),
        ("cpu@0 {", harts.collect::<String>() + "cpu@0 {"),
        ("timebase-frequency", "nothing".to_owned()),
        ("memory@80000000", "no-memory@80000000".to_owned()),
    ] {
        let mut machine = Machine::default();
        let result = machine.survey(&changed("virt-aia.dts", from, &to));
        assert!(result.is_err(), "{from}");
        assert_eq!(machine.console.map(Uart::base), Some(0x1000_0000));
        let switches = &machine.switches;
        assert!(switches.power_off.is_some() && switches.reset.is_some());
    }
}

#[test]
fn what_only_machine_mode_may_touch() {
    let aia = machine("virt-aia.dts");
    let covered = |address| aia.machine_only.iter().any(|range| range.contains(address));
    for address in [0x200_0000, 0x200_bff8, 0xc00_0000, 0x2400_0000] {
        assert!(covered(address), "{address:#x}");
    }
    for address in [0x10_0000, 0xd00_0000, 0x1000_0000, 0x2800_0000, 0x3000_0000] {
        assert!(!covered(address), "{address:#x}");
    }
}

#[test]
fn monitor_cores_are_left_out() {
    let sifive = machine("sifive-u.dts");
    let base = 0x1001_0000;
    assert_eq!(sifive.console, Some(Uart::Sifive { base }));
    assert_eq!(
        sifive.harts.iter().map(|hart| hart.id).collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(sifive.harts[0].extensions.float && !sifive.harts[0].extensions.sstc);
    assert_eq!(sifive.cache_block(), None);
    // Their contexts are numbered behind hart 0's only one.
    assert_eq!(sifive.interrupts.plics[0].contexts[..], [2, 4]);
    assert_eq!(sifive.harts[0].msip, Some(0x200_0004));
}

/// The identity of a machine whose OS has all of its memory.
/// A tree of QEMU's with somebody else's memory, and some of the OS's, in it.
fn with_reserved(nodes: &str, block: &[(u64, u64)]) -> Machine {
    let mut source = source("virt-plic.dts");
    let block: String = block
        .iter()
        .map(|(start, length)| format!("/memreserve/ {start:#x} {length:#x};\n"))
        .collect();
    source = source.replacen("/dts-v1/;", &format!("/dts-v1/;\n{block}"), 1);
    source += &format!(
        "/ {{ reserved-memory {{ #address-cells = <2>; #size-cells = <2>; ranges; {nodes} }};
            chosen {{ linux,initrd-start = <0x84000000>; linux,initrd-end = <0x85000000>; }}; }};"
    );
    Machine::read(&compile(&source)).unwrap()
}

#[test]
fn memory_that_belongs_to_others_is_not_the_os_s() {
    let nodes = "
        tee@90000000 { reg = <0 0x90000000 0 0x200000>, <0 0x91000000 0 0x1000>; no-map; };
        off@92000000 { reg = <0 0x92000000 0 0x1000>; no-map; status = \"disabled\"; };
        pool@93000000 { reg = <0 0x93000000 0 0x1000>; reusable; };
        log@94000000 { reg = <0 0x94000000 0 0x1000>; };
        any { size = <0 0x1000>; no-map; };";
    let block = [
        (0x9800_0000, 0x1000),
        (0x8400_0000, 0x100_0000),
        (0x8700_0000, 0x2000),
        (0x8020_0000, 0x1000),
        (0x9400_0000, 0x800),
    ];
    let machine = with_reserved(nodes, &block);
    let foreign = |loaded: &[u64]| -> Vec<_> {
        let foreign = machine.foreign(loaded);
        foreign.map(|range| (range.start, range.length())).collect()
    };
    let others = [(0x9000_0000, 0x20_0000), (0x9100_0000, 0x1000)];
    // Of the block: not the initial RAM disk, the kernel, the tree, the OS's own log.
    let mut expected = vec![(0x9800_0000, 0x1000)];
    expected.extend(others);
    assert_eq!(foreign(&[0x8020_0000, 0x8700_1000]), expected);
    assert_eq!(foreign(&[0x8020_0000]).len(), expected.len() + 1);
    // All of it is stepped over when the firmware looks for room.
    assert_eq!(machine.reserved.len(), 5 + 4 + 1);
}

fn identity(machine: &Machine) -> MachineIdentity {
    machine.identity(&machine.memory)
}

#[test]
fn each_part_of_the_fingerprint_stands_for_itself() {
    let here = identity(&machine("virt-plic.dts"));
    let changed = |from: &str, to: &str| {
        let blob = changed("virt-plic.dts", from, to);
        identity(&Machine::read(&blob).unwrap())
    };
    assert_eq!(
        here.compare(&changed("stdout-path", "other-path")),
        Ok(()),
        "/chosen may differ"
    );
    let bigger = changed(
        "reg = <0x00 0x80000000 0x00 0x40000000>",
        "reg = <0x00 0x80000000 0x00 0x50000000>",
    );
    assert!(here.memory != bigger.memory && here.harts == bigger.harts);
    let other_isa = changed("\\0zbb", "");
    assert!(here.isa != other_isa.isa && here.memory == other_isa.memory);
    let other_tree = changed("goldfish-rtc", "other-rtc");
    assert!(here.device_tree != other_tree.device_tree && here.isa == other_tree.isa);
}

#[test]
fn the_next_stage_sees_the_reservation_and_no_machine_level_controller() {
    for name in ["plic", "aia", "aplic", "aclint-imsic"] {
        let mut buffer = blob(&format!("virt-{name}.dts"));
        let length = buffer.len();
        buffer.resize(length + 4096, 0xaa);
        fixup(&mut buffer, &FIXUPS).unwrap();
        let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
        let tree = Fdt::new(&buffer[..total]).unwrap();
        let node = tree
            .find_node("/reserved-memory/poorwill@80000000")
            .unwrap();
        let reg = node.reg().unwrap().unwrap().next().unwrap();
        assert_eq!(reg.address::<u64>().unwrap(), FIRMWARE.start);
        assert_eq!(reg.size::<u64>().unwrap(), FIRMWARE.length());
        assert!(node.property("no-map").is_some());
        assert!(
            tree.find_node("/reserved-memory")
                .unwrap()
                .property("ranges")
                .is_some()
        );
        for (path, level) in [
            ("/soc/interrupt-controller@24000000", "machine"),
            ("/soc/interrupt-controller@28000000", "os"),
            ("/soc/interrupt-controller@c000000", "machine"),
            ("/soc/interrupt-controller@d000000", "os"),
            ("/flash@20000000", "os"),
        ] {
            let Some(node) = tree.find_node(path) else {
                continue;
            };
            let disabled = node
                .property("status")
                .is_some_and(|status| status.value() == b"disabled\0");
            assert_eq!(disabled, level == "machine", "{name} {path}");
        }
        // The rest is as it was.
        let before = Machine::read(&blob(&format!("virt-{name}.dts"))).unwrap();
        let after = Machine::read(&buffer[..total]).unwrap();
        assert_eq!(before.memory, after.memory);
        assert_eq!(before.harts.len(), after.harts.len());
    }
}

#[test]
fn a_hart_without_an_mmu_is_not_the_os_s() {
    let monitor = source("sifive-u.dts");
    assert_eq!(monitor.matches("mmu-type = \"riscv,none\"").count(), 0);
    let none = "cpus { cpu@0 { mmu-type = \"riscv,none\"; }; };";
    let odd = "cpus { cpu@2 { /delete-node/ interrupt-controller; }; };";
    for (more, disabled) in [
        (String::new(), &[0][..]),
        (format!("/ {{ {none} }};"), &[0]),
        (format!("/ {{ {odd} }};"), &[0, 2]),
        (
            "/ { cpus { cpu@1 { status = \"disabled\"; }; }; };".into(),
            &[0, 1],
        ),
        // Without a list of harts the machine is refused, and not for want of room.
        ("/ { /delete-node/ cpus; };".into(), &[]),
    ] {
        let mut buffer = compile(&(monitor.clone() + &more));
        buffer.resize(buffer.len() + 8192, 0);
        fixup(&mut buffer, &FIXUPS).unwrap();
        let tree = handed_over(&buffer);
        let harts = tree.root().child("cpus").into_iter();
        let harts = harts.flat_map(|cpus| cpus.children());
        let harts = harts.filter(|cpu| cpu.name_without_address() == "cpu");
        for (id, cpu) in harts.enumerate() {
            let status = cpu.property("status").map(|status| status.value().to_vec());
            let is_disabled = status.as_deref() == Some(b"disabled\0");
            assert_eq!(is_disabled, disabled.contains(&id), "{more}: hart {id}");
        }
    }
}

#[test]
fn flash_that_is_not_the_firmwares_stays_in_sight() {
    let okay = "bank-width = <0x04>; status = \"okay\";";
    let blob = changed("virt-aia.dts", "bank-width = <0x04>;", okay);
    let first = PhysRange::new(0x2000_0000, 0x200_0000);
    for (flash, visible) in [
        (&[][..], &[first, BANK][..]),
        (&[FIRMWARE], &[first, BANK]),
        (&[BANK], &[first]),
        (&[first], &[BANK]),
        (&[first, BANK], &[]),
    ] {
        let after = handed_on(&blob, flash).flash;
        let banks = after.as_ref().map_or(&[][..], |flash| &flash.banks[..]);
        assert_eq!(banks, visible, "{flash:x?}");
    }
}

/// What the next stage finds in a tree where these parts of flash are the vault's.
fn handed_on(blob: &[u8], flash: &[PhysRange]) -> Machine {
    let mut buffer = blob.to_vec();
    buffer.resize(blob.len() + 8192, 0);
    let fixups = Fixups { flash, ..FIXUPS };
    fixup(&mut buffer, &fixups).unwrap();
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    Machine::read(&buffer[..total]).unwrap()
}

#[test]
fn a_partition_that_is_named_for_it_is_the_vaults_and_no_more() {
    let partition = |reg: &str, label: &str| {
        let partitions = format!(
            "/ {{ flash@20000000 {{ partitions {{ compatible = \"fixed-partitions\";
                #address-cells = <1>; #size-cells = <1>;
                vars@2000000 {{ label = \"vars\"; reg = <0x2000000 0x1000000>; }};
                vault@3000000 {{ label = \"{label}\"; reg = <{reg}>; }}; }}; }}; }};"
        );
        compile(&(source("virt-aia.dts") + &partitions))
    };
    let place = |reg| {
        let blob = partition(reg, "poorwill-vault");
        Machine::read(&blob).unwrap().flash.unwrap().vault
    };
    let vault = PhysRange::new(0x2300_0000, 0x10_0000);
    assert_eq!(place("0x3000000 0x100000"), VaultPlace::Partition(vault));
    let blob = partition("0x3000000 0x100000", "poorwill-vault");
    let bank = Machine::read(&blob).unwrap().flash.unwrap().vault_bank();
    let in_bank = Some(0x100_0000..0x110_0000);
    assert_eq!(
        bank.map(|bank| (bank.bank, bank.own, bank.partition)),
        Some((BANK, vault, in_bank))
    );
    let whole = VaultPlace::Partition(BANK);
    assert_eq!(place("0x2000000 0x2000000"), whole);
    for outside in [
        "0x1f00000 0x200000",
        "0x3f00000 0x200000",
        "0x4000000 0x100000",
        "0x3000000 0",
    ] {
        assert_eq!(place(outside), VaultPlace::Nowhere, "{outside}");
    }
    let other = partition("0x3000000 0x100000", "other");
    let other = Machine::read(&other).unwrap().flash.unwrap();
    assert_eq!(other.vault, VaultPlace::Unsaid);
    // What is handed on has the chip, and not the vault's partition.
    let blob = partition("0x3000000 0x100000", "poorwill-vault");
    let after = handed_on(&blob, &[vault]).flash.unwrap();
    assert_eq!(after.banks.len(), 2);
    assert_eq!(after.vault, VaultPlace::Unsaid, "it is disabled");
}

#[test]
fn all_of_flash_but_the_vaults_part_is_the_os_s() {
    let flash = machine("virt-aia.dts").flash.unwrap();
    let first = PhysRange::new(0x2000_0000, 0x200_0000);
    let within = PhysRange::new(0x2300_0000, 0x10_0000);
    let before = PhysRange::new(0x2200_0000, 0x100_0000);
    let behind = PhysRange::new(0x2310_0000, 0xf0_0000);
    for (vault, left) in [
        (None, &[first, BANK][..]),
        (Some(BANK), &[first]),
        (Some(first), &[BANK]),
        (Some(within), &[first, before, behind]),
        (Some(FIRMWARE), &[first, BANK]),
    ] {
        let found: Vec<_> = flash.of_os(vault).collect();
        assert_eq!(found, left, "{vault:x?}");
    }
}

#[test]
fn the_next_stage_is_told_how_the_machine_came_up() {
    let seeded = changed(
        "virt-aia.dts",
        "chosen {",
        "chosen { rng-seed = [01 02]; poorwill,boot = \"old\";",
    );
    let without = changed("virt-aia.dts", "chosen {", "not-chosen {");
    for (blob, seed) in [
        (seeded, &[0x5e; 32][..]),
        (blob("virt-aia.dts"), &[]),
        (without, &[]),
    ] {
        let mut buffer = blob;
        buffer.resize(buffer.len() + 4096, 0);
        let placed = fixup(&mut buffer, &FIXUPS).unwrap();
        assert_eq!(buffer[placed.report..][..128], [b'r'; 128]);
        assert_eq!(buffer[placed.log..][..512], [b'l'; 512]);
        assert_eq!(buffer[placed.cut.unwrap()..][..128], [b'c'; 128]);
        let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
        let tree = Fdt::new(&buffer[..total]).unwrap();
        let chosen = tree.find_node("/chosen").unwrap();
        let report = chosen.property("poorwill,boot").unwrap();
        assert_eq!(report.value(), [b'r'; 128]);
        assert_eq!(
            chosen.property("poorwill,log").unwrap().value(),
            [b'l'; 512]
        );
        assert_eq!(Machine::read(&buffer[..total]).unwrap().seed[..], *seed);
    }
}

/// The source of a tree's spare interrupt, and the phandle of its controller.
fn spare(blob: &[u8]) -> Option<(u32, u32)> {
    let spare = Machine::read(blob).unwrap().spare_source?;
    Some((spare.source, spare.controller))
}

#[test]
fn a_source_that_no_node_names_is_spare() {
    for name in ["virt-plic.dts", "virt-aclint.dts", "sifive-u.dts"] {
        assert_eq!(
            spare(&blob(name)),
            None,
            "{name}: a PLIC's cannot be raised"
        );
    }
    for (name, controller) in [
        ("virt-aia.dts", 8),
        ("virt-aplic.dts", 6),
        ("virt-aclint-imsic.dts", 8),
    ] {
        assert_eq!(spare(&blob(name)), Some((96, controller)), "{name}");
    }
    let uart = "interrupts = <0x0a 0x04>;";
    let extended = "interrupts-extended = <0x08 0x60 0x04>, <0x08 0x5f 0x01>;";
    for (from, to, source) in [
        (uart, "interrupts = <0x60 0x04>;", Some(95)),
        (uart, extended, Some(94)),
        // A node that is not in use keeps its source.
        (
            uart,
            "interrupts = <0x60 0x04>; status = \"disabled\";",
            Some(95),
        ),
        // A PCI bridge's.
        (
            "0x04 0x1800 0x00 0x00 0x04 0x08 0x22 0x04",
            "0x04 0x1800 0x00 0x00 0x04 0x08 0x60 0x04",
            Some(95),
        ),
        // Machine mode keeps what it does not hand down.
        ("<0x08 0x01 0x60>", "<0x08 0x01 0x40>", Some(64)),
        ("<0x08 0x01 0x60>", "<0x08 0x01 0x00>", None),
    ] {
        let found = spare(&changed("virt-aia.dts", from, to));
        assert_eq!(found.map(|(source, _)| source), source, "{to}");
    }
    // The controller must be told rising edges from levels.
    let blob = changed(
        "virt-aia.dts",
        "#interrupt-cells = <0x02>",
        "#interrupt-cells = <0x01>",
    );
    assert_eq!(spare(&blob), None);
}

#[test]
fn the_next_stage_finds_its_generation_id() {
    let mut buffer = blob("virt-aia.dts");
    let length = buffer.len();
    buffer.resize(length + 4096, 0);
    fixup(&mut buffer, &FIXUPS).unwrap();
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    let tree = Fdt::new(&buffer[..total]).unwrap();
    let node = tree.find_node("/vmgenid@8010f000").unwrap();
    let value = |name| node.property(name).unwrap().value().to_vec();
    assert_eq!(value("compatible"), b"microsoft,vmgenid\0");
    assert_eq!(
        value("reg"),
        [0, 0, 0, 0, 0x80, 0x10, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 16]
    );
    assert_eq!(value("interrupt-parent"), [0, 0, 0, 8]);
    assert_eq!(value("interrupts"), [0, 0, 0, 96, 0, 0, 0, 1]);

    let mut buffer = blob("virt-plic.dts");
    buffer.resize(length + 4096, 0);
    let without = Fixups {
        generation_id: None,
        cut: None,
        ..FIXUPS
    };
    assert_eq!(fixup(&mut buffer, &without).unwrap().cut, None);
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    let tree = Fdt::new(&buffer[..total]).unwrap();
    let mut nodes = tree.root().children();
    assert!(!nodes.any(|node| node.name().starts_with("vmgenid")));
}

#[test]
fn the_tree_names_the_domain() {
    for (domain, expected) in [(None, None), (Some("linux"), Some(&b"linux\0"[..]))] {
        let old = "chosen { poorwill,domain = \"old\";";
        let mut buffer = compile(&source("virt-plic.dts").replacen("chosen {", old, 1));
        buffer.resize(buffer.len() + 8192, 0);
        fixup(&mut buffer, &Fixups { domain, ..FIXUPS }).unwrap();
        let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
        let tree = Fdt::new(&buffer[..total]).unwrap();
        let chosen = tree.find_node("/chosen").unwrap();
        let value = chosen.property("poorwill,domain");
        assert_eq!(
            value.map(|value| value.value().to_vec()),
            expected.map(<[u8]>::to_vec)
        );
    }
}

/// The length of the changed blob, and the bytes at its end that it does not use, in a buffer with
/// this much room after the blob.
fn slack_in(blob: &[u8], room: usize) -> Result<(usize, Vec<u8>), FixupError> {
    let mut buffer = blob.to_vec();
    // What lies after a tree in memory is unknown.
    buffer.resize(blob.len() + room, 0xaa);
    fixup(&mut buffer, &FIXUPS)?;
    let word = |at: usize| u32::from_be_bytes(buffer[at..at + 4].try_into().unwrap()) as usize;
    let [total, strings, strings_bytes] = [4, 12, 32].map(word);
    Ok((total, buffer[strings + strings_bytes..total].to_vec()))
}

#[test]
fn a_loader_can_add_to_the_tree_within_its_size() {
    let slack = usize::try_from(SLACK).unwrap();
    for name in ["virt-plic.dts", "virt-aia.dts", "sifive-u.dts"] {
        let blob = blob(name);
        let (with_all, free) = slack_in(&blob, 16384).unwrap();
        assert_eq!(free, vec![0; slack], "{name}");
        // Where there is less room it gets what there is, without an error.
        let needed = with_all - slack - blob.len();
        for left in [0, 1, 100, slack - 1, slack] {
            let (total, free) = slack_in(&blob, needed + left).unwrap();
            assert_eq!(free, vec![0; left], "{name}: {left} bytes");
            assert_eq!(total, blob.len() + needed + left);
        }
        assert!(slack_in(&blob, needed - 1).is_err(), "{name}");
    }
}

/// The harts that boot a machine of two harts with these nodes in its tree. Cold-boot harts are
/// those of OpenSBI's generic platform.
fn cold_boot_harts(more: &str) -> ColdBootHarts {
    let tree = source("virt-plic.dts") + more;
    Machine::read(&compile(&tree)).unwrap().cold_boot_harts
}

#[test]
fn only_listed_harts_boot_a_machine() {
    let config = |list: &str| {
        format!(
            "/ {{ chosen {{ settings {{ opensbi-config {{ compatible = \"vendor\", \"opensbi,config\"; \
             cold-boot-harts = <{list}>; }}; }}; }}; }};"
        )
    };
    let [first, second] = ["&{/cpus/cpu@0}", "&{/cpus/cpu@1}"];
    let listed = |more: &str, list: &str| {
        let harts = cold_boot_harts(&(config(list) + more));
        assert_eq!(harts.error, None, "{list}");
        harts.listed.to_vec()
    };
    assert_eq!(listed("", second), [1]);
    assert_eq!(listed("", &format!("{second} {first} {second}")), [1, 0]);
    let harts = cold_boot_harts(&config(second));
    assert!(harts.contain(1) && !harts.contain(0) && !harts.contain(2));
    // A disabled hart of the list does not boot, and the others do.
    let disabled = "/ { cpus { cpu@1 { status = \"disabled\"; }; }; };";
    assert_eq!(listed(disabled, &format!("{second} {first}")), [0]);
    for (more, list, error) in [
        (disabled, second.to_owned(), ColdBootError::NoHart),
        ("", "0x777".to_owned(), ColdBootError::UnknownPhandle(0x777)),
        ("", format!("{second} 0"), ColdBootError::UnknownPhandle(0)),
    ] {
        let harts = cold_boot_harts(&(config(&list) + more));
        assert!(harts.contain(0) && harts.contain(1), "{list}");
        assert_eq!(harts.error, Some(error), "{list}");
    }
    // No list, an empty one, and one elsewhere.
    for without in [
        String::new(),
        config(""),
        config(second).replace("chosen", "other"),
        config(second).replace("opensbi,config", "opensbi,other"),
    ] {
        let all = ColdBootHarts::default();
        assert!(all.contain(0) && all.contain(1));
        assert_eq!(cold_boot_harts(&without), all, "{without}");
    }
}

#[test]
fn no_room_to_grow_is_an_error() {
    let mut buffer = blob("virt-plic.dts");
    assert!(matches!(
        fixup(&mut buffer, &FIXUPS),
        Err(FixupError::NoRoom(_))
    ));
}

#[test]
fn devices_at_the_end_of_all_addresses_have_no_registers_beyond() {
    let end = "reg = <0xffffffff 0xfffffffc 0x00 0x10000>;";
    for (name, timer) in [
        ("virt-plic.dts", "reg = <0x00 0x2000000 0x00 0x10000>;"),
        ("virt-aclint.dts", "reg = <0x00 0x2000000 0x00 0x4000>;"),
    ] {
        let tree = source(name);
        assert!(tree.contains(timer), "{name}");
        match Machine::read(&compile(&tree.replace(timer, end))) {
            Ok(machine) => assert_eq!(machine.harts[1].msip, None, "{name}"),
            Err(error) => assert_eq!(error, DescriptionError::NoTimer, "{name}"),
        }
    }
}

#[test]
fn a_tree_deeper_than_any_is_refused() {
    let nested = |depth: usize| {
        let tree = source("virt-plic.dts");
        let end = tree.rfind("};").unwrap();
        let nodes = "a { ".repeat(depth) + &"}; ".repeat(depth);
        Machine::read(&compile(&format!(
            "{}{nodes}{}",
            &tree[..end],
            &tree[end..]
        )))
    };
    assert!(nested(32).is_ok());
    assert_eq!(nested(33).unwrap_err(), DescriptionError::TooDeep);
    assert_eq!(nested(2000).unwrap_err(), DescriptionError::TooDeep);
}

/// What boards have, and the specification does not allow: names of more than 31 characters
/// (Microchip's and Andes's trees, and all with a SiFive sound card), other characters, odd
/// unit addresses.
const ODD_NAMES: &str = "/ {
    microchip,ihc-chan-disabled-mask = <0x0>;
    snps,dis-u2-freeclk-exists-quirk-of-a-name-that-goes-on-for-a-while;
    odd*property = \"of a wildcard\";
    a-node-with-a-name-of-more-than-thirty-one-characters@0123456789abcdef,0123456789abcdef {
        simple-audio-card,bitclock-master;
        interrupt-controller@deadbeef { compatible = \"riscv,aplic\"; riscv,children = <1>;
            riscv,num-sources = <3>; reg = <0 0xdeadb000 0 0x1000>; };
    };
    two@unit@addresses { }; hash#node@0,1 { }; star*node { }; question?node@_ { };
    empty@ { }; @0 { };
};";

#[test]
fn names_have_any_length_and_any_characters() {
    for name in ["virt-plic.dts", "virt-aia.dts", "sifive-u.dts"] {
        let odd = force(&(source(name) + ODD_NAMES));
        assert!(Fdt::new(&odd).is_err(), "dtoolkit alone refuses them");
        let (plain, found) = (machine(name), Machine::read(&odd).unwrap());
        assert_eq!(plain.harts, found.harts, "{name}");
        assert_eq!(plain.memory, found.memory, "{name}");
        // They come back from an edit as they were, and what they contain is hidden.
        let mut buffer = odd.clone();
        buffer.resize(odd.len() + 8192, 0);
        fixup(&mut buffer, &FIXUPS).unwrap();
        let tree = handed_over(&buffer);
        let root = tree.root();
        for kept in [
            "microchip,ihc-chan-disabled-mask",
            "snps,dis-u2-freeclk-exists-quirk-of-a-name-that-goes-on-for-a-while",
            "odd*property",
        ] {
            assert!(root.property(kept).is_some(), "{name}: {kept}");
        }
        for kept in ["two@unit@addresses", "hash#node@0,1", "empty@", "@0"] {
            assert!(
                root.children().any(|node| node.name() == kept),
                "{name}: {kept}"
            );
        }
        let mut nodes = root.children();
        let long = nodes
            .find(|node| node.name().starts_with("a-node-with"))
            .unwrap();
        let controller = long.children().next().unwrap();
        let status = controller.property("status").unwrap();
        assert_eq!(status.value(), b"disabled\0", "{name}");
    }
}

/// The tree that the next stage is given.
fn handed_over(buffer: &[u8]) -> Fdt<'_> {
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    open(&buffer[..total]).expect("what is handed on is well formed")
}

proptest! {
    /// Any text is a name, of a node and of a property; no other bytes are.
    #[test]
    fn any_text_is_a_name(bytes in prop::collection::vec(1u8.., 1..100)) {
        // Placeholders of the same length take the bytes' place.
        let (node, property) = ("n".repeat(bytes.len()), "p".repeat(bytes.len()));
        let mut blob = compile(&format!("/dts-v1/; / {{ {property}; {node} {{ }}; }};"));
        for placeholder in [node.as_bytes(), property.as_bytes()] {
            let at = blob.windows(bytes.len()).position(|name| name == placeholder).unwrap();
            blob[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let text = std::str::from_utf8(&bytes);
        let tree = open(&blob);
        prop_assert_eq!(tree.is_some(), text.is_ok());
        if let (Some(tree), Ok(text)) = (tree, text) {
            let root = tree.root();
            let (property, node) = (root.properties().next().unwrap(), root.children().next().unwrap());
            prop_assert_eq!([property.name(), node.name()], [text; 2]);
        }
    }
}

/// The blob's header, whose fields are big-endian words.
fn field(blob: &mut [u8], number: usize) -> &mut [u8] {
    &mut blob[4 * number..][..4]
}

#[test]
fn a_tree_that_reads_but_cannot_be_edited_is_damaged() {
    let whole = blob("virt-plic.dts");
    let read =
        |blob: &mut [u8], number| u32::from_be_bytes(field(blob, number).try_into().unwrap());
    // The last string's end lies behind the block.
    let mut cut = whole.clone();
    let size = read(&mut cut, 8);
    field(&mut cut, 8).copy_from_slice(&(size - 1).to_be_bytes());
    // A string in the block that no property names is no text.
    let mut no_text = whole.clone();
    no_text.extend([0xff, 0]);
    let total = read(&mut no_text, 1) + 2;
    field(&mut no_text, 1).copy_from_slice(&total.to_be_bytes());
    field(&mut no_text, 8).copy_from_slice(&(size + 2).to_be_bytes());
    // The structure's block ends before the structure does.
    let mut short = whole.clone();
    let size = read(&mut short, 9);
    field(&mut short, 9).copy_from_slice(&(size - 4).to_be_bytes());

    for mut blob in [cut, no_text, short] {
        let length = blob.len();
        blob.resize(length + 4096, 0);
        assert_eq!(fixup(&mut blob, &FIXUPS), Err(FixupError::Damaged));
    }
}

#[test]
fn what_a_machine_cannot_do_without() {
    assert_eq!(
        Machine::read(b"no tree").unwrap_err(),
        DescriptionError::Damaged
    );
    let mut cut = blob("virt-plic.dts");
    cut.truncate(cut.len() / 2);
    assert_eq!(Machine::read(&cut).unwrap_err(), DescriptionError::Damaged);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Damage is met with an error or a machine, never with a panic or a hang.
    #[test]
    fn damage_does_not_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let original = { static BLOB: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new(); BLOB.get_or_init(|| blob("virt-aia.dts")) };
        let mut buffer = original.clone();
        for (index, value) in changes {
            let index = index.index(buffer.len());
            buffer[index] = value;
        }
        let _ = Machine::read(&buffer);
        buffer.resize(buffer.len() + 4096, 0);
        let _ = fixup(&mut buffer, &FIXUPS);
    }
}

/// Where the node of that name begins in a blob.
fn node_at(blob: &[u8], name: &str) -> usize {
    let token = [&1_u32.to_be_bytes(), name.as_bytes(), &[0]].concat();
    let mut windows = blob.windows(token.len());
    windows.position(|bytes| bytes == token).unwrap()
}

const UART: &str = "serial@10000000";
const BEHIND_UART: &str = "test@100000";

#[test]
fn a_damaged_tree_tells_what_comes_before_the_damage() {
    let mut damaged = blob("virt-plic.dts");
    let behind = node_at(&damaged, BEHIND_UART);
    assert!(node_at(&damaged, UART) < behind);
    damaged[behind..behind + 4].fill(0xee);
    let mut machine = Machine::default();
    assert_eq!(machine.survey(&damaged), Err(DescriptionError::Damaged));
    assert!(machine.console.is_none());
    let found = machine.survey_or_salvage(&mut damaged);
    assert_eq!(found, Err(DescriptionError::Damaged));
    assert_eq!(machine.console.unwrap().base(), 0x1000_0000);
}

#[test]
fn nothing_is_salvaged_where_nothing_is_left() {
    let mut damaged = blob("virt-plic.dts");
    let start = u32::from_be_bytes(damaged[8..12].try_into().unwrap()) as usize;
    damaged[start] = 0xee;
    for length in [0, 8, 40, damaged.len()] {
        let mut machine = Machine::default();
        let found = machine.survey_or_salvage(&mut damaged[..length]);
        assert_eq!(found, Err(DescriptionError::Damaged));
        assert!(machine.console.is_none());
    }
}

proptest! {
    /// What comes before the damage is told, and nothing panics.
    #[test]
    fn damage_hides_nothing_before_it(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..4),
    ) {
        static BLOB: LazyLock<Vec<u8>> = LazyLock::new(|| blob("virt-aia.dts"));
        let mut blob = BLOB.clone();
        let start = u32::from_be_bytes(blob[8..12].try_into().unwrap()) as usize;
        let length = u32::from_be_bytes(blob[36..40].try_into().unwrap()) as usize;
        let told = node_at(&blob, BEHIND_UART);
        let mut first = usize::MAX;
        for (place, value) in changes {
            let at = start + 4 * place.index(length / 4);
            blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
            first = first.min(at);
        }
        let mut machine = Machine::default();
        // The words may make another tree as well as a damaged one.
        machine.survey_or_salvage(&mut blob).ok();
        prop_assert!(first < told || machine.console.is_some());
    }
}

/// A domain's tree has its part of the machine.
#[test]
fn the_tree_is_limited_to_the_domain() {
    let source = source("virt-aia.dts")
        + "/ { chosen { opensbi-domains { compatible = \"opensbi,domain,config\"; }; };
        cpus { cpu@0 { opensbi-domain = <0x99>; }; cpu@1 { opensbi-domain = <0x98>; }; };
        soc { i2c@10030000 { compatible = \"strange\"; reg = <0 0x10030000 0 0x1000>;
            #address-cells = <1>; #size-cells = <0>; eeprom@50 { compatible = \"e\"; reg = <0x50>; }; }; }; };";
    let blob = force(&source);
    let mut buffer = blob.clone();
    buffer.resize(blob.len() + 8192, 0);
    let foreign = [PhysRange::new(0x8400_0000, 0x10_0000)];
    let [low, high] = [
        PhysRange::new(0, 0x1000_0000),
        PhysRange::new(0x1001_0000, 0x7000_0000),
    ];
    let limits = Some(Limits {
        harts: &[1],
        devices: &[&[low], &[high]],
        foreign: &foreign,
    });
    fixup(&mut buffer, &Fixups { limits, ..FIXUPS }).unwrap();
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap()) as usize;
    let tree = open(&buffer[..total]).unwrap();
    let is_on = |path: &str| {
        let node = tree.find_node(path).expect(path);
        node.property("status")
            .is_none_or(|status| status.value() == b"okay\0")
    };
    assert!(!is_on("/cpus/cpu@0") && is_on("/cpus/cpu@1"));
    for path in ["/soc/serial@10000000", "/soc/virtio_mmio@10001000"] {
        assert!(!is_on(path), "{path}");
    }
    for path in [
        "/soc/test@100000",
        "/soc/pci@30000000",
        "/soc",
        "/memory@80000000",
        "/soc/i2c@10030000",
        "/soc/i2c@10030000/eeprom@50",
    ] {
        assert!(is_on(path), "{path}");
    }
    assert!(tree.find_node("/chosen/opensbi-domains").is_none());
    for cpu in ["/cpus/cpu@0", "/cpus/cpu@1"] {
        assert!(
            tree.find_node(cpu)
                .unwrap()
                .property("opensbi-domain")
                .is_none()
        );
    }
    let reserved = tree
        .find_node("/reserved-memory/poorwill@84000000")
        .unwrap();
    assert!(reserved.property("no-map").is_some());
    let reserved = tree.find_node("/reserved-memory").unwrap();
    assert_eq!(reserved.children().count(), FIXUPS.firmware.len() + 1);
}

#[test]
fn devices_that_may_harm_others_are_named() {
    let source = source("virt-aia.dts")
        + "/ { soc { dma@3000000 { compatible = \"cdns,gem\"; reg = <0 0x3000000 0 0x1000>, <0 0x3004000 0 0x100>; };
        uart@3007000 { compatible = \"ns16550a\"; reg = <0 0x3007000 0 0x100>; status = \"disabled\"; };
        off@3008000 { compatible = \"snps,dw-wdt\"; reg = <0 0x3008000 0 0x1000>; status = \"disabled\"; };
        debug@3009000 { compatible = \"riscv,debug-013\"; reg = <0 0x3009000 0 0x1000>; };
        sswi@300a000 { compatible = \"riscv,aclint-sswi\"; reg = <0 0x300a000 0 0x1000>; };
        bus@5000000 { compatible = \"simple-bus\"; ranges; #address-cells = <2>; #size-cells = <2>; status = \"disabled\";
            in@5000000 { compatible = \"virtio,mmio\"; reg = <0 0x5000000 0 0x1000>; }; }; }; };
        &{/soc/pci@30000000} { status = \"disabled\"; };
        &{/soc/virtio_mmio@10001000} { status = \"disabled\"; };";
    let named = |source: &str| {
        let blob = force(source);
        let mut all = Vec::new();
        unknown_devices(&open(&blob).unwrap(), &mut |name, range| {
            all.push(format!("{name} {:#x}", range.start));
        });
        all.sort();
        all
    };
    let own = named(&self::source("virt-aia.dts"));
    assert_eq!(
        own,
        [
            "flash@20000000 0x20000000",
            "flash@20000000 0x22000000",
            "fw-cfg@10100000 0x10100000",
            "rtc@101000 0x101000",
            "test@100000 0x100000",
        ],
        "machine mode closes these"
    );
    let mut found = named(&source);
    found.retain(|one| !own.contains(one));
    assert_eq!(
        found,
        [
            "debug@3009000 0x3009000",
            "dma@3000000 0x3000000",
            "dma@3000000 0x3004000",
            "in@5000000 0x5000000",
            "off@3008000 0x3008000",
            "pci@30000000 0x3000000",
            "pci@30000000 0x30000000",
            "pci@30000000 0x40000000",
            "pci@30000000 0x400000000",
            "sswi@300a000 0x300a000",
            "virtio_mmio@10001000 0x10001000",
        ]
    );
}
