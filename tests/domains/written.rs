//! Domains as OpenSBI's documentation writes them: a region of all addresses, from which smaller
//! regions without permissions take parts away.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_machine::paths::{Kernel, Tiny};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Interrupts, Machine, PowerOn, Qemu, RunningMachine, tree};
use poorwill_tests::{Setup, wait_for};
use tempfile::TempDir;

use crate::{LIMIT, OPENSBI_STARTS, PROBE_LIMIT, RACE_SLEEP};

pub(crate) const EXAMPLE: &str = "the example of OpenSBI's binding";
pub(crate) const ATTACK: &str = "an untrusted domain of the binding attacks";

pub(crate) const LONE_RACE: &str = "harts start each other while the lone OS sleeps";

/// Memory of the trusted domain, and the other one's program and orders.
const TRUSTED: u64 = 0x9000_0000;
const PROGRAM: u64 = 0x8020_0000;
const ORDERS: u64 = 0x8100_0000;
/// The trusted domain's orders, by their offset in its memory.
const OFFSET: u64 = 0xf_0000;

/// Address of the S-level APLIC.
const APLIC: u64 = 0xd00_0000;

/// A program of a domain in U-mode, without an OS: it writes the text after it to the UART.
const IN_USER_MODE: [u32; 9] = [
    0x1000_02b7, // lui t0, 0x10000: the UART
    0x0000_0397, // auipc t2, 0
    0x0203_8393, // addi t2, t2, 32: the text
    0x0003_c303, // lbu t1, 0(t2)
    0x0003_0863, // beqz t1, 16
    0x0062_8023, // sb t1, 0(t0)
    0x0013_8393, // addi t2, t2, 1
    0xff1f_f06f, // j -16
    0x0000_006f, // j 0
];
const TEXT: &str = "trusted: runs in U-mode\n\0";

/// What neither domain may reach, though a region covers it: firmware, timers, reset register,
/// clock, configuration device, flash, configuration space, virtio, machine mode's APLIC and files.
const NOBODYS: [u64; 17] = [
    0x8000_0000,
    0x8010_0000,
    0x200_0000,
    0x200_bff8,
    0x10_0000,
    0x10_1000,
    0x1010_0000,
    0x2000_0000,
    0x2200_0000,
    0x3000_0000,
    0x3010_0000,
    0x1000_1000,
    0x1000_8000,
    0xc00_0000,
    0xc00_7ffc,
    0x2400_0000,
    0x2400_1000,
];
/// What is the trusted domain's, or its hart's.
const ITS_OWN: [u64; 4] = [TRUSTED, TRUSTED + 0xf_fffc, 0x1000_0000, 0x2800_0000];

/// What OpenSBI closes, too, and what it leaves open: both domains' memory, the firmware's, timers,
/// the UART, a free address in memory, the APLIC.
const ALSO: [u64; 8] = [
    TRUSTED,
    TRUSTED + 0xf_fffc,
    0x8000_0000,
    0x200_0000,
    0x200_bff8,
    0x1000_0000,
    TRUSTED + 0x10_0000,
    APLIC + 0x1c00,
];

/// The example for QEMU's `virt`. OpenSBI starts the other domain only on the hart that boots cold.
fn example(next_mode: u32, argument: u64, of_other: &str, more: &str) -> String {
    format!(
        "/ {{ chosen {{ opensbi-config {{ compatible = \"opensbi,config\"; cold-boot-harts = <&{{/cpus/cpu@1}}>; }};
        opensbi-domains {{ compatible = \"opensbi,domain,config\";
            tmem: tmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 {TRUSTED:#x}>; order = <20>; }};
            tuart: tuart {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x10000000>; order = <12>; mmio;
                devices = <&{{/soc/serial@10000000}}>; }};
            allmem: allmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x0>; order = <64>; }};
            hole: hole {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x98000000>; order = <23>; }};
            tdomain: trusted-domain {{ compatible = \"opensbi,domain,instance\";
                possible-harts = <&{{/cpus/cpu@0}}>; regions = <&tmem 0x3f>, <&tuart 0x3f>;
                boot-hart = <&{{/cpus/cpu@0}}>; next-arg1 = <0x0 {argument:#x}>; next-addr = <0x0 {TRUSTED:#x}>;
                next-mode = <{next_mode}>; system-reset-allowed; system-suspend-allowed; }};
            udomain: untrusted-domain {{ compatible = \"opensbi,domain,instance\";
                possible-harts = <&{{/cpus/cpu@1}}>; {of_other}
                regions = <&tmem 0x0>, <&tuart 0x0>, <&allmem 0x3f>{more}; }}; }}; }};
        cpus {{ cpu@0 {{ opensbi-domain = <&tdomain>; }}; cpu@1 {{ opensbi-domain = <&udomain>; }}; }}; }};\n"
    )
}

/// The machine, before it is switched on, and its files.
struct Written {
    machine: Machine,
    folder: TempDir,
}

impl Written {
    fn new(firmware: &Path, interrupts: Interrupts) -> anyhow::Result<Self> {
        let mut machine = Machine::new(firmware);
        machine.memory = Bytes::mib(512);
        machine.interrupts = interrupts;
        Ok(Written {
            machine,
            folder: socket_folder()?,
        })
    }

    /// Loads bytes at an address.
    fn load(&mut self, name: &str, bytes: &[u8], address: u64) -> anyhow::Result<()> {
        let file = self.folder.path().join(name);
        fs::write(&file, bytes)?;
        let file = file.display();
        let loader = format!("loader,file={file},addr={address:#x},force-raw=on");
        self.machine.add("-device", loader);
        Ok(())
    }

    fn power_on(mut self, qemu: &Qemu, source: &str) -> anyhow::Result<(RunningMachine, TempDir)> {
        let file = self.folder.path().join("tree");
        tree::write(&self.machine, qemu, source, &file)?;
        self.machine.add("-dtb", file);
        let mut running = self.machine.power_on(qemu, PowerOn::default())?;
        running.fail_on(&["FAIL", "panic", "cannot start", "Oops"]);
        Ok((running, self.folder))
    }
}

/// Starts the example with a stock Linux as the untrusted domain, under Poorwill and under OpenSBI.
pub(crate) fn example_starts(qemu: &Qemu, firmware: &Path) -> anyhow::Result<()> {
    let opensbi = Setup::find().opensbi.map_err(anyhow::Error::msg)?;
    let start = |firmware: &Path, limit| {
        let linux = Tiny::find(Kernel::Stock)?;
        let mut written = Written::new(firmware, Interrupts::Plic)?;
        written.machine.kernel = Some(linux.kernel);
        written.machine.initrd = Some(linux.initrd);
        written.machine.command_line = "earlycon=sbi keep_bootcon quiet loglevel=7".to_owned();
        let program = IN_USER_MODE.map(u32::to_le_bytes);
        let program = [program.as_flattened(), TEXT.as_bytes()].concat();
        written.load("program", &program, TRUSTED)?;
        let (mut running, _folder) = written.power_on(qemu, &example(0, 0, "", ""))?;
        for line in ["trusted: runs in U-mode", "Run /init as init process"] {
            wait_for(&mut running, line, limit)?;
        }
        running.kill()?;
        anyhow::Ok(())
    };
    start(firmware, LIMIT)?;
    // Some starts of OpenSBI hang.
    let mut starts = (0..OPENSBI_STARTS).map(|_| start(&opensbi, PROBE_LIMIT));
    let is_there = starts.any(|one| one.is_ok());
    ensure!(is_there, "OpenSBI does not start");
    Ok(())
}

/// Lets the untrusted domain attack, while the trusted one watches its memory and its interrupts.
/// Under OpenSBI the same accesses raise the same faults, as far as OpenSBI closes the addresses.
pub(crate) fn attack(qemu: &Qemu, firmware: &Path, guest: &Path) -> anyhow::Result<()> {
    let start = |firmware: &Path, role, addresses: &[u64]| {
        let written = Written::hostile(firmware, guest, role, addresses)?;
        // Without a device tree no OS knows of the firmware's second range. It takes the hole.
        let of_other = format!("next-addr = <0x0 {PROGRAM:#x}>; next-arg1 = <0x0 {ORDERS:#x}>;");
        let source = example(1, TRUSTED + OFFSET, &of_other, ", <&hole 0x0>");
        written.power_on(qemu, &source)
    };
    let addresses = [&NOBODYS[..], &ITS_OWN].concat();
    let (mut running, _folder) = start(firmware, ATTACKS, &addresses)?;
    for line in ["watching", "attacked 21 addresses", "intact: "] {
        wait_for(&mut running, line, PROBE_LIMIT)?;
    }
    running.kill()?;
    let probe = |firmware: &Path| {
        let (mut running, _folder) = start(firmware, PROBES, &ALSO)?;
        wait_for(&mut running, "probed", PROBE_LIMIT)?;
        let lines = running.lines().into_iter();
        let answers = lines.filter_map(|line| Some(line.text.split_once("probe ")?.1.to_owned()));
        let answers: Vec<_> = answers.collect();
        running.kill()?;
        anyhow::Ok(answers)
    };
    let own = probe(firmware)?;
    ensure!(own.len() == ALSO.len(), "{own:#?}");
    let opensbi = Setup::find().opensbi.map_err(anyhow::Error::msg)?;
    // OpenSBI starts a domain before all of its calls work, so that some starts hang.
    let mut starts = (0..OPENSBI_STARTS).map(|_| probe(&opensbi));
    let other = starts.find_map(Result::ok);
    let other = other.context("OpenSBI does not start")?;
    ensure!(
        own == other,
        "Poorwill and OpenSBI differ:\n{own:#?}\n{other:#?}"
    );
    Ok(())
}

/// Roles of the hostile guest.
const WATCHES: u64 = 1;
const PROBES: u64 = 6;
const ATTACKS: u64 = 15;
const RACES: u64 = 16;

/// Lets two harts of a machine with one domain start each other while the third one sleeps.
pub(crate) fn lone_race(
    qemu: &Qemu,
    firmware: &Path,
    guest: &Path,
    lines: &[String],
) -> anyhow::Result<()> {
    let mut written = Written::new(firmware, Interrupts::Aia)?;
    written.machine.harts = 3;
    written.load("racer", &fs::read(guest)?, PROGRAM)?;
    let orders = [RACES, 0, 0, APLIC, 0, 0, 1, 0, 0, RACE_SLEEP, 0];
    written.load("racer-orders", &bytes_of(&orders), ORDERS)?;
    let cpus = "<&{/cpus/cpu@0}>, <&{/cpus/cpu@1}>, <&{/cpus/cpu@2}>";
    let of_cpus = [0, 1, 2].map(|hart| format!("cpu@{hart} {{ opensbi-domain = <&only>; }};"));
    let source = format!(
        "/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";
            allmem: allmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x0>; order = <64>; }};
            only: only {{ compatible = \"opensbi,domain,instance\"; possible-harts = {cpus};
                boot-hart = <&{{/cpus/cpu@0}}>; regions = <&allmem 0x3f>; next-mode = <1>;
                next-addr = <0x0 {PROGRAM:#x}>; next-arg1 = <0x0 {ORDERS:#x}>;
                system-reset-allowed; system-suspend-allowed; }}; }}; }};
        cpus {{ {} }}; }};\n",
        of_cpus.concat()
    );
    let (mut running, _folder) = written.power_on(qemu, &source)?;
    for line in lines {
        wait_for(&mut running, line, LIMIT)?;
    }
    running.kill()?;
    Ok(())
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Written {
    /// The machine with the hostile guest in both domains: the trusted one watches.
    fn hostile(
        firmware: &Path,
        guest: &Path,
        role: u64,
        addresses: &[u64],
    ) -> anyhow::Result<Self> {
        let mut written = Written::new(firmware, Interrupts::Aia)?;
        let guest = fs::read(guest)?;
        // Role, foreign hart, foreign memory, APLIC, device, its configuration space, own hart,
        // file, wire, sleep, number of addresses.
        let watcher = [WATCHES, 1, PROGRAM, 0, 0, 0, 0, 0, 0, 0, 0];
        let count = addresses.len() as u64;
        let attacker = [role, 0, TRUSTED, APLIC, 0, 0, 1, 0, 0, 0, count];
        written.load("watcher", &guest, TRUSTED)?;
        written.load("watcher-orders", &bytes_of(&watcher), TRUSTED + OFFSET)?;
        written.load("attacker", &guest, PROGRAM)?;
        let orders = [&attacker[..], addresses].concat();
        written.load("attacker-orders", &bytes_of(&orders), ORDERS)?;
        Ok(written)
    }
}
