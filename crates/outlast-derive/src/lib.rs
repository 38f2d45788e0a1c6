//! Derives for types that live in Outlast's pools: [`macro@Persist`] for structs, and
//! [`macro@Pattern`] for enumerations, whose values are checked when they are read.
//!
//! The crate is used through `outlast::typed`, which re-exports both and defines the traits; its
//! documentation has the examples.
//!
//! Why field by field: a derived type's bytes in a pool are those of its `repr(C)` layout, but they
//! are written and read one field at a time at constant offsets, little-endian. So no code anywhere
//! has to reinterpret memory, neither here nor in the program that derives, and a pool means the
//! same on every machine. The optimizer makes plain copies of it.
//!
//! - `layout` refuses declarations that do not fix where each field lies.
//! - `refuse` recognizes field types that cannot live in a pool and says what would.
//! - `persist` and `pattern` write the implementations.
#![forbid(unsafe_code)]

mod layout;
mod pattern;
mod persist;
mod refuse;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `outlast::typed::Persist` for a struct, and gives it a constant `FIELDS` with a
/// `Field` for each of its fields. Where each field has an empty form, the struct has one: it implements
/// `outlast::typed::Empty`, and `TypedTx::root_or_new` begins with it.
///
/// The struct must be `#[repr(C)]` or `#[repr(transparent)]`, `Copy`, without padding and without
/// type parameters; its fields must persist themselves. It may have one lifetime, the brand of its
/// pool. Everything else is refused at compile time, with the field's name.
///
/// `#[persist(version = N)]` numbers the meaning of a type whose layout did not change;
/// `#[persist(name = "…")]` keeps the old name of a type that was renamed. Both are part of the
/// schema that a pool stores.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    persist::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `outlast::typed::Pattern` for an enumeration without data, so that
/// `outlast::typed::Checked` of it can live in a pool.
///
/// The enumeration must have an integer representation of fixed size, as `#[repr(u8)]`.
#[proc_macro_derive(Pattern)]
pub fn derive_pattern(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    pattern::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
