//! The pool's memory as the data model uses it.

use outlast::{Abort, PoolOffset, Transact};

/// A running transaction of whatever runtime. Not generic: commands are compiled once, and the
/// indirect call is nothing beside the system calls around a command.
pub(crate) type Mem<'a> = dyn Transact + 'a;

/// Loads `len` bytes.
pub(crate) fn load_vec(mem: &mut Mem<'_>, at: PoolOffset, len: usize) -> Result<Vec<u8>, Abort> {
    let mut bytes = vec![0; len];
    mem.load(at, &mut bytes)?;
    Ok(bytes)
}

/// Words that are stored again though they are equal, where they are few between two changes.
const EQUAL_WORDS_STORED: usize = 2;

/// Stores `new` where `old` stands, the words that differ.
pub(crate) fn store_changed(
    mem: &mut Mem<'_>,
    at: PoolOffset,
    old: &[u8],
    new: &[u8],
) -> Result<(), Abort> {
    let (old_words, new_words) = (old.as_chunks::<8>().0, new.as_chunks::<8>().0);
    // The words of a change, and of those that it is joined with.
    let mut change: Option<(usize, usize)> = None;
    for (word, (old, new_word)) in old_words.iter().zip(new_words).enumerate() {
        if u64::from_ne_bytes(*old) == u64::from_ne_bytes(*new_word) {
            continue;
        }
        change = match change {
            Some((from, to)) if word <= to + EQUAL_WORDS_STORED => Some((from, word + 1)),
            Some((from, to)) => {
                mem.store(at.plus(from as u64 * 8), &new[from * 8..to * 8])?;
                Some((word, word + 1))
            }
            None => Some((word, word + 1)),
        };
    }
    // The rest is a part of a word, or longer than what stood there.
    let common = old_words.len().min(new_words.len()) * 8;
    let is_rest_equal = old.len() >= new.len() && old[common..new.len()] == new[common..];
    if let Some((from, to)) = change {
        let is_joined = !is_rest_equal && common / 8 <= to + EQUAL_WORDS_STORED;
        let end = if is_joined { new.len() } else { to * 8 };
        mem.store(at.plus(from as u64 * 8), &new[from * 8..end])?;
        if is_joined {
            return Ok(());
        }
    }
    match is_rest_equal {
        true => Ok(()),
        false => mem.store(at.plus(common as u64), &new[common..]),
    }
}

/// Something durable that cannot be.
#[cold]
pub(crate) fn damaged(at: PoolOffset, what: &str) -> Abort {
    Abort::damaged(format!("{what} at {at}"))
}
