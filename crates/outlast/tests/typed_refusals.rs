//! What the typed API refuses at compile time, each with its message.
//!
//! The messages that are the compiler's own belong to the toolchain that they were written with;
//! `TRYBUILD=overwrite cargo test -p outlast --test typed_refusals` writes them anew.
#![cfg(not(miri))]

#[test]
fn every_refusal_names_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/refusals/*.rs");
}
