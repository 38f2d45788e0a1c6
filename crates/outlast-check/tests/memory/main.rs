//! `Check` on small programs over a `Medium`, and the fault model that it rests on.

mod classes;
mod coverage;
mod fault_model;
mod ledger;
mod own_programs;
mod told;
mod toy_log;

/// Stands behind a call that would be the last of its function. An optimiser makes such a call a jump,
/// and then the function is not among the callers.
#[inline(always)]
fn returns_here() {
    std::hint::black_box(());
}
