//! Lines over a count, with a logarithmic scale: what one fence costs, by lines and by pattern.

use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;

use super::{FONT_PX, GRID, figure, ink};
use crate::format::{short, tick};
use crate::plot::palette;

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Stands at its right end.
    pub label: String,
    /// Ascending in the first number.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: u32 = 1050;
const HEIGHT: u32 = 380;
/// The width of a letter of the labels at the lines' ends, at most.
const LETTER_PX: u32 = 8;
/// Two labels closer than this would overlap.
const LABEL_STEP_PX: i32 = 17;

/// Draws the lines. Values must be positive; others are left out.
pub fn lines(title: &str, x_title: &str, y_title: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|point| point.1 > 0.0);
    let span = |value: fn(&(f64, f64)) -> f64| {
        points()
            .map(value)
            .fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (x_low, x_high) = span(|point| point.0);
    let (y_low, y_high) = span(|point| point.1);
    if points().next().is_none() {
        return String::new();
    }
    let (y_low, y_high) = (y_low / 1.15, y_high * 1.15);
    let longest = lines.iter().map(|line| line.label.chars().count() as u32).max().unwrap_or(0);
    figure((WIDTH, HEIGHT), title, "circle", |paper, marks| {
        let mut chart = ChartBuilder::on(paper)
            .margin_top(12)
            .margin_right((longest * LETTER_PX + 34).min(WIDTH / 2))
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(
                x_low..(x_high.max(x_low + 1.0)),
                (y_low..y_high).log_scale().with_key_points(ticks(y_low, y_high)),
            )?;
        chart
            .configure_mesh()
            .x_labels(16)
            .x_label_formatter(&|value| tick(value.round()))
            .y_label_formatter(&|value| tick(*value))
            .label_style(ink(FONT_PX - 1))
            .x_desc(x_title)
            .y_desc(y_title)
            .axis_desc_style(ink(FONT_PX))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .draw()?;
        let mut ends = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let colour = palette::series(index);
            let points: Vec<_> = line.points.iter().copied().filter(|p| p.1 > 0.0).collect();
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            for point in &points {
                let (x, y) = (tick(point.0), short(point.1));
                marks.add(&line.label, format!("{}: {y} {y_title} at {x} {x_title}", line.label));
                chart.draw_series([Circle::new(*point, 3, colour.filled())])?;
            }
            if let Some(last) = points.last() {
                let (x, y) = chart.backend_coord(last);
                ends.push((y, x, line.label.clone(), colour));
            }
        }
        for (y, x, label, colour) in apart(ends) {
            marks.add(&label, label.clone());
            paper.draw(&Circle::new((x + 14, y), 4, colour.filled()))?;
            paper.draw(&Text::new(label, (x + 22, y - 8), ink(FONT_PX)))?;
        }
        Ok(())
    })
}

/// 1, 2 and 5 times powers of ten between `low` and `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    decades
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

/// Moves labels down until none overlaps the one above it, and up again where the lowest would
/// leave the figure.
fn apart<T>(mut ends: Vec<(i32, i32, String, T)>) -> Vec<(i32, i32, String, T)> {
    ends.sort_by_key(|end| end.0);
    for index in 1..ends.len() {
        ends[index].0 = ends[index].0.max(ends[index - 1].0 + LABEL_STEP_PX);
    }
    let mut lowest = HEIGHT as i32 - LABEL_STEP_PX;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(lowest);
        lowest = end.0 - LABEL_STEP_PX;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        assert_eq!(ticks(90.0, 2500.0), [100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(ticks(120.0, 130.0), [0.0; 0]);
    }

    #[test]
    fn labels_keep_their_order_and_their_distance() {
        let end = |y, name: &str| (y, 0, name.to_owned(), ());
        let moved = apart(vec![end(50, "c"), end(10, "a"), end(12, "b")]);
        let placed: Vec<_> = moved.iter().map(|end| (end.0, end.2.as_str())).collect();
        assert_eq!(placed, [(10, "a"), (27, "b"), (50, "c")]);
        let bottom = HEIGHT as i32;
        let moved = apart(vec![end(bottom - 4, "low"), end(bottom - 5, "lower")]);
        assert_eq!(moved[1].0, bottom - LABEL_STEP_PX, "within the figure");
        assert_eq!(moved[0].0, bottom - 2 * LABEL_STEP_PX);
    }
}
