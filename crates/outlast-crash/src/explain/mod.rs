//! One crash, told: see [`outlast_check::explain`]. [`Scope::explain`](crate::runtime::scopes::Scope::explain)
//! makes it of the runtime, [`Campaign::explain`](crate::machine::Campaign::explain) of the timed
//! machine, and [`published`] says which flaws of papers can be shown.

#[cfg(feature = "machine")]
pub mod published;

pub use outlast_check::explain::*;
