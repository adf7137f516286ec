//! `cargo test -p poorwill-tests --test domains`: machines with two domains. One attacks the other;
//! or they sleep, alone and with the machine; or one ends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, tree};
use poorwill_tests::{Setup, suite};
use tempfile::TempDir;

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// The memory of each socket: 128 MiB, of which its domain has the first half.
const MEMORY: [u64; 2] = [0x8000_0000, 0x8800_0000];
/// A domain's program, and its orders, by their offsets in its memory.
const PROGRAM: u64 = 0x20_0000;
const ORDERS: u64 = 0x100_0000;

/// The S-level APLIC of each socket.
const APLICS: [u64; 2] = [0xd00_0000, 0xd00_8000];
/// The S-level IMSIC files of each socket, two pages.
const FILES: [u64; 2] = [0x2800_0000, 0x2900_0000];
const UART: u64 = 0x1000_0000;

/// What neither domain may reach: firmware, CLINT, M-level APLICs and IMSICs, IOMMU, configuration
/// space, windows of PCI, flash, configuration device, clock, test device, virtio, memory of no
/// domain, an address without a device.
const NOBODYS: [u64; 17] = [
    0x8000_0000,
    0x8010_0000,
    0x200_0000,
    0x200_bff8,
    0xc00_0000,
    0xc00_8000,
    0x2400_0000,
    0x2500_0000,
    0x301_0000,
    0x3000_0000,
    0x4000_0000,
    0x2000_0000,
    0x1010_0000,
    0x10_1000,
    0x10_0000,
    0x1000_1000,
    0x8700_0000,
];

/// The rest of QEMU's tree: sockets apart, and a domain on each.
fn partition() -> String {
    let socket = |index: u64| {
        let (first, second) = (2 * index, 2 * index + 1);
        let nodes = |level: &str, address: u64, interrupt: u32| {
            format!(
                "{level}{index}: interrupt-controller@{address:x} {{ compatible = \"riscv,imsics\"; \
                 interrupt-controller; #interrupt-cells = <0>; msi-controller; \
                 riscv,num-ids = <255>; riscv,hart-index-bits = <1>; reg = <0 {address:#x} 0 0x2000>; \
                 interrupts-extended = <&{{/cpus/cpu@{first}/interrupt-controller}} {interrupt}>, \
                 <&{{/cpus/cpu@{second}/interrupt-controller}} {interrupt}>; }};\n"
            )
        };
        let shift = 0x8000 * index;
        nodes("os", 0x2800_0000 + (index << 24), 9)
            + &format!(
                "interrupt-controller@{:x} {{ msi-parent = <&os{index}>; }};\n",
                0xd00_0000 + shift
            )
    };
    let region = |name: &str, address: u64, order: u32, kind: &str| {
        format!(
            "{name}: {name} {{ compatible = \"opensbi,domain,memregion\"; \
             base = <0 {address:#x}>; order = <{order}>; {kind} }};\n"
        )
    };
    let domain = |index: usize, more: &str, rights: &str| {
        let (memory, hart) = (MEMORY[index], 2 * index);
        region(&format!("ram{index}"), memory, 26, "")
            + &region(&format!("aplic{index}"), APLICS[index], 15, "mmio;")
            + &region(&format!("files{index}"), FILES[index], 13, "mmio;")
            + &format!(
                "side{index}: side{index} {{ compatible = \"opensbi,domain,instance\"; \
                 possible-harts = <&{{/cpus/cpu@{hart}}}>, <&{{/cpus/cpu@{}}}>; \
                 regions = <&ram{index} 0x3f>, <&aplic{index} 0x1b>, <&files{index} 0x1b>{more}; \
                 boot-hart = <&{{/cpus/cpu@{hart}}}>; next-mode = <1>; \
                 poorwill,wake-order = <{index}>; \
                 next-addr = <0 {:#x}>; next-arg1 = <0 {:#x}>; {rights} }};\n",
                hart + 1,
                memory + PROGRAM,
                memory + ORDERS,
            )
    };
    let harts =
        (0..4).map(|hart| format!("cpu@{hart} {{ opensbi-domain = <&side{}>; }};", hart / 2));
    format!(
        "/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";\n{}{}{}}}; }};\n\
         cpus {{ {} }};\n\
         soc {{ /delete-node/ interrupt-controller@28000000; }};\n\
         }};\n/ {{ soc {{\n{}{} }}; }};\n",
        region("uart", UART, 12, "mmio;"),
        region("firmware", MEMORY[0], 21, "") + &domain(0, ", <&uart 0x1b>, <&firmware 0>", ""),
        domain(1, "", "system-suspend-allowed;"),
        harts.collect::<String>(),
        socket(0),
        socket(1),
    )
}

/// What a domain does (tests/hostile).
#[derive(Clone, Copy)]
enum Role {
    Attack,
    Watch,
    /// Parks, with a timer that is due after these units of 100 ns.
    Park(u64),
    /// Puts the machine to sleep, as above.
    Master(u64),
    /// Asks for a reset without the right to it.
    Reset,
    /// The same, while another hart asks for a sleep.
    ResetAmidSleep,
    /// Says which accesses fault.
    Probe,
    Idle,
}

/// A timer that is never due in a test.
const NEVER: u64 = 6_000_000_000;

/// Both sides of each bound of the partition: both domains' memory, the firmware's, controllers of
/// both levels, files, the UART.
const BOUNDS: [u64; 28] = [
    0x7fff_fffc,
    0x8000_0000,
    0x801f_fffc,
    0x8020_0000,
    0x83ff_fffc,
    0x8400_0000,
    0x87ff_fffc,
    0x8800_0000,
    0x8bff_fffc,
    0x8c00_0000,
    0xbff_fffc,
    0xc00_0000,
    0xc00_8000,
    0xcff_fffc,
    0xd00_0000,
    0xd00_7ffc,
    0xd00_8000,
    0xd00_fffc,
    0xd01_0000,
    0x2400_0000,
    0x2500_0000,
    0x27ff_fffc,
    0x2800_0000,
    0x2800_1000,
    0x2800_2000,
    0x2900_0000,
    0x2900_1000,
    0x2900_2000,
];

/// The orders of the domain on a socket.
fn orders(index: usize, role: Role) -> Vec<u8> {
    let other = 1 - index;
    let mut addresses = match role {
        Role::Probe => [&NOBODYS[..], &BOUNDS].concat(),
        _ => NOBODYS.to_vec(),
    };
    let foreign = MEMORY[other];
    // A probe's own program stays whole.
    addresses.retain(|address| *address != MEMORY[index] + PROGRAM);
    addresses.extend([0, PROGRAM, ORDERS, 0x3ff_f000].map(|offset| foreign + offset));
    addresses.extend([
        APLICS[other],
        APLICS[other] + 0x3000,
        FILES[other],
        FILES[other] + 0x1000,
    ]);
    if index == 1 {
        addresses.push(UART);
    }
    let (role, sleep) = match role {
        Role::Attack => (0, 0),
        Role::Watch => (1, 0),
        Role::Park(ticks) => (2, ticks),
        Role::Master(ticks) => (3, ticks),
        Role::Reset => (4, 0),
        Role::ResetAmidSleep => (5, 0),
        Role::Probe => (6, 0),
        Role::Idle => (7, 0),
    };
    let head = [
        role,
        2 * other as u64,
        foreign + PROGRAM,
        APLICS[index],
        2 * index as u64 + 1,
        sleep,
        addresses.len() as u64,
    ];
    let words = head.into_iter().chain(addresses);
    words.flat_map(u64::to_le_bytes).collect()
}

fn main() -> anyhow::Result<()> {
    suite("domains", |setup| &setup.hostile, run_all)
}

/// A row: what it shows, the domains' roles, and the console's lines in their order.
type Row = (&'static str, [Role; 2], &'static [&'static str]);

const ATTACKED: &[&str] = &["attacked ", "intact: "];

const ENDED: &[&str] = &[
    "poorwill: domain side0 ends: its OS asks for a reboot",
    "poorwill: wake domain=side1 mode=retain source=timer",
    "poorwill: wake domain=side1 mode=retain source=timer",
];

const ROWS: &[Row] = &[
    (
        "attack from socket 0",
        [Role::Attack, Role::Watch],
        ATTACKED,
    ),
    (
        "attack from socket 1",
        [Role::Watch, Role::Attack],
        ATTACKED,
    ),
    (
        "a domain sleeps alone",
        [Role::Park(500_000), Role::Watch],
        &[
            "poorwill: wake domain=side0 mode=park source=timer",
            "parked 3: ",
            "intact: ",
        ],
    ),
    (
        "the machine sleeps, and the UART's owner wakes first",
        [Role::Park(NEVER), Role::Master(500_000)],
        &[
            "poorwill: sleep mode=retain",
            "poorwill: wake domain=side0 mode=retain source=timer",
            "poorwill: wake domain=side1 mode=retain source=timer",
            "parked 20: ",
        ],
    ),
    (
        "own wakes of a domain race with the machine's sleeps",
        [Role::Park(30_000), Role::Master(20_000)],
        &["parked 100: "],
    ),
    (
        "the machine does not sleep while a domain runs",
        [Role::Watch, Role::Master(500_000)],
        &[
            "poorwill: sleep refused: domain side0 is not parked",
            "intact: ",
        ],
    ),
    (
        "a domain ends, and the machine sleeps",
        [Role::Reset, Role::Master(500_000)],
        ENDED,
    ),
    (
        "a domain ends while one of its harts waits for a sleep",
        [Role::ResetAmidSleep, Role::Master(500_000)],
        ENDED,
    ),
];

/// Runs all machines.
fn run_all(qemu: &Qemu, firmware: &Path, guest: &Path) -> anyhow::Result<()> {
    let parts = Parts {
        qemu,
        firmware,
        guest,
    };
    parts.same_as_opensbi()?;
    for (name, roles, lines) in ROWS {
        (parts.run(*roles, lines)).with_context(|| format!("test domains, {name}"))?;
        println!("test domains, {name} ... ok");
    }
    Ok(())
}

/// The parts of the machines.
struct Parts<'a> {
    qemu: &'a Qemu,
    firmware: &'a Path,
    guest: &'a Path,
}

impl Parts<'_> {
    /// Starts both domains, and waits for the console's lines.
    fn run(&self, roles: [Role; 2], lines: &[&str]) -> anyhow::Result<()> {
        let (mut running, _folder) = self.power_on(roles)?;
        running.fail_on(&["FAIL", "panic", "cannot start"]);
        let outcome = (lines.iter()).try_for_each(|line| running.wait_for(line, LIMIT).map(drop));
        outcome.with_context(|| running.tail(40).join("\n"))?;
        running.kill()?;
        Ok(())
    }

    /// Lets each domain probe the machine under Poorwill and under OpenSBI, with one device tree.
    fn same_as_opensbi(&self) -> anyhow::Result<()> {
        let opensbi = Setup::find().opensbi.map_err(anyhow::Error::msg)?;
        let under_opensbi = Parts {
            firmware: &opensbi,
            ..*self
        };
        for roles in [[Role::Probe, Role::Idle], [Role::Idle, Role::Probe]] {
            let [own, other] = [self.probe(roles)?, under_opensbi.probe(roles)?];
            ensure!(
                own == other,
                "Poorwill and OpenSBI differ:\n{own:#?}\n{other:#?}"
            );
        }
        println!("test domains, the same partition as under OpenSBI ... ok");
        Ok(())
    }

    /// What the probing domain's accesses raise.
    fn probe(&self, roles: [Role; 2]) -> anyhow::Result<Vec<String>> {
        let (mut running, _folder) = self.power_on(roles)?;
        let mut found = Vec::new();
        loop {
            let line = running.wait_for("probe", LIMIT);
            let line = line.with_context(|| running.tail(40).join("\n"))?.text;
            let (_, answer) = line.split_once("probe").context("the line has the word")?;
            if answer.starts_with('d') {
                break;
            }
            found.push(answer.to_owned());
        }
        running.kill()?;
        ensure!(
            found.len() > BOUNDS.len(),
            "the probe ends early: {found:#?}"
        );
        Ok(found)
    }

    /// Starts both domains. The folder has the machine's files.
    fn power_on(&self, roles: [Role; 2]) -> anyhow::Result<(RunningMachine, TempDir)> {
        let Parts {
            qemu,
            firmware,
            guest,
        } = *self;
        let folder = socket_folder()?;
        let at = |name: &str| folder.path().join(name);
        let mut machine = Machine {
            harts: 4,
            memory: "256M".parse()?,
            ..Machine::new(firmware)
        };
        let mut add = |option: &str, value: String| {
            machine
                .extra_arguments
                .extend([option.to_owned(), value].map(Into::into));
        };
        add("-smp", "4,sockets=2,cores=2".into());
        add("-machine", "iommu-sys=on".into());
        for (node, harts) in ["0-1", "2-3"].into_iter().enumerate() {
            add(
                "-object",
                format!("memory-backend-ram,id=socket{node},size=128M"),
            );
            let cpus = format!("node,nodeid={node},memdev=socket{node},cpus={harts}");
            add("-numa", cpus);
        }
        tree::write(&machine, qemu, &partition(), &at("tree"))?;
        let mut add = |option: &str, value: String| {
            machine
                .extra_arguments
                .extend([option.to_owned(), value].map(Into::into));
        };
        add("-dtb", at("tree").display().to_string());
        for (index, memory) in MEMORY.into_iter().enumerate() {
            let file = at(&format!("orders{index}"));
            fs::write(&file, orders(index, roles[index]))?;
            for (file, offset) in [(&file, ORDERS), (&guest.to_owned(), PROGRAM)] {
                let place = memory + offset;
                add(
                    "-device",
                    format!(
                        "loader,file={},addr={place:#x},force-raw=on",
                        file.display()
                    ),
                );
            }
        }
        Ok((machine.power_on(qemu, PowerOn::default())?, folder))
    }
}
