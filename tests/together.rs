//! `cargo test -p poorwill-tests --test together`: the critical guest as a domain beside a hostile
//! one, in the fair time base. Both sleep and wake with the machine; then the hostile one does each
//! thing that it can. A stock Linux follows in its place. `POORWILL_WAKES=100` is another number of
//! sleeps, and lets Linux end ten times in each way.

use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_tests::pair::{
    BesideLinux, Critical, ENDS, End, Entries, LINUX, Late, Left, NEVER, Role, Seen, Together,
    Wake, Waker, instructions_to_linux, wakes,
};
use poorwill_tests::{Setup, frames, number, suite};

/// Sleeps with each waker, unless `POORWILL_WAKES` gives another number; and the most on one
/// machine.
const SLEEPS: usize = 5;
const ON_ONE_MACHINE: usize = 100;

/// Frames between two sleeps, and after the last one: the pipeline has data by then.
const BETWEEN: usize = 30;

/// Frames while the other domain does one thing.
const BESIDE: usize = 150;

/// The most instructions from a wake event to the first frame.
const MOST_TO_FRAME: u64 = 50_000;

/// The longest time until the rate is steady, in nanoseconds of the fair time base.
const MOST_TO_STEADY: u64 = 7_000_000;

/// The most that a frame may be later than the least late one, in nanoseconds.
const MOST_LATE: u64 = 5_000;

/// Microseconds of work in each heartbeat: half of the hart.
const LOAD_US: u32 = 500;

/// What the other domain does, and the console's line that shows it. An attack takes seconds of the
/// machine's time, and is not waited for.
const ROLES: [(Role, Option<&str>); 5] = [
    (Role::Idle, None),
    (Role::Attack, None),
    (Role::Flood, None),
    (Role::Park(30_000), Some("parked 3: ")),
    (Role::Reset, Some("poorwill: domain side0 ends: ")),
];

/// Ends of Linux of each kind, if `POORWILL_WAKES` asks for a long run.
const LONG_ENDS: usize = 10;

/// The run beside Linux.
const LINUX_RUN: BesideLinux = BesideLinux {
    frames: BESIDE,
    sleeps: 3,
    between: BETWEEN,
    sleep_ms: 5,
    load_us: LOAD_US,
};

fn main() -> anyhow::Result<()> {
    suite("together", Setup::together, |_, _, _| run_all())
}

fn run_all() -> anyhow::Result<()> {
    let setup = Setup::find();
    let wakes = number("POORWILL_WAKES")?;
    let sleeps = wakes.unwrap_or(SLEEPS);
    start(&setup)?;
    for waker in [Waker::Serial, Waker::Timer(5)] {
        let mut done = 0;
        while done < sleeps {
            let part = ON_ONE_MACHINE.min(sleeps - done);
            sleep(&setup, waker, part).with_context(|| format!("{waker:?}, after {done} wakes"))?;
            done += part;
            println!("test together, {done} of {sleeps} wakes, {waker:?} ... ok");
        }
    }
    for (role, line) in ROLES {
        beside(&setup, role, line).with_context(|| format!("beside {role:?}"))?;
    }
    beside_linux(&setup).context("beside Linux")?;
    match wakes {
        Some(_) => ENDS.into_iter().try_for_each(|end| all_ends(&setup, end)),
        None => Ok(()),
    }
}

/// Compares the starts of a machine with and without domains.
fn start(setup: &Setup) -> anyhow::Result<()> {
    let with = instructions_to_linux(setup, Left::Domains).context("a start with domains")?;
    let without = instructions_to_linux(setup, Left::Linux).context("a start without domains")?;
    println!("test together, {with} instructions to Linux, {without} without domains ... ok");
    ensure!(
        with * 2 <= without * 3,
        "domains may add a half to the firmware's instructions"
    );
    Ok(())
}

/// Lets one machine sleep and wake.
fn sleep(setup: &Setup, waker: Waker, sleeps: usize) -> anyhow::Result<()> {
    let critical = Critical {
        waker,
        load_us: LOAD_US,
        is_traced: true,
    };
    let mut together = Together::power_on(setup, Role::Park(NEVER), critical)?;
    for _ in 0..sleeps {
        together.wait_for_frames(BETWEEN)?;
        together.sleep_and_wake("side0")?;
    }
    together.wait_for_frames(BETWEEN)?;
    let seen = together.finish()?;
    frames::check(&seen.frames, sleeps)?;
    has_own_entries_only(&seen.entries)?;
    let wakes = wakes(&seen.log, &seen.beats)?;
    ensure!(wakes.len() == sleeps, "{} wakes of {sleeps}", wakes.len());
    let most = |figure: fn(&Wake) -> u64| wakes.iter().map(figure).max().unwrap_or(0);
    let [to_guest, to_frame, to_steady] = [
        most(|wake| wake.to_guest),
        most(|wake| wake.to_frame),
        most(|wake| wake.to_steady),
    ];
    let steady = Duration::from_nanos(to_steady);
    println!(
        "together: {} frames; from the wake event at most {to_guest} instructions to the guest, \
         {to_frame} to its frame, {steady:?} to a steady rate",
        seen.frames.len()
    );
    ensure!(to_frame <= MOST_TO_FRAME, "at most {MOST_TO_FRAME}");
    ensure!(to_steady <= MOST_TO_STEADY, "at most {MOST_TO_STEADY} ns");
    Ok(())
}

/// Lets the critical guest run while the other domain does one thing.
fn beside(setup: &Setup, role: Role, line: Option<&str>) -> anyhow::Result<()> {
    let critical = Critical {
        waker: Waker::Serial,
        load_us: LOAD_US,
        is_traced: false,
    };
    let mut together = Together::power_on(setup, role, critical)?;
    if let Some(line) = line {
        together.has_said(line)?;
    }
    together.wait_for_frames(BESIDE)?;
    let Seen { beats, entries, .. } = together.finish()?;
    has_own_entries_only(&entries)?;
    let late = Late::of(&beats, 0..beats.len())?;
    println!(
        "together: beside {role:?}, {} frames at most {} ns late, control {} us; {} calls and {} \
         timers enter machine mode",
        late.beats, late.beat.1, late.control.1, entries.calls, entries.timers
    );
    ensure!(late.missed == 0, "{} heartbeats missed", late.missed);
    ensure!(late.beat.1 <= MOST_LATE, "at most {MOST_LATE} ns");
    Ok(())
}

/// Lets the critical guest run while Linux boots, sleeps, wakes, floods the console and panics.
fn beside_linux(setup: &Setup) -> anyhow::Result<()> {
    let seen = LINUX_RUN.run(setup)?;
    frames::check(&seen.frames, LINUX_RUN.sleeps)?;
    has_own_entries_only(&seen.entries)?;
    for (name, part) in LINUX.into_iter().zip(&seen.parts) {
        let late = Late::of(&seen.beats, part.frames.clone())?;
        println!(
            "together: {name}, {} frames at most {} ns late",
            late.beats, late.beat.1
        );
        ensure!(
            late.missed == 0,
            "{name}: {} heartbeats missed",
            late.missed
        );
        ensure!(late.beat.1 <= MOST_LATE, "{name}: at most {MOST_LATE} ns");
    }
    let wakes = wakes(&seen.log, &seen.beats)?;
    let most = wakes.iter().map(|wake| wake.to_frame).max();
    let most = most.context("no wake")?;
    println!("together: beside Linux, at most {most} instructions to a frame");
    ensure!(most <= MOST_TO_FRAME, "at most {MOST_TO_FRAME}");
    Ok(())
}

/// Lets Linux end in one way, [`LONG_ENDS`] times.
fn all_ends(setup: &Setup, end: End) -> anyhow::Result<()> {
    for number in 1..=LONG_ENDS {
        linux_ends(setup, end).with_context(|| format!("{end}, the {number}. time"))?;
    }
    println!("test together, {end}, {LONG_ENDS} times ... ok");
    Ok(())
}

/// Lets Linux end beside the critical guest. After that the machine sleeps and wakes without it.
fn linux_ends(setup: &Setup, end: End) -> anyhow::Result<()> {
    let seen = LINUX_RUN.end(setup, end)?;
    frames::check(&seen.frames, 1)?;
    has_own_entries_only(&seen.entries)?;
    let late = Late::of(&seen.beats, 0..seen.beats.len())?;
    ensure!(late.missed == 0, "{} heartbeats missed", late.missed);
    ensure!(late.beat.1 <= MOST_LATE, "at most {MOST_LATE} ns");
    Ok(())
}

/// Checks that machine mode entered the critical harts for their own domain alone.
fn has_own_entries_only(entries: &Entries) -> anyhow::Result<()> {
    ensure!(
        entries.calls > 0,
        "the trace has no call: it shows no traps"
    );
    ensure!(
        entries.others.is_empty(),
        "the critical harts entered machine mode for others:\n{}",
        entries.others.join("\n")
    );
    Ok(())
}
