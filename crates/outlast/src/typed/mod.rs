//! Types in pools: structs, pointers and collections that live in persistent memory, checked by the
//! compiler.
//!
//! - [`Persist`] is what can live in a pool. `#[derive(Persist)]` implements it for a struct and
//!   gives it `FIELDS`, the places of its fields; [`Checked`] holds what has invalid bit patterns.
//! - [`Pool::typed`](crate::Pool::typed) gives a pool a *brand*, and with it [`TypedPool`],
//!   [`TypedLane`] and [`TypedTx`], a running transaction.
//! - [`PPtr`] points to a value, [`PBox`] owns a block with one. [`PVec`], [`PHashMap`],
//!   [`PBTreeMap`], [`PQueue`], [`PString`] and [`PBytes`] have the interfaces of their cousins in
//!   the standard library, with copies in place of references. A map with `()` as its values is a set.
//! - [`TypedTx::root_or_new`] is where a program finds its data, or begins with an [`Empty`] form of it; the pool stores
//!   its [`Schema`] and refuses another.
//!
//! ```
//! use outlast::typed::{Checked, PHashMap, PVec, Pattern, Persist, TypedTx};
//! use outlast::{Abort, Pool, Transact};
//!
//! #[derive(Clone, Copy, Persist)]
//! #[repr(C)]
//! struct Bank<'id> {
//!     accounts: PVec<'id, Account>,
//!     by_owner: PHashMap<'id, str, u64>,
//! }
//!
//! #[derive(Clone, Copy, Persist)]
//! #[repr(C)]
//! struct Account {
//!     balance: i64,
//!     kind: Checked<Kind>,
//!     branch: [u8; 7],
//! }
//!
//! #[derive(Clone, Copy, PartialEq, Debug, Pattern)]
//! #[repr(u8)]
//! enum Kind {
//!     Current,
//!     Savings,
//! }
//!
//! impl<'id> Bank<'id> {
//!     fn open(
//!         self,
//!         tx: &mut TypedTx<'id, '_, impl Transact>,
//!         owner: &str,
//!         balance: i64,
//!     ) -> Result<(), Abort> {
//!         let number = self.accounts.len(tx)?;
//!         let kind = Checked::new(Kind::Savings);
//!         self.accounts.push(tx, Account { balance, kind, branch: *b"Hanover" })?;
//!         match self.by_owner.insert(tx, owner, number)? {
//!             None => Ok(()),
//!             Some(_) => Err(Abort::cancelled("two accounts")), // and none was pushed
//!         }
//!     }
//!
//!     fn deposit(
//!         self,
//!         tx: &mut TypedTx<'id, '_, impl Transact>,
//!         owner: &str,
//!         amount: i64,
//!     ) -> Result<i64, Abort> {
//!         let none = || Abort::cancelled("no such account");
//!         let number = self.by_owner.get(tx, owner)?.ok_or_else(none)?;
//!         let account = self.accounts.item(tx, number)?.ok_or_else(none)?;
//!         // Eight bytes are loaded and stored, not the struct.
//!         account.at(Account::FIELDS.balance).update(tx, |balance| balance + amount)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("bank.pool");
//! let pool = Pool::create(&path)?;
//! pool.typed(|pool| -> Result<(), Box<dyn std::error::Error>> {
//!     let mut lane = pool.lane()?;
//!     let bank = lane.run(|tx| tx.root_or_new::<Bank<'_>>()?.get(tx))?;
//!     lane.run(|tx| bank.open(tx, "Ada", 70))?;
//!     assert!(lane.run(|tx| bank.open(tx, "Ada", 1)).is_err());
//!     Ok(())
//! })?;
//! drop(pool);
//!
//! let pool = Pool::open(&path)?;
//! let balance = pool.typed(|pool| -> Result<i64, Box<dyn std::error::Error>> {
//!     let mut lane = pool.lane()?;
//!     let bank = lane.run(|tx| tx.root::<Bank>()?.expect("it was set").get(tx))?;
//!     assert_eq!(lane.run(|tx| bank.accounts.len(tx))?, 1);
//!     Ok(lane.run(|tx| bank.deposit(tx, "Ada", 30))?)
//! })?;
//! assert_eq!(balance, 100);
//! # Ok(())
//! # }
//! ```
//!
//! # What is refused
//!
//! At compile time, each with a message that names the field or the pool; tests show them all:
//! references, raw pointers, `Box`, `Vec`, `String` and their like; structs without `#[repr(C)]` or
//! `#[repr(transparent)]`, packed or generic ones; padding; `bool`, `char`, `NonZero`, enumerations
//! and unions as they are; `usize`; an `Option` of a number; a pointer that leaves its pool, enters another, or is stored in
//! one; reading and changing outside a transaction; closing a pool under its types; changing a
//! collection while it is iterated over.
//!
//! At run time, as an error of the transaction: a root of another schema ([`crate::Abort::Schema`],
//! with both); bits that are no value of a `Checked`, text that is no UTF-8, a collection that was
//! freed ([`crate::Abort::Damaged`], as long as its block has no new owner); a pointer that leads
//! out of the pool, a block freed twice ([`crate::Abort::BadAddress`]).
//!
//! What a pointer leads to may be freed and its block used for something else. Then it reads what
//! is there now: values of the wrong meaning, never undefined behaviour, as every bit pattern is a
//! value and all is copied.
//!
//! # Who owns what
//!
//! Values and handles are `Copy`, and dropping one does nothing: a pool is not a stack frame.
//! - `PBox` and collections *own* their blocks, and what their items own; `PPtr` borrows.
//! - `free` gives all that back.
//! - What a method returns is the caller's, to keep elsewhere or to free: what `pop` took out, what
//!   `insert`, `set` or `replace` put something else in place of. Ignored, it leaks, and `outlast pool check` finds it.
//! - What a method does not return it frees: `put` and `extend` what they replace, `delete`, `retain`, `clear` and `truncate`
//!   what they drop. What the new value has in the same place as the old one stays, so `put` also takes a value back with one
//!   field changed.
//! - The exception is [`PPtr::set`], which frees nothing, so that something can be moved by storing it elsewhere.
//!
//! # How calls look
//!
//! Every operation takes the transaction as `&mut`, so an argument that needs it too goes into a local first:
//! `let url = PString::new(tx, url)?; links.put(tx, code, Link { url, hits: 0 })?;`. An iterator holds the
//! transaction: `to_vec` first where each item leads on to a load.
//!
//! `get` returns a copy of a value. `value` of a map, `item` of a vector, `ptr` of a box and the roots return a pointer,
//! [`PPtr`], to look at the value (`get`), at one field (`at`), or to change it in place (`set`, `update`).
//!
//! Every `iter`, `range` and `prefix` returns its iterator at once, and each item is a result. An error is the last item.
//!
//! Where a type is named, its brand is elided: `PHashMap::<str, Link<'_>>::new`, `tx.root::<PVec<'_, u64>>()?`. A closure is
//! written where it is passed, since only there the compiler knows it to be generic over the brand. One that is used twice
//! becomes a function, which names the brand, and is passed by its name:
//!
//! ```
//! use outlast::typed::{PHashMap, TypedTx};
//! use outlast::{Abort, Pool, Transact};
//!
//! fn visits<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<u64, Abort> {
//!     let pages = tx.root_or_new::<PHashMap<'_, str, u64>>()?.get(tx)?;
//!     pages.entry(tx, "/index")?.and_modify(|n| n + 1)?.or_insert(1)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("visits.pool");
//! let pool = Pool::open_or_create(&path)?;
//! assert_eq!(pool.run_typed(visits)?, 1);
//! pool.typed(|pool| -> Result<(), Box<dyn std::error::Error>> {
//!     let mut lane = pool.lane()?;
//!     assert_eq!(lane.run(visits)?, 2);
//!     let (count, _ticket) = lane.run_async(visits)?;
//!     assert_eq!(count, 3);
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! [The page on the typed API](https://github.com/outlast/outlast/blob/main/docs/typed.md) has the design and its costs.

mod branded;
mod btree_map;
mod bytes;
mod checked;
mod empty;
mod entries;
mod field;
mod hash_map;
mod key;
mod key_range;
pub(crate) mod layout;
mod map;
mod ordered;
mod parsed;
mod persist;
mod pointer;
mod queue;
mod rb_map;
mod root;
mod scalars;
mod schema;
mod vec;
mod walk;

pub(crate) use branded::with_transaction;
pub use branded::{TypedLane, TypedPool, TypedTx, with_runner};
pub use btree_map::PBTreeMap;
pub use bytes::{PBytes, PString};
pub use checked::{Checked, Pattern};
pub use empty::Empty;
pub use entries::Entry;
pub use field::Field;
pub use hash_map::{Iter as HashMapIter, PHashMap};
pub use key::{FixedKey, Key};
pub use key_range::KeyRange;
pub use map::{PMap, Structure};
pub use ordered::{Ordered, Range};
pub use outlast_derive::{Pattern, Persist};
pub use persist::{Persist, field_bytes, refuse_padding};
pub use pointer::{Handle, PBox, PPtr};
pub use queue::{Iter as QueueIter, PQueue};
pub use rb_map::{PRbMap, RbWords, WordKey};
pub use root::{described_root, set_described_root};
pub use schema::{Schema, SchemaMismatch};
pub use vec::{Iter as VecIter, PVec};
pub(crate) use walk::TypedRoots;
