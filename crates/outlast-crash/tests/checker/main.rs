//! `Check` on small programs, and the fault model that it rests on.

mod awaiting;
mod blind;
mod classes;
mod coverage;
mod fault_model;
mod ledger;
mod own_programs;
mod toy_log;
mod typed;
