//! Power failures of any program that writes files.
#![deny(missing_docs)]

pub mod capture;
pub mod cli;
pub mod finding;
pub mod judge;
pub mod models;
pub mod order;
pub mod run;
pub mod saved;
pub mod search;
#[allow(unsafe_code)]
pub mod sys;
pub mod tree;
