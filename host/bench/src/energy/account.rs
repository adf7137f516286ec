//! The results of `poorwill energy` for a profile.

use serde::Serialize;
use uom::si::energy::joule;
use uom::si::f64::Time;
use uom::si::power::watt;
use uom::si::time::second;

use super::measured::{MeasuredSleep, OnMachine};
use super::model::{BreakEven, Mode, Staged};
use super::profile::{Kind, Profile};
use super::times::Given;
use crate::results::Results;

/// The answers of `poorwill energy` for one profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// Always `modelled`: only times and bytes are measured.
    pub energy: &'static str,
    /// The profile's name or file.
    pub profile: String,
    /// A line about the machine.
    pub title: String,
    /// The publication that the sources refer to.
    pub publication: String,
    /// The profile's notes on its figures.
    pub about: String,
    /// The modes whose times are all known.
    pub modes: Vec<ModeCost>,
    /// Modes of which some times are known from measurements only.
    pub without_times: Vec<String>,
    /// Sleeps of several lengths.
    pub sleeps: Vec<SleepCost>,
    /// Each pair of modes.
    pub break_evens: Vec<Pair>,
    /// `retain` followed by `persist` after the break-even.
    pub staged: Option<StagedCost>,
    /// Sleeps measured by a bench, transferred to this machine.
    pub measured: Vec<MeasuredCost>,
    /// The profile's figures and their sources.
    pub figures: Vec<SourcedFigure>,
}

/// The cost of a mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeCost {
    pub name: String,
    pub kept_watts: f64,
    pub enter_seconds: f64,
    pub enter_joules: f64,
    pub leave_seconds: f64,
    pub leave_joules: f64,
    /// Energy to enter and leave the mode.
    pub fixed_joules: f64,
}

/// The cost of sleeps of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SleepCost {
    /// Time for which the mode keeps the state.
    pub seconds: f64,
    /// One cost for each of [`Account::modes`], then that of staged.
    pub modes: Vec<Cost>,
}

/// The cost of one sleep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub name: String,
    pub joules: f64,
    /// Mean power from the request until the OS runs again; `None` for a staged sleep.
    pub average_watts: Option<f64>,
}

/// The comparison of two modes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub first: String,
    pub second: String,
    /// The break-even length; `None`: the same mode is cheaper at each length.
    pub seconds: Option<f64>,
    /// The answer as a sentence.
    pub verdict: String,
}

/// The staged mode with the delay of `auto`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagedCost {
    /// Name of the first mode.
    pub retain: String,
    /// Name of the second mode.
    pub persist: String,
    /// The delay, which is the break-even.
    pub delay_seconds: f64,
    /// The highest ratio of its energy to the better mode's, over all lengths.
    pub worst_ratio: f64,
}

/// The cost of a measured sleep on the profile's machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredCost {
    /// Name of the bench's case, such as `0.5 of 4 GiB`.
    pub case: String,
    /// Name of the profile's mode.
    pub mode: String,
    /// Whether the times are computed from bytes and a device's bandwidths. If not, they are the
    /// emulated machine's.
    pub at_bandwidth: bool,
    /// Whether the profile's avoidable parts are left out.
    pub without_avoidable: bool,
    pub saved_bytes: f64,
    /// The cost with these times.
    pub cost: ModeCost,
    /// The comparison with powered RAM, or with a running machine if the profile has no such mode.
    pub break_even: Option<Pair>,
}

/// A figure of the profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourcedFigure {
    pub place: String,
    pub value: f64,
    pub source: String,
}

/// A mode of a profile's machine with the times of a measured sleep.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredMode {
    pub sleep: MeasuredSleep,
    pub mode: Mode,
    /// Whether the profile's avoidable parts are left out.
    pub without_avoidable: bool,
}

/// Each measured sleep as a sleep in the persist mode of `profile`, and again without avoidable
/// parts. Empty if the profile has no such mode.
#[must_use]
pub fn measured_modes(profile: &Profile, results: &Results) -> Vec<MeasuredMode> {
    let Some(mode) = profile.mode_of(Kind::Persist) else {
        return Vec::new();
    };
    if !mode.is_measurable() {
        return Vec::new();
    }
    let variants: &[bool] = if mode.has_avoidable() {
        &[false, true]
    } else {
        &[false]
    };
    let cases = results.compare.iter().flat_map(|compare| &compare.cases);
    let mut modes = Vec::new();
    for sleep in cases.filter_map(MeasuredSleep::of) {
        for &without_avoidable in variants {
            let times = OnMachine {
                sleep: &sleep,
                device: profile.device.as_ref(),
                without_avoidable,
            };
            modes.extend(mode.with(&times).map(|mode| MeasuredMode {
                sleep: sleep.clone(),
                mode,
                without_avoidable,
            }));
        }
    }
    modes
}

/// The alternative to persisting: retain, or, if the profile has no such mode, a machine that runs
/// on.
#[must_use]
pub fn otherwise(profile: &Profile) -> Option<Mode> {
    let mode = profile
        .mode_of(Kind::Retain)
        .or(profile.mode_of(Kind::Awake));
    mode.and_then(|mode| mode.with(&Given))
}

/// The staged mode of `profile`, from its own times.
#[must_use]
pub fn staged(profile: &Profile) -> Option<Staged> {
    let [retain, persist] = [Kind::Retain, Kind::Persist]
        .map(|kind| profile.mode_of(kind).and_then(|mode| mode.with(&Given)));
    Staged::auto(retain?, persist?)
}

impl Account {
    /// The account of `profile`, called `name`, for sleeps of these lengths and for the measured
    /// sleeps in `results`. Without lengths, lengths around the break-evens are chosen.
    #[must_use]
    pub fn of(name: &str, profile: &Profile, lengths: &[Time], results: Option<&Results>) -> Self {
        let modes: Vec<Mode> = profile
            .modes
            .iter()
            .filter_map(|mode| mode.with(&Given))
            .collect();
        let without_times = profile
            .modes
            .iter()
            .filter(|mode| mode.with(&Given).is_none());
        let staged = staged(profile);
        let break_evens = pairs(&modes);
        let lengths = match lengths {
            [] => usual_lengths(&break_evens),
            chosen => chosen.to_vec(),
        };
        Account {
            energy: "modelled",
            profile: name.to_owned(),
            title: profile.title.clone(),
            publication: profile.publication.clone(),
            about: profile.about.clone(),
            without_times: without_times.map(|mode| mode.name.clone()).collect(),
            sleeps: lengths
                .into_iter()
                .map(|length| SleepCost::of(length, &modes, staged.as_ref()))
                .collect(),
            modes: modes.iter().map(ModeCost::of).collect(),
            break_evens,
            staged: staged.as_ref().map(StagedCost::of),
            measured: results.map_or_else(Vec::new, |results| measured(profile, results)),
            figures: profile
                .figures()
                .into_iter()
                .map(|(place, figure)| SourcedFigure {
                    place,
                    value: figure.value,
                    source: figure.source.clone(),
                })
                .collect(),
        }
    }
}

fn measured(profile: &Profile, results: &Results) -> Vec<MeasuredCost> {
    let otherwise = otherwise(profile);
    let cost = |measured: MeasuredMode| MeasuredCost {
        case: measured.sleep.name.clone(),
        mode: measured.mode.name.clone(),
        at_bandwidth: profile.device.is_some(),
        without_avoidable: measured.without_avoidable,
        saved_bytes: measured.sleep.saved_bytes,
        cost: ModeCost::of(&measured.mode),
        break_even: otherwise
            .as_ref()
            .map(|other| Pair::of(other, &measured.mode)),
    };
    measured_modes(profile, results)
        .into_iter()
        .map(cost)
        .collect()
}

fn pairs(modes: &[Mode]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (index, first) in modes.iter().enumerate() {
        pairs.extend(
            modes[index + 1..]
                .iter()
                .map(|other| Pair::of(first, other)),
        );
    }
    pairs
}

/// Round lengths from a thirtieth of the least break-even to thirty times the greatest one.
fn usual_lengths(pairs: &[Pair]) -> Vec<Time> {
    const KNOWN: [f64; 13] = [
        1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 1800.0, 3600.0, 28800.0, 86400.0, 604_800.0,
    ];
    let lengths = || pairs.iter().filter_map(|pair| pair.seconds);
    let [least, most] = match lengths().next() {
        Some(_) => [
            lengths().fold(f64::INFINITY, f64::min),
            lengths().fold(0.0, f64::max),
        ],
        None => [60.0, 3600.0],
    };
    let near = KNOWN
        .into_iter()
        .filter(|&known| known >= least / 30.0 && known <= most * 30.0);
    near.map(Time::new::<second>).collect()
}

impl ModeCost {
    fn of(mode: &Mode) -> Self {
        ModeCost {
            name: mode.name.clone(),
            kept_watts: mode.kept.get::<watt>(),
            enter_seconds: mode.enter_time().get::<second>(),
            enter_joules: mode.enter_energy().get::<joule>(),
            leave_seconds: mode.leave_time().get::<second>(),
            leave_joules: mode.leave_energy().get::<joule>(),
            fixed_joules: mode.fixed_energy().get::<joule>(),
        }
    }
}

impl SleepCost {
    fn of(length: Time, modes: &[Mode], staged: Option<&Staged>) -> Self {
        let mut costs: Vec<Cost> = modes
            .iter()
            .map(|mode| Cost {
                name: mode.name.clone(),
                joules: mode.energy(length).get::<joule>(),
                average_watts: Some(mode.average_power(length).get::<watt>()),
            })
            .collect();
        costs.extend(staged.map(|staged| Cost {
            name: "staged".into(),
            joules: staged.energy(length).get::<joule>(),
            average_watts: None,
        }));
        SleepCost {
            seconds: length.get::<second>(),
            modes: costs,
        }
    }
}

impl Pair {
    fn of(a: &Mode, b: &Mode) -> Self {
        let break_even = a.break_even(b);
        let [one, other] = [&a.name, &b.name];
        let always = |name: &str| format!("none: {name} costs less at every length");
        let verdict = match break_even {
            BreakEven::At(length) => {
                let (short, long) = if a.kept < b.kept {
                    (other, one)
                } else {
                    (one, other)
                };
                let at = duration(length.get::<second>());
                format!("{at}: shorter sleeps cost less in {short}, longer ones in {long}")
            }
            BreakEven::FirstAlways => always(one),
            BreakEven::SecondAlways => always(other),
            BreakEven::Same => "none: both cost the same".into(),
        };
        Pair {
            first: one.clone(),
            second: other.clone(),
            seconds: break_even.length().map(|length| length.get::<second>()),
            verdict,
        }
    }
}

impl StagedCost {
    fn of(staged: &Staged) -> Self {
        StagedCost {
            retain: staged.retain.name.clone(),
            persist: staged.persist.name.clone(),
            delay_seconds: staged.delay.get::<second>(),
            worst_ratio: staged.worst_ratio(),
        }
    }
}

/// A time with three digits, in a suitable unit.
#[must_use]
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 1e-3 => format!("{} µs", digits(short * 1e6)),
        short if short < 1.0 => format!("{} ms", digits(short * 1e3)),
        some if some < 120.0 => format!("{} s", digits(some)),
        long if long < 7200.0 => format!("{} min", digits(long / 60.0)),
        longer => format!("{} h", digits(longer / 3600.0)),
    }
}

/// A number with about three digits.
#[must_use]
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        none if none < 1e-12 => 0,
        tiny if tiny < 0.01 => return format!("{value:.2e}"),
        little if little < 0.1 => 4,
        small if small < 1.0 => 3,
        some if some < 10.0 => 2,
        more if more < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::builtin;
    use crate::sample;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.0175, 2.12, 25.5, 175.7, 6313.4, 1.8e-5].map(digits);
        assert_eq!(
            texts,
            ["0", "0.0175", "2.12", "25.5", "176", "6313", "1.80e-5"]
        );
        let texts = [1.07e-4, 0.02, 60.0, 600.0, 3366.0, 28800.0].map(duration);
        assert_eq!(
            texts,
            ["107 µs", "20 ms", "60 s", "10 min", "56.1 min", "8 h"]
        );
    }

    #[test]
    fn modes_without_times_are_named_until_a_measurement_gives_them() {
        let profile = builtin::profile("jumpstart-dx1100").unwrap();
        let given = Account::of("jumpstart-dx1100", &profile, &[], None);
        assert_eq!(given.without_times, ["image, G3"]);
        assert!(given.measured.is_empty() && given.staged.is_none());
        let results = sample();
        let measured = Account::of("jumpstart-dx1100", &profile, &[], Some(&results));
        let cases = results.compare.unwrap().cases.len();
        assert_eq!(measured.measured.len(), cases);
        assert!(measured.measured.iter().all(|one| !one.at_bandwidth));
        assert!(
            measured.measured[0]
                .break_even
                .as_ref()
                .unwrap()
                .seconds
                .is_some()
        );
    }

    #[test]
    fn a_mode_that_can_be_had_without_a_part_is_shown_both_ways() {
        let profile = builtin::profile("thesis-1gib").unwrap();
        let results = sample();
        let account = Account::of("thesis-1gib", &profile, &[], Some(&results));
        let [with, without] = &account.measured[..2] else {
            panic!("{account:?}")
        };
        assert_eq!(with.case, without.case);
        assert!(!with.without_avoidable && without.without_avoidable);
        let saved = with.cost.leave_seconds - without.cost.leave_seconds;
        assert!((saved - 9.06).abs() < 1e-9, "{saved}");
        assert!(
            with.break_even.as_ref().unwrap().seconds
                > without.break_even.as_ref().unwrap().seconds
        );
    }

    #[test]
    fn pairs_say_which_mode_is_for_which_length() {
        let profile = builtin::profile("thesis-8gib").unwrap();
        let account = Account::of("thesis-8gib", &profile, &[], None);
        assert_eq!(
            account.break_evens[0].verdict,
            "56.1 min: shorter sleeps cost less in S3, longer ones in PMem"
        );
        let profile = builtin::profile("jumpstart-dx1100").unwrap();
        let account = Account::of("jumpstart-dx1100", &profile, &[], None);
        let pair = account
            .break_evens
            .iter()
            .find(|pair| pair.first == "S3")
            .unwrap();
        assert_eq!((pair.second.as_str(), pair.seconds), ("S5", None));
        assert_eq!(pair.verdict, "none: S3 costs less at every length");
    }
}
