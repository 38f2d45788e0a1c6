//! Programs that know nothing of this project, after a loss of power.

use super::{Section, escape, table};
use crate::power::{Checked, Loss, Power};

/// A row a loss; a program without one has a row of its own.
pub(super) fn section(power: &Power) -> Section {
    let mut body = String::new();
    if !power.checked.is_empty() {
        let rows: Vec<Vec<String>> = power.checked.iter().flat_map(rows_of).collect();
        let heads = [
            "Program",
            "States",
            "A crash leaves",
            "Lost",
            "Kept behind it",
            "Under",
            "It promises",
        ];
        body += &table::rows(
            "Each program ran once, in this run; each state that a loss of power may leave was opened. \
             <code>outlast check</code> does so with any program.",
            &heads,
            |head| !matches!(head, "States"),
            &rows,
        );
    }
    if !power.left_out.is_empty() {
        let items: String =
            power.left_out.iter().map(|why| format!("<li>{}</li>\n", escape(why))).collect();
        body += &format!("<p>Not checked in this run:</p>\n<ul>\n{items}</ul>\n");
    }
    Section { id: "power", title: "Any program, after a loss of power", body }
}

fn rows_of(checked: &Checked) -> Vec<Vec<String>> {
    let text = |text: &str| format!("<td class=\"text\">{}</td>", escape(text));
    let row = |loss: Option<&Loss>| {
        let (left, models) = match loss {
            Some(loss) => (format!("{} ({})", loss.wrong, loss.class), loss.models.join(", ")),
            None => ("all that it acknowledged".to_owned(), String::new()),
        };
        vec![
            format!("<th scope=\"row\">{}</th>", escape(&checked.program)),
            format!("<td>{}</td>", checked.states),
            text(&left),
            text(loss.map_or("", |loss| &loss.lost)),
            text(loss.map_or("", |loss| &loss.kept)),
            text(&models),
            text(&checked.promise),
        ]
    };
    match checked.losses.is_empty() {
        true => vec![row(None)],
        false => checked.losses.iter().map(|loss| row(Some(loss))).collect(),
    }
}
