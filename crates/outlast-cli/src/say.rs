//! How long runs tell what they do: notes and bars on standard error.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlast_lab::news::News;

/// Notes as lines, stages as a bar that is hidden where nobody looks.
pub struct Teller {
    bar: ProgressBar,
}

impl Teller {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{msg:<28} {bar:32} {pos}/{len} [{elapsed}]");
        bar.set_style(style.expect("a constant template is valid"));
        Self { bar }
    }

    /// Passes one message on.
    pub fn tell(&self, news: News<'_>) {
        match news {
            // Lines survive in a log, too: `suspend` prints whether the bar is hidden or not.
            News::Note(note) => self.bar.suspend(|| eprintln!("{note}")),
            News::Step { stage, done, total } => {
                self.bar.set_length(total);
                self.bar.set_position(done);
                self.bar.set_message(stage.to_owned());
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
