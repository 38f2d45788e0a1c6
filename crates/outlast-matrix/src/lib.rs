//! The virtual matrix: product-code checksums over 64-byte lines.
//!
//! Lines are arranged as a matrix ([`Shape`]). Each column has a *consistency checksum*, each row
//! a *correlation checksum*: the sums of their lines, in eight lanes of 64 bits ([`Sums`]). Spare
//! lines behind them say which lines are in the sums, with a CRC-8 for each ([`Spare`]). When a
//! line is wrong, the checksums of its row and its column do not match, and
//! [`Matrix::decode`] finds it and computes what it must hold. A matrix of seven times seven lines
//! with all that goes with it is a page of 4096 bytes ([`Shape::PAGE`]).
//!
//! The scheme is that of Archapt (section III-C, "Checksum Design"), which uses it to skip
//! flushes. It cannot replace them: see below. What it is good for is to detect and repair damage
//! that no crash of a right program leaves: media faults and bugs.
//!
//! This crate is arithmetic. It knows bytes and lines; it knows of no medium, pool or
//! transaction, flushes nothing, and leaves to its caller when sums change and how that survives
//! a crash.
//!
//! # What it can do
//!
//! Think of rows and columns as vertices of a graph, and of each wrong line as an edge between
//! its row and its column.
//!
//! - When all places are known ([`Locate::Known`]), wrong lines can be repaired exactly when
//!   these edges are a *forest*. So the a + b checksum lines of a matrix repair at most a + b − 1
//!   lines: 13 of the 49 of a page, and not any 13. In a page any three wrong lines can be
//!   repaired; of four, one set in 480 cannot, the rectangles. An object of up to eight lines can
//!   be repaired alone, one of ten or more cannot.
//! - Places are found in three ways. [`Locate::Membership`], the paper's rule, takes the crossings
//!   of mismatched rows and columns: three of four pairs of wrong lines are too many for it.
//!   [`Locate::Values`] adds up the missing amounts, and fails for one of ten triples.
//!   [`Locate::Crcs`] compares CRC-8s, and is nearly as good as known places.
//! - A repair is reported when all checksums and CRCs agree with it, and when no other explanation
//!   does; see [`Matrix::decode`] for the probabilities. What cannot be explained is
//!   [`Outcome::Uncorrectable`], with the lines, rows and columns that are implicated.
//!
//! # What it cannot do
//!
//! - **Protect n lines with fewer than n.** k lines that may all be wrong need k lines of
//!   information elsewhere. Objects that are written together lie together, are evicted late
//!   together, and then form rectangles: of all pairs of two-line objects in a page, 30 % can
//!   never be repaired when both are lost.
//! - **Detect by one kind of sum.** What moves from one line of a column to another leaves the
//!   column's sum as it was. Rows show it, unless it happens in a second column the other way
//!   round; then only CRCs do.
//! - **Tell a stale line from a stale checksum**, without CRCs. A line that was changed while its
//!   checksums were not is "repaired" to what it was before.
//! - **Survive a torn update.** Two checksum lines and the spare line change with every line of
//!   data, and a crash may leave any of them behind. Something else has to say that the sums of a
//!   page are in flux: in Outlast a live log record.
//!
//! # Example
//!
//! ```
//! use outlast_matrix::{Line, LineSet, Locate, Matrix, Outcome, Repair, Shape, Spare, Sums};
//!
//! // A page full of data, with its checksums and its spare line.
//! let shape = Shape::PAGE;
//! let mut data: Vec<Line> = (0..49).map(|at| [at * 1001; 8]).collect();
//! let members = LineSet::all(49);
//! let mut sums = Sums::new(shape, [[0; 8]; 14]);
//! sums.create(&data, &members);
//! let mut spare = Spare::empty(shape, [0; 64]);
//! data.iter().enumerate().for_each(|(line, content)| spare.insert(line, content));
//!
//! // A line is written, and never reaches the medium.
//! let new = [77; 8];
//! sums.update(30, &data[30], &new);
//! spare.insert(30, &new);
//!
//! // Something else is lost in another row and column.
//! data[3] = [0; 8];
//!
//! let matrix = Matrix::new(&data, sums.borrowed(), &members).with_crcs(spare.crcs());
//! let right = [Repair { line: 3, content: [3003; 8] }, Repair { line: 30, content: new }];
//! assert_eq!(matrix.decode(Locate::Crcs), Outcome::Corrected(right.to_vec()));
//! // The paper's rule cannot tell these two lines from the other two corners.
//! assert!(matches!(matrix.decode(Locate::Membership), Outcome::Uncorrectable { .. }));
//! ```

#![deny(unsafe_code)]

mod crc8;
mod decode;
mod lanes;
mod line;
mod set;
mod shape;
mod spare;
mod sums;
#[allow(unsafe_code)]
mod vector;

pub use crc8::crc8;
pub use decode::{Locate, Matrix, Outcome, Repair};
pub use line::{LINE_BYTES, Line, line_from_bytes, line_to_bytes, read_lines, write_lines};
pub use set::LineSet;
pub use shape::{Place, SIDE_MAX, Shape};
pub use spare::{Flaw, SPARE_FORMAT, Spare};
pub use sums::Sums;
pub use vector::Vector;
