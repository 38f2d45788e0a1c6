//! Structures and workloads, crashed and compared with models.

mod collections;
#[path = "../common/mod.rs"]
mod common;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod instructions;
mod programs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../examples/instructions/steps.rs"]
mod steps;
mod structures;
mod tables;
mod trees;
