//! A captured run as a list of its steps.

use std::io::{self, Write};

use crate::run::{Change, Run, Step};

/// Lists the steps of a run.
pub(super) fn show(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} ({})", run.dir.display(), run.ended)?;
    let mut last = None;
    for (number, event) in run.events.iter().enumerate() {
        let call = &run.calls[event.call as usize];
        let step = match &event.step {
            Step::Change(Change::Data { offset, bytes, .. }) => {
                format!("data {offset}+{}", bytes.len())
            }
            Step::Change(Change::Size { from, to, .. }) => format!("size {from} to {to}"),
            Step::Change(Change::Cut { to, .. }) => format!("cut to {to}"),
            Step::Change(Change::Name { .. } | Change::Move { .. }) => "name".to_owned(),
            Step::Sync(_) => "sync".to_owned(),
            Step::Unsynced(_) => "failed sync".to_owned(),
            Step::Issued(_) | Step::Acked(_) | Step::Writes { .. } => "mark".to_owned(),
        };
        let text = if last == Some(event.call) { "" } else { call.text.as_str() };
        last = Some(event.call);
        writeln!(out, "{number:>6}  {step:<24} {text}")?;
        if !text.is_empty() && !call.place.is_empty() {
            writeln!(out, "{:32}   from {}", "", call.place)?;
        }
    }
    for blind in &run.blind {
        writeln!(out, "not measured: {blind}")?;
    }
    Ok(())
}
