//! Structures and workloads, crashed and compared with models.

mod collections;
#[path = "../common/mod.rs"]
mod common;
mod persistence;
mod programs;
mod structures;
mod tables;
mod trees;
