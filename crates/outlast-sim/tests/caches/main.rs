//! The cache hierarchy without time, and its replacement policies.

mod any_eviction;
#[path = "../common/mod.rs"]
mod common;
mod driver;
mod policies;
mod stack_distance;
