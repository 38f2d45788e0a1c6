//! What schemes share.

pub(crate) mod ait;
pub(crate) mod ring;
mod table;

pub(crate) use table::SetAssoc;
