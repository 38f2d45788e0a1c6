//! Ranges of keys, as maps in order take them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys of a map in order: a range of `K`s, or of references to them, so that `"a".."b"` is one of `str`s.
///
/// It is what [`RangeBounds`](std::ops::RangeBounds) is, with ranges of references to keys without a size among its
/// types. A pair of [`Bound`]s is a range too, such as one that leaves out its first key:
/// `(Bound::Excluded("a"), Bound::Unbounded)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of the keys of this map, which are `{K}`",
    label = "not a range of `{K}`",
    note = "a range of numbers or tuples as it is, such as `1..=9`; of text or bytes by reference, such as `\"a\"..\"b\"`, or a pair of `std::ops::Bound`s"
)]
pub trait KeyRange<K: ?Sized> {
    /// The first key, and the last.
    fn bounds(&self) -> (Bound<&K>, Bound<&K>);
}

impl<K: ?Sized> KeyRange<K> for RangeFull {
    fn bounds(&self) -> (Bound<&K>, Bound<&K>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! ranges {
    ($($range:ident: |$this:ident| $from:expr, $until:expr;)*) => {$(
        impl<K> KeyRange<K> for $range<K> {
            fn bounds(&self) -> (Bound<&K>, Bound<&K>) {
                let $this = self;
                ($from, $until)
            }
        }

        impl<K: ?Sized> KeyRange<K> for $range<&K> {
            fn bounds(&self) -> (Bound<&K>, Bound<&K>) {
                let $this = self;
                (by_reference($from), by_reference($until))
            }
        }
    )*};
}

fn by_reference<'k, K: ?Sized>(bound: Bound<&&'k K>) -> Bound<&'k K> {
    bound.map(|key| *key)
}

ranges! {
    Range: |it| Bound::Included(&it.start), Bound::Excluded(&it.end);
    RangeInclusive: |it| Bound::Included(it.start()), Bound::Included(it.end());
    RangeFrom: |it| Bound::Included(&it.start), Bound::Unbounded;
    RangeTo: |it| Bound::Unbounded, Bound::Excluded(&it.end);
    RangeToInclusive: |it| Bound::Unbounded, Bound::Included(&it.end);
}

impl<K> KeyRange<K> for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<&K>, Bound<&K>) {
        (self.0.as_ref(), self.1.as_ref())
    }
}

impl<K: ?Sized> KeyRange<K> for (Bound<&K>, Bound<&K>) {
    fn bounds(&self) -> (Bound<&K>, Bound<&K>) {
        *self
    }
}
