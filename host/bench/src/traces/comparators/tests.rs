use poorwill_trace::{HartCounts, Setting, class};

use super::*;

/// A program on one hart: its pages, its machine's MiB, its functions' ends, and the lines of each.
#[derive(Clone, Copy)]
struct Made {
    pages: u64,
    mib: u64,
    ends: u64,
    size: u64,
}

const MADE: Made = Made {
    pages: 2000,
    mib: 1024,
    ends: 500_000,
    size: 3,
};

fn header(made: Made) -> Header {
    let mut hart = HartCounts {
        instructions: 100_000_000,
        ..HartCounts::default()
    };
    hart.returns[0].count = 9_000_000;
    hart.returns[class(made.size)] = Returns {
        count: made.ends,
        lines: made.ends * made.size,
    };
    Header {
        setting: Setting {
            memory: made.mib << 20,
            ..Setting::default()
        },
        pages: made.pages,
        harts: vec![hart],
        ..Header::default()
    }
}

fn outcome(milliseconds: u64, instructions: u64) -> Outcome {
    let time = Time(milliseconds * 1_000_000_000);
    Outcome {
        time,
        settled: time,
        cycles: 0,
        harts: vec![time],
        instructions,
        counts: poorwill_oc_pmem::Counts::default(),
        requests: 0,
    }
}

fn compared(made: Made, sets: &[&str]) -> Compared {
    let mut parameters = Parameters::default();
    (sets.iter()).for_each(|set| parameters.set(set).unwrap());
    let costs = Costs::new(&parameters, 1);
    let [light, legacy] = [500, 480].map(|time| outcome(time, 100_000_000));
    costs.compare(&header(made), &light, &legacy, Some(64 << 20))
}

fn controls(made: Made) -> [f64; 3] {
    compared(made, &[]).shares.map(|share| share.control)
}

fn is_near(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.02
}

#[test]
fn each_comparator_pays_for_what_it_saves() {
    let [sys, by_second, by_end] = controls(MADE);
    assert!((compared(MADE, &[]).shares[0].execution - 0.96).abs() < 1e-9);
    let memory = controls(Made { mib: 2048, ..MADE });
    assert!(is_near(memory[0], 2.0 * sys) && memory[1..] == [by_second, by_end]);
    let pages = controls(Made {
        pages: 4000,
        ..MADE
    });
    assert!(is_near(pages[1], 2.0 * by_second) && pages[0] == sys);
    let ends = controls(Made {
        ends: 1_000_000,
        ..MADE
    });
    assert!(is_near(ends[2], 2.0 * by_end) && ends[..2] == [sys, by_second]);
    let none = controls(Made { ends: 0, ..MADE });
    assert!(
        none[2] < 0.01 * by_end,
        "an end that stored nothing saves nothing"
    );
}

/// The order comes from the programs.
#[test]
fn no_order_is_built_in() {
    let [sys, by_second, by_end] = controls(MADE);
    assert!(sys < by_end && by_second < by_end);
    let [sys, by_second, by_end] = controls(Made {
        mib: 64,
        ends: 100,
        pages: 10_000,
        ..MADE
    });
    assert!(sys < by_second && by_end < by_second);
    let [sys, by_second, by_end] = controls(Made {
        mib: 65_536,
        ends: 100,
        pages: 10,
        ..MADE
    });
    assert!(by_second < sys && by_end < sys);
}

/// S-CheckPC saves after each second of 90 at 0.4 GHz, and of 22.5 at 1.6 GHz.
#[test]
fn pages_are_saved_each_second() {
    for (clock, saves) in [("clock=0.4", 90.0), ("clock=1.6", 22.0)] {
        let compared = compared(MADE, &[clock]);
        let share = compared.shares[1];
        let hertz = if saves > 50.0 { 0.4e9 } else { 1.6e9 };
        let saved = saves * share.save_ms / 1e3 * hertz / CYCLES;
        let [all, saved] = [share.control, saved];
        assert!(
            saved < all && all < saved * (1.0 + 2.0 / saves),
            "{clock}: {saved} of {all}"
        );
    }
}

#[test]
fn a_checkpoint_waits_for_the_devices() {
    let base = compared(MADE, &[]);
    let share = base.shares[2];
    assert!(share.save_ms * 1e6 > 246.0, "{share:?}");
    // Half a million of them, in 500 ms.
    assert!(
        is_near(share.control, 500_000.0 * share.save_ms / 500.0),
        "{share:?}"
    );
    assert!((base.checkpoints - 5000.0).abs() < 1.0 && (base.lines - 3.0).abs() < 1e-6);
    let slow = compared(MADE, &["write=8.8"]).shares;
    assert!(slow[2].control > 1.3 * share.control);
}

/// Of a part of a trace, the same part of its functions' ends counts.
#[test]
fn a_part_has_its_part_of_the_ends() {
    let costs = Parameters::default();
    let costs = Costs::new(&costs, 1);
    let [light, legacy] = [50, 48].map(|time| outcome(time, 10_000_000));
    let part = costs.compare(&header(MADE), &light, &legacy, None);
    let whole = compared(MADE, &[]);
    assert!(is_near(part.shares[2].control, whole.shares[2].control));
    assert!(is_near(part.checkpoints, whole.checkpoints));
    assert!(part.image.is_none() && whole.image.unwrap().control < whole.shares[0].control);
}

#[test]
fn means_are_judged_by_the_papers() {
    let one = |trace: &str, wholes: [f64; 3]| Compared {
        trace: trace.to_owned(),
        point: 0,
        shares: wholes.map(|control| Share {
            execution: 0.0,
            control,
            save_ms: 1.0,
        }),
        image: None,
        pages: 0,
        checkpoints: 0.0,
        lines: 0.0,
    };
    let all = [
        one("sha512", [1.0, 2.0, 4.0]),
        one("aes", [2.0, 4.0, 4.6]),
        one("streamadd", [99.0, 1.0, 1.0]),
    ];
    let summaries = summaries(&all);
    assert_eq!(summaries.len(), 1, "the other points have no trace");
    let summary = &summaries[0];
    assert_eq!(summary.shares.map(|share| share.all()), [1.5, 3.0, 4.3]);
    assert_eq!(summary.ends, [(1.0, 2.0), (2.0, 4.0), (4.0, 4.6)]);
    assert!(summary.is_in_order());
    assert_eq!(
        [0, 1, 2].map(|share| summary.is_within(share)),
        [true, true, false]
    );
    let other = &super::summaries(&[one("sha512", [3.0, 2.0, 4.0])])[0];
    assert!(!other.is_in_order());
    assert!(plots(&all, &summaries).unwrap().len() == 4);
}
