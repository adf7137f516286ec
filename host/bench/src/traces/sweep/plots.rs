//! The paper's figures 14 to 18 as plots.

use poorwill_oc_pmem::{Machine, Parameters, Time};

use super::figures::energy;
use super::points::READINGS;
use super::{CLOCKS, Sweep};
use crate::plot::{self, Bar, Curve};

/// The programs of figure 14, which are the paper's memory-intensive ones with one thread each.
const FIGURE_14: [&str; 2] = ["redis", "sqlite3"];

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The name of its file.
    pub file: String,
    /// The plot.
    pub svg: String,
}

/// Bars with the same axis.
struct Bars<'a> {
    file: String,
    axis: &'a str,
    bars: Vec<Bar>,
}

/// A bar to a value, with a line over all values.
fn bar(name: &str, value: Option<f64>, all: &[f64]) -> Option<Bar> {
    let value = value?;
    Some(Bar {
        name: name.to_owned(),
        parts: vec![value],
        ends: (
            all.iter().copied().fold(value, f64::min),
            all.iter().copied().fold(value, f64::max),
        ),
    })
}

impl Sweep {
    /// LightPC over DRAM at a clock's base point, with the range over its other points.
    fn light(&self, clock: &str, stream: bool, figure: fn(f64) -> f64) -> Vec<Bar> {
        let light = [Machine::LightPc, Machine::Dram];
        let at_clock: Vec<usize> = (self.points.iter().enumerate())
            .filter(|(_, point)| point.clock == clock)
            .map(|(at, _)| at)
            .collect();
        let bars = self.kind(stream).filter_map(|trace| {
            let value = |at: &usize| self.time(trace, *at, light).map(figure);
            let all: Vec<f64> = at_clock.iter().filter_map(value).collect();
            bar(&self.traces[trace], at_clock.first().and_then(value), &all)
        });
        bars.collect()
    }

    /// LightPC-B over LightPC at a clock's base point: the reading of a DIMM's queue, with the range
    /// over all readings.
    fn readings(&self, clock: &str, latency: bool) -> Vec<Bar> {
        let Some(base) = self.points.iter().position(|point| point.clock == clock) else {
            return Vec::new();
        };
        let bars = self.kind(false).filter_map(|trace| {
            let value = |reading| match latency {
                true => self.latency(trace, base, [reading, Machine::LightPc]),
                false => self.time(trace, base, [reading, Machine::LightPc]),
            };
            let all: Vec<f64> = READINGS.into_iter().filter_map(value).collect();
            bar(&self.traces[trace], value(Machine::Dimm), &all)
        });
        bars.collect()
    }

    /// Of all harts' time, the part in which they wait for memory.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of picoseconds")]
    fn waiting(&self, trace: usize, point: usize, machine: Machine) -> Option<f64> {
        let mut parameters = Parameters::default();
        self.points[point].set(&mut parameters).ok()?;
        let outcome = self.outcome(trace, point, machine)?;
        let Time(all) = (outcome.harts.iter()).fold(Time::ZERO, |sum, end| sum + *end);
        let Time(work) = parameters.cycle() * outcome.instructions;
        Some(1.0 - work as f64 / all.max(1) as f64)
    }

    fn figure_14(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for name in FIGURE_14 {
            let Some(trace) = self.traces.iter().position(|trace| trace == name) else {
                continue;
            };
            for machine in [Machine::Dram, Machine::LightPc] {
                let bases = self.points.iter().enumerate();
                let bases = bases.filter(|(_, point)| point.changes.is_empty());
                let mut points: Vec<(f64, f64)> = bases
                    .filter_map(|(at, point)| {
                        let clock = point.clock.parse().ok()?;
                        Some((clock, 100.0 * self.waiting(trace, at, machine)?))
                    })
                    .collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                curves.push(Curve {
                    name: format!("{name}, {}", machine.name()),
                    colour: curves.len(),
                    marks: points.clone(),
                    points,
                });
            }
        }
        curves
    }
}

/// All plots.
///
/// # Errors
///
/// A plot cannot be drawn.
pub fn plots(sweep: &Sweep) -> anyhow::Result<Vec<Plot>> {
    let mut all = Vec::new();
    for clock in CLOCKS {
        let file = |number: &str| format!("figure-{number}-{clock}-GHz.svg");
        all.extend([
            Bars {
                file: file("15"),
                axis: "LightPC's cycles / DRAM's",
                bars: sweep.light(clock, false, |ratio| ratio),
            },
            Bars {
                file: file("15-b"),
                axis: "LightPC-B's cycles / LightPC's",
                bars: sweep.readings(clock, false),
            },
            Bars {
                file: file("16"),
                axis: "LightPC-B's read latency / LightPC's",
                bars: sweep.readings(clock, true),
            },
            Bars {
                file: file("17"),
                axis: "LightPC's rate / DRAM's",
                bars: sweep.light(clock, true, |ratio| 1.0 / ratio),
            },
            Bars {
                file: file("18"),
                axis: "LightPC's energy / DRAM's",
                bars: sweep.light(clock, false, energy),
            },
        ]);
    }
    let drawn = all.into_iter().map(|one| {
        Ok(Plot {
            svg: plot::bars(&one.bars, one.axis)?,
            file: one.file,
        })
    });
    let mut plots = drawn.collect::<anyhow::Result<Vec<_>>>()?;
    let curves = sweep.figure_14();
    if !curves.is_empty() {
        plots.push(Plot {
            file: "figure-14.svg".to_owned(),
            svg: plot::curves_with_legend(&curves, "GHz", "% of time waiting for memory")?,
        });
    }
    Ok(plots)
}
