//! The thesis's tables and estimates (`thesis.toml`), remade from its own phase
//! figures (those of the built-in profiles) by the model, each beside what is printed.
//!
//! Three estimates can be remade in one way only, which is not what the text says:
//! see [`Reading`].

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
use super::rounding::{Printed, Reckoned, Rounded, over};

/// All of the machine's RAM, in bytes: what the thesis's estimates move.
const RAM: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// How an estimate was remade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// By the arithmetic that gives the printed number.
    #[default]
    Printed,
    /// By what the text says, where that gives another number. Each saving takes
    /// its seconds off the phase once, and only the savings that are named count.
    /// The printed numbers multiply what the savings leave of the resume, as if
    /// each took its share of what the others left, and the one "alone" at 25 % of
    /// the memory has the saving of the memory training in it as well.
    Literal,
}

/// One number of the thesis.
#[derive(Clone, Debug)]
pub struct Remade {
    /// What it is.
    pub what: String,
    /// Where it is printed.
    pub place: String,
    /// How it is reckoned.
    pub formula: String,
    /// By whose arithmetic.
    pub reading: Reading,
    /// As printed.
    pub printed: Printed,
    /// As reckoned.
    pub reckoned: Reckoned,
}

/// What `thesis.toml` holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thesis {
    numbers: Vec<Number>,
}

/// A number of the thesis, the ends of a range, or one number for each memory usage.
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

/// What is reckoned of a memory usage's figures.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Quantity {
    /// Of S3's enter and leave, in joules.
    S3Energy,
    /// Of suspend-to-PMem's, in joules.
    Energy,
    EnergyOverS3,
    /// In minutes.
    BreakEven,
    SuspendOverS3,
    /// In percent.
    StoringOfSuspend,
    /// In seconds.
    Wake,
    WakeOverS3,
    /// In percent.
    TrainingOfWake,
    /// In joules.
    TrainingEnergy,
    /// Of all the RAM at the device's bandwidth, in seconds.
    FastLoad,
    /// The same of storing.
    FastStore,
    /// How much longer loading takes, in percent.
    LoadOverFastLoad,
}

/// Which memory usages a number is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    Least,
    Most,
    Mean,
    Extremes,
}

/// The figures of one memory usage: J, W and s as printed.
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
    /// All of the RAM at the device's bandwidths, which are taken as exact.
    fast_store_s: f64,
    fast_load_s: f64,
}

/// Energies are printed to whole joules, the rest to hundredths.
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

/// What section 5.6 thinks away.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Savings {
    /// The part of the memory that is moved.
    moved: f64,
    /// Whether it moves at the device's bandwidth.
    fast: bool,
    /// Whether the memory training of the FPGA is avoided.
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

    /// Suspend-to-PMem with some savings.
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

    /// Seconds of storing and of loading.
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

    /// Seconds of a resume with these savings.
    fn wake(&self, savings: Savings) -> f64 {
        let mode = self.pmem(savings, Reading::Literal);
        mode.leave_time().get::<second>()
    }

    /// Joules that the memory training takes.
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

    /// Of all columns what makes a resume look dearest and shortest, and S3's
    /// shortest: what the thesis's "up to" and "as low as" take together.
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

/// A phase of so many joules and seconds, cut to a part at the same power.
fn scaled(joules: f64, seconds: f64, part: f64) -> Phase {
    Phase {
        name: String::new(),
        power: Energy::new::<joule>(joules) / Time::new::<second>(seconds),
        time: Time::new::<second>(seconds) * part,
    }
}

/// Every number that was remade, in the thesis's order.
///
/// # Errors
///
/// None that the built-in profiles and numbers can have.
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

/// What is printed of a number, beside what it is by the columns.
fn rows(number: &Number, columns: &[Column]) -> Vec<Remade> {
    let reckon = |column: &Column| over(column, &ROUNDED, |column| column.reckon(number));
    let each: Vec<Reckoned> = columns.iter().map(reckon).collect();
    let row = |what, printed: &Printed, reckoned| Remade {
        what,
        place: number.place.clone(),
        formula: number.formula.clone(),
        reading: number.reading,
        printed: printed.clone(),
        reckoned,
    };
    let is_range = number.printed.len() > 1;
    let of_all = number.printed.iter().map(|(of, printed)| {
        let (end, reckoned) = match of {
            Of::Least => (
                ", least",
                Reckoned::combine(&each, |each| each.fold(f64::INFINITY, f64::min)),
            ),
            Of::Most => (
                ", most",
                Reckoned::combine(&each, |each| each.fold(f64::NEG_INFINITY, f64::max)),
            ),
            Of::Mean => ("", Reckoned::combine(&each, mean)),
            Of::Extremes => ("", reckon(&Column::extremes(columns))),
        };
        let end = if is_range { end } else { "" };
        row(format!("{}{end}", number.what), printed, reckoned)
    });
    let of_each = columns.iter().zip(&each).zip(&number.each);
    let of_each = of_each.map(|((column, reckoned), printed)| {
        let what = number.what.replace("{gib}", &column.gib.to_string());
        row(what, printed, *reckoned)
    });
    of_all.chain(of_each).collect()
}

fn mean(each: &mut dyn Iterator<Item = f64>) -> f64 {
    let (count, sum) = each.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    sum / count
}
