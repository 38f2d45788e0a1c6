//! The tokens: assertions about padding, the implementation, and the places of the fields.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Member;
use syn::spanned::Spanned;

use super::{Field, Names, Target};

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
    pub(super) fn no_padding(&self) -> TokenStream {
        let any = self.of_any_pool();
        let name = &self.input.ident;
        let mut end = quote!(0);
        let mut all = TokenStream::new();
        for Field { member, text, ty, .. } in &self.fields {
            let place = format!("before field `{text}` of `{name}`");
            all.extend(quote_spanned! {ty.span()=>
                ::outlast::typed::refuse_padding(
                    ::core::mem::offset_of!(#any, #member) - (#end), #place
                );
            });
            end = quote!(::core::mem::offset_of!(#any, #member)
                + ::outlast::typed::field_bytes(|all: &#any| &all.#member));
        }
        let last = &self.fields.last().expect("there are fields").text;
        let place = format!("behind field `{last}` of `{name}`");
        quote_spanned! {name.span()=>
            const _: () = {
                #all
                ::outlast::typed::refuse_padding(::core::mem::size_of::<#any>() - (#end), #place);
            };
        }
    }

    /// Tokens for each field, made of the field, its `Persist` and its place. They carry the
    /// field's span, so that a field that does not persist is what the message shows.
    fn of_each(
        &self,
        tokens: impl Fn(&Field<'_>, TokenStream, TokenStream) -> TokenStream,
    ) -> Vec<TokenStream> {
        let (any, brand) = (self.of_any_pool(), &self.brand);
        let of_one = |field: &Field<'_>| {
            let Field { member, ty, .. } = field;
            let span = field.span();
            let persist = quote_spanned!(span=> <#ty as ::outlast::typed::Persist<#brand>>);
            let at = quote_spanned!(span=> ::core::mem::offset_of!(#any, #member));
            tokens(field, persist, at)
        };
        self.fields.iter().map(of_one).collect()
    }

    pub(super) fn implementation(&self) -> TokenStream {
        let (any, this, brand) = (self.of_any_pool(), self.of_brand(), &self.brand);
        let Names { name, version } = &self.names;
        let key = &self.input.ident;
        let own =
            self.of_each(|field, persist, _| quote_spanned!(field.span()=> || #persist::OWNS));
        let describe = self.of_each(|field, persist, at| {
            let text = &field.text;
            quote_spanned!(field.span()=>
                schema.field(#at as u64, #text, |schema| #persist::describe(schema));
            )
        });
        let decode = self.of_each(|field, persist, at| {
            let member = &field.member;
            quote_spanned!(field.span()=>
                #member: #persist::decode(&bytes[#at..#at + #persist::SIZE])
            )
        });
        let encode = self.of_each(|field, persist, at| {
            let member = &field.member;
            quote_spanned!(field.span()=>
                #persist::encode(&self.#member, &mut bytes[#at..#at + #persist::SIZE]);
            )
        });
        let free_owned = self.of_each(|field, persist, _| {
            let member = &field.member;
            quote_spanned!(field.span()=> #persist::free_owned(self.#member, tx)?;)
        });
        let free_replaced = self.of_each(|field, persist, _| {
            let member = &field.member;
            quote_spanned!(field.span()=>
                #persist::free_replaced(self.#member, tx, &new.#member)?;
            )
        });
        let access = self.access();
        quote! {
            #[automatically_derived]
            impl<#brand> ::outlast::typed::Persist<#brand> for #this {
                const SIZE: usize = ::core::mem::size_of::<#any>();
                const OWNS: bool = false #(#own)*;

                fn describe(schema: &mut ::outlast::typed::Schema) {
                    const KEY: &str = ::core::concat!(
                        ::core::module_path!(), "::", ::core::stringify!(#key),
                        "@", ::core::line!(), ":", ::core::column!()
                    );
                    schema.define(KEY, #name, #version, |schema| {
                        #(#describe)*
                    });
                }

                #[inline]
                fn decode(bytes: &[u8]) -> Self {
                    Self { #(#decode),* }
                }

                #[inline]
                fn encode(&self, bytes: &mut [u8]) {
                    #(#encode)*
                }

                #access

                fn free_owned<X: ::outlast::Transact>(
                    self,
                    tx: &mut ::outlast::typed::TypedTx<#brand, '_, X>,
                ) -> ::core::result::Result<(), ::outlast::Abort> {
                    #(#free_owned)*
                    ::core::result::Result::Ok(())
                }

                fn free_replaced<X: ::outlast::Transact>(
                    self,
                    tx: &mut ::outlast::typed::TypedTx<#brand, '_, X>,
                    new: &Self,
                ) -> ::core::result::Result<(), ::outlast::Abort> {
                    #(#free_replaced)*
                    ::core::result::Result::Ok(())
                }
            }
        }
    }

    /// `Empty`, where each field has an empty form. A bound without a parameter is an error where it does not hold, unless
    /// it binds a lifetime: so each binds one.
    pub(super) fn empty(&self) -> TokenStream {
        let (this, brand) = (self.of_brand(), &self.brand);
        let types = self.fields.iter().map(|field| field.ty);
        let made = self.fields.iter().map(|field| {
            let (Field { member, ty, .. }, span) = (field, field.span());
            quote_spanned!(span=> #member: <#ty as ::outlast::typed::Empty<#brand>>::empty(tx)?)
        });
        quote! {
            #[automatically_derived]
            #[allow(private_bounds, trivial_bounds, reason = "the bounds are those of the fields")]
            impl<#brand> ::outlast::typed::Empty<#brand> for #this
            where
                #(for<'any> #types: ::outlast::typed::Empty<#brand>,)*
            {
                fn empty<X: ::outlast::Transact>(
                    tx: &mut ::outlast::typed::TypedTx<#brand, '_, X>,
                ) -> ::core::result::Result<Self, ::outlast::Abort> {
                    ::core::result::Result::Ok(Self { #(#made),* })
                }
            }
        }
    }

    /// Loading and storing: a struct of one field as that field, others as their bytes at once.
    fn access(&self) -> TokenStream {
        let (any, brand) = (self.of_any_pool(), &self.brand);
        let (load, store) = match &self.fields[..] {
            [field] => {
                let (Field { member, ty, .. }, span) = (field, field.span());
                let persist = quote_spanned!(span=> <#ty as ::outlast::typed::Persist<#brand>>);
                let load = quote_spanned! {span=>
                    ::core::result::Result::Ok(Self { #member: #persist::load(tx, at)? })
                };
                (load, quote_spanned!(span=> #persist::store(&self.#member, tx, at)))
            }
            _ => {
                let bytes = quote!([0; ::core::mem::size_of::<#any>()]);
                let load = quote! {
                    let mut bytes = #bytes;
                    tx.load(at, &mut bytes)?;
                    ::core::result::Result::Ok(Self::decode(&bytes))
                };
                let store = quote! {
                    let mut bytes = #bytes;
                    self.encode(&mut bytes);
                    tx.store(at, &bytes)
                };
                (load, store)
            }
        };
        quote! {
            #[inline]
            fn load<X: ::outlast::Transact>(
                tx: &mut X,
                at: ::outlast::PoolOffset,
            ) -> ::core::result::Result<Self, ::outlast::Abort> {
                #load
            }

            #[inline]
            fn store<X: ::outlast::Transact>(
                &self,
                tx: &mut X,
                at: ::outlast::PoolOffset,
            ) -> ::core::result::Result<(), ::outlast::Abort> {
                #store
            }
        }
    }

    /// `FIELDS`: for each field its place, under its own visibility.
    pub(super) fn projections(&self) -> TokenStream {
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
