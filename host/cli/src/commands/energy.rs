//! `poorwill energy`: computes which sleep mode saves energy.

mod day;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use poorwill_bench::energy::account::{Account, MeasuredCost, SleepCost, digits, duration};
use poorwill_bench::energy::builtin::{self, BUILT_IN};
use poorwill_bench::energy::profile::{Profile, ProfileError};
use poorwill_bench::energy::thesis::{Reading, Remade, remade};
use poorwill_bench::results::Results;
use poorwill_bench::table::table;
use serde_json::{Value, json};
use uom::si::f64::Time;
use uom::si::time::second;

/// Compute the energy of sleeps, and the lengths from which a mode saves energy.
///
/// Energy is modelled: a profile has the power of each phase of a sleep, with its source. The time
/// of each phase comes from the profile, or from a measurement of `poorwill bench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill energy --list
  poorwill energy thesis-8gib
  poorwill energy thesis-8gib --measured build/bench.json
  poorwill energy --profile mine.toml --lengths 10min,8h --json
  poorwill energy --remade         a thesis's numbers, recomputed
  poorwill energy --day day.toml --measured executor.json --plot day.svg
  poorwill energy --day day.toml --ratio 2.2

Exit status: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Energy {
    /// A built-in profile
    #[arg(
        value_name = "PROFILE",
        default_value = "thesis-8gib",
        conflicts_with = "file"
    )]
    profile: String,
    /// Your own profile (TOML)
    #[arg(long = "profile", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Results of `poorwill bench --save` on the profile's machine; of `bench executor` for a day
    #[arg(long, value_name = "JSON")]
    measured: Option<PathBuf>,
    /// Lengths of sleeps, such as 90s,10min,8h [default: around the break-evens]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',')]
    lengths: Vec<humantime::Duration>,
    /// List the built-in profiles
    #[arg(long, conflicts_with_all = ["file", "measured", "lengths", "remade"])]
    list: bool,
    /// Recompute the numbers of the thesis on suspend-to-PMem, and compare them with the printed
    /// ones
    #[arg(long, conflicts_with_all = ["file", "measured", "lengths"])]
    remade: bool,
    /// Compute the energy of a day of wakes, with the strong cores and with a weak one. FILE is TOML,
    /// as host/bench/src/energy/smartwatch.toml. The ratio comes from --measured or --ratio
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "file", "lengths", "list", "remade"])]
    day: Option<PathBuf>,
    /// day: instructions of the weak core for each one of the OS, in place of the measured ones
    #[arg(long, value_name = "X", requires = "day", conflicts_with = "measured", value_parser = day::ratio)]
    ratio: Option<f64>,
    /// day: write the energy over the ratio to FILE, as SVG
    #[arg(long, value_name = "FILE", requires = "day")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Printed above each table.
const MODELLED: &str = "Energy is modelled: the profile's power of each phase, with its source below, multiplied by the \
     phase's time. No power was measured.";

impl Energy {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(file) = &self.day {
            let asked = day::Asked {
                measured: self.measured.as_deref(),
                ratio: self.ratio,
                plot: self.plot.as_deref(),
                json: self.json,
            };
            day::show(file, &asked)?;
        } else if self.list {
            self.show_list()?;
        } else if self.remade {
            self.show_remade()?;
        } else {
            self.show_account()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn show_list(&self) -> anyhow::Result<()> {
        let profiles: Vec<(&str, Profile)> = BUILT_IN
            .iter()
            .map(|(name, _)| Ok((*name, builtin::profile(name)?)))
            .collect::<Result<_, ProfileError>>()?;
        if self.json {
            let of = |(name, profile): &(&str, Profile)| json!({"name": name, "title": profile.title, "publication": profile.publication});
            let list: Vec<Value> = profiles.iter().map(of).collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        } else {
            let mut table = table(["profile", "machine"], 2);
            for (name, profile) in profiles {
                table.add_row([name.to_owned(), profile.title]);
            }
            println!("{table}");
        }
        Ok(())
    }

    fn show_remade(&self) -> anyhow::Result<()> {
        let rows = remade()?;
        if self.json {
            let list: Vec<Value> = rows.iter().map(remade_json).collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        } else {
            print!("{}", remade_text(&rows));
        }
        Ok(())
    }

    fn show_account(&self) -> anyhow::Result<()> {
        let (name, profile) = match &self.file {
            Some(file) => (file.display().to_string(), Profile::read(file)?),
            None => (self.profile.clone(), builtin::profile(&self.profile)?),
        };
        let results = self.measured.as_deref().map(Results::read).transpose()?;
        let lengths: Vec<Time> = self
            .lengths
            .iter()
            .map(|length| Time::new::<second>(length.as_secs_f64()))
            .collect();
        let account = Account::of(&name, &profile, &lengths, results.as_ref());
        if self.json {
            println!("{}", serde_json::to_string_pretty(&account)?);
        } else {
            print_account(&account, results.is_some());
        }
        Ok(())
    }
}

fn print_account(account: &Account, asked_for_measured: bool) {
    println!("{}: {}", account.profile, account.title);
    println!("{}\n{MODELLED}\n", account.about);
    print_modes(account);
    println!("\nEnergy of a sleep in J, and its average power, by its length:");
    print_sleeps(&account.sleeps);
    println!("\nBreak-even:");
    for pair in &account.break_evens {
        println!("  {} and {}: {}", pair.first, pair.second, pair.verdict);
    }
    if let Some(staged) = &account.staged {
        println!(
            "\nStaged: {} for {}, then {}: at most {} times the energy of the better of the two, \
             whatever the length.",
            staged.retain,
            duration(staged.delay_seconds),
            staged.persist,
            digits(staged.worst_ratio)
        );
    }
    if asked_for_measured {
        print_measured(&account.measured);
    }
    println!("\nSources: {}", account.publication);
    for figure in &account.figures {
        println!("  {} = {}: {}", figure.place, figure.value, figure.source);
    }
}

fn print_modes(account: &Account) {
    let heads = [
        "mode",
        "W while it lasts",
        "s to enter",
        "J",
        "s to leave",
        "J",
        "J each sleep",
    ];
    let mut table = table(heads, 1);
    for mode in &account.modes {
        let numbers = [
            mode.kept_watts,
            mode.enter_seconds,
            mode.enter_joules,
            mode.leave_seconds,
            mode.leave_joules,
            mode.fixed_joules,
        ];
        let cells = numbers.map(digits);
        table.add_row([mode.name.clone()].into_iter().chain(cells));
    }
    println!("{table}");
    for name in &account.without_times {
        println!("Not shown, since the profile lacks some of its times: {name} (see --measured)");
    }
}

fn print_sleeps(sleeps: &[SleepCost]) {
    let Some(first) = sleeps.first() else { return };
    let names = first.modes.iter().map(|cost| cost.name.as_str());
    let heads: Vec<&str> = ["length"].into_iter().chain(names).collect();
    let mut table = table(heads, 1);
    for sleep in sleeps {
        let cells = sleep.modes.iter().map(|cost| match cost.average_watts {
            Some(watts) => format!("{} ({} W)", digits(cost.joules), digits(watts)),
            None => digits(cost.joules),
        });
        table.add_row([duration(sleep.seconds)].into_iter().chain(cells));
    }
    println!("{table}");
}

fn print_measured(measured: &[MeasuredCost]) {
    let Some(first) = measured.first() else {
        println!("\nMeasured: no sleep matches a mode of this profile.");
        return;
    };
    let times = if first.at_bandwidth {
        "bytes as measured in an emulated machine, moved at the bandwidths of the profile's device; \
         all other times are the profile's"
    } else {
        "times as measured in an emulated machine, which are not those of a real one, where the \
         profile has none"
    };
    println!("\nMeasured, in place of {}: {times}.", first.mode);
    let heads = [
        "GiB in use",
        "image, MB",
        "s to enter",
        "wake, s",
        "J each sleep",
        "break-even",
    ];
    let mut table = table(heads, 1);
    for one in measured {
        let name = if one.without_avoidable {
            format!("{}, without avoidable parts", one.case)
        } else {
            one.case.clone()
        };
        let break_even = one.break_even.as_ref().map_or("-".into(), |pair| {
            pair.seconds.map_or(pair.verdict.clone(), duration)
        });
        table.add_row([
            name,
            format!("{:.0}", one.saved_bytes / 1e6),
            digits(one.cost.enter_seconds),
            digits(one.cost.leave_seconds),
            digits(one.cost.fixed_joules),
            break_even,
        ]);
    }
    println!("{table}");
    if let Some(pair) = &first.break_even {
        println!("The break-even is the one with {}.", pair.first);
    }
}

/// The table of `--remade`.
#[must_use]
pub(crate) fn remade_text(rows: &[Remade]) -> String {
    let mut text = String::from(
        "A thesis's numbers (those of the profiles thesis-*), computed from its own phase figures.\n\
         Deviation: of the result from the printed number; beyond rounding: the part of it that \
         the rounding\nof the printed inputs does not explain. Rows marked * are computed as the \
         text describes them;\nthe printed number was computed in another way.\n\n",
    );
    let heads = [
        "number",
        "printed",
        "computed",
        "from",
        "to",
        "deviation",
        "beyond rounding",
    ];
    let mut table = table(heads, 1);
    for row in rows {
        let mark = match row.reading {
            Reading::Printed => "",
            Reading::Literal => " *",
        };
        let numbers = [row.computed.value, row.computed.least, row.computed.most];
        let [value, least, most] = numbers.map(|value| format!("{value:.2}"));
        table.add_row([
            format!("{}{mark}", row.what),
            row.printed.text.clone(),
            value,
            least,
            most,
            format!("{:+.2} %", row.computed.deviation(&row.printed) * 100.0),
            format!(
                "{:.2} %",
                row.computed.beyond_rounding(&row.printed) * 100.0
            ),
        ]);
    }
    text.push_str(&table.to_string());
    text.push('\n');
    text
}

fn remade_json(row: &Remade) -> Value {
    json!({
        "what": row.what,
        "place": row.place,
        "formula": row.formula,
        "as_the_text_says": row.reading == Reading::Literal,
        "printed": row.printed.value,
        "reckoned": row.computed.value,
        "least": row.computed.least,
        "most": row.computed.most,
        "deviation": row.computed.deviation(&row.printed),
        "beyond_rounding": row.computed.beyond_rounding(&row.printed),
    })
}
