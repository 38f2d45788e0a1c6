//! Tests of the runtime through its public interface: one program, since each would link all of it.

mod acknowledgement;
mod aged;
mod asynchronous;
mod checking;
mod checkpoints;
mod checksums;
mod common;
mod damage;
mod files;
mod killed;
mod literal;
mod mistakes;
mod nonsense;
mod power_cut;
mod reading;
mod recovery;
mod replacing;
mod rings;
mod running;
mod stale;
mod swift;
mod transactions;
mod typed;
mod typed_models;
mod watched;
mod zeroed;
