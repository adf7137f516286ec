//! Measures a weak core: the halves of sleeps in instructions, by configuration; the kernel's times of
//! devices, with the executor on and off; accesses to devices and waits. The published figures of
//! the idea are in [`slides`].

mod accesses;
mod figures;
mod lines;
mod machine;
pub(crate) mod slides;

use anyhow::Context;
use poorwill_machine::growing::Growing;
use poorwill_machine::paths::{self, Kernel, Tiny};
use poorwill_machine::{GRACE_US, Qemu, interrupt};

use crate::BenchOptions;
use accesses::{Sums, Windows, entries};
pub(crate) use figures::as_f64;
#[cfg(test)]
pub(crate) use figures::sample;
pub use figures::{
    Accesses, Case, Device, DeviceAccesses, Executor, Half, Part, Phase, Share, Times,
};
use machine::{Setting, Sleeper, Subject};

/// Sleeps before the warm ones. A start's first sleep has no suspend half.
const COLD: u32 = 3;

/// The most warm sleeps of a machine with several harts, which take longer.
const MOST_OF_SEVERAL: u32 = 2;

/// The most warm sleeps with the kernel's times, and with a log of accesses.
const MOST_WITH_TIMES: u32 = 3;

/// Measures `options.rounds` warm sleeps of each machine. After an error, `results` has the figures up
/// to it.
pub(crate) fn measure(
    options: &BenchOptions,
    results: &mut Option<Executor>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let setting = Setting {
        firmware: &options.firmware,
        folder: folder.path(),
        qemu: Qemu::find()?,
        guest: Tiny::find(Kernel::Stock)?,
    };
    let figures = results.insert(Executor::default());
    for (harts, has_devices) in configurations(options.quick) {
        let subject = Subject {
            harts,
            has_devices,
            is_on: true,
        };
        let warm = match harts {
            1 => options.rounds,
            _ => options.rounds.min(MOST_OF_SEVERAL),
        };
        let case = Case {
            harts,
            has_devices,
            ..Case::default()
        };
        tell(&format!("{}: {warm} warm sleeps", case.name()));
        let (case, kernel) = halves(&setting, subject, warm, case)?;
        figures.cases.push(case);
        figures.kernel = kernel;
    }
    let warm = options.rounds.min(MOST_WITH_TIMES);
    for (is_on, is_async) in [(false, false), (false, true), (true, false), (true, true)] {
        // A short run has the kernel's usual order alone.
        if options.quick && !is_async {
            continue;
        }
        let times = Times {
            is_on,
            is_async,
            ..Times::default()
        };
        tell(&format!("times of devices: {}", times.name()));
        figures
            .times
            .push(times_of(&setting, is_on, is_async, warm)?);
    }
    if !options.quick {
        tell("accesses to devices, and waits");
        figures.accesses = Some(log_accesses(&setting, warm)?);
    }
    Ok(())
}

/// Harts of the OS, and whether there are devices.
fn configurations(quick: bool) -> Vec<(u32, bool)> {
    let harts: &[u32] = if quick { &[1] } else { &[1, 2, 4] };
    let both = |&harts: &u32| [(harts, false), (harts, true)];
    harts.iter().flat_map(both).collect()
}

/// Fills the case with the halves of a machine. Returns also the kernel's name.
fn halves(
    setting: &Setting<'_>,
    subject: Subject,
    warm: u32,
    mut case: Case,
) -> anyhow::Result<(Case, String)> {
    let sleeps = COLD + warm;
    let machine = setting.counted(subject, sleeps, "")?;
    let sleeper = Sleeper::power_on(&machine, &setting.qemu)?;
    let lines = sleeper.sleep(sleeps).with_context(|| case.name())?;
    let texts = || lines.iter().map(String::as_str);
    for (kind, half) in lines::halves(texts())? {
        match kind.as_str() {
            "suspend" => case.suspend.push(half),
            _ => case.resume.push(half),
        }
    }
    let wanted = [sleeps as usize - 1, sleeps as usize];
    let found = [case.suspend.len(), case.resume.len()];
    anyhow::ensure!(
        found == wanted,
        "{}: {found:?} halves in place of {wanted:?}",
        case.name()
    );
    let kernel = texts().find_map(|line| {
        let (_, rest) = line.split_once("poorwill-tiny: kernel=")?;
        rest.split_whitespace().next()
    });
    let kernel = kernel.unwrap_or_default().to_owned();
    Ok((case, kernel))
}

/// The kernel's times on a machine with one hart and devices.
fn times_of(
    setting: &Setting<'_>,
    is_on: bool,
    is_async: bool,
    warm: u32,
) -> anyhow::Result<Times> {
    let subject = Subject {
        harts: 1,
        has_devices: true,
        is_on,
    };
    let sleeps = COLD + warm;
    let order = u32::from(is_async);
    let words = format!(" log_buf_len=4M poorwill.times=1 poorwill.async={order}");
    let machine = setting.counted(subject, sleeps, &words)?;
    let lines = Sleeper::power_on(&machine, &setting.qemu)?.sleep(sleeps)?;
    let all = lines::sleeps(lines.iter().map(String::as_str));
    let of_warm = all.get(COLD as usize..).unwrap_or_default();
    anyhow::ensure!(
        of_warm.len() == warm as usize,
        "the kernel told the times of {} sleeps in place of {sleeps}",
        all.len()
    );
    Ok(lines::times(is_on, is_async, of_warm))
}

/// All addresses with registers: below the memory, and beyond it.
const REGISTERS: &str = "0x1000-0x80000000+0x400000000-0x800000000";

/// The accesses of a weak core, on a machine with one hart and devices. The plugin's time base takes
/// the place of QEMU's own, since it counts the instructions of each hart.
fn log_accesses(setting: &Setting<'_>, warm: u32) -> anyhow::Result<Accesses> {
    let subject = Subject {
        harts: 1,
        has_devices: true,
        is_on: true,
    };
    let weak = subject.harts as usize;
    let sleeps = COLD + warm;
    let words = " poorwill.functions=1 poorwill.key=1";
    let mut machine = setting.machine(subject, sleeps, words)?;
    // The guest must not time out while idle harts wait for a key.
    let log = setting.folder.join("log");
    let plugin = format!(
        "{},grace={GRACE_US},log={},log-stores={REGISTERS},log-loads={REGISTERS}",
        paths::plugin()?.display(),
        log.display()
    );
    machine.add("-accel", "tcg,thread=single");
    machine.add("-rtc", "base=2026-01-01,clock=vm");
    machine.add("-plugin", plugin);
    let mut windows = Windows::of_tree(&std::fs::read(setting.folder.join("tree.dtb"))?)?;
    let mut log = Growing::new(&log);
    let mut sums = Sums::default();
    let mut sleeper = Sleeper::power_on(&machine, &setting.qemu)?;
    for sleep in 1..=sleeps {
        interrupt::check()?;
        sleeper.wait_asleep()?;
        let suspend = log.read()?;
        // Until the guest has read its word, the weak core does nothing more.
        sleeper.send("k")?;
        sleeper.wait_for("executor half=resume")?;
        let resume = log.read()?;
        if sleep == COLD {
            for line in sleeper.lines() {
                windows.add_function(&line)?;
            }
        }
        if sleep > COLD {
            sums.add(&windows, weak, 0, &entries(&suspend)?);
            sums.add(&windows, weak, 1, &entries(&resume)?);
        }
        sleeper.send("key\n")?;
        sleeper.wait_checked(sleep)?;
    }
    sleeper.end()?;
    Ok(sums.means(warm))
}
