//! What schemes share.

pub(crate) mod ait;
mod table;

pub(crate) use table::SetAssoc;
