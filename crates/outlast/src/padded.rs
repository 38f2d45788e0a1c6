//! Values that share their cache lines with nothing else.

use std::ops::Deref;

/// What one thread stores to often and others do not want to wait for: it has its lines, and the
/// neighbours that are fetched with them, for itself.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
