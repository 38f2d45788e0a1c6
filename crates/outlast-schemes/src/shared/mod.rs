//! What schemes share.

pub(crate) mod ait;
mod bloom;
pub(crate) mod epoch;
pub(crate) mod output;
pub(crate) mod redo;
pub(crate) mod ring;
mod sum;

pub(crate) use bloom::Bloom;
pub(crate) use outlast_sim::timed::SetAssoc;
pub(crate) use sum::checksum;
