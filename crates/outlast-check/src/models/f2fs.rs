//! f2fs with `fsync_mode=strict`: checkpoints of metadata, one file's by `fsync`.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "f2fs",
    about: "f2fs, fsync_mode=strict: checkpoints of metadata, one file's by fsync",
    source: "Documentation/filesystems/f2fs.rst (fsync_mode); 93cf93f",
    order: Order::Journal,
    fsync: Forces::OwnAndName,
    forced_alone: true,
    size_after_data: true,
    zero_tail: false,
    rename_flushes: false,
    torn: true,
};
