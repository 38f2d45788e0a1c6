//! Types in pools: structs, pointers and collections that live in persistent memory, checked by the
//! compiler.
//!
//! - [`Persist`] is what can live in a pool. `#[derive(Persist)]` implements it for a struct and
//!   gives it `FIELDS`, the places of its fields; [`Checked`] holds what has invalid bit patterns.
//! - [`Pool::typed`](crate::Pool::typed) gives a pool a *brand*, and with it [`TypedPool`],
//!   [`TypedLane`] and [`TypedTx`], a running transaction.
//! - [`PPtr`] points to a value, [`PBox`] owns a block with one. [`PVec`], [`PHashMap`],
//!   [`PBTreeMap`], [`PQueue`], [`PString`] and [`PBytes`] have the interfaces of their cousins in
//!   the standard library.
//! - [`TypedTx::root`] is where a program finds its data again; the pool stores its [`Schema`] and
//!   refuses another.
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
//!     fn new(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Self, Abort> {
//!         Ok(Self { accounts: PVec::new(tx)?, by_owner: PHashMap::new(tx)? })
//!     }
//!
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
//!     let bank = lane.run(|tx| tx.root_or_insert_with(Bank::new)?.get(tx))?;
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
//! and unions as they are; `usize`; a pointer that leaves its pool, enters another, or is stored in
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
//! - `free` gives all that back; `clear` and `truncate` free what they drop.
//! - What a method returns is the caller's, to keep elsewhere or to free: what `pop` took out, what
//!   `insert` replaced.
//! - [`PPtr::set`] frees nothing, so that something can be moved by storing it elsewhere.
//!
//! # How calls look
//!
//! Every operation takes the transaction as `&mut`, so an argument that needs it too goes into a local first:
//! `let url = PString::new(tx, url)?; links.insert(tx, code, Link { url, hits: 0 })?;`. An iterator holds the
//! transaction: collect first where each item leads on to a load.
//!
//! Where a type is named, its brand is elided: `PHashMap::<str, Link<'_>>::new`, `tx.root::<PVec<'_, u64>>()?`.
//!
//! `docs/typed.md` has the design and its costs.

mod branded;
mod btree_map;
mod bytes;
mod checked;
mod entries;
mod field;
mod hash_map;
mod key;
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

pub use branded::{TypedLane, TypedPool, TypedTx, with_runner};
pub use btree_map::PBTreeMap;
pub use bytes::{PBytes, PString};
pub use checked::{Checked, Pattern};
pub use entries::Entry;
pub use field::Field;
pub use hash_map::{Iter as HashMapIter, PHashMap};
pub use key::{FixedKey, Key};
pub use map::{PMap, Structure};
pub use ordered::{Ordered, Range};
pub use outlast_derive::{Pattern, Persist};
pub use persist::{Persist, field_bytes};
pub use pointer::{Handle, PBox, PPtr};
pub use queue::{Iter as QueueIter, PQueue};
pub use rb_map::{PRbMap, RbWords, WordKey};
pub use root::{described_root, set_described_root};
pub use schema::{Schema, SchemaMismatch};
pub use vec::{Iter as VecIter, PVec};
pub(crate) use walk::TypedRoots;
