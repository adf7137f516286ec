//! Figures 19 and 20 as plots.

use super::{Compared, NAMES, POINTS, Share, Summary};
use crate::plot::{self, Bar};

pub use crate::traces::sweep::Plot;

/// Milliseconds for which the paper's two power supplies last at full load (figure 8a).
const HOLD_UPS: [(&str, f64); 2] = [("ATX", 22.0), ("server", 55.0)];

fn bar(name: &str, share: Share, ends: (f64, f64)) -> Bar {
    Bar {
        name: name.to_owned(),
        parts: vec![share.execution, share.control],
        ends,
    }
}

fn whole(name: &str, value: f64) -> Bar {
    Bar {
        name: name.to_owned(),
        parts: vec![value],
        ends: (value, value),
    }
}

/// A plot of each comparator's time over LightPC's, and of the time of a save, at each clock.
///
/// # Errors
///
/// A plot cannot be drawn.
pub fn plots(all: &[Compared], summaries: &[Summary]) -> anyhow::Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for summary in summaries {
        let point = &POINTS[summary.point];
        let ([clock], 1) = (point.sets, point.copying) else {
            continue;
        };
        let clock = clock.trim_start_matches("clock=");
        for (share, name) in NAMES.into_iter().enumerate() {
            let own = all.iter().filter(|one| one.point == summary.point);
            let mut bars: Vec<Bar> = own
                .map(|one| {
                    let own = one.shares[share];
                    bar(&one.trace, own, (own.all(), own.all()))
                })
                .collect();
            bars.push(bar("mean", summary.shares[share], summary.ends[share]));
            let letter = ["a", "c", "b"][share];
            plots.push(Plot {
                file: format!("figure-19{letter}-{clock}-GHz.svg"),
                svg: plot::bars(&bars, &format!("{name}'s cycles / LightPC's, modelled"))?,
            });
        }
        let mut bars: Vec<_> = HOLD_UPS.map(|(name, ms)| whole(name, ms)).into();
        let saves = NAMES.into_iter().zip(summary.shares).take(2);
        bars.extend(saves.map(|(name, share)| whole(name, share.save_ms)));
        bars.extend(summary.image.map(|image| whole("image", image.save_ms)));
        plots.push(Plot {
            file: format!("figure-20-{clock}-GHz.svg"),
            svg: plot::bars(&bars, "ms of a save, modelled")?,
        });
    }
    Ok(plots)
}
