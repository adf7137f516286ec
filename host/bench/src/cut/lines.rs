//! Straight lines through measurements, for machines that were not measured.

use super::machine::Load;
use super::traced::Measured;
use super::work::Work;

/// A straight line with a slope that is not negative: its value at 0, and its slope.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    at_zero: f64,
    slope: f64,
}

impl Line {
    /// The line with the least squares of the distances; `None`: the points have one x at most.
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.iter().map(|_| 1.0).sum::<f64>();
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let across: f64 = (points.iter())
            .map(|point| (point.0 - x) * (point.1 - y))
            .sum();
        (along > 0.0).then(|| {
            let slope = (across / along).max(0.0);
            Line {
                at_zero: y - slope * x,
                slope,
            }
        })
    }

    fn at(&self, x: f64) -> f64 {
        self.at_zero + self.slope * x
    }
}

/// Nanoseconds, from a line.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive, and below centuries"
)]
fn whole(ns: f64) -> u64 {
    ns.max(0.0).round() as u64
}

/// The lines of Stop's time over harts and over PCI functions, if there are idle machines with two
/// numbers of each.
pub(super) fn work(measured: &[Measured]) -> Option<Work> {
    let points = |x: fn(&Measured) -> u32, wanted: fn(&Measured) -> bool| {
        let points = measured
            .iter()
            .filter(|one| one.subject.load == Load::Idle && wanted(one));
        let points = points.filter_map(|one| Some((f64::from(x(one)), stop(one)?)));
        points.collect::<Vec<_>>()
    };
    let harts = Line::through(&points(
        |one| one.subject.harts,
        |one| one.subject.functions == 0,
    ))?;
    let functions = Line::through(&points(
        |one| one.subject.functions,
        |one| one.subject.harts == 1,
    ))?;
    Some(Work {
        first_ns: whole(harts.at(1.0)),
        hart_ns: whole(harts.slope),
        function_ns: whole(functions.slope),
    })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a Stop")]
fn stop(one: &Measured) -> Option<f64> {
    one.worst().map(|cut| cut.stop_ns() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::fake::measured;
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let line = Line::through(&[(1.0, 5.0), (3.0, 9.0)]).unwrap();
        assert_eq!((line.at_zero, line.slope), (3.0, 2.0));
        assert_eq!(line.at(10.0), 23.0);
        let falling = Line::through(&[(1.0, 9.0), (3.0, 5.0)]).unwrap();
        assert_eq!((falling.slope, falling.at(9.0)), (0.0, 7.0));
        assert_eq!(Line::through(&[(1.0, 9.0), (1.0, 5.0)]), None);
        assert_eq!(Line::through(&[]), None);
    }

    #[test]
    fn idle_machines_alone_make_the_lines() {
        let all = [
            measured(1, Load::Idle, 0, 1_000_000),
            measured(8, Load::Idle, 0, 1_700_000),
            measured(8, Load::Busy, 0, 9_000_000),
            measured(1, Load::Idle, 4, 1_200_000),
        ];
        let work = work(&all).unwrap();
        assert_eq!(
            (work.first_ns, work.hart_ns, work.function_ns),
            (1_000_000, 100_000, 50_000)
        );
        assert_eq!(super::work(&all[..2]), None);
    }
}
