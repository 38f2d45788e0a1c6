//! Changes in the order of the program: for what a program loses even if nothing is reordered.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "prefix",
    about: "everything in program order: the strictest file system",
    source: "by definition",
    order: Order::Everything,
    fsync: Forces::Everything,
    forced_alone: false,
    size_after_data: false,
    zero_tail: true,
    rename_flushes: true,
    torn: false,
};
