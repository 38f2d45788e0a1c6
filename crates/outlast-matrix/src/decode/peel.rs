//! Contents of lines whose places are known: fix whatever is alone in its row or column, again and
//! again.
//!
//! Rows and columns are the vertices of a graph, unknown lines its edges. A vertex with one edge
//! gives that edge's value; without the edge another may become such a vertex. All edges go
//! exactly when there is no cycle. In a cycle, d more on one edge, d less on the next and so
//! round changes no syndrome, so no decoder can tell the contents apart.

use crate::{Line, LineSet, Place, Shape, lanes};

use super::syndromes::Syndromes;

#[derive(Clone, Copy)]
enum Vertex {
    Row(usize),
    Column(usize),
}

/// What the suspects lack, by line; only those that lack something. `None` when lines in a cycle
/// remain and lack something, or when the suspects do not explain all syndromes. Lines in a cycle
/// where all syndromes have become zero count as right, like those of a matrix where everything
/// agrees.
pub(super) fn peel(
    shape: Shape,
    suspects: &LineSet,
    mut left: Syndromes,
) -> Option<Vec<(usize, Line)>> {
    let mut unknown = suspects.clone();
    let mut in_row = vec![0; shape.rows()];
    let mut in_column = vec![0; shape.columns()];
    for Place { row, column } in suspects.iter().map(|line| shape.place(line)) {
        in_row[row] += 1;
        in_column[column] += 1;
    }
    let rows = (0..shape.rows()).map(Vertex::Row);
    let mut ready: Vec<Vertex> = rows.chain((0..shape.columns()).map(Vertex::Column)).collect();
    let mut errors = Vec::new();
    while let Some(vertex) = ready.pop() {
        let alone = match vertex {
            Vertex::Row(row) => in_row[row] == 1,
            Vertex::Column(column) => in_column[column] == 1,
        };
        if !alone {
            continue;
        }
        let at = edge_of(vertex, shape, &unknown);
        let error = match vertex {
            Vertex::Row(_) => left.rows[at.row],
            Vertex::Column(_) => left.columns[at.column],
        };
        lanes::subtract(&mut left.rows[at.row], &error);
        lanes::subtract(&mut left.columns[at.column], &error);
        unknown.remove(shape.line(at));
        in_row[at.row] -= 1;
        in_column[at.column] -= 1;
        ready.extend([Vertex::Row(at.row), Vertex::Column(at.column)]);
        if error != [0; 8] {
            errors.push((shape.line(at), error));
        }
    }
    left.are_zero().then_some(errors)
}

/// The one unknown line of a row or column.
fn edge_of(vertex: Vertex, shape: Shape, unknown: &LineSet) -> Place {
    let is_unknown = |place: &Place| unknown.contains(shape.line(*place));
    let found = match vertex {
        Vertex::Row(row) => {
            (0..shape.columns()).map(|column| Place { row, column }).find(is_unknown)
        }
        Vertex::Column(column) => {
            (0..shape.rows()).map(|row| Place { row, column }).find(is_unknown)
        }
    };
    found.expect("its count says that there is one")
}
