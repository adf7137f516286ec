//! The paper's figures, at a point of the sweep.

use poorwill_oc_pmem::{Machine, Outcome};

use super::points::READINGS;
use super::{Point, Sweep};
use crate::traces::Program;

/// Watts of LegacyPC, and of LightPC and LightPC-B (figure 18).
const WATTS: [f64; 2] = [18.9, 5.3];

/// Mean, least and greatest value over programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// The arithmetic mean.
    pub mean: f64,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl Means {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut count = 0_u32;
        let mut all = Means {
            mean: 0.0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        };
        for value in values {
            count += 1;
            all.mean += value;
            all.least = all.least.min(value);
            all.most = all.most.max(value);
        }
        all.mean /= f64::from(count);
        (count > 0).then_some(all)
    }
}

/// The paper's figures at a point. `None`: no trace is of that kind, or no machine ran there.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The point.
    pub point: Point,
    /// Figure 15: LightPC's time over DRAM's.
    pub light: Option<Means>,
    /// Figure 15: the time of LightPC-B's readings over LightPC's.
    pub readings: [Option<Means>; 3],
    /// Figure 16: the mean read latency of LightPC-B's readings over LightPC's.
    pub latencies: [Option<Means>; 3],
    /// Figure 17: LightPC's rate over DRAM's, of STREAM's kernels.
    pub stream: Option<Means>,
    /// Figure 18: LightPC's energy over DRAM's.
    pub energy: Option<Means>,
}

/// Whether a trace is of a kernel of STREAM.
pub(super) fn is_stream(trace: &str) -> bool {
    Program::of_trace(trace).is_some_and(|(program, _)| program.row.is_none())
}

/// LightPC's energy over DRAM's, by the paper's watts.
pub(super) fn energy(over_dram: f64) -> f64 {
    over_dram * WATTS[1] / WATTS[0]
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of picoseconds")]
fn over(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

impl Sweep {
    /// A machine's time over another's.
    #[must_use]
    pub fn time(&self, trace: usize, point: usize, of: [Machine; 2]) -> Option<f64> {
        self.ratio(trace, point, of, |outcome| outcome.time.0)
    }

    /// A machine's mean read latency over another's.
    #[must_use]
    pub fn latency(&self, trace: usize, point: usize, of: [Machine; 2]) -> Option<f64> {
        self.ratio(trace, point, of, |outcome| outcome.read_time().0)
    }

    fn ratio(
        &self,
        trace: usize,
        point: usize,
        of: [Machine; 2],
        value: impl Fn(&Outcome) -> u64,
    ) -> Option<f64> {
        let [one, other] = of.map(|machine| self.outcome(trace, point, machine).map(&value));
        Some(over(one?, other?))
    }

    /// The numbers of the traces that are, or are not, of STREAM.
    pub(super) fn kind(&self, stream: bool) -> impl Iterator<Item = usize> {
        let all = self.traces.iter().enumerate();
        let own = all.filter(move |(_, name)| is_stream(name) == stream);
        own.map(|(at, _)| at)
    }
}

/// The figures at all points.
#[must_use]
pub fn summary(sweep: &Sweep) -> Vec<Figures> {
    let of_point = |(at, point): (usize, &Point)| {
        let light = [Machine::LightPc, Machine::Dram];
        let times = || (sweep.kind(false)).filter_map(|trace| sweep.time(trace, at, light));
        let stream = sweep
            .kind(true)
            .filter_map(|trace| sweep.time(trace, at, light));
        let beside = |reading| [reading, Machine::LightPc];
        Figures {
            light: Means::of(times()),
            readings: READINGS.map(|reading| {
                let programs = sweep.kind(false);
                Means::of(programs.filter_map(|trace| sweep.time(trace, at, beside(reading))))
            }),
            latencies: READINGS.map(|reading| {
                let programs = sweep.kind(false);
                Means::of(programs.filter_map(|trace| sweep.latency(trace, at, beside(reading))))
            }),
            stream: Means::of(stream.map(|time| 1.0 / time)),
            energy: Means::of(times().map(energy)),
            point: point.clone(),
        }
    };
    sweep.points.iter().enumerate().map(of_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_their_ends() {
        let means = Means::of([1.0, 2.0, 6.0].into_iter()).unwrap();
        assert_eq!((means.mean, means.least, means.most), (3.0, 1.0, 6.0));
        assert_eq!(Means::of([].into_iter()), None);
    }

    #[test]
    fn energy_is_watts_times_time() {
        assert!((energy(1.12) - 0.314).abs() < 0.001, "the paper's 69 %");
    }

    #[test]
    fn streams_are_told_from_programs() {
        assert!(is_stream("streamadd") && is_stream("streamadd-1"));
        assert!(!is_stream("cg") && !is_stream("a-file.trace"));
    }
}
