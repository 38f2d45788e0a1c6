//! The runtime under the checker.

mod literal;
mod serializable;
