//! Events for subscribers of the crate `tracing`, with its feature; without it nothing of them is compiled.
//!
//! | event | level | fields |
//! |---|---|---|
//! | `opened` | info | bytes, lanes, scheme, generation |
//! | `recovered` | info, or warn where something was undone or replayed | undone, replayed, corrected, micros |
//! | `grew` | info | bytes, by |
//! | `swept` | debug | lane, micros |
//! | `checkpoint` | info | number, pages, micros |
//! | `medium failed` | error | why |
//! | `conflict storm` | warn | lane, conflicts |
//! | `closed` | info | commits |
//!
//! Their target is `outlast`. A subscriber must not run transactions of the pool whose event it gets.

/// Emits an event: its level, its name, and its fields, which are evaluated only where they are wanted.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        tracing::event!(target: "outlast", tracing::Level::$level, $($field = $value,)* $name)
    };
}

/// Nothing.
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($event:tt)*) => {};
}

pub(crate) use event;
