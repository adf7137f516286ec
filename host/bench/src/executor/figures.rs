//! The figures of a weak core. Instructions are of the weak core itself (`own`), or of the OS that it
//! runs. Under `-icount` an instruction takes a nanosecond, so that its times do not depend on the
//! host.

use serde::{Deserialize, Serialize};

use crate::spread::{Spread, median};

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Executor {
    /// The guest's kernel, as it names itself.
    pub kernel: String,
    /// The halves of each configuration.
    pub cases: Vec<Case>,
    /// The kernel's times of devices, with the executor on and off.
    pub times: Vec<Times>,
    /// The weak core's accesses to devices, and its waits.
    pub accesses: Option<Accesses>,
}

/// A machine, and what its weak core did in each sleep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Case {
    /// Harts of the OS.
    pub harts: u32,
    /// NVMe, AHCI and network, with their drivers.
    pub has_devices: bool,
    /// From the second sleep of a start on.
    pub suspend: Vec<Half>,
    pub resume: Vec<Half>,
}

/// A half, as the firmware prints it, without spins: loops with `pause`, in which the OS waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Half {
    /// Instructions of the OS.
    pub instructions: u64,
    /// Those that ran as translated code.
    pub translated: u64,
    /// Instructions of the weak core.
    pub own: u64,
    /// Accesses of the OS to devices.
    pub mmio: u64,
    pub interrupts: u64,
    pub exceptions: u64,
    /// Machine time.
    pub ms: u64,
    /// Why the weak core gave the OS back.
    pub end: String,
}

/// The kernel's own times around its sleeps, in the machine's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// The weak core runs the halves.
    pub is_on: bool,
    /// The kernel suspends and resumes devices at once (`pm_async`).
    pub is_async: bool,
    pub phases: Vec<Phase>,
    pub devices: Vec<Device>,
}

/// A phase of the kernel's: medians of the warm sleeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// As the kernel calls it: `noirq suspend`, for example.
    pub name: String,
    pub ms: f64,
}

/// The time in a device's callbacks: medians of the warm sleeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its driver or bus, and its name.
    pub name: String,
    pub suspend_us: f64,
    pub resume_us: f64,
}

/// Accesses of a weak core by device, for each warm sleep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accesses {
    /// Number of sleeps.
    pub sleeps: u32,
    pub devices: Vec<DeviceAccesses>,
    /// Instructions of a hart while it is lent, from its request to its return: the most of a half. `None`:
    /// no half was lent, or the figures are older.
    pub lent: Option<u64>,
}

/// The accesses to a device's registers, and the waits that end with one: means of a sleep. Waits
/// belong to the first device that is accessed after them, other than timers and interrupt
/// controllers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAccesses {
    pub name: String,
    pub suspend: Share,
    pub resume: Share,
}

/// A device's share of a half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    pub loads: f64,
    pub stores: f64,
    pub wait_us: f64,
}

impl Share {
    /// Accesses.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.loads + self.stores
    }
}

/// A part of the halves of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Suspend,
    Resume,
    Both,
}

impl Case {
    /// Its name, such as `1 hart, devices`.
    #[must_use]
    pub fn name(&self) -> String {
        let harts = match self.harts {
            1 => "1 hart".to_owned(),
            more => format!("{more} harts"),
        };
        match self.has_devices {
            true => format!("{harts}, devices"),
            false => harts,
        }
    }

    /// The halves from the third one on: the first is new to the weak core, and the second runs what
    /// was translated meanwhile.
    fn warm(halves: &[Half]) -> &[Half] {
        halves.get(2..).unwrap_or_default()
    }

    /// The median of a figure in warm sleeps.
    #[must_use]
    pub fn warm_median(&self, part: Part, figure: impl Fn(&Half) -> f64) -> Option<f64> {
        let of = |halves: &[Half]| {
            let values: Vec<f64> = Self::warm(halves).iter().map(&figure).collect();
            (!values.is_empty()).then(|| median(values))
        };
        match part {
            Part::Suspend => of(&self.suspend),
            Part::Resume => of(&self.resume),
            Part::Both => Some(of(&self.suspend)? + of(&self.resume)?),
        }
    }

    /// Instructions of the weak core for each one of the OS, in warm sleeps.
    #[must_use]
    pub fn warm_ratio(&self, part: Part) -> Option<f64> {
        let own = self.warm_median(part, |half| as_f64(half.own))?;
        Some(own / self.warm_median(part, |half| as_f64(half.instructions))?)
    }

    /// The same in the first halves.
    #[must_use]
    pub fn first_ratio(&self, part: Part) -> Option<f64> {
        let sums = |halves: &[&Half]| {
            let sum = |figure: fn(&Half) -> u64| halves.iter().map(|half| figure(half)).sum();
            as_f64(sum(|half| half.own)) / as_f64(sum(|half| half.instructions))
        };
        let (suspend, resume) = (self.suspend.first(), self.resume.first());
        match part {
            Part::Suspend => Some(sums(&[suspend?])),
            Part::Resume => Some(sums(&[resume?])),
            Part::Both => Some(sums(&[suspend?, resume?])),
        }
    }

    /// The weak core's instructions in the second half of this kind, by those of a warm one.
    #[must_use]
    pub fn second_to_warm(&self, part: Part) -> Option<f64> {
        let halves = match part {
            Part::Suspend => &self.suspend,
            Part::Resume | Part::Both => &self.resume,
        };
        let own = |half: &Half| as_f64(half.own);
        Some(own(halves.get(1)?) / self.warm_median(part, own)?)
    }

    /// The spread of the ratio over warm halves of a kind.
    #[must_use]
    pub fn spread(&self, part: Part) -> Option<Spread> {
        let ratio = |half: &Half| as_f64(half.own) / as_f64(half.instructions);
        let halves = match part {
            Part::Suspend => &self.suspend,
            Part::Resume | Part::Both => &self.resume,
        };
        Spread::of_any(Self::warm(halves).iter().map(ratio))
    }
}

impl Executor {
    /// The warm ratio of both halves, on the machine with one hart: with devices, if it was
    /// measured. Returns its name, too.
    #[must_use]
    pub fn ratio(&self) -> Option<(String, f64)> {
        let of = |has_devices| {
            let one = |case: &&Case| case.harts == 1 && case.has_devices == has_devices;
            let case = self.cases.iter().find(one)?;
            Some((case.name(), case.warm_ratio(Part::Both)?))
        };
        of(true).or_else(|| of(false))
    }
}

impl Times {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let executor = if self.is_on {
            "weak core"
        } else {
            "strong core"
        };
        let order = if self.is_async { "at once" } else { "in turn" };
        format!("{executor}, {order}")
    }

    /// The sum of the phases of a half, in ms: what the kernel calls `start suspend` has one of them
    /// in it.
    #[must_use]
    pub fn sum_ms(&self, half: &str) -> f64 {
        let of_half =
            |phase: &&Phase| phase.name.ends_with(half) && !phase.name.starts_with("start ");
        self.phases
            .iter()
            .filter(of_half)
            .map(|phase| phase.ms)
            .sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to some digits")]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}

/// A sample with round figures.
#[cfg(test)]
pub(crate) fn sample() -> Executor {
    let half = |instructions, own| Half {
        instructions,
        own,
        end: "user".into(),
        ..Half::default()
    };
    let case = |harts, has_devices, warm| Case {
        harts,
        has_devices,
        suspend: vec![half(1000, 20_000), half(1000, 1500), half(1000, warm)],
        resume: vec![half(1000, 40_000), half(1000, 1000), half(1000, warm)],
    };
    let times = |is_on, is_async, us: f64| Times {
        is_on,
        is_async,
        phases: vec![
            Phase {
                name: "suspend".into(),
                ms: us / 1000.0,
            },
            Phase {
                name: "resume".into(),
                ms: us / 500.0,
            },
        ],
        devices: vec![Device {
            name: "nvme 0000:00:01.0".into(),
            suspend_us: us,
            resume_us: 2.0 * us,
        }],
    };
    let share = |loads, wait_us| Share {
        loads,
        stores: 3.0,
        wait_us,
    };
    Executor {
        kernel: "6.12".into(),
        cases: vec![case(1, false, 2000), case(1, true, 4000)],
        times: vec![times(false, true, 1000.0), times(true, true, 3000.0)],
        accesses: Some(Accesses {
            sleeps: 2,
            devices: vec![DeviceAccesses {
                name: "serial@10000000".into(),
                suspend: share(5.0, 100.0),
                resume: share(7.0, 2000.0),
            }],
            lent: Some(50),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_sums_and_medians() {
        let sample = sample();
        let case = &sample.cases[0];
        let is = |value: Option<f64>, wanted: f64| {
            let value = value.expect("measured");
            assert!((value - wanted).abs() < 1e-9, "{value}, {wanted}");
        };
        is(case.first_ratio(Part::Both), 30.0);
        is(case.first_ratio(Part::Suspend), 20.0);
        is(case.warm_ratio(Part::Both), 2.0);
        is(case.second_to_warm(Part::Suspend), 0.75);
        is(case.second_to_warm(Part::Resume), 0.5);
        assert_eq!(sample.ratio(), Some(("1 hart, devices".into(), 4.0)));
        assert_eq!(Executor::default().ratio(), None);
        let cold = Case {
            suspend: case.suspend[..2].to_vec(),
            ..case.clone()
        };
        assert_eq!(cold.warm_ratio(Part::Both), None);
        assert_eq!(cold.name(), "1 hart");
        is(Some(sample.times[1].sum_ms("suspend")), 3.0);
    }
}
