//! Figures, as SVG that stands inside a page or alone.
//!
//! Drawn by plotters into a string: no display, no fonts, no network. Ink is `currentColor`
//! and everything else a middle tone, so that a figure can be read on light and on dark paper.
//! A scheme has one colour everywhere ([`palette`]).

mod bars;
mod lines;
pub mod palette;

use std::cell::RefCell;

use plotters::coord::Shift;
use plotters::prelude::*;

pub use bars::{Bar, Panel, bars};
pub use lines::{Line, lines};

/// What draws: plotters into a string.
pub(crate) type Paper<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Why drawing fails: never, since a string takes everything.
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

const FONT: &str = "sans-serif";
/// Plotters divides by 1.24, so that this comes out at 12 pixels.
const FONT_PX: i32 = 15;

/// Grid lines and axes.
const GRID: RGBAColor = RGBAColor(128, 128, 128, 0.28);

/// What is drawn for values, in the order in which it is drawn: its series, and what it tells where a
/// pointer rests on it.
#[derive(Debug, Default)]
pub(crate) struct Marks(RefCell<Vec<(String, String)>>);

impl Marks {
    /// Another one is drawn.
    pub fn add(&self, series: &str, tells: String) {
        self.0.borrow_mut().push((series.to_owned(), tells));
    }
}

/// Draws a figure of the given size in pixels. Every element called `shape` stands for a value and
/// is a mark.
fn figure(
    (width, height): (u32, u32),
    title: &str,
    shape: &str,
    draw: impl FnOnce(&Paper<'_>, &Marks) -> Drawn,
) -> String {
    let (mut svg, marks) = (String::new(), Marks::default());
    {
        let paper = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        draw(&paper, &marks).expect("drawing into a string cannot fail");
        paper.present().expect("drawing into a string cannot fail");
    }
    on_any_paper(&marked(&svg, shape, &marks.0.into_inner()), width, height, title)
}

/// Names the series of each mark and what it tells. Plotters knows neither.
fn marked(svg: &str, shape: &str, marks: &[(String, String)]) -> String {
    let open = format!("<{shape} ");
    let mut parts = svg.split(open.as_str());
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut marks = marks.iter();
    for part in parts {
        match (marks.next(), part.split_once("/>")) {
            (Some((series, tells)), Some((attributes, rest))) => {
                let (series, tells) = (crate::html::escape(series), crate::html::escape(tells));
                out += &format!(
                    "{open}data-series=\"{series}\" {attributes}><title>{tells}</title></{shape}>{rest}"
                );
            }
            _ => out += &format!("{open}{part}"),
        }
    }
    debug_assert!(marks.next().is_none(), "every mark is drawn as a {shape}");
    out
}

/// Plotters writes black where it means ink, and a fixed size; a page wants its own of both.
fn on_any_paper(svg: &str, width: u32, height: u32, title: &str) -> String {
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let body = body.replace("\"#000000\"", "\"currentColor\"");
    let title = crate::html::escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" role=\"img\" aria-label=\"{title}\" \
         style=\"max-width:100%;height:auto\">{body}"
    )
}

/// Text in ink.
fn ink(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

/// The top of an axis that shows values up to `largest`: a little more, and never nothing.
fn headroom(largest: f64) -> f64 {
    if largest > 0.0 { largest * 1.02 } else { 1.0 }
}
