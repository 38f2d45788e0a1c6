//! The checker on programs over pools of the runtime.

mod awaiting;
mod blind;
mod pairs;
mod streams;
mod typed;
