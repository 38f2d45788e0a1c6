//! The implementation of `Pattern` for an enumeration.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields};

use crate::layout;

/// The tokens of `#[derive(Pattern)]`.
pub fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let Data::Enum(body) = &input.data else {
        let why = format!("`Pattern` is for enumerations, and `{name}` is none: derive `Persist`");
        return Err(Error::new(name.span(), why));
    };
    if let Some(variant) = body.variants.iter().find(|v| !matches!(v.fields, Fields::Unit)) {
        let why = format!(
            "variant `{}` of `{name}` has data: a checked enumeration is a number with names",
            variant.ident
        );
        return Err(Error::new(variant.ident.span(), why));
    }
    if body.variants.is_empty() {
        return Err(Error::new(name.span(), format!("`{name}` has no variants, so no values")));
    }
    let integer = layout::integer_of(input)?;
    let variants: Vec<_> = body.variants.iter().map(|variant| &variant.ident).collect();
    let text = name.to_string();
    let names: Vec<_> = variants.iter().map(|variant| variant.to_string()).collect();
    Ok(quote! {
        #[automatically_derived]
        impl ::outlast::typed::Pattern for #name {
            type Bits = #integer;

            const NAME: &'static str = #text;

            const VARIANTS: &'static [(&'static str, i128)] =
                &[#((#names, #name::#variants as #integer as i128)),*];

            fn to_bits(self) -> #integer {
                self as #integer
            }

            fn from_bits(bits: #integer) -> ::core::option::Option<Self> {
                #(
                    if bits == #name::#variants as #integer {
                        return ::core::option::Option::Some(#name::#variants);
                    }
                )*
                ::core::option::Option::None
            }
        }
    })
}
