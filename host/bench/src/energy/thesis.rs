//! Recomputes the tables and estimates of the thesis on suspend-to-PMem (`thesis.toml`), and
//! compares them with the printed numbers. The inputs are the thesis's own figures for each phase,
//! in the built-in profiles.
//!
//! The arithmetic of three printed estimates differs from the thesis's description of it: see
//! [`Reading`].

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;
use uom::si::energy::joule;
use uom::si::f64::{Energy, Power, Time};
use uom::si::power::watt;
use uom::si::time::{minute, second};

use super::builtin;
use super::model::{Mode, Phase};
use super::profile::{Figure, Kind, ModeProfile, Profile};
use super::rounding::{Computed, Printed, Rounded, over};

/// Bytes of the machine's RAM. The thesis's estimates assume that all of it is moved.
const RAM: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// Which arithmetic an estimate was recomputed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The arithmetic that yields the printed number.
    #[default]
    Printed,
    /// The arithmetic that the text describes, if that yields another number. Each saving shortens
    /// the phase by its own seconds, and only the named savings count. The printed numbers instead
    /// multiply the shares of the resume that each saving leaves. The printed number for 25 % of
    /// the memory "alone" also includes the saving of the memory training.
    Literal,
}

/// A printed number of the thesis, with the recomputed one.
#[derive(Clone, Debug)]
pub struct Remade {
    pub what: String,
    /// Where the thesis prints it.
    pub place: String,
    pub formula: String,
    pub reading: Reading,
    pub printed: Printed,
    pub computed: Computed,
}

/// The contents of `thesis.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thesis {
    numbers: Vec<Number>,
}

/// A number of the thesis, both ends of a range, or a number for each memory usage.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    what: String,
    place: String,
    formula: String,
    result: Quantity,
    #[serde(default)]
    savings: Savings,
    #[serde(default)]
    reading: Reading,
    #[serde(default)]
    printed: BTreeMap<Of, Printed>,
    #[serde(default)]
    each: Vec<Printed>,
}

/// A quantity that is computed for one memory usage.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Quantity {
    /// Energy to enter and leave S3, in joules.
    S3Energy,
    /// Energy to enter and leave suspend-to-PMem, in joules.
    Energy,
    EnergyOverS3,
    /// Break-even of suspend-to-PMem and S3, in minutes.
    BreakEven,
    SuspendOverS3,
    /// Share of storing in the suspend, in percent.
    StoringOfSuspend,
    /// Time of the resume, in seconds.
    Wake,
    WakeOverS3,
    /// Share of the memory training in the resume, in percent.
    TrainingOfWake,
    /// Energy of the memory training, in joules.
    TrainingEnergy,
    /// Time to load all of the RAM at the device's bandwidth, in seconds.
    FastLoad,
    /// Time to store all of the RAM at the device's bandwidth, in seconds.
    FastStore,
    /// Excess of the measured load time over [`FastLoad`](Self::FastLoad), in percent.
    LoadOverFastLoad,
}

/// The memory usages for which a number is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    Least,
    Most,
    Mean,
    Extremes,
}

/// The printed figures for one memory usage, in joules, watts and seconds.
#[derive(Clone, Copy, Debug)]
struct Column {
    gib: u32,
    s3_suspend_j: f64,
    s3_resume_j: f64,
    s3_kept_w: f64,
    s3_suspend_s: f64,
    s3_resume_s: f64,
    suspend_j: f64,
    resume_j: f64,
    kept_w: f64,
    suspend_s: f64,
    store_s: f64,
    resume_s: f64,
    training_s: f64,
    load_s: f64,
    /// Time to store all of the RAM at the device's bandwidth. It counts as exact.
    fast_store_s: f64,
    fast_load_s: f64,
}

/// The inputs and their rounding: energies are printed to whole joules, the rest to hundredths.
const ROUNDED: [Rounded<Column>; 13] = [
    (|column| &mut column.s3_suspend_j, 0.5),
    (|column| &mut column.s3_resume_j, 0.5),
    (|column| &mut column.suspend_j, 0.5),
    (|column| &mut column.resume_j, 0.5),
    (|column| &mut column.s3_kept_w, 0.005),
    (|column| &mut column.s3_suspend_s, 0.005),
    (|column| &mut column.s3_resume_s, 0.005),
    (|column| &mut column.kept_w, 0.005),
    (|column| &mut column.suspend_s, 0.005),
    (|column| &mut column.store_s, 0.005),
    (|column| &mut column.resume_s, 0.005),
    (|column| &mut column.training_s, 0.005),
    (|column| &mut column.load_s, 0.005),
];

/// The savings that the thesis's section 5.6 assumes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Savings {
    /// The share of the memory that is moved, 0 to 1.
    moved: f64,
    /// Whether the memory moves at the device's bandwidth.
    fast: bool,
    /// Whether the FPGA's memory training is avoided.
    trained: bool,
}

impl Default for Savings {
    fn default() -> Self {
        Savings {
            moved: 1.0,
            fast: false,
            trained: false,
        }
    }
}

impl Column {
    fn of(profile: &Profile, gib: u32) -> Option<Self> {
        let [s3, pmem] = [Kind::Retain, Kind::Persist].map(|kind| profile.mode_of(kind));
        let (s3, pmem) = (s3?, pmem?);
        let value = |figure: Option<&Figure>| figure.map(|figure| figure.value);
        let joules = |mode: &ModeProfile| {
            let [enter, leave] = [mode.enter.first()?, mode.leave.first()?];
            Some((value(enter.joules.as_ref())?, value(leave.joules.as_ref())?))
        };
        let seconds = |mode: &ModeProfile| {
            let [enter, leave] = [mode.enter.first()?, mode.leave.first()?];
            Some((
                value(enter.seconds.as_ref())?,
                value(leave.seconds.as_ref())?,
            ))
        };
        let parts = |index: usize, leave: bool| {
            let phase = if leave { &pmem.leave } else { &pmem.enter };
            value(phase.first()?.parts.get(index)?.seconds.as_ref())
        };
        let device = profile.device.as_ref()?;
        Some(Column {
            gib,
            s3_suspend_j: joules(s3)?.0,
            s3_resume_j: joules(s3)?.1,
            s3_kept_w: s3.kept_watts.value,
            s3_suspend_s: seconds(s3)?.0,
            s3_resume_s: seconds(s3)?.1,
            suspend_j: joules(pmem)?.0,
            resume_j: joules(pmem)?.1,
            kept_w: pmem.kept_watts.value,
            suspend_s: seconds(pmem)?.0,
            store_s: parts(1, false)?,
            resume_s: seconds(pmem)?.1,
            training_s: parts(0, true)?,
            load_s: parts(1, true)?,
            fast_store_s: RAM / device.write_bytes_per_second.value,
            fast_load_s: RAM / device.read_bytes_per_second.value,
        })
    }

    fn s3(&self) -> Mode {
        Mode {
            name: "S3".into(),
            enter: vec![scaled(self.s3_suspend_j, self.s3_suspend_s, 1.0)],
            kept: Power::new::<watt>(self.s3_kept_w),
            leave: vec![scaled(self.s3_resume_j, self.s3_resume_s, 1.0)],
        }
    }

    /// Suspend-to-PMem as a mode, with these savings.
    fn pmem(&self, savings: Savings, reading: Reading) -> Mode {
        let (store, load) = self.moved(savings);
        let suspend = (self.suspend_s - self.store_s + store) / self.suspend_s;
        let training = if savings.trained {
            self.training_s
        } else {
            0.0
        };
        let [training, loading] = [training, self.load_s - load].map(|saved| saved / self.resume_s);
        let resume = match reading {
            Reading::Printed => (1.0 - training) * (1.0 - loading),
            Reading::Literal => 1.0 - training - loading,
        };
        Mode {
            name: "PMem".into(),
            enter: vec![scaled(self.suspend_j, self.suspend_s, suspend)],
            kept: Power::new::<watt>(self.kept_w),
            leave: vec![scaled(self.resume_j, self.resume_s, resume)],
        }
    }

    /// Seconds to store and to load the memory.
    fn moved(&self, savings: Savings) -> (f64, f64) {
        let (store, load) = if savings.fast {
            (self.fast_store_s, self.fast_load_s)
        } else {
            (self.store_s, self.load_s)
        };
        (store * savings.moved, load * savings.moved)
    }

    fn pmem_as_it_is(&self) -> Mode {
        self.pmem(Savings::default(), Reading::Literal)
    }

    /// Seconds of a resume.
    fn wake(&self, savings: Savings) -> f64 {
        let mode = self.pmem(savings, Reading::Literal);
        mode.leave_time().get::<second>()
    }

    /// Energy of the memory training, in joules.
    fn training_j(&self) -> f64 {
        let trained = Savings {
            trained: true,
            ..Savings::default()
        };
        let saved = self.pmem_as_it_is().leave_energy()
            - self.pmem(trained, Reading::Literal).leave_energy();
        saved.get::<joule>()
    }

    fn reckon(&self, number: &Number) -> f64 {
        let (s3, pmem) = (self.s3(), self.pmem_as_it_is());
        match number.result {
            Quantity::S3Energy => s3.fixed_energy().get::<joule>(),
            Quantity::Energy => pmem.fixed_energy().get::<joule>(),
            Quantity::EnergyOverS3 => (pmem.fixed_energy() / s3.fixed_energy()).value,
            Quantity::BreakEven => {
                let length = s3.break_even(&self.pmem(number.savings, number.reading));
                let length = length.length();
                length.map_or(f64::NAN, |length| length.get::<minute>())
            }
            Quantity::SuspendOverS3 => (pmem.enter_time() / s3.enter_time()).value,
            Quantity::StoringOfSuspend => self.store_s / self.suspend_s * 100.0,
            Quantity::Wake => self.wake(number.savings),
            Quantity::WakeOverS3 => self.wake(number.savings) / self.s3_resume_s,
            Quantity::TrainingOfWake => self.training_s / self.resume_s * 100.0,
            Quantity::TrainingEnergy => self.training_j(),
            Quantity::FastLoad => self.fast_load_s,
            Quantity::FastStore => self.fast_store_s,
            Quantity::LoadOverFastLoad => (self.load_s / self.fast_load_s - 1.0) * 100.0,
        }
    }

    /// The extreme figures of all columns: the highest energies, the shortest times of a resume,
    /// and S3's shortest times. The thesis combines them in "up to" and "as low as".
    fn extremes(columns: &[Column]) -> Column {
        let least =
            |field: fn(&Column) -> f64| columns.iter().map(field).fold(f64::INFINITY, f64::min);
        Column {
            resume_j: -least(|column| -column.resume_j),
            resume_s: least(|column| column.resume_s),
            s3_resume_s: least(|column| column.s3_resume_s),
            ..columns[0]
        }
    }
}

/// A phase of `joules` and `seconds`, shortened to `part` of it at the same power.
fn scaled(joules: f64, seconds: f64, part: f64) -> Phase {
    Phase {
        name: String::new(),
        power: Energy::new::<joule>(joules) / Time::new::<second>(seconds),
        time: Time::new::<second>(seconds) * part,
    }
}

/// All recomputed numbers, in the thesis's order.
///
/// # Errors
///
/// A built-in profile cannot be computed.
pub fn remade() -> anyhow::Result<Vec<Remade>> {
    let thesis: Thesis =
        toml::from_str(include_str!("thesis.toml")).context("the thesis's numbers")?;
    let mut columns = Vec::new();
    for gib in [1, 4, 8, 16] {
        let profile = builtin::profile(&format!("thesis-{gib}gib"))?;
        columns.extend(Column::of(&profile, gib));
    }
    let rows = thesis.numbers.iter().flat_map(|one| rows(one, &columns));
    Ok(rows.collect())
}

/// The rows for one number, each with the printed and the recomputed value.
fn rows(number: &Number, columns: &[Column]) -> Vec<Remade> {
    let reckon = |column: &Column| over(column, &ROUNDED, |column| column.reckon(number));
    let each: Vec<Computed> = columns.iter().map(reckon).collect();
    let row = |what, printed: &Printed, computed| Remade {
        what,
        place: number.place.clone(),
        formula: number.formula.clone(),
        reading: number.reading,
        printed: printed.clone(),
        computed,
    };
    let is_range = number.printed.len() > 1;
    let of_all = number.printed.iter().map(|(of, printed)| {
        let (end, computed) = match of {
            Of::Least => (
                ", least",
                Computed::combine(&each, |each| each.fold(f64::INFINITY, f64::min)),
            ),
            Of::Most => (
                ", most",
                Computed::combine(&each, |each| each.fold(f64::NEG_INFINITY, f64::max)),
            ),
            Of::Mean => ("", Computed::combine(&each, mean)),
            Of::Extremes => ("", reckon(&Column::extremes(columns))),
        };
        let end = if is_range { end } else { "" };
        row(format!("{}{end}", number.what), printed, computed)
    });
    let of_each = columns.iter().zip(&each).zip(&number.each);
    let of_each = of_each.map(|((column, computed), printed)| {
        let what = number.what.replace("{gib}", &column.gib.to_string());
        row(what, printed, *computed)
    });
    of_all.chain(of_each).collect()
}

fn mean(each: &mut dyn Iterator<Item = f64>) -> f64 {
    let (count, sum) = each.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    sum / count
}
