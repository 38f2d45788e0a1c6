//! What schemes share.

pub(crate) mod ait;
mod bloom;
pub(crate) mod epoch;
pub(crate) mod output;
pub(crate) mod redo;
pub(crate) mod ring;
mod sum;
mod table;

pub(crate) use bloom::Bloom;
pub(crate) use sum::checksum;
pub(crate) use table::SetAssoc;
