//! `Check` on programs of one's own: lanes, and flushes and fences that only cost time.

mod costs;
mod lanes;
mod table;
