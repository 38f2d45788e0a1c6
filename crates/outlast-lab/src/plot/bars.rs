//! Horizontal bars in panels: one panel per workload, one bar per scheme.
//!
//! Every panel has its own scale. Workloads differ by orders of magnitude, and what has to be
//! compared are the bars within one. A bar is made of one segment, or of several that add up;
//! negative ones go to the left of zero.

use plotters::prelude::*;

use super::{Drawn, FONT_PX, GRID, Marks, Paper, figure, headroom, ink};
use crate::format::{short, tick};

/// The bars of one workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// Stands above.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Stands left of it.
    pub label: String,
    /// Length and colour of its parts, from left to right.
    pub segments: Vec<(f64, RGBColor)>,
    /// Where the whisker starts and ends.
    pub whisker: Option<(f64, f64)>,
}

impl Bar {
    /// The sum of all segments.
    fn value(&self) -> f64 {
        self.segments.iter().map(|(length, _)| length).sum()
    }

    /// How far left and right of zero anything of it reaches.
    fn reach(&self) -> (f64, f64) {
        let side = |sign: f64| -> f64 {
            sign * self.segments.iter().map(|(length, _)| (sign * length).max(0.0)).sum::<f64>()
        };
        let (low, high) = self.whisker.unwrap_or((0.0, 0.0));
        (side(-1.0).min(low), side(1.0).max(high))
    }
}

const PANEL_WIDTH: u32 = 350;
/// Panels beside each other take no more.
const ROW_PX: u32 = 1050;
const BAR_PX: u32 = 22;
const TITLE_PX: u32 = 30;
const AXIS_PX: u32 = 26;
/// Between a panel's bars and the next one.
const GUTTER_PX: u32 = 14;
/// A row of the legend.
const LEGEND_PX: u32 = 26;
const LEGEND_MARGIN_PX: i32 = 8;
/// What the value behind the longest bar needs, as a share of the axis.
const VALUE_SHARE: f64 = 0.24;

/// Draws panels in up to three columns. `parts` names segment colours in a legend; empty for
/// bars of one segment. `unit` is that of the axes.
pub fn bars(title: &str, unit: &str, panels: &[Panel], parts: &[(&str, RGBColor)]) -> String {
    let columns = (ROW_PX / panel_width(panels)).clamp(1, 3).min(panels.len().max(1) as u32);
    let rows = (panels.len() as u32).div_ceil(columns).max(1);
    let tallest = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0) as u32;
    let panel_height = TITLE_PX + tallest * BAR_PX + AXIS_PX;
    let width = columns * panel_width(panels);
    let entries = legend_places(parts, width);
    let legend_px = entries.last().map_or(0, |(_, row)| (row + 1) * LEGEND_PX);
    let height = legend_px + rows * panel_height;
    figure((width, height), title, "rect", |paper, marks| {
        let (top, rest) = paper.split_vertically(legend_px);
        legend(&top, parts, &entries, marks)?;
        let places = rest.split_evenly((rows as usize, columns as usize));
        let label_px = label_width(panels);
        for (place, panel) in places.iter().zip(panels) {
            draw_panel(place, panel, (unit, parts), label_px, marks)?;
        }
        Ok(())
    })
}

/// A panel by itself has room for longer bars; half of each is for bars at least.
fn panel_width(panels: &[Panel]) -> u32 {
    let least = if panels.len() == 1 { 2 * PANEL_WIDTH } else { PANEL_WIDTH };
    least.max(2 * label_width(panels))
}

/// The same for all panels, so that their axes line up.
fn label_width(panels: &[Panel]) -> u32 {
    let labels = panels.iter().flat_map(|panel| &panel.bars).map(|bar| bar.label.chars().count());
    labels.max().unwrap_or(0) as u32 * 7 + 16
}

/// Where each entry of the legend stands: its left edge and its row. A row that is full is followed
/// by another one.
fn legend_places(parts: &[(&str, RGBColor)], width: u32) -> Vec<(i32, u32)> {
    let (mut x, mut row) = (LEGEND_MARGIN_PX, 0);
    let mut places = Vec::new();
    for (name, _) in parts {
        let entry = 19 + name.chars().count() as i32 * 8;
        if x > LEGEND_MARGIN_PX && x + entry > width as i32 {
            (x, row) = (LEGEND_MARGIN_PX, row + 1);
        }
        places.push((x, row));
        x += entry + 22;
    }
    places
}

fn legend(
    place: &Paper<'_>,
    parts: &[(&str, RGBColor)],
    places: &[(i32, u32)],
    marks: &Marks,
) -> Drawn {
    for ((name, colour), (x, row)) in parts.iter().zip(places) {
        let y = (row * LEGEND_PX) as i32;
        marks.add(name, (*name).to_owned());
        place.draw(&Rectangle::new([(*x, y + 5), (x + 13, y + 18)], colour.filled()))?;
        place.draw(&Text::new((*name).to_owned(), (x + 19, y + 4), ink(FONT_PX)))?;
    }
    Ok(())
}

fn draw_panel(
    place: &Paper<'_>,
    panel: &Panel,
    (unit, parts): (&str, &[(&str, RGBColor)]),
    label_px: u32,
    marks: &Marks,
) -> Drawn {
    let (title, body) = place.split_vertically(TITLE_PX);
    let bold = (super::FONT, FONT_PX + 1).into_font().style(FontStyle::Bold).color(&BLACK);
    title.draw(&Text::new(panel.title.clone(), (8, 9), bold))?;

    let count = panel.bars.len();
    let (body, _) = body.split_vertically(count as u32 * BAR_PX + AXIS_PX);
    let reach = panel.bars.iter().map(Bar::reach);
    let (low, high) = reach.fold((0.0f64, 0.0f64), |all, bar| (all.0.min(bar.0), all.1.max(bar.1)));
    let span = headroom(high - low);
    let left = if low < 0.0 { low - span * 0.02 } else { 0.0 };
    let mut chart = ChartBuilder::on(&body)
        .x_label_area_size(AXIS_PX)
        .margin_left(label_px)
        .margin_right(GUTTER_PX + 4 * unit.chars().count() as u32)
        .build_cartesian_2d(left..low + span * (1.0 + VALUE_SHARE), 0.0..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(3)
        .x_label_formatter(&|value| format!("{} {unit}", tick(*value)))
        .x_label_style(ink(FONT_PX - 1))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID)
        .draw()?;
    if low < 0.0 {
        let zero = vec![(0.0, 0.0), (0.0, count as f64)];
        chart.draw_series([PathElement::new(zero, BLACK.mix(0.5).stroke_width(1))])?;
    }
    for (index, bar) in panel.bars.iter().enumerate() {
        let y = (count - 1 - index) as f64 + 0.5;
        for (length, colour) in &bar.segments {
            let part = parts.iter().find(|(_, other)| other == colour).map(|(name, _)| *name);
            let series = part.unwrap_or(&bar.label);
            let spread = bar.whisker.map_or(String::new(), |(low, high)| {
                format!(" ({} – {})", short(low), short(high))
            });
            let of = part.map_or(String::new(), |part| format!(", {part}"));
            let (title, label, length) = (&panel.title, &bar.label, short(*length));
            marks.add(series, format!("{title}: {label}{of}: {length} {unit}{spread}"));
        }
        draw_bar(&mut chart, bar, y)?;
        let text_y = (index as u32 * BAR_PX) as i32 + 5;
        let style = ink(FONT_PX).pos(right_aligned());
        body.draw(&Text::new(bar.label.clone(), (label_px as i32 - 6, text_y), style))?;
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw_bar(chart: &mut Chart<'_, '_>, bar: &Bar, y: f64) -> Drawn {
    const HALF: f64 = 0.36;
    let (mut left, mut right) = (0.0, 0.0);
    for (length, colour) in &bar.segments {
        let start = if *length < 0.0 { &mut left } else { &mut right };
        let corners = [(*start, y - HALF), (*start + length, y + HALF)];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        *start += length;
    }
    if let Some((low, high)) = bar.whisker {
        let line = |from, to| PathElement::new(vec![from, to], BLACK.mix(0.75).stroke_width(1));
        chart.draw_series([
            line((low, y), (high, y)),
            line((low, y - 0.16), (low, y + 0.16)),
            line((high, y - 0.16), (high, y + 0.16)),
        ])?;
    }
    // The value stands right behind whatever reaches farthest.
    let value = Text::new(short(bar.value()), (5, -7), ink(FONT_PX - 1));
    chart.draw_series([EmptyElement::at((bar.reach().1, y)) + value])?;
    Ok(())
}

fn right_aligned() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Right, VPos::Top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(lengths: &[f64], whisker: Option<(f64, f64)>) -> Bar {
        let segments = lengths.iter().map(|length| (*length, RED)).collect();
        Bar { label: "b".to_owned(), segments, whisker }
    }

    /// The horizontal edges of the coloured rectangles, in pixels.
    fn edges(svg: &str) -> Vec<(i32, i32)> {
        let rectangle = |part: &str| {
            let field = |name: &str| {
                let rest = part.split_once(&format!(" {name}=\""))?.1;
                rest.split_once('"')?.0.parse::<i32>().ok()
            };
            let left = field("x")?;
            Some((left, left + field("width")?))
        };
        let coloured = svg.split("<rect").filter(|part| part.contains("#FF0000"));
        coloured.filter_map(rectangle).collect()
    }

    #[test]
    fn negative_values_have_bars_left_of_zero() {
        let panel = Panel {
            title: "p".to_owned(),
            bars: vec![bar(&[4.0], None), bar(&[-4.0], None), bar(&[3.0, -1.0], None)],
        };
        let edges = edges(&bars("t", "ns", &[panel], &[]));
        let [up, down, more, less] = edges[..] else { panic!("{edges:?}") };
        // Pixels are whole.
        let near = |a: i32, b: i32| assert!(a.abs_diff(b) <= 1, "{edges:?}");
        near(up.0, down.1);
        near(up.1 - up.0, down.1 - down.0);
        near(more.0, up.0);
        near(less.1, up.0);
        assert_eq!(bar(&[3.0, -1.0], Some((-2.0, 2.5))).reach(), (-2.0, 3.0));
        assert_eq!(bar(&[3.0, -1.0], None).value(), 2.0);
    }

    #[test]
    fn a_legend_that_is_too_long_goes_on_in_another_row() {
        let names = ["a part with a long name", "another one that is long", "a third of that kind"];
        let parts = names.map(|name| (name, RED));
        let places = legend_places(&parts, PANEL_WIDTH);
        assert_eq!(places.iter().map(|place| place.1).collect::<Vec<_>>(), [0, 1, 2]);
        for ((x, _), name) in places.iter().zip(names) {
            assert!(x + 19 + name.len() as i32 * 8 <= PANEL_WIDTH as i32);
        }
        assert_eq!(legend_places(&parts, 3 * PANEL_WIDTH).last().unwrap().1, 0);
    }
}
