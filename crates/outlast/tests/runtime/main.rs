//! Tests of the runtime through its public interface: one program, since each would link all of it.
//! Some try what is compiled with the feature `lab` only.

mod acknowledgement;
mod aged;
mod asynchronous;
mod checking;
#[cfg(feature = "lab")]
mod checkpoints;
mod checksums;
mod common;
mod counted;
mod damage;
mod files;
mod killed;
#[cfg(feature = "lab")]
mod literal;
mod mistakes;
mod mutants;
mod nonsense;
mod own_errors;
#[cfg(not(miri))]
#[path = "../common/own_program.rs"]
mod own_program;
#[cfg(feature = "lab")]
mod power_cut;
#[cfg(all(target_os = "linux", not(miri)))]
mod processes;
mod reading;
mod recovery;
mod replacing;
mod rings;
mod running;
#[cfg(feature = "lab")]
mod stale;
mod swift;
mod transactions;
mod typed;
mod typed_calls;
mod typed_models;
mod walks;
mod watched;
#[cfg(feature = "lab")]
mod zeroed;
