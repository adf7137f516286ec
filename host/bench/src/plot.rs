//! Draws plots as SVG. The colours are distinct on light and on dark backgrounds. Black stands for
//! the text's colour, which the page's style sheet sets.

use std::ops::Range;

use anyhow::anyhow;
use plotters::coord::ranged1d::SegmentValue;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::spread::Spread;

/// Width of a plot in pixels. The page scales it.
const WIDTH: u32 = 560;
/// Font size in pixels, readable when a telephone shows the plot at half its size.
const TYPE: u32 = 20;
/// Height in pixels of a bar with the gap below it.
const BAR: u32 = 36;

/// Colours of a bar's parts and of series, in this order.
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(0x3f, 0x7f, 0xd0),
    RGBColor(0xe0, 0x8a, 0x1e),
    RGBColor(0x2f, 0xa0, 0x6a),
    RGBColor(0xc8, 0x55, 0x9b),
    RGBColor(0x8a, 0x7a, 0xd8),
    RGBColor(0xc9, 0x4f, 0x4f),
];

/// A colour in the syntax of style sheets.
pub(crate) fn css(index: usize) -> String {
    let RGBColor(red, green, blue) = COLOURS[index % COLOURS.len()];
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A bar that is divided into parts.
#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    /// The parts, from the axis outwards: at most six, in the order of [`COLOURS`].
    pub parts: Vec<f64>,
    /// The least and the greatest value of the whole.
    pub ends: (f64, f64),
}

/// Measured points that a line connects.
pub(crate) struct Series {
    pub(crate) name: String,
    /// Index into [`COLOURS`].
    pub(crate) colour: usize,
    /// Positions on the x axis, and values.
    pub(crate) points: Vec<(f64, Spread)>,
}

/// A computed line, without measured points.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Index into [`COLOURS`].
    pub(crate) colour: usize,
    /// Points of the line, in order.
    pub(crate) points: Vec<(f64, f64)>,
    /// Points that are marked by a ring.
    pub(crate) marks: Vec<(f64, f64)>,
}

/// The axes of a plot with lines.
pub(crate) struct Axes<'a> {
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    /// Whether the y axis is logarithmic.
    pub(crate) logarithmic: bool,
    /// Whether thin lines mark y = x and y = 1.1 x.
    pub(crate) identity: bool,
}

/// Bars one below the other, as SVG.
///
/// # Errors
///
/// The plot cannot be drawn.
pub fn bars(bars: &[Bar], axis: &str) -> anyhow::Result<String> {
    let mut svg = String::new();
    let count = u32::try_from(bars.len())?;
    let most = bars.iter().map(|bar| bar.ends.1).fold(0.0, f64::max);
    draw_bars(&mut svg, bars, count, most.max(1e-3) * 1.05, axis)
        .map_err(|error| anyhow!("drawing bars: {error}"))?;
    Ok(svg)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_bars(svg: &mut String, bars: &[Bar], count: u32, most: f64, axis: &str) -> Drawn {
    let area = SVGBackend::with_string(svg, (WIDTH, count * BAR + 76)).into_drawing_area();
    // The first bar is the topmost.
    let place = |index: u32| count - 1 - index;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(4)
        .margin_left(10)
        .margin_right(18)
        .x_label_area_size(68)
        .y_label_area_size(112)
        .build_cartesian_2d(0.0..most, (0..count).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .axis_style(BLACK.mix(0.5))
        .x_desc(axis)
        .x_labels(6)
        .y_labels(bars.len() + 1)
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| match y {
            SegmentValue::CenterOf(y) if *y < count => bars[place(*y) as usize].name.clone(),
            _ => String::new(),
        })
        .label_style(("sans-serif", TYPE))
        .draw()?;
    for (index, bar) in (0..).zip(bars) {
        let y = place(index);
        let mut from = 0.0;
        for (part, &length) in bar.parts.iter().enumerate() {
            let to = from + length;
            let corners = [
                (from, SegmentValue::Exact(y)),
                (to, SegmentValue::Exact(y + 1)),
            ];
            let mut piece = Rectangle::new(corners, COLOURS[part % COLOURS.len()].filled());
            piece.set_margin(5, 5, 0, 0);
            chart.draw_series([piece])?;
            from = to;
        }
        let ends = [bar.ends.0, bar.ends.1].map(|x| (x, SegmentValue::CenterOf(y)));
        chart.draw_series([PathElement::new(ends, BLACK.stroke_width(2))])?;
    }
    area.present()?;
    drop(chart);
    Ok(())
}

/// Lines through the medians. Each point also shows the least and the greatest value.
pub(crate) fn lines(series: &[Series], axes: &Axes<'_>) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw_lines(&mut svg, series, axes).map_err(|error| anyhow!("drawing lines: {error}"))?;
    Ok(svg)
}

fn draw_lines(svg: &mut String, series: &[Series], axes: &Axes<'_>) -> Drawn {
    let points = || series.iter().flat_map(|series| &series.points);
    let right = points().map(|point| point.0).fold(0.0, f64::max) * 1.06;
    let top = points().map(|point| point.1.most).fold(0.0, f64::max);
    // Without points, the axis still needs two different ends.
    let bottom = points().map(|point| point.1.least).fold(top, f64::min);
    let area = SVGBackend::with_string(svg, (WIDTH, 400)).into_drawing_area();
    let mut builder = ChartBuilder::on(&area);
    builder
        .margin_top(12)
        .margin_left(10)
        .margin_right(18)
        .x_label_area_size(68)
        .y_label_area_size(92);
    let across = 0.0..right.max(1e-3);
    if axes.logarithmic {
        let up = (bottom.max(1e-3) / 1.5..top.max(1e-2) * 1.5).log_scale();
        draw_series(builder.build_cartesian_2d(across, up)?, series, axes, right)?;
    } else {
        let up = 0.0..top.max(1e-3) * 1.08;
        draw_series(builder.build_cartesian_2d(across, up)?, series, axes, right)?;
    }
    area.present()?;
    Ok(())
}

type Chart<'c, Y> = ChartContext<'c, SVGBackend<'c>, Cartesian2d<RangedCoordf64, Y>>;

fn draw_series<Y>(mut chart: Chart<'_, Y>, series: &[Series], axes: &Axes<'_>, right: f64) -> Drawn
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    draw_mesh(&mut chart, axes.x, axes.y)?;
    if axes.identity {
        for slope in [1.0, 1.1] {
            let line = [(0.0, 0.0), (right, right * slope)];
            chart.draw_series([PathElement::new(line, BLACK.mix(0.4).stroke_width(1))])?;
        }
    }
    for one in series {
        let colour = COLOURS[one.colour % COLOURS.len()];
        let medians: Vec<_> = one.points.iter().map(|(x, y)| (*x, y.median)).collect();
        chart.draw_series([PathElement::new(medians.clone(), colour.stroke_width(3))])?;
        chart.draw_series(
            medians
                .iter()
                .map(|&at| Circle::new(at, 5, colour.filled())),
        )?;
        chart.draw_series(one.points.iter().map(|(x, y)| {
            PathElement::new([(*x, y.least), (*x, y.most)], colour.stroke_width(2))
        }))?;
    }
    Ok(())
}

/// Draws the axes with their labels, and a grid.
fn draw_mesh<Y>(chart: &mut Chart<'_, Y>, x: &str, y: &str) -> Drawn
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .axis_style(BLACK.mix(0.5))
        .x_desc(x)
        .y_desc(y)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .label_style(("sans-serif", TYPE))
        .draw()?;
    Ok(())
}

/// Computed curves that start at the origin, with their marks.
pub(crate) fn curves(curves: &[Curve], x: &str, y: &str) -> anyhow::Result<String> {
    drawn(curves, [x, y], false)
}

/// The same, with a legend in the plot, for a plot that no page explains.
pub(crate) fn curves_with_legend(curves: &[Curve], x: &str, y: &str) -> anyhow::Result<String> {
    drawn(curves, [x, y], true)
}

fn drawn(curves: &[Curve], axes: [&str; 2], has_legend: bool) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw_curves(&mut svg, curves, axes, has_legend)
        .map_err(|error| anyhow!("drawing curves: {error}"))?;
    Ok(svg)
}

/// Names and colours of series, for a legend.
pub(crate) fn legend_of<'l>(
    lines: impl IntoIterator<Item = (&'l str, usize)>,
) -> Vec<(String, String)> {
    let entry = |(name, colour): (&str, usize)| (name.to_owned(), css(colour));
    lines.into_iter().map(entry).collect()
}

impl Series {
    /// The legend's name and colour.
    pub(crate) fn entry(&self) -> (&str, usize) {
        (&self.name, self.colour)
    }
}

impl Curve {
    /// The legend's name and colour.
    pub(crate) fn entry(&self) -> (&str, usize) {
        (&self.name, self.colour)
    }
}

fn draw_curves(svg: &mut String, curves: &[Curve], [x, y]: [&str; 2], has_legend: bool) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let right = points().map(|point| point.0).fold(1e-3, f64::max);
    let most = points().map(|point| point.1).fold(1e-3, f64::max);
    // A legend is above the curves.
    let lines = if has_legend { curves.len() } else { 0 };
    let top = most * (1.08 + 0.1 * lines as f64);
    let area = SVGBackend::with_string(svg, (WIDTH, 400)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin_top(12)
        .margin_left(10)
        .margin_right(24)
        .x_label_area_size(68)
        .y_label_area_size(92)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    draw_mesh(&mut chart, x, y)?;
    for (line, curve) in curves.iter().enumerate().take(lines) {
        let colour = COLOURS[curve.colour % COLOURS.len()];
        let style = ("sans-serif", TYPE).into_font().color(&colour);
        let at = (right * 0.03, top - most * (0.02 + 0.1 * line as f64));
        chart.draw_series([Text::new(curve.name.clone(), at, style)])?;
    }
    for curve in curves {
        let colour = COLOURS[curve.colour % COLOURS.len()];
        let line = PathElement::new(curve.points.clone(), colour.stroke_width(3));
        chart.draw_series([line])?;
        let rings = curve.marks.iter();
        chart.draw_series(rings.map(|&at| Circle::new(at, 5, colour.stroke_width(3))))?;
    }
    area.present()?;
    drop(chart);
    Ok(())
}

/// A number as an axis shows it.
pub(crate) fn number(value: f64) -> String {
    let digits: Range<f64> = 0.0..0.1;
    match value {
        zero if zero.abs() < 1e-9 => "0".into(),
        small if digits.contains(&small.abs()) => format!("{small:.2}"),
        other if other.abs() < 10.0 => {
            let text = format!("{other:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread {
            median,
            least: median * 0.9,
            most: median * 1.2,
        }
    }

    #[test]
    fn every_part_of_every_bar_is_drawn() {
        let rows = ["0.5 of 4", "1 of 4"].map(|name| Bar {
            name: name.into(),
            parts: vec![0.1, 0.2, 0.3],
            ends: (0.5, 0.7),
        });
        let svg = bars(&rows, "seconds").unwrap();
        for index in 0..3 {
            let colour = css(index).to_uppercase();
            assert_eq!(
                svg.matches(&format!("fill=\"{colour}\"")).count(),
                2,
                "{svg}"
            );
        }
        assert!(svg.contains("0.5 of 4") && svg.contains("1 of 4") && svg.contains("seconds"));
    }

    #[test]
    fn lines_are_drawn_on_both_kinds_of_axes() {
        for logarithmic in [false, true] {
            let axes = Axes {
                x: "GiB",
                y: "seconds",
                logarithmic,
                identity: !logarithmic,
            };
            let series = [Series {
                name: String::new(),
                colour: 1,
                points: vec![(0.5, spread(1.0)), (4.0, spread(20.0))],
            }];
            let svg = lines(&series, &axes).unwrap();
            assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        }
        let none = Axes {
            x: "",
            y: "",
            logarithmic: true,
            identity: false,
        };
        assert!(lines(&[], &none).unwrap().contains("</svg>"));
        assert!(bars(&[], "").unwrap().contains("</svg>"));
    }

    #[test]
    fn curves_have_their_marks() {
        let curve = |colour, marks| Curve {
            name: "a".into(),
            colour,
            points: vec![(0.0, 1.0), (10.0, 2.0)],
            marks,
        };
        let both = [curve(0, vec![(5.0, 1.5)]), curve(2, Vec::new())];
        let svg = curves(&both, "seconds", "kJ").unwrap();
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        for colour in [css(0), css(2)].map(|colour| colour.to_uppercase()) {
            assert!(svg.contains(&format!("stroke=\"{colour}\"")), "{svg}");
        }
        assert!(!svg.contains(">\na\n"), "{svg}");
        let svg = curves_with_legend(&both, "seconds", "kJ").unwrap();
        assert_eq!(svg.matches(">\na\n").count(), 2, "{svg}");
        assert!(curves(&[], "", "").unwrap().contains("</svg>"));
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.05, 0.25, 2.5, 4.0, 30.0].map(number);
        assert_eq!(texts, ["0", "0.05", "0.25", "2.5", "4", "30"]);
    }
}
