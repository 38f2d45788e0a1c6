//! Atomics of protocols that a model checker runs: the processor's, or loom's in tests built with
//! `--cfg outlast_loom`.

#[cfg(not(all(test, outlast_loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};

#[cfg(all(test, outlast_loom))]
pub(crate) use modelled::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Loom takes sequentially consistent accesses for acquiring and releasing ones, but knows the fence. A store of that
/// kind is therefore an exchange with a fence behind it, and a load is a load: as on x86-64.
#[cfg(all(test, outlast_loom))]
mod modelled {
    use std::sync::atomic::Ordering;

    pub(crate) use loom::sync::atomic::fence;

    fn then_fence<R>(order: Ordering, result: R) -> R {
        if order == Ordering::SeqCst {
            fence(order);
        }
        result
    }

    macro_rules! atomics {
        ($($name:ident, $value:ty;)*) => {$(
            #[derive(Default, Debug)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            #[allow(dead_code)]
            impl $name {
                pub fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    match order {
                        Ordering::SeqCst => _ = self.swap(value, order),
                        _ => self.0.store(value, order),
                    }
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    then_fence(order, self.0.swap(value, order))
                }

                pub fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    order: Ordering,
                    failed: Ordering,
                ) -> Result<$value, $value> {
                    let exchanged = self.0.compare_exchange(from, to, order, failed);
                    // A load may then still return what was there before, in a loop for ever.
                    if exchanged.is_err() {
                        loom::thread::yield_now();
                    }
                    then_fence(order, exchanged)
                }

                pub fn fetch_update(
                    &self,
                    order: Ordering,
                    failed: Ordering,
                    next: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    then_fence(order, self.0.fetch_update(order, failed, next))
                }
            }
        )*};
    }

    atomics! { AtomicBool, bool; AtomicU32, u32; AtomicU64, u64; AtomicUsize, usize; }

    macro_rules! counters {
        ($($name:ident, $value:ty;)*) => {$(
            #[allow(dead_code)]
            impl $name {
                pub fn fetch_add(&self, more: $value, order: Ordering) -> $value {
                    then_fence(order, self.0.fetch_add(more, order))
                }

                pub fn fetch_sub(&self, less: $value, order: Ordering) -> $value {
                    then_fence(order, self.0.fetch_sub(less, order))
                }
            }
        )*};
    }

    counters! { AtomicU32, u32; AtomicU64, u64; AtomicUsize, usize; }
}
