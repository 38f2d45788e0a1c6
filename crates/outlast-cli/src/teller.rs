//! Progress on standard error: a bar, or lines where that is no terminal.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlast_lab::progress::Progress;

use crate::say::noteln;

/// Notes as lines, stages as a bar that is hidden where standard error is no terminal.
pub struct Teller {
    bar: ProgressBar,
    /// Where the bar is hidden, stages may be lines.
    lines: Option<RefCell<Lines>>,
    began: Instant,
    /// Of a run that tells all of it: when the last line was written; none before the first.
    told_s: Cell<Option<u64>>,
}

const STEPS: &str = "{msg:<28} {bar:32} {pos}/{len} [{elapsed}]";
const WHOLE: &str = "{bar:32} {percent:>3} % [{elapsed}] {msg}";

/// Between two lines where no bar is seen, in seconds.
const LINES_PAUSE_S: u64 = 10;

impl Teller {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(STEPS);
        bar.set_style(style.expect("a constant template is valid"));
        Self { bar, lines: None, began: Instant::now(), told_s: Cell::new(None) }
    }

    /// As [`new`](Self::new); without a terminal, stages are lines.
    pub fn with_lines() -> Self {
        let mut teller = Self::new();
        teller.lines = (!std::io::stderr().is_terminal()).then(RefCell::default);
        teller
    }

    /// Passes one message on.
    pub fn tell(&self, progress: Progress<'_>) {
        match progress {
            // Lines survive in a log, too: `suspend` prints whether the bar is hidden or not.
            Progress::Note(note) => self.bar.suspend(|| noteln!("{note}")),
            Progress::Step { stage, done, total } => {
                self.bar.set_length(total);
                self.bar.set_position(done);
                self.bar.set_message(stage.to_owned());
                let now_s = self.began.elapsed().as_secs();
                let line =
                    |lines: &RefCell<Lines>| lines.borrow_mut().at(now_s, stage, done, total);
                if let Some(line) = self.lines.as_ref().and_then(line) {
                    noteln!("{line}");
                }
            }
            Progress::Whole { stage, permille, elapsed_s, left_s } => {
                if self.told_s.get().is_none() {
                    let style = ProgressStyle::with_template(WHOLE);
                    self.bar.set_style(style.expect("a constant template is valid"));
                    self.bar.set_length(1000);
                }
                self.bar.set_position(permille);
                self.bar.set_message(format!("about {left_s} s left: {stage}"));
                let is_due = |last: u64| elapsed_s >= last + LINES_PAUSE_S;
                if self.told_s.get().is_none_or(is_due) {
                    self.told_s.set(Some(elapsed_s));
                    if self.bar.is_hidden() {
                        let percent = permille / 10;
                        noteln!("{percent} % in {elapsed_s} s, about {left_s} s left: {stage}");
                    }
                }
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Which steps become lines: the first of a stage and, of a long one, each tenth.
#[derive(Default)]
struct Lines {
    stage: String,
    tenth: u64,
    told_s: u64,
}

impl Lines {
    /// The line of a step at this second of the run.
    fn at(&mut self, now_s: u64, stage: &str, done: u64, total: u64) -> Option<String> {
        if total == 0 {
            return None;
        }
        let tenth = done.saturating_mul(10) / total;
        let is_due = now_s >= self.told_s + LINES_PAUSE_S && tenth > self.tenth;
        if self.stage != stage {
            stage.clone_into(&mut self.stage);
        } else if !is_due {
            return None;
        }
        (self.tenth, self.told_s) = (tenth, now_s);
        Some(format!("{stage}: {done} of {total}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_a_line_and_a_long_one_ten_more() {
        let mut lines = Lines::default();
        let mut count = |stage: &str, total: u64, steps_in_a_second: u64| {
            let is_line =
                |done: &u64| lines.at(done / steps_in_a_second, stage, *done, total).is_some();
            (0..=total).filter(is_line).count()
        };
        assert_eq!(count("short", 100, 20), 1);
        assert_eq!(count("long", 300, 1), 11);
        assert_eq!(count("of many steps", 100_000, 10), 11);
        assert_eq!(count("empty", 0, 1), 0);
        assert_eq!(lines.at(9, "next", 9, 5000).as_deref(), Some("next: 9 of 5000"));
    }
}
