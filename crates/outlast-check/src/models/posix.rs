//! The promise of POSIX: `fsync` forces a file's data and size, not its name.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "posix",
    about: "POSIX: fsync of a file does not keep its name",
    source: "POSIX.1-2017, fsync",
    order: Order::Keys,
    fsync: Forces::Own,
    forced_alone: true,
    size_after_data: false,
    zero_tail: true,
    rename_flushes: false,
    torn: true,
};
