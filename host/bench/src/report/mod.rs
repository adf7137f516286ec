//! The report: an HTML page with plots of a bench's results. It needs no network and no script. It
//! adapts to the reader's screen, and to a light or dark theme.

pub mod cut;
mod domains;
mod energy;
mod executor;
mod figures;
mod levels;
pub mod tables;

use anyhow::Context;
use askama::Template;
use figures::Figure;
use tables::Grid;

use crate::results::Results;
use crate::targets::{Target, Value, Verdict};

/// The data of the page's template.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'r> {
    results: &'r Results,
    summary: Vec<Row>,
    sections: Vec<Section>,
    grids: Vec<Grid>,
    facts: Vec<(&'static str, String)>,
}

struct Section {
    title: &'static str,
    /// A note on all plots of the section; may be empty.
    text: &'static str,
    figures: Vec<Figure>,
}

/// A target's row in the table.
struct Row {
    what: String,
    limit: String,
    worst: String,
    verdict: Verdict,
    measured: bool,
    cases: Vec<String>,
}

/// The report's page.
///
/// # Errors
///
/// A plot or the page cannot be made.
pub fn html(results: &Results) -> anyhow::Result<String> {
    let energy = energy::Machines::of(results)?;
    let mut plots = figures::all(results)?;
    if let Some(domains) = &results.domains {
        plots.extend(domains::figures(domains)?);
    }
    if let Some(cuts) = &results.cut {
        plots.extend(cut::figures(cuts)?);
    }
    if let Some(executor) = &results.executor {
        plots.extend(executor::figures(executor)?);
    }
    let mut sections = vec![
        Section {
            title: "Plots",
            text: "",
            figures: plots,
        },
        Section {
            title: "Energy, modelled",
            text: energy::TEXT,
            figures: energy.figures()?,
        },
    ];
    sections.retain(|section| !section.figures.is_empty());
    let mut grids = grids(results);
    grids.extend(energy.grid());
    let page = Page {
        results,
        summary: summary(results),
        sections,
        grids,
        facts: facts(results),
    };
    page.render().context("making the page")
}

/// The tables of all measured figures.
#[must_use]
pub fn grids(results: &Results) -> Vec<Grid> {
    let mut grids = tables::all(results);
    grids.extend(results.cut.iter().flat_map(cut::tables));
    grids.extend(results.executor.iter().flat_map(executor::tables));
    grids
}

fn summary(results: &Results) -> Vec<Row> {
    let of = |target: &Target| Row {
        what: target.what.clone(),
        limit: target.limit.text(),
        worst: target.worst().map_or("not measured".into(), Value::text),
        verdict: target.verdict(),
        measured: !target.values.is_empty(),
        cases: target
            .values
            .iter()
            .map(|value| format!("{}: {}", value.case, value.text()))
            .collect(),
    };
    results.targets.iter().map(of).collect()
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let environment = &results.environment;
    let [before, after] = environment
        .load_average
        .map(|load| load.map_or("unknown".into(), |load| format!("{load:.1}")));
    let mut facts = vec![
        ("Command", environment.command.clone()),
        ("Began", environment.began.clone()),
        ("Took", format!("{:.0} s", environment.seconds)),
        ("Poorwill", version(results)),
        ("Firmware", environment.firmware.clone()),
        ("Emulator", environment.qemu.clone()),
        (
            "Host's processor",
            format!("{}, {} cores", environment.processor, environment.cores),
        ),
        ("Host's memory", format!("{} MiB", environment.memory_mib)),
        ("Host's kernel", environment.kernel.clone()),
        (
            "Load average before and after",
            format!("{before}, {after}"),
        ),
        ("File system of the disks", environment.file_system.clone()),
    ];
    if let Some(kernel) = &environment.guest_kernel {
        facts.push(("Guest's kernel", kernel.clone()));
    }
    if let Some(compare) = &results.compare {
        facts.push(("Harts of the machines compared", compare.harts.to_string()));
        facts.push(("Rounds", compare.rounds.to_string()));
        facts.push((
            "Linux hibernates with",
            compare.hibernation_settings.clone(),
        ));
        for case in &compare.cases {
            if !case.failed_hibernations.is_empty() {
                let count = case.failed_hibernations.len();
                facts.push((
                    "Linux did not resume",
                    format!("from {count} hibernations, {}", case.name()),
                ));
            }
        }
        for case in &compare.cases {
            let missing = case.not_had.iter();
            facts.extend(missing.map(|one| ("Not had", format!("{}, {one}", case.name()))));
        }
        for reason in &compare.left_out {
            facts.push(("Left out", reason.clone()));
        }
    }
    let missing = results.not_had.iter();
    facts.extend(missing.map(|one| ("Not had", one.to_string())));
    facts
}

fn version(results: &Results) -> String {
    let environment = &results.environment;
    match &environment.commit {
        Some(commit) => format!("{}, commit {commit}", environment.poorwill),
        None => environment.poorwill.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NotMeasured, sample};

    #[test]
    fn the_page_says_what_the_figures_say() {
        let results = sample();
        let page = html(&results).unwrap();
        for text in [
            "poorwill bench --save bench.json",
            "QEMU emulator version 10.0.2",
            "Cold boot / wake",
            "0.5 of 8 GiB",
            "not met",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(text), "no {text:?}");
        }
        assert!(page.matches("<svg").count() >= 5, "plots are missing");
        assert!(!page.contains("<script") && !page.contains("src=\"http"));
        assert!(
            !page.contains("NaN") && !page.contains("inf<"),
            "a figure is not a number"
        );
    }

    #[test]
    fn other_figures_make_another_page() {
        let mut results = sample();
        let one = html(&results).unwrap();
        for wake in &mut results.compare.as_mut().unwrap().cases[0].wakes {
            wake.load_ms *= 3.0;
        }
        results.conclude();
        assert_ne!(one, html(&results).unwrap());
    }

    #[test]
    fn figures_that_could_not_be_had_say_why_beside_the_others() {
        let mut results = sample();
        let not_had = |what: &str, why: &str| NotMeasured {
            what: what.into(),
            why: why.into(),
        };
        let cases = &mut results.compare.as_mut().unwrap().cases;
        let [first, second, ..] = &mut cases[..] else {
            panic!("the sample has several cases");
        };
        for (sleep, wake) in first.sleeps.iter_mut().zip(&mut first.wakes) {
            (sleep.total_ms, sleep.used_bytes, wake.total_ms) = (None, None, None);
        }
        first
            .not_had
            .push(not_had("wake, round 1", "redis was silent"));
        second.sleeps.clear();
        second.wakes.clear();
        second.qemu.clear();
        second
            .not_had
            .push(not_had("rounds from 1 on", "the guest hung"));
        results
            .not_had
            .push(not_had("seal", "the test kernel hung"));
        let names = [first.name(), second.name()];
        results.conclude();
        let page = html(&results).unwrap();
        for text in [
            format!(
                "{}, wake, round 1: not measured: redis was silent",
                names[0]
            ),
            format!(
                "{}, rounds from 1 on: not measured: the guest hung",
                names[1]
            ),
            "seal: not measured: the test kernel hung".into(),
        ] {
            assert!(page.contains(&text), "no {text:?}");
        }
        // The other figures are still shown.
        assert!(page.matches("<svg").count() >= 5, "plots are missing");
        assert!(!page.contains("NaN") && !page.contains("inf<"));
        let read: Results = serde_json::from_str(&results.to_json().unwrap()).unwrap();
        assert_eq!(read.not_had, results.not_had);
        assert_eq!(read.compare, results.compare);
    }

    #[test]
    fn text_in_results_is_no_markup() {
        let mut results = sample();
        results.environment.command = "<b>&".into();
        assert!(html(&results).unwrap().contains("&#60;b&#62;&#38;"));
    }

    #[test]
    fn a_bench_of_one_part_has_a_page_too() {
        let mut results = sample();
        results.compare = None;
        results.seal.clear();
        results.conclude();
        let page = html(&results).unwrap();
        assert!(page.contains("OpenSBI") && !page.contains("hibernates with"));
        assert!(page.contains("without Zicntr") && page.contains("0.43"));
        results.start.clear();
        results.counters.clear();
        assert!(html(&results).unwrap().contains("</html>"));
    }

    #[test]
    fn a_weak_core_is_beside_the_slides() {
        let mut results = sample();
        let plots = |results: &Results| html(results).unwrap().matches("<svg").count();
        let before = plots(&results);
        results.executor = Some(crate::executor::sample());
        results.conclude();
        assert_eq!(plots(&results), before + 5);
        let page = html(&results).unwrap();
        for text in [
            "slides, Nexus 5",
            "1 hart, devices",
            "1000 / 2000",
            "serial@10000000",
            "OMAP 4460",
            "not met",
        ] {
            assert!(page.contains(text), "no {text:?}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf<"));
    }

    #[test]
    fn each_kind_of_start_of_domains_has_a_timeline() {
        let mut results = sample();
        let plots = |results: &Results| html(results).unwrap().matches("<svg").count();
        let before = plots(&results);
        results.domains = Some(crate::domains::figures::sample());
        results.conclude();
        assert_eq!(plots(&results), before + 3);
        let page = html(&results).unwrap();
        for text in [
            "wake from powered RAM",
            "4.0 (3.0 to 5.0)",
            "4000 frames",
            "603.6",
            "tables VI and V",
        ] {
            assert!(page.contains(text), "no {text:?}");
        }
    }
}
