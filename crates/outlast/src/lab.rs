//! Planted bugs, with the feature `lab`: named ways to break the runtime on an observing medium, by which a check
//! proves that it can fail.

pub use crate::plant::{Plant, Shows, UnknownPlant};
