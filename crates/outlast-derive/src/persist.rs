//! The implementation of `Persist` for a struct.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Index, Lifetime, LitInt, LitStr, Member, Type};

use crate::{layout, refuse};

/// The tokens of `#[derive(Persist)]`.
pub fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields(input)?;
    layout::require_fixed(input)?;
    let brand = brand(input)?;
    refuse_fields(input, &fields)?;
    let target = Target { input, fields, brand, names: Names::of(input)? };
    let parts = [target.no_padding(), target.implementation(), target.projections()];
    Ok(parts.into_iter().collect())
}

/// A field as it is addressed and named.
struct Field<'i> {
    member: Member,
    text: String,
    ty: &'i Type,
    visibility: &'i syn::Visibility,
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
            Member::Named(ident) => ident.to_string(),
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

impl Target<'_> {
    /// The struct under some lifetime: constants may not depend on the brand, and no layout does.
    fn of_any_pool(&self) -> TokenStream {
        let name = &self.input.ident;
        match self.input.generics.params.is_empty() {
            true => quote!(#name),
            false => quote!(#name<'static>),
        }
    }

    fn of_brand(&self) -> TokenStream {
        let (name, brand) = (&self.input.ident, &self.brand);
        match self.input.generics.params.is_empty() {
            true => quote!(#name),
            false => quote!(#name<#brand>),
        }
    }

    /// Assertions that each field begins where the one before ends, and the struct ends with the
    /// last.
    fn no_padding(&self) -> TokenStream {
        let any = self.of_any_pool();
        let name = &self.input.ident;
        let mut end = quote!(0);
        let mut all = TokenStream::new();
        for Field { member, text, ty, .. } in &self.fields {
            let why = format!(
                "padding before field `{text}` of `{name}`: order the fields from large to small, \
                 or fill the gap with a field of bytes"
            );
            all.extend(quote_spanned! {ty.span()=>
                ::core::assert!(::core::mem::offset_of!(#any, #member) == #end, #why);
            });
            end = quote!(::core::mem::offset_of!(#any, #member)
                + ::outlast::typed::field_bytes(|all: &#any| &all.#member));
        }
        let last = &self.fields.last().expect("there are fields").text;
        let why = format!(
            "padding behind field `{last}` of `{name}`: fill it with a field of bytes, such as \
             `padding: [u8; 4]`"
        );
        quote_spanned! {name.span()=>
            const _: () = {
                #all
                ::core::assert!(::core::mem::size_of::<#any>() == #end, #why);
            };
        }
    }

    fn implementation(&self) -> TokenStream {
        let (any, this, brand) = (self.of_any_pool(), self.of_brand(), &self.brand);
        let Names { name, version } = &self.names;
        let key = &self.input.ident;
        // With the field's place, so that a field that does not persist is what the message shows.
        let items = |item: &str| -> Vec<TokenStream> {
            let item = |Field { ty, .. }: &Field<'_>| {
                let item = Ident::new(item, ty.span());
                quote_spanned!(ty.span()=> <#ty as ::outlast::typed::Persist<#brand>>::#item)
            };
            self.fields.iter().map(item).collect()
        };
        let [sizes, own, describe, decode, encode, free_owned] =
            ["SIZE", "OWNS", "describe", "decode", "encode", "free_owned"].map(items);
        let members: Vec<_> = self.fields.iter().map(|field| &field.member).collect();
        let texts: Vec<_> = self.fields.iter().map(|field| &field.text).collect();
        let ranges: Vec<_> = members
            .iter()
            .zip(&sizes)
            .map(|(member, size)| {
                let at = quote!(::core::mem::offset_of!(#any, #member));
                quote!(#at..#at + #size)
            })
            .collect();
        quote! {
            #[automatically_derived]
            impl<#brand> ::outlast::typed::Persist<#brand> for #this {
                const SIZE: usize = ::core::mem::size_of::<#any>();
                const OWNS: bool = false #(|| #own)*;

                fn describe(schema: &mut ::outlast::typed::Schema) {
                    const KEY: &str = ::core::concat!(
                        ::core::module_path!(), "::", ::core::stringify!(#key),
                        "@", ::core::line!(), ":", ::core::column!()
                    );
                    schema.define(KEY, #name, #version, |schema| {
                        #(schema.field(
                            ::core::mem::offset_of!(#any, #members) as u64, #texts,
                            #describe,
                        );)*
                    });
                }

                #[inline]
                fn decode(bytes: &[u8]) -> Self {
                    Self { #(#members: #decode(&bytes[#ranges])),* }
                }

                #[inline]
                fn encode(&self, bytes: &mut [u8]) {
                    #(#encode(&self.#members, &mut bytes[#ranges]);)*
                }

                #[inline]
                fn load<X: ::outlast::Transact>(
                    tx: &mut X,
                    at: ::outlast::PoolOffset,
                ) -> ::core::result::Result<Self, ::outlast::Abort> {
                    let mut bytes = [0; ::core::mem::size_of::<#any>()];
                    tx.load(at, &mut bytes)?;
                    ::core::result::Result::Ok(Self::decode(&bytes))
                }

                #[inline]
                fn store<X: ::outlast::Transact>(
                    &self,
                    tx: &mut X,
                    at: ::outlast::PoolOffset,
                ) -> ::core::result::Result<(), ::outlast::Abort> {
                    let mut bytes = [0; ::core::mem::size_of::<#any>()];
                    self.encode(&mut bytes);
                    tx.store(at, &bytes)
                }

                fn free_owned<X: ::outlast::Transact>(
                    self,
                    tx: &mut ::outlast::typed::TypedTx<#brand, '_, X>,
                ) -> ::core::result::Result<(), ::outlast::Abort> {
                    #(#free_owned(self.#members, tx)?;)*
                    ::core::result::Result::Ok(())
                }
            }
        }
    }

    /// `FIELDS`: for each field its place, under its own visibility.
    fn projections(&self) -> TokenStream {
        let (any, this, brand) = (self.of_any_pool(), self.of_brand(), &self.brand);
        let (name, visibility) = (&self.input.ident, &self.input.vis);
        let projections = format_ident!("{name}Fields");
        let about = format!("Where the fields of [`{name}`] lie.");
        let place = |Field { ty, .. }: &Field<'_>| quote!(::outlast::typed::Field<#this, #ty>);
        let places: Vec<_> = self.fields.iter().map(place).collect();
        let members: Vec<_> = self.fields.iter().map(|field| &field.member).collect();
        let visibilities = self.fields.iter().map(|field| field.visibility);
        let docs = self.fields.iter().map(|field| format!("Of `{}`.", field.text));
        let is_named = matches!(self.fields[0].member, Member::Named(_));
        let generics = match self.input.generics.params.is_empty() {
            true => quote!(),
            false => quote!(<#brand>),
        };
        let body = match is_named {
            true => quote!({ #(#[doc = #docs] #visibilities #members: #places),* }),
            false => quote!(( #(#[doc = #docs] #visibilities #places),* );),
        };
        quote! {
            #[doc = #about]
            #[allow(dead_code, reason = "a program uses the fields that it needs")]
            #[derive(Clone, Copy)]
            #visibility struct #projections #generics #body

            #[automatically_derived]
            impl #generics #this {
                #[doc = #about]
                #[allow(dead_code, reason = "a program uses the fields that it needs")]
                #visibility const FIELDS: #projections #generics = #projections {
                    #(#members: ::outlast::typed::Field::at_offset(
                        ::core::mem::offset_of!(#any, #members) as u64
                    )),*
                };
            }
        }
    }
}
