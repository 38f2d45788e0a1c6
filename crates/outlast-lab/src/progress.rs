//! What a long run tells while it goes on. Who shows it, and where, is the caller's affair.

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// A line that a reader of the results has to know: what is in force, what is left out.
    Note(&'a str),
    /// So much of a stage is done.
    Step {
        /// The stage.
        stage: &'a str,
        /// Steps finished.
        done: u64,
        /// Steps in all.
        total: u64,
    },
}

/// Hears the progress.
pub type Listener<'a> = dyn FnMut(Progress<'_>) + 'a;
