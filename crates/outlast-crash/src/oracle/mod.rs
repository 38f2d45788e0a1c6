//! The oracle ([`outlast_check::oracle`]) and the guarantee that only the timed machine gives: `epoch`.

pub(crate) mod epoch;

pub(crate) use outlast_check::oracle::{check, keys, prefixes};
