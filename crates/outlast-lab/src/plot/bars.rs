//! Horizontal bars in panels: one panel per workload, one bar per scheme.
//!
//! Every panel has its own scale. Workloads differ by orders of magnitude, and what has to be
//! compared are the bars within one. A bar is made of one segment, or of several that add up.

use plotters::prelude::*;

use super::{Drawn, FONT_PX, GRID, Paper, figure, headroom, ink};
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
    /// The length of all segments together.
    fn length(&self) -> f64 {
        self.segments.iter().map(|(length, _)| length.max(0.0)).sum()
    }

    /// The sum of all segments, which is negative where nothing can be drawn.
    fn value(&self) -> f64 {
        self.segments.iter().map(|(length, _)| length).sum()
    }

    /// How far right anything of it reaches.
    fn reach(&self) -> f64 {
        self.whisker.map_or(0.0, |(_, high)| high).max(self.length())
    }
}

const PANEL_WIDTH: u32 = 350;
const BAR_PX: u32 = 22;
const TITLE_PX: u32 = 30;
const AXIS_PX: u32 = 26;
/// Between a panel's bars and the next one.
const GUTTER_PX: u32 = 14;
/// What the value behind the longest bar needs, as a share of the axis.
const VALUE_SHARE: f64 = 0.24;

/// Draws panels in up to three columns. `parts` names segment colours in a legend; empty for
/// bars of one segment. `unit` is that of the axes.
pub fn bars(title: &str, unit: &str, panels: &[Panel], parts: &[(&str, RGBColor)]) -> String {
    let columns = panels.len().clamp(1, 3) as u32;
    let rows = (panels.len() as u32).div_ceil(columns).max(1);
    let tallest = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0) as u32;
    let panel_height = TITLE_PX + tallest * BAR_PX + AXIS_PX;
    let legend_px = if parts.is_empty() { 0 } else { 26 };
    let height = legend_px + rows * panel_height;
    figure(columns * PANEL_WIDTH, height, title, |paper| {
        let (top, rest) = paper.split_vertically(legend_px);
        legend(&top, parts)?;
        let places = rest.split_evenly((rows as usize, columns as usize));
        let label_px = label_width(panels);
        for (place, panel) in places.iter().zip(panels) {
            draw_panel(place, panel, unit, label_px)?;
        }
        Ok(())
    })
}

/// The same for all panels, so that their axes line up.
fn label_width(panels: &[Panel]) -> u32 {
    let longest = panels.iter().flat_map(|panel| &panel.bars).map(|bar| bar.label.len()).max();
    (longest.unwrap_or(0) as u32 * 7 + 16).min(PANEL_WIDTH / 2)
}

fn legend(place: &Paper<'_>, parts: &[(&str, RGBColor)]) -> Drawn {
    let mut x = 8;
    for (name, colour) in parts {
        place.draw(&Rectangle::new([(x, 5), (x + 13, 18)], colour.filled()))?;
        place.draw(&Text::new((*name).to_owned(), (x + 19, 4), ink(FONT_PX)))?;
        x += 19 + name.len() as i32 * 8 + 22;
    }
    Ok(())
}

fn draw_panel(place: &Paper<'_>, panel: &Panel, unit: &str, label_px: u32) -> Drawn {
    let (title, body) = place.split_vertically(TITLE_PX);
    let bold = (super::FONT, FONT_PX + 1).into_font().style(FontStyle::Bold).color(&BLACK);
    title.draw(&Text::new(panel.title.clone(), (8, 9), bold))?;

    let count = panel.bars.len();
    let (body, _) = body.split_vertically(count as u32 * BAR_PX + AXIS_PX);
    let largest = headroom(panel.bars.iter().map(Bar::reach).fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(&body)
        .x_label_area_size(AXIS_PX)
        .margin_left(label_px)
        .margin_right(GUTTER_PX)
        .build_cartesian_2d(0.0..largest * (1.0 + VALUE_SHARE), 0.0..count as f64)?;
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
    for (index, bar) in panel.bars.iter().enumerate() {
        let y = (count - 1 - index) as f64 + 0.5;
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
    let mut start = 0.0;
    for (length, colour) in &bar.segments {
        let end = start + length.max(0.0);
        let corners = [(start, y - HALF), (end, y + HALF)];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        start = end;
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
    chart.draw_series([EmptyElement::at((bar.reach(), y)) + value])?;
    Ok(())
}

fn right_aligned() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Right, VPos::Top)
}
