//! Computed curves beside levels that they should stay below, with all names in the plot.

use anyhow::anyhow;
use plotters::prelude::*;

use crate::plot::{COLOURS, number};

/// Width and height in pixels. A viewer scales them.
const SIZE: (u32, u32) = (720, 480);
/// Font size in pixels.
const TYPE: u32 = 16;
/// The part of the x axis right of the curves, for their names.
const NAMES: f64 = 0.35;

/// A curve, or a level at one height.
#[derive(Clone, Debug)]
pub(super) struct Named<T> {
    /// Its name in the plot.
    pub(super) name: String,
    /// Its points in the order of x, or its height.
    pub(super) is: T,
}

/// Draws curves and levels as SVG. The y axis is logarithmic, so all values are positive.
///
/// # Errors
///
/// The plot cannot be drawn.
pub(super) fn curves_and_levels(
    curves: &[Named<Vec<(f64, f64)>>],
    levels: &[Named<f64>],
    [x, y]: [&str; 2],
) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, curves, levels, [x, y]).map_err(|error| anyhow!("drawing curves: {error}"))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    curves: &[Named<Vec<(f64, f64)>>],
    levels: &[Named<f64>],
    [x, y]: [&str; 2],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.is);
    let right = points().map(|point| point.0).fold(1e-3, f64::max);
    let heights = || (points().map(|point| point.1)).chain(levels.iter().map(|level| level.is));
    let top = heights().fold(1e-2, f64::max) * 1.5;
    let bottom = heights().fold(top, f64::min).max(1e-3) / 1.5;
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..right * (1.0 + NAMES), (bottom..top).log_scale())?;
    (chart.configure_mesh())
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .label_style(("sans-serif", TYPE))
        .draw()?;
    let name = |name: &str, at: (f64, f64)| {
        Text::new(name.to_owned(), at, ("sans-serif", TYPE).into_font())
    };
    for level in levels {
        let line = [(0.0, level.is), (right, level.is)];
        chart.draw_series([PathElement::new(line, BLACK.mix(0.6).stroke_width(2))])?;
        chart.draw_series([name(&level.name, (right * 1.01, level.is))])?;
    }
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line = PathElement::new(curve.is.clone(), colour.stroke_width(3));
        chart.draw_series([line])?;
        let dots = curve.is.iter();
        chart.draw_series(dots.map(|&at| Circle::new(at, 4, colour.filled())))?;
        if let Some(&(at, height)) = curve.is.last() {
            chart.draw_series([name(&curve.name, (at * 1.01, height))])?;
        }
    }
    area.present()?;
    drop(chart);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_and_each_level_has_its_name() {
        let curve = |name: &str, height| Named {
            name: name.to_owned(),
            is: vec![(1.0, 1.0), (64.0, height)],
        };
        let level = Named {
            name: "16 ms".to_owned(),
            is: 16.0,
        };
        let curves = [curve("16 KiB", 3.0), curve("40 MiB", 30.0)];
        let svg = curves_and_levels(&curves, &[level], ["cores", "Stop, ms"]).unwrap();
        assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
        for text in ["16 KiB", "40 MiB", "16 ms", "cores", "Stop, ms"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(
            curves_and_levels(&[], &[], ["", ""])
                .unwrap()
                .contains("</svg>")
        );
    }
}
