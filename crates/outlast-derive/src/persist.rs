//! `#[derive(Persist)]`: what a struct says of itself, and what is wrong with it.

mod emit;

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Index, Lifetime, LitInt, LitStr, Member, Type};

use crate::{layout, refuse};

/// The tokens of `#[derive(Persist)]`.
pub fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields(input)?;
    layout::require_fixed(input)?;
    let brand = brand(input)?;
    refuse_fields(input, &fields)?;
    let target = Target { input, fields, brand, names: Names::of(input)? };
    let parts =
        [target.no_padding(), target.implementation(), target.empty(), target.projections()];
    Ok(parts.into_iter().collect())
}

/// A field as it is addressed and named.
struct Field<'i> {
    member: Member,
    text: String,
    ty: &'i Type,
    visibility: &'i syn::Visibility,
}

impl Field<'_> {
    /// Messages show the field's type. Names are resolved as the derive's own, also where a macro
    /// wrote the struct.
    fn span(&self) -> Span {
        Span::call_site().located_at(self.ty.span())
    }
}

struct Target<'i> {
    input: &'i DeriveInput,
    fields: Vec<Field<'i>>,
    /// The lifetime of the pool, the struct's own if it has one.
    brand: Lifetime,
    names: Names,
}

/// What the schema calls the type.
struct Names {
    name: String,
    version: u32,
}

impl Names {
    fn of(input: &DeriveInput) -> syn::Result<Self> {
        let mut names = Self { name: input.ident.to_string(), version: 1 };
        for attribute in input.attrs.iter().filter(|a| a.path().is_ident("persist")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("version") {
                    names.version = meta.value()?.parse::<LitInt>()?.base10_parse()?;
                } else if meta.path.is_ident("name") {
                    names.name = meta.value()?.parse::<LitStr>()?.value();
                } else {
                    return Err(meta.error("expected `version = N` or `name = \"…\"`"));
                }
                Ok(())
            })?;
        }
        Ok(names)
    }
}

fn fields(input: &DeriveInput) -> syn::Result<Vec<Field<'_>>> {
    let name = &input.ident;
    let body = match &input.data {
        Data::Struct(body) => &body.fields,
        Data::Enum(_) => {
            let why = format!(
                "`{name}` cannot persist as it is: not every bit pattern is a value of an \
                 enumeration; derive `Pattern` and store `Checked<{name}>`"
            );
            return Err(Error::new(name.span(), why));
        }
        Data::Union(_) => {
            let why = format!(
                "`{name}` cannot persist: nothing says which field of a union its bytes are"
            );
            return Err(Error::new(name.span(), why));
        }
    };
    if matches!(body, Fields::Unit) || body.is_empty() {
        return Err(Error::new(name.span(), format!("`{name}` has no fields, so nothing to keep")));
    }
    let member = |(i, field): (usize, &syn::Field)| match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index { index: i as u32, span: field.span() }),
    };
    let field = |(i, field)| {
        let member = member((i, field));
        let text = match &member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        Field { member, text, ty: &field.ty, visibility: &field.vis }
    };
    Ok(body.iter().enumerate().map(field).collect())
}

/// The one lifetime a persistent type may have.
fn brand(input: &DeriveInput) -> syn::Result<Lifetime> {
    let name = &input.ident;
    let params = &input.generics.params;
    if let Some(param) =
        params.iter().find(|param| !matches!(param, syn::GenericParam::Lifetime(_)))
    {
        let why = format!(
            "`{name}` cannot persist: the layout of a generic struct is not known here; declare \
             one struct for each type that it is used with"
        );
        return Err(Error::new(param.span(), why));
    }
    let mut lifetimes = input.generics.lifetimes();
    let brand = lifetimes.next().map(|param| param.lifetime.clone());
    if let Some(second) = lifetimes.next() {
        let why =
            format!("`{name}` cannot persist: its only lifetime is the brand of the pool it is in");
        return Err(Error::new(second.span(), why));
    }
    Ok(brand.unwrap_or_else(|| Lifetime::new("'id", Span::call_site())))
}

/// Every field that shows that it cannot persist, each with its own message.
fn refuse_fields(input: &DeriveInput, fields: &[Field<'_>]) -> syn::Result<()> {
    let owner = input.ident.to_string();
    let all = fields.iter().filter_map(|field| refuse::check(&field.text, &owner, field.ty).err());
    match all.reduce(|mut all, error| {
        all.combine(error);
        all
    }) {
        Some(errors) => Err(errors),
        None => Ok(()),
    }
}
