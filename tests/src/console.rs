//! Checks which lines a console must have, and which it must not have.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use poorwill_machine::console::Fields;
use regex_lite::Regex;

/// Start of the firmware's line after it has saved the machine.
pub(crate) const SLEPT: &str = "poorwill: sleep mode=persist ";
/// Start of the firmware's line after it has saved the machine as a snapshot.
pub(crate) const KEPT: &str = "poorwill: sleep mode=snapshot ";
/// Start of the firmware's line after it has loaded the machine.
pub(crate) const WOKE: &str = "poorwill: wake loaded_bytes=";
/// Parts of the firmware's line after it has loaded a domain.
pub(crate) const DOMAIN_WOKE: [&str; 2] = ["poorwill: wake domain=", " mode=persist "];
/// Start of the reason why a domain boots cold beside others that wake.
const OF_DOMAIN: &str = "domain ";
/// Start of the firmware's line before it starts the next stage without an image.
pub(crate) const COLD_BOOT: &str = "poorwill: cold boot: ";

/// Start of the firmware's line about a start that it refuses.
pub(crate) const CANNOT_START: &str = "poorwill: cannot start";

/// Console lines after which the trial cannot succeed.
pub(crate) const FATAL: [&str; 4] = [
    "poorwill: warning: ",
    "poorwill: panic",
    CANNOT_START,
    "poorwill: fault",
];

/// Further lines after which no machine with domains can succeed.
pub(crate) const FATAL_IN_DOMAINS: [&str; 3] = ["FAIL", "Oops", "Kernel panic"];

/// How the firmware must start the OS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// By a wake.
    Wake,
    /// By a cold boot, for a reason that matches this pattern.
    Cold(String),
    /// By a wake of some domains. Each other one boots cold, for a reason that matches this pattern.
    WakeBeside(String),
}

impl Start {
    /// Checks that the lines of a power-on show this kind of start, and not the other.
    pub(crate) fn check(&self, lines: &[&str]) -> anyhow::Result<()> {
        let has_woken =
            |line: &str| line.contains(WOKE) || DOMAIN_WOKE.iter().all(|part| line.contains(part));
        let woke = lines.iter().any(|line| has_woken(line));
        let reasons: Vec<_> = lines
            .iter()
            .filter_map(|line| Some(line.split_once(COLD_BOOT)?.1))
            .collect();
        match self {
            Self::Wake => {
                if let Some(reason) = reasons.first() {
                    bail!("the machine booted cold instead of waking: {reason}");
                }
                ensure!(woke, "the machine did not wake: no line {WOKE:?}");
                check_turns(lines)?;
            }
            Self::Cold(wanted) => {
                ensure!(
                    !woke,
                    "the machine woke, but should have booted cold: {wanted}"
                );
                check_reasons(&reasons, wanted)?;
            }
            Self::WakeBeside(wanted) => {
                ensure!(woke, "no domain woke");
                check_turns(lines)?;
                check_reasons(&reasons, wanted)?;
                let all = reasons.iter().find(|reason| !reason.starts_with(OF_DOMAIN));
                ensure!(all.is_none(), "all domains booted cold: {all:?}");
            }
        }
        Ok(())
    }
}

/// Checks that each domain of a set went on before the next one was loaded.
fn check_turns(lines: &[&str]) -> anyhow::Result<()> {
    let [start, mode] = DOMAIN_WOKE;
    let woken = lines.iter().filter(|line| line.contains(mode));
    let mut before = 0;
    for fields in woken.filter_map(|line| Fields::parse(line, start)) {
        let number = |key| {
            fields
                .number(key)
                .with_context(|| format!("no {key}: {fields:?}"))
        };
        let (after_us, load_us) = (number("us")?, 1000 * number("load_ms")?);
        ensure!(
            before + load_us <= after_us,
            "a domain went on {after_us} us after the start, loaded in {load_us} us: the one \
             before it, after {before} us, has waited for that"
        );
        before = after_us;
    }
    Ok(())
}

/// Checks that there are reasons of cold boots, and that each matches a pattern.
fn check_reasons(reasons: &[&str], wanted: &str) -> anyhow::Result<()> {
    let wanted = pattern(wanted)?;
    ensure!(!reasons.is_empty(), "no line {COLD_BOOT:?}");
    for reason in reasons {
        ensure!(
            wanted.is_match(reason),
            "cold boot: {reason:?}, wanted {wanted:?}"
        );
    }
    Ok(())
}

/// Checks that the firmware has armed the power-fail line if it `committed` a cut, and else has said that
/// the power does not last for it.
pub(crate) fn check_armed(lines: &[&str], committed: bool) -> anyhow::Result<()> {
    let has = |text: &str| lines.iter().any(|line| line.starts_with(text));
    let is_armed = has("poorwill: cut: armed ");
    let is_refused = has("poorwill: cut: not armed: stop takes ");
    ensure!(
        is_armed == committed && is_refused != committed,
        "armed: {is_armed}; said that the power is too short: {is_refused}; committed: {committed}"
    );
    Ok(())
}

/// The rest of the test kernel's numbered lines (`case=dbcn lines=N`).
const OF_NUMBERED: &str = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Checks that the test kernel's numbered lines are there, each whole, once and in order, with nothing
/// between them.
pub(crate) fn check_numbered(lines: &[&str], count: usize) -> anyhow::Result<()> {
    let wanted = |number: usize| format!("{number:09} {OF_NUMBERED}");
    let first = lines.iter().position(|line| *line == wanted(1));
    let first = first.context("the first numbered line is missing")?;
    for number in 1..=count {
        let found = lines.get(first + number - 1).copied().unwrap_or_default();
        let wanted = wanted(number);
        ensure!(
            found == wanted,
            "line {number} is {found:?}, not {wanted:?}"
        );
    }
    let next = lines.get(first + count).copied().unwrap_or_default();
    ensure!(
        !next.contains(OF_NUMBERED),
        "a numbered line too many: {next:?}"
    );
    Ok(())
}

/// Checks that there are lines for all of `wanted`, in this order.
pub(crate) fn check_order(lines: &[&str], wanted: &[String]) -> anyhow::Result<()> {
    let mut rest = lines.iter();
    for text in wanted {
        let pattern = pattern(text)?;
        ensure!(
            rest.any(|line| pattern.is_match(line)),
            "no line matches {text:?} at its place in the plan's order"
        );
    }
    Ok(())
}

/// Checks that no line matches one of `forbidden`.
pub(crate) fn check_absent(lines: &[&str], forbidden: &[String]) -> anyhow::Result<()> {
    for text in forbidden {
        let pattern = pattern(text)?;
        if let Some(line) = lines.iter().find(|line| pattern.is_match(line)) {
            bail!("a forbidden line: {line:?}");
        }
    }
    Ok(())
}

/// Checks that the firmware refused the domains for exactly these reasons at each of its `starts`,
/// and started none.
pub(crate) fn check_refused(
    lines: &[&str],
    reasons: &[String],
    starts: usize,
) -> anyhow::Result<()> {
    let after = |start| {
        lines
            .iter()
            .filter_map(move |line| line.strip_prefix(start))
    };
    let refusals =
        after(CANNOT_START).filter(|rest| rest.starts_with(": the partition is refused: "));
    let refusals = refusals.count();
    ensure!(refusals == starts, "{refusals} refusals, not {starts}");
    let found: Vec<_> = after("poorwill: partition: ").collect();
    let wanted = reasons.iter().cycle().take(starts * reasons.len());
    ensure!(
        found.len() == starts * reasons.len()
            && found
                .iter()
                .zip(wanted)
                .all(|(line, text)| line.starts_with(text)),
        "the reasons are {found:#?}, not {starts} times {reasons:#?}"
    );
    check_absent(lines, &["starts on hart".to_owned(), "watching".to_owned()])
}

/// The lines that match one of `texts`.
pub(crate) fn matching<'a>(lines: &[&'a str], texts: &[String]) -> anyhow::Result<Vec<&'a str>> {
    let patterns = texts.iter().map(|text| pattern(text));
    let patterns: Vec<_> = patterns.collect::<anyhow::Result<_>>()?;
    let is_wanted = |line: &&&str| patterns.iter().any(|pattern| pattern.is_match(line));
    Ok(lines.iter().filter(is_wanted).copied().collect())
}

/// The last number of each pattern, from the lines that matched it.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Checks that a line matches each of `patterns`. The number in the pattern's brackets must be
    /// at least the one before.
    pub(crate) fn check(&mut self, lines: &[&str], patterns: &[String]) -> anyhow::Result<()> {
        for text in patterns {
            let pattern = pattern(text)?;
            let named = lines.iter().filter_map(|line| pattern.captures(line));
            let mut named = named.filter_map(|found| found.get(1)).peekable();
            ensure!(named.peek().is_some(), "no line {text:?}");
            for number in named {
                let number = (number.as_str().parse())
                    .with_context(|| format!("{text:?}: the text in brackets is not a number"))?;
                let before = self.0.insert(text.clone(), number).unwrap_or(0);
                ensure!(
                    number >= before,
                    "{number} behind {before} in lines {text:?}"
                );
            }
        }
        Ok(())
    }
}

/// Checks that a sleep left out the OS's free pages. The saved bytes must be at most `most` times
/// the bytes that its kernel called used.
pub(crate) fn check_saved(lines: &[&str], most: f64) -> anyhow::Result<()> {
    let slept = lines
        .iter()
        .position(|line| line.contains(SLEPT))
        .context("no sleep")?;
    let used = lines[..slept]
        .iter()
        .rev()
        .find_map(|line| number(line, "used_kib"))
        .context("the guest does not print its used memory")?
        * 1024;
    let field =
        |key| number(lines[slept], key).with_context(|| format!("no {key} in {:?}", lines[slept]));
    let (saved, free) = (field("used_bytes")?, field("free_bytes")?);
    ensure!(free > 0, "no free page was left out");
    // A float represents these numbers of bytes exactly.
    let ratio = saved as f64 / used as f64;
    ensure!(
        ratio <= most,
        "{saved} bytes were saved, {ratio:.3} times the {used} in use; at most {most} times"
    );
    println!("saved {ratio:.3} times what is in use");
    Ok(())
}

/// The number after `key=` in a line.
fn number(line: &str, key: &str) -> Option<u64> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}

pub(crate) fn pattern(text: &str) -> anyhow::Result<Regex> {
    Regex::new(text).with_context(|| format!("the pattern {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_and_a_cold_boot_are_told_apart() {
        let woke = ["poorwill: wake loaded_bytes=1 ms=2"];
        let cold = ["x", "poorwill: cold boot: no image"];
        let no_image = Start::Cold("^no image$".to_owned());
        Start::Wake.check(&woke).unwrap();
        no_image.check(&cold).unwrap();
        for bad in [&cold[..], &[], &[woke[0], cold[1]]] {
            Start::Wake.check(bad).unwrap_err();
        }
        let other = ["poorwill: cold boot: the image is damaged"];
        for bad in [&woke[..], &[], &[woke[0], cold[1]], &other] {
            no_image.check(bad).unwrap_err();
        }
    }

    #[test]
    fn domains_wake_beside_others_that_boot_cold() {
        let woke = "poorwill: wake domain=a mode=persist loaded_bytes=1 load_ms=1 us=2000";
        let retained = "poorwill: wake domain=a mode=retain source=timer";
        let cold = "poorwill: cold boot: domain b: the image is damaged";
        let all = "poorwill: cold boot: the image is damaged";
        let beside = Start::WakeBeside("damaged$".to_owned());
        beside.check(&[woke, cold]).unwrap();
        for bad in [&[woke][..], &[retained, cold], &[woke, all], &[all], &[]] {
            beside.check(bad).unwrap_err();
        }
        Start::Wake.check(&[woke]).unwrap();
        Start::Wake.check(&[woke, cold]).unwrap_err();
    }

    #[test]
    fn a_domain_goes_on_before_the_next_one_is_loaded() {
        let woke = |load_ms, us| {
            format!("poorwill: wake domain=a mode=persist loaded_bytes=1 load_ms={load_ms} us={us}")
        };
        let first = woke(14, 56_222);
        let check = |next: &str| Start::Wake.check(&[&first, next]);
        check(&woke(77, 137_564)).unwrap();
        check(&woke(77, 133_221)).unwrap_err();
        // The first one waited.
        check(&woke(14, 56_200)).unwrap_err();
        check(&woke(0, 0).replace(" us=0", "")).unwrap_err();
    }

    #[test]
    fn what_is_saved_is_held_against_what_is_used() {
        let slept = |used: u64, free: u64| {
            format!(
                "poorwill: sleep mode=persist used_bytes={used} saved_bytes=9 ms=1 free_bytes={free}"
            )
        };
        let check = |last: &str| check_saved(&["cycle 1: used_kib=10", last], 1.1);
        check(&slept(10_240, 4096)).unwrap();
        check(&slept(11_264, 4096)).unwrap();
        check(&slept(11_265, 4096)).unwrap_err();
        check(&slept(10_240, 0)).unwrap_err();
        check("poorwill: sleep mode=persist used_bytes=1 ms=1").unwrap_err();
        check("cycle 1: refused").unwrap_err();
        check_saved(&[&slept(1, 1), "cycle 1: used_kib=10"], 1.1).unwrap_err();
    }

    #[test]
    fn order_counts() {
        let wanted = ["^a".to_owned(), "b$".to_owned()];
        check_order(&["ax", "c", "xb"], &wanted).unwrap();
        check_order(&["xb", "ax"], &wanted).unwrap_err();
        // A line counts for one pattern only.
        check_order(&["ab"], &wanted).unwrap_err();
        check_absent(&["c"], &wanted).unwrap();
        check_absent(&["ab"], &wanted).unwrap_err();
    }

    #[test]
    fn an_armed_line_commits() {
        let armed = "poorwill: cut: armed hold_up_us=9 stop_us=8";
        let refused = "poorwill: cut: not armed: stop takes 8 us, the power lasts 7 us";
        check_armed(&[armed], true).unwrap();
        check_armed(&[refused], false).unwrap();
        for (lines, committed) in [
            (&[armed][..], false),
            (&[refused], true),
            (&[], true),
            (&[], false),
            (&[armed, refused], true),
        ] {
            check_armed(lines, committed).unwrap_err();
        }
    }

    #[test]
    fn a_numbered_line_comes_once_whole_and_in_order() {
        let own = [1, 2, 3].map(|number| format!("{number:09} {OF_NUMBERED}"));
        let [one, two, three] = [0, 1, 2].map(|at: usize| &*own[at]);
        check_numbered(&["x", one, two, three, "y"], 3).unwrap();
        for bad in [
            &[one, two][..],
            &[one, two, two, three],
            &[one, three, two],
            &[one, &two[..60], three],
            &[one, two, three, three],
            &["x"],
        ] {
            check_numbered(bad, 3).unwrap_err();
        }
    }

    #[test]
    fn a_refusal_has_its_reasons_alone() {
        let reasons = ["a", "b"].map(str::to_owned);
        let own = ["a x", "b"].map(|reason| format!("poorwill: partition: {reason}"));
        let refused = "poorwill: cannot start: the partition is refused: 2 reasons";
        let good = [&*own[0], &own[1], refused];
        check_refused(&good, &reasons, 1).unwrap();
        check_refused(&[good, good].concat(), &reasons, 2).unwrap();
        let late = "poorwill: domain side0: starts on hart 0";
        for bad in [
            &[good, good].concat()[..],
            &[good[0], refused],
            &[good[1], good[0], refused],
            &[good[0], good[1], good[1], refused],
            &[good[0], good[1], refused, late],
        ] {
            check_refused(bad, &reasons, 1).unwrap_err();
        }
    }

    #[test]
    fn what_was_acknowledged_stays() {
        let wanted = ["^n=([0-9]+) (told|found)$".to_owned()];
        let mut counts = Counts::default();
        counts
            .check(&["n=1 told", "x", "n=12 told"], &wanted)
            .unwrap();
        counts.check(&["n=12 found"], &wanted).unwrap();
        counts.check(&["n=13 found", "n=1"], &wanted).unwrap();
        counts.check(&["n=1"], &wanted).unwrap_err();
        counts.check(&["n=12 found"], &wanted).unwrap_err();
        counts
            .check(&["n=x told"], &["^n=(.*) told".to_owned()])
            .unwrap_err();
    }
}
