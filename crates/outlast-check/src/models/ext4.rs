//! ext4 in its three modes of data.

use super::{Forces, Model, Order};

/// `data=ordered`, the default, with delayed allocation and `auto_da_alloc`.
pub const MODEL: Model = Model {
    name: "ext4",
    about: "ext4, data=ordered (default)",
    source: "Documentation/admin-guide/ext4.rst (auto_da_alloc, data=ordered); fs/ext4: ext4_da_should_update_i_disksize",
    order: Order::Journal,
    fsync: Forces::OwnAndJournal,
    forced_alone: false,
    size_after_data: true,
    zero_tail: true,
    rename_flushes: true,
    torn: true,
};

/// `data=writeback`: sizes and renames do not wait for data. A rename over a file starts its writing, which only a commit in
/// ordered mode waits for.
pub const WRITEBACK: Model = Model {
    name: "ext4-writeback",
    about: "ext4, data=writeback: sizes and renames do not wait for data",
    source: "Documentation/admin-guide/ext4.rst (data=writeback); fs/ext4: ext4_alloc_da_blocks",
    size_after_data: false,
    rename_flushes: false,
    ..MODEL
};

/// `data=journal`: data goes through the journal as well.
pub const JOURNAL: Model = Model {
    name: "ext4-journal",
    about: "ext4, data=journal: everything in program order",
    source: "Documentation/admin-guide/ext4.rst (data=journal)",
    order: Order::Everything,
    fsync: Forces::Everything,
    torn: false,
    ..MODEL
};
