//! Field types that are known not to live in a pool, and what to use instead.
//!
//! Names can be hidden behind aliases, so what is let through here still has to implement
//! `Persist`; this is for the message.

use syn::spanned::Spanned;
use syn::{Error, GenericArgument, PathArguments, Type, TypePath};

/// Standard types by their names: what is wrong with them, and what would be right.
const KNOWN: &[(&str, &str, &str)] = &[
    ("Box", VOLATILE, "use `PBox`"),
    ("Rc", VOLATILE, "use `PPtr` to what a `PBox` owns"),
    ("Arc", VOLATILE, "use `PPtr` to what a `PBox` owns"),
    ("Vec", VOLATILE, "use `PVec`"),
    ("VecDeque", VOLATILE, "use `PQueue`"),
    ("String", VOLATILE, "use `PString`"),
    ("HashMap", VOLATILE, "use `PHashMap`"),
    ("HashSet", VOLATILE, "use `PHashMap`, with `u8` for its values"),
    ("BTreeMap", VOLATILE, "use `PBTreeMap`"),
    ("BTreeSet", VOLATILE, "use `PBTreeMap`, with `u8` for its values"),
    ("Mutex", LOCK, "transactions isolate what they touch"),
    ("RwLock", LOCK, "transactions isolate what they touch"),
    ("Cell", LOCK, "change it in a transaction, through a `PPtr`"),
    ("RefCell", LOCK, "change it in a transaction, through a `PPtr`"),
    ("bool", PATTERN, "use `Checked<bool>`"),
    ("char", PATTERN, "use `Checked<char>`"),
    ("usize", SIZE, "use `u64`"),
    ("isize", SIZE, "use `i64`"),
];

const VOLATILE: &str = "points to volatile memory, which is gone after a restart";
const LOCK: &str = "is a way to share volatile memory";
const PATTERN: &str = "has invalid bit patterns";
const SIZE: &str = "has another size on other machines";

/// What keeps `ty` out of pools, if that shows in how it is written. `field` and `owner` are for
/// the message.
pub fn check(field: &str, owner: &str, ty: &Type) -> syn::Result<()> {
    let refuse = |shown: &str, why: &str, instead: &str| {
        let message =
            format!("field `{field}` of `{owner}` cannot persist: {shown} {why}; {instead}");
        Err(Error::new(ty.span(), message))
    };
    match ty {
        Type::Reference(_) => refuse("a reference", VOLATILE, "use `PPtr`, or `PString` for text"),
        Type::Ptr(_) => refuse("a raw pointer", VOLATILE, "use `PPtr`"),
        Type::FnPtr(_) => refuse("a function pointer", VOLATILE, "store a number that names it"),
        Type::Tuple(_) => refuse("a tuple", "has no fixed layout", "declare a `#[repr(C)]` struct"),
        Type::TraitObject(_) | Type::ImplTrait(_) | Type::Slice(_) => {
            refuse("a type without a size", "cannot be a field", "use `PBox` or `PVec`")
        }
        Type::Array(array) => check(field, owner, &array.elem),
        Type::Group(group) => check(field, owner, &group.elem),
        Type::Paren(paren) => check(field, owner, &paren.elem),
        Type::Path(path) => match known(path) {
            Some((shown, why, instead)) => refuse(&shown, why, instead),
            None => arguments(path).try_for_each(|inner| check(field, owner, inner)),
        },
        _ => Ok(()),
    }
}

fn known(path: &TypePath) -> Option<(String, &'static str, &'static str)> {
    let name = path.path.segments.last()?.ident.to_string();
    if name.starts_with("NonZero") {
        return Some((format!("`{name}`"), PATTERN, "use the plain integer"));
    }
    let &(_, why, instead) = KNOWN.iter().find(|(known, ..)| *known == name)?;
    Some((format!("`{name}`"), why, instead))
}

/// The types between the angle brackets. Names of values that are only checked when they are read
/// may stand in `Checked`, and keys of maps are encoded.
fn arguments(path: &TypePath) -> impl Iterator<Item = &Type> {
    let last = path.path.segments.last();
    let is_checked = last.is_some_and(|last| last.ident == "Checked");
    let brackets = last.filter(|_| !is_checked).map(|last| &last.arguments);
    let all = match brackets {
        Some(PathArguments::AngleBracketed(brackets)) => Some(&brackets.args),
        _ => None,
    };
    let maps = ["PHashMap", "PBTreeMap", "PRbMap"];
    let is_map = last.is_some_and(|last| maps.iter().any(|map| last.ident == map));
    let types = all.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.skip(usize::from(is_map))
}
