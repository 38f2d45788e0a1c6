//! Field types that are known not to live in a pool, and what to use instead.
//!
//! Names can be hidden behind aliases, so what is let through here still has to implement
//! `Persist`; this is for the message.

use syn::spanned::Spanned;
use syn::{Error, GenericArgument, PathArguments, PathSegment, Type, TypePath};

/// Standard types by their names: what is wrong with them, and what would be right.
const KNOWN: &[(&str, &str, &str)] = &[
    ("Box", VOLATILE, "use `PBox`"),
    ("Rc", VOLATILE, "use `PPtr` to what a `PBox` owns"),
    ("Arc", VOLATILE, "use `PPtr` to what a `PBox` owns"),
    ("Vec", VOLATILE, "use `PVec`"),
    ("VecDeque", VOLATILE, "use `PQueue`"),
    ("String", VOLATILE, "use `PString`"),
    ("HashMap", VOLATILE, "use `PHashMap`"),
    ("HashSet", VOLATILE, "use `PHashMap` with `()` for its values"),
    ("BTreeMap", VOLATILE, "use `PBTreeMap`"),
    ("BTreeSet", VOLATILE, "use `PBTreeMap` with `()` for its values"),
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
const FULL: &str = "has no bit pattern left for `None`";
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
        Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(()),
        Type::Tuple(_) => refuse("a tuple", "has no fixed layout", "declare a `#[repr(C)]` struct"),
        Type::TraitObject(_) | Type::ImplTrait(_) | Type::Slice(_) => {
            refuse("a type without a size", "cannot be a field", "use `PBox` or `PVec`")
        }
        Type::Array(array) => check(field, owner, &array.elem),
        Type::Group(group) => check(field, owner, &group.elem),
        Type::Paren(paren) => check(field, owner, &paren.elem),
        Type::Path(path) => {
            if let Some((shown, why, instead)) = known(path) {
                return refuse(&shown, why, instead);
            }
            if let Some(number) = optional_number(path) {
                let instead = format!(
                    "store a number that means none, a `Checked<bool>` beside it, or an \
                     `Option<PBox<{number}>>`"
                );
                return refuse(&format!("`Option<{number}>`"), FULL, &instead);
            }
            if let Some((shown, instead)) = volatile_key(path) {
                return refuse(shown, VOLATILE, instead);
            }
            arguments(path).try_for_each(|inner| check(field, owner, inner))
        }
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

/// The number of an `Option`, if it is of one.
fn optional_number(path: &TypePath) -> Option<String> {
    const NUMBERS: [&str; 12] =
        ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64"];
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let Type::Path(inner) = types_of(last).next()? else { return None };
    let name = inner.path.get_ident()?.to_string();
    NUMBERS.contains(&name.as_str()).then_some(name)
}

/// A map's key that owns volatile memory, and the key in its place.
fn volatile_key(path: &TypePath) -> Option<(&'static str, &'static str)> {
    let last = path.path.segments.last().filter(|last| is_map(last))?;
    let Type::Path(key) = types_of(last).next()? else { return None };
    match key.path.segments.last()?.ident.to_string().as_str() {
        "String" => Some(("the key `String`", "use `str`, whose text the map copies")),
        "Vec" => Some(("the key `Vec`", "use `[u8]`, whose bytes the map copies")),
        _ => None,
    }
}

fn is_map(segment: &PathSegment) -> bool {
    ["PHashMap", "PBTreeMap", "PRbMap"].iter().any(|map| segment.ident == map)
}

/// The types between the angle brackets.
fn types_of(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let all = match &segment.arguments {
        PathArguments::AngleBracketed(brackets) => Some(&brackets.args),
        _ => None,
    };
    all.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The types between the angle brackets that are looked at. Names of values that are only checked when they are read
/// may stand in `Checked`, and keys of maps are encoded.
fn arguments(path: &TypePath) -> impl Iterator<Item = &Type> {
    let last = path.path.segments.last().filter(|last| last.ident != "Checked");
    let keys = usize::from(last.is_some_and(is_map));
    last.into_iter().flat_map(types_of).skip(keys)
}
