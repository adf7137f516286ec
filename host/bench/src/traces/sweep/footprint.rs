//! Figure 2b: random reads and writes of section II's DIMM, by footprint.

use poorwill_oc_pmem::{Kind, Machine, ParameterError, Parameters, latency};

use super::Plot;
use crate::plot::{self, Curve};

/// The paper's reads of the DIMM over bare PRAM's. Then bare PRAM's writes over the DIMM's, the least
/// and the most.
pub const PAPER: (f64, [f64; 2]) = (2.9, [2.3, 6.1]);

/// Footprints as powers of two of bytes: from a block of the DIMM to all of the traced memory's eighth.
const FOOTPRINTS: std::ops::RangeInclusive<u32> = 8..=28;

/// Nanoseconds of accesses at a footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// Bytes.
    pub bytes: u64,
    /// Reads and writes of the DIMM.
    pub dimm: [f64; 2],
    /// The same of DRAM.
    pub dram: [f64; 2],
    /// A read and a write of bare PRAM.
    pub bare: [f64; 2],
}

impl Footprint {
    /// The DIMM's reads over bare PRAM's.
    #[must_use]
    pub fn reads(&self) -> f64 {
        self.dimm[0] / self.bare[0]
    }

    /// Bare PRAM's writes over the DIMM's.
    #[must_use]
    pub fn writes(&self) -> f64 {
        self.bare[1] / self.dimm[1]
    }
}

/// All footprints, at the base point on one DIMM.
///
/// # Errors
///
/// The model has no such parameter.
pub fn footprints() -> Result<Vec<Footprint>, ParameterError> {
    let mut parameters = Parameters::default();
    parameters.set("dimms=1")?;
    let all = FOOTPRINTS.map(|power| {
        let lines = (1_u64 << power) / 64;
        let of = |machine| {
            let time = |kind| latency(machine, &parameters, kind, lines);
            Ok::<_, ParameterError>([time(Kind::Load)?, time(Kind::WriteBack)?].map(nanoseconds))
        };
        Ok(Footprint {
            bytes: 1 << power,
            dimm: of(Machine::PmemDimm)?,
            dram: of(Machine::Dram)?,
            bare: [parameters.read() + parameters.link(), parameters.write()].map(nanoseconds),
        })
    });
    all.collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "less than a second in picoseconds"
)]
fn nanoseconds(time: poorwill_oc_pmem::Time) -> f64 {
    time.0 as f64 / 1000.0
}

/// Whether the paper's figures lie within the sweep: reads, writes.
#[must_use]
pub fn are_within(all: &[Footprint]) -> [bool; 2] {
    let has = |of: fn(&Footprint) -> f64, value: f64| {
        all.iter().any(|one| of(one) <= value) && all.iter().any(|one| of(one) >= value)
    };
    let writes = PAPER.1.iter().all(|value| has(Footprint::writes, *value));
    [has(Footprint::reads, PAPER.0), writes]
}

/// The latencies over the footprint.
///
/// # Errors
///
/// The plot cannot be drawn.
pub fn plot(all: &[Footprint]) -> anyhow::Result<Plot> {
    type Value = fn(&Footprint) -> f64;
    let kinds: [(&str, Value); 4] = [
        ("DIMM, read", |one| one.dimm[0]),
        ("DIMM, write", |one| one.dimm[1]),
        ("DRAM, read", |one| one.dram[0]),
        ("DRAM, write", |one| one.dram[1]),
    ];
    let curves = kinds
        .into_iter()
        .enumerate()
        .map(|(colour, (name, value))| {
            let points: Vec<_> = all
                .iter()
                .map(|one| (f64::from(one.bytes.ilog2()), value(one)))
                .collect();
            Curve {
                name: name.to_owned(),
                colour,
                marks: points.clone(),
                points,
            }
        });
    let curves: Vec<_> = curves.collect();
    Ok(Plot {
        file: "figure-2b.svg".to_owned(),
        svg: plot::curves_with_legend(&curves, "footprint, log2 of bytes", "ns of an access")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each buffer shows as a step, and the paper's figures are judged by the sweep.
    #[test]
    fn buffers_show_in_the_sweep() {
        let all = footprints().unwrap();
        let at = |power: u32| all[(power - FOOTPRINTS.start()) as usize];
        let reads = [13, 22, 28].map(|power| at(power).dimm[0]);
        assert!(
            reads[0] * 1.5 < reads[1] && reads[1] * 1.05 < reads[2],
            "{reads:?}"
        );
        let writes = [11, 22, 28].map(|power| at(power).dimm[1]);
        assert!(
            writes[0] * 2.0 < writes[1] && writes[1] * 1.5 < writes[2],
            "{writes:?}"
        );
        assert_eq!(are_within(&all), [true, true], "{all:#?}");
        assert_eq!(are_within(&all[..2]), [false, false]);
        assert!(plot(&all).unwrap().svg.contains("DIMM, write"));
    }
}
