//! The root: one value of a program's type, with the schema of everything it leads to.

use super::layout::*;
use super::{PPtr, Persist, Schema, SchemaMismatch, TypedTx};
use crate::collections::{damaged, set_word, word};
use crate::{Abort, BlockKind, PoolOffset, RootKind, Transact};

impl<'id, X: Transact> TypedTx<'id, '_, X> {
    /// The pool's root, if one was set. Asked once after opening: the pointer stays good, and the
    /// schema is compared each time.
    ///
    /// # Errors
    /// [`Abort::Schema`] when the root was made with another schema, with both, or without types;
    /// those of the transaction.
    pub fn root<T: Persist<'id>>(&mut self) -> Result<Option<PPtr<'id, T>>, Abort> {
        let schema = Schema::of::<T>();
        let Some(old) = Header::load(self.raw(), &schema)? else { return Ok(None) };
        old.require(self.raw(), &schema)?;
        if old.value_bytes != T::SIZE as u64 {
            return Err(damaged(old.at, "a typed root whose size is not its schema's"));
        }
        Ok(Some(PPtr::to(old.at.plus(ROOT_HEADER_BYTES))))
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

    /// Makes `value` the pool's root, of whatever type the old one was. Only the old root's own
    /// blocks are freed, and pointers to it are good no longer: what it owned may be part of
    /// `value`. This is how a schema changes: load the root as the old type, make the new one of
    /// it, and set that, in one transaction.
    ///
    /// # Errors
    /// [`Abort::Schema`] when the pool has a root without types: the owner of its blocks is not
    /// knows; those of the transaction.
    pub fn set_root<T: Persist<'id>>(&mut self, value: T) -> Result<PPtr<'id, T>, Abort> {
        let tx = self.raw();
        let schema = Schema::of::<T>();
        if let Some(old) = Header::load(tx, &schema)? {
            tx.free(old.text)?;
            tx.free(old.at)?;
        }
        let text = schema.to_string();
        let text_at = tx.alloc(text.len() as u64, BlockKind::Value)?;
        tx.store(text_at, text.as_bytes())?;
        let at = tx.alloc(ROOT_HEADER_BYTES + T::SIZE as u64, BlockKind::General)?;
        let mut header = [0; ROOT_HEADER_BYTES as usize];
        set_word(&mut header, 0, ROOT_MAGIC);
        set_word(&mut header, ROOT_FINGERPRINT_AT, schema.fingerprint());
        set_word(&mut header, ROOT_TEXT_AT, text_at.0);
        set_word(&mut header, ROOT_TEXT_LEN_AT, text.len() as u64);
        set_word(&mut header, ROOT_VALUE_BYTES_AT, T::SIZE as u64);
        tx.store(at, &header)?;
        let root = PPtr::to(at.plus(ROOT_HEADER_BYTES));
        value.store(tx, at.plus(ROOT_HEADER_BYTES))?;
        tx.set_root(at, RootKind::Opaque)?;
        Ok(root)
    }
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
    fn load<X: Transact>(tx: &mut X, schema: &Schema) -> Result<Option<Self>, Abort> {
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
    fn require<X: Transact>(&self, tx: &mut X, schema: &Schema) -> Result<(), Abort> {
        if self.fingerprint == schema.fingerprint() {
            return Ok(());
        }
        let mut text = vec![0; self.text_len as usize];
        tx.load(self.text, &mut text)?;
        let found = String::from_utf8_lossy(&text).into_owned();
        Err(mismatch(found, self.fingerprint, schema))
    }
}

fn mismatch(found: String, found_fingerprint: u64, expected: &Schema) -> Abort {
    let expected_fingerprint = expected.fingerprint();
    let expected = expected.to_string();
    Abort::Schema(Box::new(SchemaMismatch {
        found,
        found_fingerprint,
        expected,
        expected_fingerprint,
    }))
}
