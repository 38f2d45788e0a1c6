//! `Check` on programs of one's own: streamed records, lanes, and what only costs time.

mod costs;
mod lanes;
mod streams;
mod table;
