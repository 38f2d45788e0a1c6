//! Declarations that do not fix where each field lies.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, DeriveInput, Error, Ident, Meta, Token};

/// The items of all `#[repr(…)]` attributes.
pub fn reprs(attributes: &[Attribute]) -> syn::Result<Vec<Meta>> {
    let mut all = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        all.extend(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
    }
    Ok(all)
}

/// Refuses a struct whose layout is the compiler's choice, and one whose words may lie anywhere.
pub fn require_fixed(input: &DeriveInput) -> syn::Result<()> {
    let name = &input.ident;
    let reprs = reprs(&input.attrs)?;
    if let Some(packed) = reprs.iter().find(|repr| repr.path().is_ident("packed")) {
        let why = format!(
            "`{name}` cannot persist: the words of a packed struct are not aligned; remove `packed` \
             and order its fields from large to small"
        );
        return Err(Error::new(packed.span(), why));
    }
    if reprs.iter().any(|repr| repr.path().is_ident("C") || repr.path().is_ident("transparent")) {
        return Ok(());
    }
    let why = format!(
        "`{name}` cannot persist: without `#[repr(C)]` the compiler orders its fields as it likes, \
         and differently next time; add `#[repr(C)]`"
    );
    Err(Error::new(name.span(), why))
}

/// The integer that represents an enumeration.
pub fn integer_of(input: &DeriveInput) -> syn::Result<Ident> {
    const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    let name = &input.ident;
    reprs(&input.attrs)?
        .iter()
        .filter_map(|repr| repr.path().get_ident().cloned())
        .find(|ident| INTEGERS.iter().any(|integer| ident == integer))
        .ok_or_else(|| {
            let why = format!(
                "`{name}` has no fixed representation: add `#[repr(u8)]` or another integer of \
                 fixed size"
            );
            Error::new(name.span(), why)
        })
}
