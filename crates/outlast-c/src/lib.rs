//! The C APIs: `outlast.h`, the runtime's own, in [`handles`]; and `archapt.h`, in the manner of
//! Archapt's Table II, in the other modules.
//!
//! # `archapt.h`
//!
//! A process has one pool open, and each of its threads has a session with it: a lane, taken with the
//! thread's first transaction and given back when the thread ends. So no call takes a handle, as
//! none does in the paper, and no stale or foreign handle can be passed: a thread uses its own
//! session or gets an error. Persistent addresses are offsets from the start of the pool; no pointer
//! into it leaves the library, so that a program cannot store behind a transaction's back.
//!
//! - [`pool`] opens, creates and closes: `Archapt_Init` and its kin.
//! - [`transaction`] begins, commits and ends; `Archapt_Wait` waits for a physical commit.
//! - [`memory`] takes and gives back blocks, loads and stores, and finds the root.
//! - [`code`] says what went wrong: a code for each call and a text for each thread.
//!
//! Table II leaves open what `Archapt_Tx_End` adds to `Archapt_Tx_LCommit`, and its `Archapt_Free`
//! has no address. Here a transaction is `Start`, `LCommit`, `End`: `LCommit` commits logically,
//! so that nothing can undo it; `End` answers the client, and with physical acknowledgement waits
//! until the commit is physical. Ending without `LCommit` undoes and is an error.
//!
//! No panic crosses the boundary. A C program is in `examples/bank.c`; `docs/c-api.md` says how
//! to build and link; `examples/ledger.c` is one of `outlast.h`. From Rust the functions can be called
//! as they are, for tests:
//!
//! ```
//! use outlast_c::code::{Archapt_Version, ArchaptCode};
//! use outlast_c::transaction::Archapt_Tx_Start;
//!
//! assert!(!Archapt_Version().is_null());
//! assert_eq!(Archapt_Tx_Start(), ArchaptCode::ARCHAPT_NOT_OPEN);
//! ```
#![allow(non_snake_case, reason = "the functions have the names that the paper gives them")]

pub mod code;
mod error;
pub mod handles;
pub mod memory;
mod per_process;
pub mod pool;
mod session;
pub mod transaction;

pub use code::ArchaptCode;
pub use memory::ArchaptType;
pub use pool::ArchaptOptions;
