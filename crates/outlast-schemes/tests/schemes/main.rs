//! Schemes of the machine: what they cost by closed formulas, and what a crash leaves of them.

mod ait;
mod crashes;
mod ehou;
mod ehou_costs;
#[path = "../../../outlast-sim/tests/machine/mod.rs"]
mod machine;
mod out_of_place;
