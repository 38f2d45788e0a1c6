//! The root: one value of a program's type, with the schema of everything it leads to.

use super::layout::*;
use super::parsed::Types;
use super::schema::fingerprint_of;
use super::{Empty, PPtr, Persist, Schema, SchemaMismatch, TypedTx};
use crate::collections::{damaged, set_word, word};
use crate::{Abort, BlockKind, PoolOffset, RootKind, Transact};

impl<'id, X: Transact> TypedTx<'id, '_, X> {
    /// The pool's root, if one was set. The pointer stays good while the pool is open under one brand, so a program with
    /// [`Pool::typed`](crate::Pool::typed) asks once and keeps it. Each call compares the schema.
    ///
    /// # Errors
    /// [`Abort::Schema`] when the root was made with another schema, with both, or without types;
    /// those of the transaction.
    pub fn root<T: Persist<'id>>(&mut self) -> Result<Option<PPtr<'id, T>>, Abort> {
        let text = Schema::of::<T>().to_string();
        let found = root_of_schema(self.raw(), &text, T::SIZE as u64)?;
        Ok(found.map(PPtr::to))
    }

    /// The pool's root, which is set to what `make` returns if there is none.
    ///
    /// # Errors
    /// As [`root`](Self::root), and those of `make`.
    pub fn root_or_insert_with<T: Persist<'id>>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<T, Abort>,
    ) -> Result<PPtr<'id, T>, Abort> {
        match self.root()? {
            Some(root) => Ok(root),
            None => {
                let value = make(self)?;
                self.set_root(value)
            }
        }
    }

    /// The pool's root, which is set to its [empty form](Empty) if there was none.
    ///
    /// ```
    /// use outlast::Pool;
    /// use outlast::typed::{PBTreeMap, PVec, Persist};
    ///
    /// #[derive(Clone, Copy, Persist)]
    /// #[repr(C)]
    /// struct Log<'id> {
    ///     events: PVec<'id, u64>,
    ///     /// Pairs of a user and the number of an event.
    ///     by_user: PBTreeMap<'id, (u64, u64), ()>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("events.pool");
    /// let pool = Pool::open_or_create(&path)?;
    /// pool.run_typed(|tx| {
    ///     let log = tx.root_or_new::<Log<'_>>()?.get(tx)?;
    ///     let number = log.events.len(tx)?;
    ///     log.events.push(tx, 77)?;
    ///     log.by_user.put(tx, &(5, number), ())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`root`](Self::root).
    pub fn root_or_new<T: Persist<'id> + Empty<'id>>(&mut self) -> Result<PPtr<'id, T>, Abort> {
        self.root_or_insert_with(T::empty)
    }

    /// Makes `value` the pool's root, of whatever type the old one was. Only the old root's own
    /// blocks are freed, and pointers to it are good no longer: what it owned may be part of
    /// `value`. This is how a schema changes: load the root as the old type, make the new one of
    /// it, and set that, in one transaction.
    ///
    /// # Errors
    /// [`Abort::Schema`] when the pool has a root without types: the owner of its blocks is not
    /// known; those of the transaction.
    pub fn set_root<T: Persist<'id>>(&mut self, value: T) -> Result<PPtr<'id, T>, Abort> {
        let text = Schema::of::<T>().to_string();
        let tx = self.raw();
        let block = new_root(tx, &text, T::SIZE as u64)?;
        let at = block.plus(ROOT_HEADER_BYTES);
        value.store(tx, at)?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(PPtr::to(at))
    }
}

/// For programs without Rust's types: a new root of `bytes` bytes, which is described by the text of a
/// [`Schema`]. Returns where the value is to be stored, as words and boxes of the types that the text names.
///
/// # Errors
/// As [`TypedTx::set_root`], and [`Abort::Cancelled`] with the reason for a text that is none of a schema's, or whose type is larger
/// than `bytes`.
pub fn set_described_root<X: Transact>(
    tx: &mut X,
    schema: &str,
    bytes: u64,
) -> Result<PoolOffset, Abort> {
    check_text(schema, bytes)?;
    let block = new_root(tx, schema, bytes)?;
    tx.set_root(block, RootKind::Opaque)?;
    Ok(block.plus(ROOT_HEADER_BYTES))
}

/// The value of a root that was made with that schema by [`set_described_root`] or by a typed program, if the pool has a
/// root.
///
/// # Errors
/// As [`TypedTx::root`], and as [`set_described_root`] for the text.
pub fn described_root<X: Transact>(tx: &mut X, schema: &str) -> Result<Option<PoolOffset>, Abort> {
    let bytes = check_text(schema, u64::MAX)?;
    let Some(old) = Header::load(tx, schema)? else { return Ok(None) };
    old.require(tx, schema)?;
    if old.value_bytes < bytes {
        return Err(damaged(old.at, "a typed root whose size is not its schema's"));
    }
    Ok(Some(old.at.plus(ROOT_HEADER_BYTES)))
}

/// The bytes of the type that a schema begins with, `most` at most.
fn check_text(schema: &str, most: u64) -> Result<u64, Abort> {
    let Some(types) = Types::parse(schema) else {
        return Err(Abort::cancelled(format!("`{schema}` is no schema")));
    };
    let bytes = types.get(types.root).bytes;
    match bytes <= most {
        true => Ok(bytes),
        false => Err(Abort::cancelled(format!(
            "a value of `{}` has {bytes} bytes, and the root {most}",
            types.root_text
        ))),
    }
}

/// Where the value of the root lies that was made with this schema.
fn root_of_schema<X: Transact>(
    tx: &mut X,
    schema: &str,
    bytes: u64,
) -> Result<Option<PoolOffset>, Abort> {
    let Some(old) = Header::load(tx, schema)? else { return Ok(None) };
    old.require(tx, schema)?;
    if old.value_bytes != bytes {
        return Err(damaged(old.at, "a typed root whose size is not its schema's"));
    }
    Ok(Some(old.at.plus(ROOT_HEADER_BYTES)))
}

/// Frees the old root's own blocks, and makes those of a new one, whose value is still to be stored.
fn new_root<X: Transact>(tx: &mut X, schema: &str, bytes: u64) -> Result<PoolOffset, Abort> {
    if let Some(old) = Header::load(tx, schema)? {
        tx.free(old.text)?;
        tx.free(old.at)?;
    }
    let text_at = tx.alloc(schema.len() as u64, BlockKind::Value)?;
    tx.store(text_at, schema.as_bytes())?;
    let at = tx.alloc(ROOT_HEADER_BYTES + bytes, BlockKind::General)?;
    let mut header = [0; ROOT_HEADER_BYTES as usize];
    set_word(&mut header, 0, ROOT_MAGIC);
    set_word(&mut header, ROOT_FINGERPRINT_AT, fingerprint_of(schema));
    set_word(&mut header, ROOT_TEXT_AT, text_at.0);
    set_word(&mut header, ROOT_TEXT_LEN_AT, schema.len() as u64);
    set_word(&mut header, ROOT_VALUE_BYTES_AT, bytes);
    tx.store(at, &header)?;
    Ok(at)
}

/// A typed root as its block describes it.
struct Header {
    at: PoolOffset,
    fingerprint: u64,
    text: PoolOffset,
    text_len: u64,
    value_bytes: u64,
}

impl Header {
    /// The root's header; `schema` is what the program expects behind it.
    fn load<X: Transact>(tx: &mut X, schema: &str) -> Result<Option<Self>, Abort> {
        let Some((at, kind)) = tx.root()? else { return Ok(None) };
        // A root object of another kind may be smaller than the header, at the end of the pool.
        let is_typed = kind == RootKind::Opaque && tx.load_u64(at)? == ROOT_MAGIC;
        if !is_typed {
            return Err(mismatch(format!("a root without types ({kind:?})"), 0, schema));
        }
        let mut header = [0; ROOT_HEADER_BYTES as usize];
        tx.load(at, &mut header)?;
        let text_len = word(&header, ROOT_TEXT_LEN_AT);
        if text_len > SCHEMA_BYTES_MAX {
            return Err(damaged(at, "a schema longer than any"));
        }
        Ok(Some(Self {
            at,
            fingerprint: word(&header, ROOT_FINGERPRINT_AT),
            text: PoolOffset(word(&header, ROOT_TEXT_AT)),
            text_len,
            value_bytes: word(&header, ROOT_VALUE_BYTES_AT),
        }))
    }

    /// Refuses another schema than the one that the root was made with.
    fn require<X: Transact>(&self, tx: &mut X, schema: &str) -> Result<(), Abort> {
        if self.fingerprint == fingerprint_of(schema) {
            return Ok(());
        }
        let mut text = vec![0; self.text_len as usize];
        tx.load(self.text, &mut text)?;
        let found = String::from_utf8_lossy(&text).into_owned();
        Err(mismatch(found, self.fingerprint, schema))
    }
}

fn mismatch(found: String, found_fingerprint: u64, expected: &str) -> Abort {
    let expected_fingerprint = fingerprint_of(expected);
    let expected = expected.to_owned();
    Abort::Schema(Box::new(SchemaMismatch {
        found,
        found_fingerprint,
        expected,
        expected_fingerprint,
    }))
}
