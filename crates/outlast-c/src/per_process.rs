//! Tables that a process has of its own.
//!
//! A forked child has a copy of its parent's tables, and of their locks: one that another thread
//! held at that moment is held for ever. So the child begins with new tables, and leaves the old
//! ones alone. What is in them is the parent's anyway.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use outlast_pmem::OwnerProcess;

/// A table of which each process has its own, made when it is first asked for.
pub(crate) struct PerProcess<T: 'static> {
    current: AtomicPtr<Table<T>>,
}

/// The table of a process.
pub(crate) struct Table<T> {
    owner: OwnerProcess,
    /// A process that forked this one had a table.
    pub is_forked: bool,
    pub content: T,
}

impl<T> PerProcess<T> {
    pub const fn new() -> Self {
        Self { current: AtomicPtr::new(null_mut()) }
    }

    /// This process's table, `new` if it has none yet. `new` is told whether a parent had one.
    pub fn get(&'static self, new: impl Fn(bool) -> T) -> &'static Table<T> {
        let found = self.current.load(Ordering::Acquire);
        // SAFETY: what was stored here was leaked, so it is good for ever, in children too.
        if let Some(table) = unsafe { found.as_ref() }
            && table.owner.is_this_process()
        {
            return table;
        }
        let is_forked = !found.is_null();
        let table = Table { owner: OwnerProcess::new(), is_forked, content: new(is_forked) };
        let table = Box::into_raw(Box::new(table));
        match self.current.compare_exchange(found, table, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was made just now and is never freed.
            Ok(_) => unsafe { &*table },
            Err(others) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(table) });
                // SAFETY: as of `found`; it is another thread's of this process.
                unsafe { &*others }
            }
        }
    }
}
