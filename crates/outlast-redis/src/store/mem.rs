//! The pool's memory as the data model uses it.

use outlast::{Abort, PoolOffset, Transact};

/// A running transaction of whatever runtime. Not generic: commands are compiled once, and the
/// indirect call is nothing beside the system calls around a command.
pub(crate) type Mem<'a> = dyn Transact + 'a;

/// Loads `len` bytes.
pub(crate) fn load_vec(mem: &mut Mem<'_>, at: PoolOffset, len: usize) -> Result<Vec<u8>, Abort> {
    let mut bytes = vec![0; len];
    mem.load(at, &mut bytes)?;
    Ok(bytes)
}

/// Stores `new` where `old` stands, as far as they differ.
pub(crate) fn store_changed(
    mem: &mut Mem<'_>,
    at: PoolOffset,
    old: &[u8],
    new: &[u8],
) -> Result<(), Abort> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (mut start, mut end) = (same, same);
    // Equal bytes between two changes are stored again where they are few.
    const GAP: usize = 16;
    let common = old.len().min(new.len());
    for index in same..common {
        if old[index] != new[index] {
            if index > end + GAP {
                mem.store(at.plus(start as u64), &new[start..end])?;
                start = index;
            }
            end = index + 1;
        }
    }
    if new.len() > common {
        if common > end + GAP {
            mem.store(at.plus(start as u64), &new[start..end])?;
            start = common;
        }
        end = new.len();
    }
    match end > start {
        true => mem.store(at.plus(start as u64), &new[start..end]),
        false => Ok(()),
    }
}

/// Something durable that cannot be.
#[cold]
pub(crate) fn damaged(at: PoolOffset, what: &str) -> Abort {
    Abort::damaged(format!("{what} at {at}"))
}
