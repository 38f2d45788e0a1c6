//! `liboutlast_sqlite`: the entry points of `outlast-sqlite` as a library that stock builds of SQLite load.
#![forbid(unsafe_code)]

pub use outlast_sqlite as vfs;
