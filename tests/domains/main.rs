//! `cargo test -p poorwill-tests --test domains`: machines with two domains. One attacks the other;
//! or they sleep, alone and with the machine; or one ends. An argument after `--` chooses rows by a
//! part of their names.

mod page;
mod refused;
mod written;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::{Qemu, RunningMachine};
use poorwill_tests::pair::{BOUNDS, BUS, Bus, DISK_BUS, NEVER, Pair, Role};
use poorwill_tests::{Setup, is_chosen, number, suite, wait_for};
use tempfile::TempDir;

use crate::refused::Ending;

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// Time in which a halted machine must stay silent.
const HALTED: Duration = Duration::from_secs(1);

/// The most starts of OpenSBI for one answer, and the limit of each line.
const OPENSBI_STARTS: usize = 8;
const PROBE_LIMIT: Duration = Duration::from_secs(15);

const RACE: &str = "harts start each other while their domain parks";

/// Time of a park in a race, in units of 100 ns.
const RACE_SLEEP: u64 = 300;

/// Rounds of a race, unless `POORWILL_ROUNDS` gives another number; and rounds between two lines.
const RACE_ROUNDS: usize = 2000;
const RACE_TOLD: usize = 500;

/// The most bytes of the deep stack's 128 KiB that a start may use.
const DEEP_STACK: u32 = 100_000;

fn main() -> anyhow::Result<()> {
    suite("domains", |setup| &setup.hostile, run_all)
}

/// A row: what it shows, the domains' roles, and the console's lines in their order.
type Row = (&'static str, [Role; 2], &'static [&'static str]);

const ENDED: &[&str] = &[
    "poorwill: domain side0 ends: its OS asks for a reboot",
    "poorwill: wake domain=side1 mode=retain source=timer",
    "poorwill: wake domain=side1 mode=retain source=timer",
];

/// A row that checks the number of a line, too.
const OVERFLOW: &str = "a device is refused more often than the IOMMU's queue holds";
const LOST: &str = "refused DMA: records were lost, as the IOMMU's queue was full; number 1";

const ROWS: &[Row] = &[
    (
        "attack from socket 0",
        [Role::Attack, Role::WatchDevice],
        &[
            "side1: watching: wired source 35",
            "attacked ",
            "domain side0: DMA of device 0x8 to ",
            "intact: ",
        ],
    ),
    (
        "attack from socket 1",
        [Role::WatchDevice, Role::Attack],
        &[
            "domain side1: DMA of device 0x8 to ",
            "attacked ",
            "intact: ",
        ],
    ),
    (
        "attack by a disk from socket 0",
        [Role::AttackByDisk, Role::WatchDevice],
        &[
            "side1: watching: wired source 35",
            " addresses by a disk",
            "domain side0: DMA of device 0x8 to ",
            "intact: ",
        ],
    ),
    (
        "attack by a disk from socket 1",
        [Role::WatchDevice, Role::AttackByDisk],
        &[
            "domain side1: DMA of device 0x8 to ",
            " addresses by a disk",
            "intact: ",
        ],
    ),
    (
        OVERFLOW,
        [Role::WatchDevice, Role::Overflow],
        &[
            LOST,
            "refused, number 1: the address is outside its map",
            // The queue holds 127 records. The next one comes after it was full.
            "refused, number 64: ",
            "refused, number 128: the address is outside its map",
            "overflowed: ",
            "intact: ",
        ],
    ),
    (
        "a device writes after its domain has ended",
        [Role::ResetAmidDma, Role::WatchDevice],
        &[
            "poorwill: domain side0 ends: its OS asks for a reboot",
            "refused, number 1: its context is closed",
            "intact: ",
        ],
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
        "the UART's owner reads the clock, and sets no alarm",
        [Role::Clock, Role::Idle],
        &["clock: the time alone"],
    ),
    (
        "a domain without the UART floods the console",
        [Role::Watch, Role::Flood],
        &["side1: flood 1", "poorwill: domain side1: ", "intact: "],
    ),
    (
        "the UART's owner floods the console",
        [Role::Flood, Role::Watch],
        &["flood 1", "poorwill: domain side0: ", "side1: intact: "],
    ),
    (
        "a domain ends, and the machine sleeps",
        [Role::Reset, Role::Master(500_000)],
        ENDED,
    ),
    (
        "the last hart of a domain stops, and the machine sleeps",
        [Role::Stop, Role::Master(500_000)],
        &[
            "poorwill: domain side0 ends: all harts of the OS have stopped",
            "poorwill: wake domain=side1 mode=retain source=timer",
            "poorwill: wake domain=side1 mode=retain source=timer",
        ],
    ),
    (
        "the UART's owner does not end its line, and other lines come",
        [Role::BeginLine, Role::Flood],
        &["side1: flood 1", "$ ", "side1: flood "],
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
    let row = |name: &str, run: &dyn Fn() -> anyhow::Result<()>| {
        if is_chosen(name) {
            run().with_context(|| format!("test domains, {name}"))?;
            println!("test domains, {name} ... ok");
        }
        anyhow::Ok(())
    };
    row("the same partition as under OpenSBI", &|| {
        parts.same_as_opensbi()
    })?;
    for (name, roles, lines) in ROWS {
        let has_disk = roles.iter().any(|role| matches!(role, Role::AttackByDisk));
        let bus = if has_disk { &DISK_BUS } else { &BUS };
        row(name, &|| {
            let console = parts.run(*roles, bus, lines)?;
            let lost = console
                .iter()
                .filter(|line| line.contains("records were lost"));
            ensure!(*name != OVERFLOW || lost.count() == 1, "{console:#?}");
            Ok(())
        })?;
    }
    row(page::EXAMPLE, &|| page::example_starts(qemu, firmware))?;
    row(written::EXAMPLE, &|| {
        written::example_starts(qemu, firmware)
    })?;
    row(written::ATTACK, &|| written::attack(qemu, firmware, guest))?;
    row(RACE, &|| {
        let roles = [Role::Race(RACE_SLEEP), Role::Master(20_000)];
        parts.run(roles, &BUS, &raced()?).map(drop)
    })?;
    row(written::LONE_RACE, &|| {
        written::lone_race(qemu, firmware, guest, &raced()?)
    })?;
    row("a power failure is no cut", &|| {
        let line = "poorwill: cut: not armed: the machine has domains";
        parts
            .run([Role::Idle; 2], &refused::POWER_FAIL, &[line])
            .map(drop)
    })?;
    row("a start leaves room on the deep stack", &|| {
        parts.uses_little_stack()
    })?;
    for (name, bus, lines, ending) in refused::ROWS {
        row(name, &|| parts.refuses(bus, lines, *ending))?;
    }
    Ok(())
}

/// The lines of a race.
fn raced() -> anyhow::Result<Vec<String>> {
    let rounds = number("POORWILL_ROUNDS")?.unwrap_or(RACE_ROUNDS);
    ensure!(
        rounds >= RACE_TOLD && rounds.is_multiple_of(RACE_TOLD),
        "POORWILL_ROUNDS is no multiple of {RACE_TOLD}"
    );
    let told = (RACE_TOLD..=rounds).step_by(RACE_TOLD);
    Ok(told.map(|round| format!("raced {round}: ")).collect())
}

/// The parts of the machines.
struct Parts<'a> {
    qemu: &'a Qemu,
    firmware: &'a Path,
    guest: &'a Path,
}

impl Parts<'_> {
    /// Starts both domains, and waits for the console's lines. Returns all of its lines.
    fn run(
        &self,
        roles: [Role; 2],
        bus: &Bus,
        lines: &[impl AsRef<str>],
    ) -> anyhow::Result<Vec<String>> {
        let (mut running, _folder) = self.power_on(roles, bus)?;
        running.fail_on(&["FAIL", "panic", "cannot start"]);
        for line in lines {
            wait_for(&mut running, line.as_ref(), LIMIT)?;
        }
        let console = running.lines().into_iter().map(|line| line.text).collect();
        running.kill()?;
        Ok(console)
    }

    /// Starts both domains with a firmware that measures its stacks.
    fn uses_little_stack(&self) -> anyhow::Result<()> {
        let measuring = Setup::find().poisoning.map_err(anyhow::Error::msg)?;
        let measuring = Parts {
            firmware: &measuring,
            ..*self
        };
        let words = "poorwill: stacks deep_bytes=";
        let console = measuring.run([Role::Idle; 2], &BUS, &[words])?;
        let line = console.iter().find_map(|line| line.strip_prefix(words));
        let bytes = line.and_then(|rest| rest.split(' ').next()?.parse().ok());
        let bytes: u32 = bytes.context("no number of bytes")?;
        println!("domains: a start uses {bytes} bytes of the deep stack");
        ensure!(bytes <= DEEP_STACK, "at most {DEEP_STACK}");
        Ok(())
    }

    /// Starts a machine whose partition the firmware refuses with these lines.
    fn refuses(&self, bus: &Bus, lines: &[&str], ending: Ending) -> anyhow::Result<()> {
        const REFUSED: &str = "poorwill: cannot start: the partition is refused: ";
        let (mut running, _folder) = self.power_on([Role::Attack, Role::WatchDevice], bus)?;
        running.fail_on(&["watching", "FAIL", "panic"]);
        let all = lines
            .iter()
            .map(|line| format!("poorwill: partition: {line}"));
        let last = match ending {
            Ending::Off => None,
            Ending::OffAfterResets => Some("poorwill: 5 resets in a row have not helped; stopped"),
            Ending::Halt => Some("poorwill: the machine has no register for power-off; stopped"),
        };
        let last = [REFUSED].into_iter().chain(last).map(str::to_owned);
        for text in all.chain(last) {
            wait_for(&mut running, &text, LIMIT)?;
        }
        match ending {
            Ending::Halt => running.run_for(HALTED)?,
            Ending::Off | Ending::OffAfterResets => running.wait_exit(LIMIT)?.check()?,
        }
        let console = running.lines();
        let count = |start| {
            console
                .iter()
                .filter(|line| line.text.starts_with(start))
                .count()
        };
        let starts = count(REFUSED);
        let expected = if ending == Ending::OffAfterResets {
            6
        } else {
            1
        };
        ensure!(
            starts == expected,
            "{starts} starts: {:#?}",
            running.tail(40)
        );
        let reasons = count("poorwill: partition: ");
        ensure!(reasons == lines.len() * expected, "{:#?}", running.tail(40));
        if ending == Ending::Halt {
            running.kill()?;
        }
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
            let own = self.probe(roles)?;
            // OpenSBI starts a domain before all of its calls work, so that some starts hang.
            let mut starts = (0..OPENSBI_STARTS).map(|_| under_opensbi.probe(roles));
            let other = starts
                .find_map(Result::ok)
                .context("OpenSBI does not start")?;
            ensure!(
                own == other,
                "Poorwill and OpenSBI differ:\n{own:#?}\n{other:#?}"
            );
        }
        Ok(())
    }

    /// What the probing domain's accesses raise.
    fn probe(&self, roles: [Role; 2]) -> anyhow::Result<Vec<String>> {
        let (mut running, _folder) = self.power_on(roles, &BUS)?;
        let mut found = Vec::new();
        loop {
            let line = wait_for(&mut running, "probe", PROBE_LIMIT)?.text;
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
    fn power_on(&self, roles: [Role; 2], bus: &Bus) -> anyhow::Result<(RunningMachine, TempDir)> {
        Pair::hostile(self.qemu, self.firmware, self.guest, roles, bus)?.power_on(self.qemu)
    }
}
