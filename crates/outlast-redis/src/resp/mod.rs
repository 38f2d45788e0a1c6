//! The protocol: requests as they arrive, replies as they leave.
//!
//! Requests are parsed here and not by a library. A server reads arrays of bulk strings and inline
//! commands only; it must go on where a packet ended without looking at earlier packets again, hand
//! out slices of its buffer without a copy, check each length before memory is taken for it, and name
//! mistakes in the words that clients and test suites of Redis expect. Libraries build a tree of
//! frames and begin anew with each packet.

mod args;
mod reply;
mod request;

pub use args::{Args, OwnedArgs};
pub(crate) use reply::push_decimal;
pub use reply::{ErrorCode, Reply};
pub(crate) use request::{Limits, Parsed, Request};
