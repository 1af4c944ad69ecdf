//! A plot as a drawing for a browser, by the library plotters.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::page::{Plot, Verdict};
use super::text::whole;
use bench::table::number;

const SIZE: (u32, u32) = (960, 420);
/// Room for the names of curves.
const NAMES: u32 = 230;
/// The library divides it by 1.24: 11.3 pixels.
const FONT: u32 = 14;
/// The curves' colours, to be told apart on light and on dark paper.
const COLORS: [RGBColor; 6] = [
    RGBColor(0x3f, 0x78, 0xb5),
    RGBColor(0x9a, 0x63, 0xb0),
    RGBColor(0xb5, 0x8f, 0x1f),
    RGBColor(0x55, 0x8f, 0x9a),
    RGBColor(0xb0, 0x60, 0x3a),
    RGBColor(0x7a, 0x7a, 0x7a),
];
const OURS: RGBColor = RGBColor(0x2a, 0x9f, 0x60);
/// Between two names at one height.
const LINE: i32 = 15;
const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
const FAILED: RGBColor = RGBColor(0xd0, 0x38, 0x2e);

/// The drawing, or nothing if no point has a logarithm.
pub(super) fn svg(plot: &Plot) -> anyhow::Result<String> {
    let (Some(xs), Some(ys)) = (plot.range(|p| p.x), plot.range(|p| p.y)) else { return Ok(String::new()) };
    let mut drawing = String::new();
    draw(plot, xs, ys, &mut drawing).map_err(|why| anyhow::anyhow!("cannot draw {}: {why}", plot.title))?;
    Ok(drawing)
}

fn draw(plot: &Plot, xs: (f64, f64), ys: (f64, f64), drawing: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(drawing, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(NAMES)
        .x_label_area_size(40)
        .y_label_area_size(70)
        // A little room on all sides; for a single value, too.
        .build_cartesian_2d((xs.0 / 1.2..xs.1 * 1.2).log_scale(), (ys.0 / 1.5..ys.1 * 1.5).log_scale())?;
    let up = format!("{}, {}", plot.up, plot.unit);
    chart
        .configure_mesh()
        .light_line_style(GREY.mix(0.08))
        .bold_line_style(GREY.mix(0.25))
        .axis_style(GREY)
        .x_desc(plot.across)
        .y_desc(up)
        .x_label_formatter(&|x| whole(*x))
        .y_label_formatter(&|y| if *y >= 1.0 { whole(*y) } else { format!("{y}") })
        .label_style(("sans-serif", FONT))
        .draw()?;
    let mut names = Vec::new();
    let mut colors = COLORS.iter().cycle();
    for curve in &plot.curves {
        let color = if curve.ours { &OURS } else { colors.next().unwrap_or(&GREY) };
        let mut points = curve.points.iter().filter(|p| p.x > 0.0 && p.y > 0.0);
        chart.draw_series(LineSeries::new(points.clone().map(|p| (p.x, p.y)), color.stroke_width(2)))?;
        chart.draw_series(points.clone().map(|p| {
            let color = if p.verdict == Verdict::Bad { &FAILED } else { color };
            Circle::new((p.x, p.y), 4, color.filled())
        }))?;
        names.extend(points.next_back().map(|last| {
            let (right, down) = chart.backend_coord(&(last.x, last.y));
            (down, right, color, format!("{} {}", curve.name, number(last.y)))
        }));
    }
    // Names of curves that end at one place stand below each other.
    names.sort_by_key(|name| name.0);
    let mut free_from = 0;
    for (down, right, color, words) in names {
        let style = ("sans-serif", FONT).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        let down = down.max(free_from);
        area.draw(&Rectangle::new([(right + 9, down - 3), (right + 15, down + 3)], color.filled()))?;
        area.draw(&Text::new(words, (right + 20, down), style))?;
        free_from = down + LINE;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Curve, Point};

    #[test]
    fn every_curve_is_drawn_and_named() {
        let at = |x, y| Point { x, y, verdict: Verdict::Bad };
        let curve =
            |name: &str, y| Curve { name: name.to_owned(), ours: false, points: vec![at(4.0, y), at(1_024.0, y)] };
        let curves = vec![curve("first & last", 3.0), curve("other", 4_000.0)];
        let plot = Plot { title: "t".to_owned(), across: "CPUs", up: "time", unit: "ns", curves };
        let drawing = svg(&plot).unwrap();
        assert_eq!(drawing.matches("<circle").count(), 4, "{drawing}");
        assert!(
            drawing.contains("first &amp; last") && drawing.contains("other 4000") && drawing.ends_with("</svg>\n")
        );
        assert_eq!(svg(&Plot { curves: Vec::new(), ..plot }).unwrap(), "");
    }
}
