//! The plots and tables of Stop and Go, after LightPC's figures 8b, 20, 21 and 22.

use poorwill_machine::size::Bytes;

use super::figures::{Figure, legend};
use super::levels::{Named, curves_and_levels};
use super::tables::Grid;
use crate::cut::{
    Bound, Cuts, Load, MOST_FUNCTIONS, Measured, PARTS, Question, SUPPLIES, Subject, Supply, Work,
    bounds, ms, parts, plan, written_back,
};
use crate::plot::{self, Bar};

/// Cores of the points of figure 22; cache sizes of its curves, of each core or of all.
const CORES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const OF_EACH: u64 = 16 << 10;
const IN_ALL: [u64; 2] = [8 << 20, 40 << 20];

/// LightPC's own figures: cycles of Stop and Go in millions, and instructions a cycle (VI-C); Stop in
/// milliseconds (VI-B).
const PAPER_CYCLES: [(&str, f64, f64); 2] = [("Stop", 19.0, 0.66), ("Go", 12.8, 0.64)];
const PAPER_STOP: f64 = 12.8;

/// Bytes of caches: of each core, or of all together.
#[derive(Clone, Copy)]
enum Size {
    Each(u64),
    All(u64),
}

impl Size {
    fn of(self, cores: u64) -> u64 {
        match self {
            Size::Each(bytes) => bytes * cores,
            Size::All(bytes) => bytes,
        }
    }

    fn name(self) -> String {
        match self {
            Size::Each(bytes) => format!("{} each", Bytes(bytes)),
            Size::All(bytes) => Bytes(bytes).to_string(),
        }
    }
}

/// Draws LightPC's figure 22: Stop over cores and caches, beside the supplies' hold-ups. Functions and
/// policy are the question's, and so is one more curve. `step` is called at each point.
///
/// # Errors
///
/// The question has no plan, or the plot cannot be drawn.
pub fn scaling(question: &Question, work: &Work, step: &dyn Fn()) -> anyhow::Result<String> {
    let mut sizes = vec![Size::Each(OF_EACH)];
    sizes.extend(IN_ALL.map(Size::All));
    if !IN_ALL.contains(&question.cache) {
        sizes.push(Size::All(question.cache));
    }
    let curves = sizes.iter().map(|size| {
        let points = CORES.map(|cores| {
            let cache = size.of(cores);
            let planned = Question {
                cores,
                cache,
                shared: question.shared.min(cache),
                ..question.clone()
            };
            let planned = plan(&planned, work)?;
            step();
            Ok((f64::from(u32::try_from(cores)?), ms(planned.total_ns())))
        });
        Ok(Named {
            name: size.name(),
            is: points.into_iter().collect::<anyhow::Result<_>>()?,
        })
    });
    let curves = curves.collect::<anyhow::Result<Vec<_>>>()?;
    let mut levels: Vec<_> = SUPPLIES.map(|(name, us, _)| (name, us)).into();
    let supply = &question.supply;
    if levels.iter().all(|(name, _)| *name != supply.name) {
        levels.push((&supply.name, supply.hold_up_us));
    }
    let levels = levels.into_iter().map(|(name, us)| {
        let is = f64::from(us) / 1000.0;
        Named {
            name: format!("{name}: {is} ms"),
            is,
        }
    });
    curves_and_levels(&curves, &levels.collect::<Vec<_>>(), ["cores", "Stop, ms"])
}

/// Points that [`scaling`] computes at most.
pub const STEPS: u64 = (IN_ALL.len() as u64 + 2) * CORES.len() as u64;

/// A bar of one part, in the colour of that part.
fn alone(name: &str, part: usize, value: f64) -> Bar {
    let mut parts = vec![0.0; part + 1];
    parts[part] = value;
    Bar {
        name: name.to_owned(),
        parts,
        ends: (value, value),
    }
}

/// All plots.
pub(super) fn figures(cuts: &Cuts) -> anyhow::Result<Vec<Figure>> {
    let mut all = vec![stops(cuts)?];
    all.extend(flush(cuts)?);
    all.extend(cycles(cuts)?);
    if let Some(work) = cuts.work() {
        let question = Question {
            cores: 64,
            cache: IN_ALL[1],
            shared: 0,
            is_lru: true,
            functions: MOST_FUNCTIONS,
            supply: Supply::default(),
        };
        all.push(Figure {
            title: "Stop on larger machines (LightPC, figure 22)".into(),
            text: format!(
                "All lines of all caches are dirty, and {MOST_FUNCTIONS} PCI functions are in use. \
                 Straight lines through the measured machines give the rest."
            ),
            svg: scaling(&question, &work, &|| ())?,
            legend: Vec::new(),
        });
    }
    Ok(all)
}

fn stops(cuts: &Cuts) -> anyhow::Result<Figure> {
    let bars = cuts.machines.iter().filter_map(|machine| {
        let stops = machine.cuts.iter().map(|cut| ms(cut.stop_ns()));
        let least = stops.clone().fold(f64::INFINITY, f64::min);
        Some(Bar {
            name: machine.subject.to_string().replace("functions", "fn"),
            parts: parts(machine.worst()?).into(),
            ends: (least, stops.fold(0.0, f64::max)),
        })
    });
    Ok(Figure {
        title: "Stop (LightPC, figure 8b)".into(),
        text: "On LightPC's memory at 0.4 GHz, by the number of harts and of PCI functions (fn) in use. \
               The paper has 8.6 ms for 8 idle harts, and 10.5 ms for busy ones."
            .into(),
        svg: plot::bars(&bars.collect::<Vec<_>>(), "ms")?,
        legend: legend(&PARTS),
    })
}

/// Figure 20, without the machines that save images.
fn flush(cuts: &Cuts) -> anyhow::Result<Option<Figure>> {
    let busy = cuts.find(Subject::new(8, Load::Busy));
    let Some(worst) = busy.and_then(Measured::worst) else {
        return Ok(None);
    };
    let stop = ms(worst.stop_ns());
    let dirty = ms(written_back(8, OF_EACH)?);
    let mut bars = vec![
        alone("Stop", 0, stop),
        Bar {
            parts: vec![stop, dirty],
            ..alone("all dirty", 0, stop + dirty)
        },
        alone("LightPC", 2, PAPER_STOP),
    ];
    bars.extend(SUPPLIES.map(|(name, us, _)| alone(name, 3, f64::from(us) / 1000.0)));
    Ok(Some(Figure {
        title: "Stop beside the hold-ups (LightPC, figure 20)".into(),
        text: "8 busy harts. The caches are counted once more with all of their lines dirty."
            .into(),
        svg: plot::bars(&bars, "ms")?,
        legend: legend(&["Stop", "all lines dirty", "LightPC's Stop", "hold-up"]),
    }))
}

/// Figure 21: cycles, and instructions a cycle.
fn cycles(cuts: &Cuts) -> anyhow::Result<Option<Figure>> {
    let idle = cuts.find(Subject::new(8, Load::Idle));
    let Some(worst) = idle.and_then(Measured::worst) else {
        return Ok(None);
    };
    let (mut bars, mut text) = (Vec::new(), String::new());
    for ((name, paper, per_cycle), phase) in PAPER_CYCLES.iter().zip([worst.stop, worst.go]) {
        let cycles = f64::from(u32::try_from(phase.cycles)?) / 1e6;
        bars.push(alone(name, 0, cycles));
        bars.push(alone(&format!("LightPC's {name}"), 2, *paper));
        let ours = phase.per_cycle();
        text += &format!("{name}: {ours:.2} instructions a cycle, LightPC {per_cycle}. ");
    }
    Ok(Some(Figure {
        title: "Cycles of Stop and Go (LightPC, figure 21)".into(),
        text: text + "8 idle harts, without device accesses.",
        svg: plot::bars(&bars, "million cycles")?,
        legend: Vec::new(),
    }))
}

/// The tables: machines, and bounds.
pub(super) fn tables(cuts: &Cuts) -> [Grid; 2] {
    let heads = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let row = |machine: &Measured| {
        let worst = machine.worst()?;
        let is_repeated = machine.cuts.iter().all(|cut| cut == &machine.cuts[0]);
        Some(vec![
            machine.subject.to_string(),
            format!(
                "{}{}",
                machine.cuts.len(),
                if is_repeated { ", equal" } else { "" }
            ),
            worst.stop.instructions.to_string(),
            format!("{:.2}", worst.stop.per_cycle()),
            worst.stop.writes.to_string(),
            worst.accesses.to_string(),
            format!("{:.3}", ms(worst.stop_ns())),
            worst.go.instructions.to_string(),
            format!("{:.2}", worst.go.per_cycle()),
            format!("{:.2}", ms(worst.go.settled_ns)),
        ])
    };
    let machines = Grid {
        title: "Stop and Go on LightPC's memory, modelled",
        heads: heads(&[
            "machine",
            "cuts",
            "Stop, instructions",
            "a cycle",
            "lines written",
            "device accesses",
            "Stop, ms",
            "Go, instructions",
            "a cycle",
            "Go, ms",
        ]),
        rows: cuts.machines.iter().filter_map(row).collect(),
    };
    let row = |bound: &Bound| {
        let number = |value: f64| format!("{value:.2} {}", bound.unit);
        vec![
            bound.what.to_owned(),
            bound.value.map_or("–".into(), number),
            number(bound.most),
            bound.verdict().to_owned(),
        ]
    };
    let bounds = Grid {
        title: "LightPC's figures as bounds",
        heads: heads(&["figure", "ours", "at most", "verdict"]),
        rows: bounds(cuts).iter().map(row).collect(),
    };
    [machines, bounds]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::fake::measured;

    fn cuts() -> Cuts {
        Cuts {
            machines: vec![
                measured(1, Load::Idle, 0, 900_000),
                measured(8, Load::Idle, 0, 1_200_000),
                measured(8, Load::Busy, 0, 11_000_000),
                measured(1, Load::Idle, 16, 4_000_000),
            ],
            ..Cuts::default()
        }
    }

    #[test]
    fn each_figure_is_drawn_from_its_machines() {
        let titles = |cuts: &Cuts| {
            let figures = figures(cuts).unwrap();
            assert!(figures.iter().all(|figure| figure.svg.contains("</svg>")));
            figures
                .iter()
                .map(|figure| figure.title.clone())
                .collect::<Vec<_>>()
        };
        let all = titles(&cuts()).join("; ");
        for figure in ["8b", "20", "21", "22"] {
            assert!(all.contains(&format!("figure {figure})")), "{all}");
        }
        assert_eq!(titles(&Cuts::default()).len(), 1);
    }

    #[test]
    fn a_missed_bound_is_marked() {
        let [machines, bounds] = tables(&cuts());
        assert!(machines.text().contains("busy-8"), "{}", machines.text());
        let text = bounds.text();
        let row = |start: &str| text.lines().find(|line| line.contains(start)).unwrap();
        assert!(row("8 busy harts").contains("MISSED"), "{text}");
        assert!(row("8b: Stop, 8 idle").contains("met"), "{text}");
    }
}
