//! The swept points. They were declared before the first result.

use poorwill_oc_pmem::{Machine, ParameterError, Parameters};

/// The clocks of the FPGA and of the ASIC, in GHz.
pub const CLOCKS: [&str; 2] = ["0.4", "1.6"];

/// The clocks of figure 14.
const MORE_CLOCKS: [&str; 5] = ["0.8", "1", "1.2", "1.4", "1.8"];

/// Values that are set at each of [`CLOCKS`], beside the base point's.
const CHANGES: [Change; 16] = [
    Change(&[], &ALL),
    Change(&["dram=40"], &ALL),
    Change(&["dram=80"], &ALL),
    Change(&["dram=100"], &ALL),
    Change(&["link=100"], &ALL),
    Change(&["link=200"], &ALL),
    Change(&["link=400"], &ALL),
    Change(&["window=0"], &ALL),
    Change(&["window=128", "misses=8"], &ALL),
    Change(&["write=4.4"], &PRAM),
    Change(&["write=8.8"], &PRAM),
    Change(&["parity=free"], &LIGHT),
    Change(&["parity=halves"], &LIGHT),
    Change(&["page=256"], &LIGHT),
    Change(&["page=1024"], &LIGHT),
    Change(&["page=4096"], &LIGHT),
];

/// Values to set, and the machines whose results they change.
struct Change(&'static [&'static str], &'static [Machine]);

/// LightPC-B's readings, from the fastest to the slowest.
pub const READINGS: [Machine; 3] = [Machine::Group, Machine::Dimm, Machine::Controller];

const ALL: [Machine; 5] = [
    Machine::Dram,
    Machine::LightPc,
    Machine::Group,
    Machine::Dimm,
    Machine::Controller,
];
const PRAM: [Machine; 4] = [
    Machine::LightPc,
    Machine::Group,
    Machine::Dimm,
    Machine::Controller,
];
const LIGHT: [Machine; 1] = [Machine::LightPc];
const TWO: [Machine; 2] = [Machine::Dram, Machine::LightPc];

/// A point of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The clock in GHz.
    pub clock: &'static str,
    /// What else differs from the base point.
    pub changes: &'static [&'static str],
    /// The machines that run here. A machine that does not has the results of `base`.
    pub machines: &'static [Machine],
    /// The point with the same clock and no changes.
    pub base: usize,
}

impl Point {
    /// Sets its values.
    ///
    /// # Errors
    ///
    /// [`ParameterError`].
    pub fn set(&self, parameters: &mut Parameters) -> Result<(), ParameterError> {
        parameters.set(&format!("clock={}", self.clock))?;
        self.changes
            .iter()
            .try_for_each(|change| parameters.set(change))
    }

    /// Its values as text.
    #[must_use]
    pub fn name(&self) -> String {
        match self.changes {
            [] => format!("clock={}", self.clock),
            changes => format!("clock={} {}", self.clock, changes.join(" ")),
        }
    }
}

/// All points.
#[must_use]
pub fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for clock in CLOCKS {
        let base = points.len();
        points.extend(CHANGES.iter().map(|Change(changes, machines)| Point {
            clock,
            changes,
            machines,
            base,
        }));
    }
    for clock in MORE_CLOCKS {
        points.push(Point {
            clock,
            changes: &[],
            machines: &TWO,
            base: points.len(),
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_takes_each_point() {
        let points = points();
        assert_eq!(Parameters::default(), {
            let mut parameters = Parameters::default();
            points[0].set(&mut parameters).unwrap();
            parameters
        });
        for (at, point) in points.iter().enumerate() {
            point.set(&mut Parameters::default()).unwrap();
            let base = &points[point.base];
            assert_eq!(base.clock, point.clock);
            assert!(base.changes.is_empty() && base.machines[0] == Machine::Dram);
            let others = points.iter().filter(|other| other.name() == point.name());
            assert_eq!(others.count(), 1, "{at}: {}", point.name());
        }
    }

    /// A change that a machine does not run changes none of its parameters.
    #[test]
    fn dram_knows_no_write_time_parity_or_page() {
        for Change(changes, machines) in CHANGES {
            let is_memory = |name| ["write", "parity", "page"].contains(&name);
            let names = changes.iter().filter_map(|change| change.split('=').next());
            let all = names.clone().all(is_memory) && !changes.is_empty();
            assert_eq!(all, !machines.contains(&Machine::Dram), "{changes:?}");
        }
    }
}
