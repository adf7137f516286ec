//! The thesis's tables and estimates, remade from its own phase figures (those of
//! the built-in profiles) by the model, each beside what is printed.
//!
//! Three estimates can be remade in one way only, which is not what the text says:
//! see [`Reading`].

use uom::si::energy::joule;
use uom::si::f64::{Energy, Power, Time};
use uom::si::power::watt;
use uom::si::time::{minute, second};

use super::builtin;
use super::model::{Mode, Phase};
use super::profile::{Figure, Kind, ModeProfile, Profile, ProfileError};
use super::rounding::{Printed, Reckoned, Rounded, over};

/// All of the machine's RAM, in bytes: what the thesis's estimates move.
const RAM: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// How an estimate was remade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// By the arithmetic that gives the printed number.
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
    pub place: &'static str,
    /// How it is reckoned.
    pub formula: &'static str,
    /// By whose arithmetic.
    pub reading: Reading,
    /// As printed.
    pub printed: Printed,
    /// As reckoned.
    pub reckoned: Reckoned,
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
#[derive(Clone, Copy, Debug)]
struct Savings {
    /// The part of the memory that is moved.
    moved: f64,
    /// Whether it moves at the device's bandwidth.
    fast: bool,
    /// Whether the memory training of the FPGA is avoided.
    trained: bool,
}

const NOTHING: Savings = Savings {
    moved: 1.0,
    fast: false,
    trained: false,
};
const TRAINED: Savings = Savings {
    trained: true,
    ..NOTHING
};
const FAST: Savings = Savings {
    fast: true,
    ..NOTHING
};
const QUARTER: Savings = Savings {
    moved: 0.25,
    ..NOTHING
};
const QUARTER_AND_TRAINED: Savings = Savings {
    trained: true,
    ..QUARTER
};
const ALL: Savings = Savings {
    fast: true,
    ..TRAINED
};
const ALL_OF_A_QUARTER: Savings = Savings { moved: 0.25, ..ALL };

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
        self.pmem(NOTHING, Reading::Literal)
    }

    /// Minutes.
    fn break_even(&self, savings: Savings, reading: Reading) -> f64 {
        let length = self.s3().break_even(&self.pmem(savings, reading)).length();
        length.map_or(f64::NAN, |length| length.get::<minute>())
    }

    /// Seconds of a resume with these savings.
    fn wake(&self, savings: Savings) -> f64 {
        let mode = self.pmem(savings, Reading::Literal);
        mode.leave_time().get::<second>()
    }

    fn ratio_of_sums(&self) -> f64 {
        (self.pmem_as_it_is().fixed_energy() / self.s3().fixed_energy()).value
    }

    fn ratio_of_wakes(&self) -> f64 {
        (self.pmem_as_it_is().leave_time() / self.s3().leave_time()).value
    }

    fn ratio_of_suspends(&self) -> f64 {
        (self.pmem_as_it_is().enter_time() / self.s3().enter_time()).value
    }

    /// Joules that the memory training takes.
    fn training_j(&self) -> f64 {
        let saved = self.pmem_as_it_is().leave_energy()
            - self.pmem(TRAINED, Reading::Literal).leave_energy();
        saved.get::<joule>()
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

/// Which columns a number is about.
#[derive(Clone, Copy, Debug)]
enum Of {
    Least,
    Most,
    Mean,
    Extremes,
}

/// The rows as they are made.
struct Table {
    columns: Vec<Column>,
    rows: Vec<Remade>,
}

/// Every number that was remade, in the thesis's order.
///
/// # Errors
///
/// None that the built-in profiles can have.
pub fn remade() -> Result<Vec<Remade>, ProfileError> {
    let mut columns = Vec::new();
    for gib in [1, 4, 8, 16] {
        let profile = builtin::profile(&format!("thesis-{gib}gib"))?;
        columns.extend(Column::of(&profile, gib));
    }
    let mut table = Table {
        columns,
        rows: Vec::new(),
    };
    table.measurements();
    table.estimates();
    Ok(table.rows)
}

impl Table {
    fn row(
        &mut self,
        head: (&str, &'static str, &'static str),
        printed: &'static str,
        of: Of,
        result: fn(&Column) -> f64,
    ) {
        let each = self
            .columns
            .iter()
            .map(|column| over(column, &ROUNDED, result));
        let reckoned = match of {
            Of::Extremes => over(&Column::extremes(&self.columns), &ROUNDED, result),
            Of::Least => Reckoned::combine(&each.collect::<Vec<_>>(), |each| {
                each.fold(f64::INFINITY, f64::min)
            }),
            Of::Most => Reckoned::combine(&each.collect::<Vec<_>>(), |each| {
                each.fold(f64::NEG_INFINITY, f64::max)
            }),
            Of::Mean => Reckoned::combine(&each.collect::<Vec<_>>(), mean),
        };
        self.push(head, printed, reckoned);
    }

    fn push(
        &mut self,
        head: (&str, &'static str, &'static str),
        printed: &'static str,
        reckoned: Reckoned,
    ) {
        let (what, place, formula) = head;
        self.rows.push(Remade {
            what: what.to_owned(),
            place,
            formula,
            reading: Reading::Printed,
            printed: Printed::new(printed),
            reckoned,
        });
    }

    /// The least and the most of the columns.
    fn range(
        &mut self,
        head: (&str, &'static str, &'static str),
        printed: [&'static str; 2],
        result: fn(&Column) -> f64,
    ) {
        let (what, place, formula) = head;
        for (of, end, printed) in [
            (Of::Least, "least", printed[0]),
            (Of::Most, "most", printed[1]),
        ] {
            self.row(
                (&format!("{what}, {end}"), place, formula),
                printed,
                of,
                result,
            );
        }
    }

    fn sums(
        &mut self,
        name: &str,
        place: &'static str,
        printed: [&'static str; 4],
        result: fn(&Column) -> f64,
    ) {
        for (column, printed) in self.columns.clone().into_iter().zip(printed) {
            let what = format!("{name}, energy of a sleep, {} GiB (J)", column.gib);
            let head = (&*what, place, "suspend + resume");
            self.push(head, printed, over(&column, &ROUNDED, result));
        }
    }

    /// Sections 5.3 to 5.5.
    fn measurements(&mut self) {
        self.range(
            (
                "wake latency over S3's",
                "section 5.3",
                "resume time / S3's",
            ),
            ["8.71", "9.11"],
            Column::ratio_of_wakes,
        );
        self.sums("S3", "table 5.6", ["234", "232", "247", "228"], |column| {
            column.s3().fixed_energy().get::<joule>()
        });
        self.sums(
            "PMem",
            "table 5.7",
            ["6313", "6325", "6339", "6301"],
            |column| column.pmem_as_it_is().fixed_energy().get::<joule>(),
        );
        self.range(
            (
                "energy of a sleep over S3's",
                "section 5.4",
                "sum / S3's sum",
            ),
            ["25.67", "27.58"],
            Column::ratio_of_sums,
        );
        self.range(
            (
                "break-even (min)",
                "section 5.4",
                "(sum - S3's sum) / (S3's power - power)",
            ),
            ["54", "60"],
            |column| column.break_even(NOTHING, Reading::Literal),
        );
        self.range(
            (
                "suspend latency over S3's",
                "section 5.5",
                "suspend time / S3's",
            ),
            ["36.63", "36.86"],
            Column::ratio_of_suspends,
        );
        self.row(
            (
                "storing, of the suspend latency (%)",
                "section 5.5",
                "mean of store / suspend time",
            ),
            "97.27",
            Of::Mean,
            |column| column.store_s / column.suspend_s * 100.0,
        );
    }

    /// Section 5.6.
    fn estimates(&mut self) {
        let place = "section 5.6";
        self.row(
            (
                "memory training, of the wake latency (%)",
                place,
                "most of training / resume time",
            ),
            "46",
            Of::Most,
            |column| column.training_s / column.resume_s * 100.0,
        );
        self.row(
            ("reading 32 GiB (s)", place, "32 GiB / 6.6 GB/s"),
            "5.2",
            Of::Extremes,
            |column| column.fast_load_s,
        );
        self.row(
            ("writing 32 GiB (s)", place, "32 GiB / 2.3 GB/s"),
            "14.94",
            Of::Extremes,
            |column| column.fast_store_s,
        );
        self.row(
            (
                "load time over that (%)",
                place,
                "8.11 s / (32 GiB / 6.6 GB/s) - 1",
            ),
            "55",
            Of::Most,
            |column| (column.load_s / column.fast_load_s - 1.0) * 100.0,
        );
        self.row(
            (
                "energy of memory training, up to (J)",
                place,
                "most resume energy * training / least resume time",
            ),
            "1063",
            Of::Extremes,
            Column::training_j,
        );
        self.break_evens();
        self.row(
            (
                "wake latency, all savings (s)",
                place,
                "resume - training - load + 32 GiB / 6.6 GB/s, least",
            ),
            "7.65",
            Of::Least,
            |column| column.wake(ALL),
        );
        self.row(
            (
                "the same at 25 % (s)",
                place,
                "resume - training - load + 8 GiB / 6.6 GB/s, least",
            ),
            "3.75",
            Of::Least,
            |column| column.wake(ALL_OF_A_QUARTER),
        );
        self.row(
            (
                "wake latency, all savings, over S3's",
                place,
                "that / S3's least",
            ),
            "3.5",
            Of::Extremes,
            |column| column.wake(ALL) / column.s3_resume_s,
        );
        self.row(
            ("the same at 25 %, over S3's", place, "that / S3's least"),
            "1.7",
            Of::Extremes,
            |column| column.wake(ALL_OF_A_QUARTER) / column.s3_resume_s,
        );
    }

    fn break_evens(&mut self) {
        let place = "section 5.6";
        self.range(
            (
                "break-even without memory training (min)",
                place,
                "resume energy * (1 - training / resume time)",
            ),
            ["44", "49"],
            |column| column.break_even(TRAINED, Reading::Printed),
        );
        self.range(
            (
                "break-even at the device's bandwidths (min)",
                place,
                "each energy * its time with 32 GiB / bandwidth for the copy / its time",
            ),
            ["39", "44"],
            |column| column.break_even(FAST, Reading::Printed),
        );
        self.range(
            (
                "break-even at 25 % (min)",
                place,
                "copies take 1/4; resume energy * (1 - training / time) * (1 - 3/4 load / time)",
            ),
            ["15", "17"],
            |column| column.break_even(QUARTER_AND_TRAINED, Reading::Printed),
        );
        self.literally(2, "copies take 1/4, nothing else is saved", |column| {
            column.break_even(QUARTER, Reading::Literal)
        });
        self.range(
            (
                "break-even, all savings (min)",
                place,
                "resume energy * (1 - training / time) * (1 - saved load / time)",
            ),
            ["31", "35"],
            |column| column.break_even(ALL, Reading::Printed),
        );
        self.literally(
            2,
            "resume energy * (1 - (training + saved load) / time)",
            |column| column.break_even(ALL, Reading::Literal),
        );
        self.range(
            (
                "break-even, all savings at 25 % (min)",
                place,
                "the same with 8 GiB",
            ),
            ["12", "13"],
            |column| column.break_even(ALL_OF_A_QUARTER, Reading::Printed),
        );
        self.literally(2, "the same with 8 GiB", |column| {
            column.break_even(ALL_OF_A_QUARTER, Reading::Literal)
        });
    }

    /// The last `count` rows, the ends of a range, once more by what the text says.
    fn literally(&mut self, count: usize, formula: &'static str, result: fn(&Column) -> f64) {
        let range = self.rows[self.rows.len() - count..].to_vec();
        for (of, before) in [Of::Least, Of::Most].into_iter().zip(range) {
            let head = (&*before.what, before.place, formula);
            self.row(head, before.printed.text, of, result);
            if let Some(row) = self.rows.last_mut() {
                row.reading = Reading::Literal;
            }
        }
    }
}

fn mean(each: &mut dyn Iterator<Item = f64>) -> f64 {
    let (count, sum) = each.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    sum / count
}
