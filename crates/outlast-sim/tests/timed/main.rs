//! The timed machine, part by part.

mod aborts;
mod constraints;
mod cores;
mod dram;
mod formulas;
#[path = "../machine/mod.rs"]
mod machine;
mod ports;
