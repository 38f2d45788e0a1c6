//! Structures as former versions made them, for tests of their pools.

use outlast::Abort;

use crate::store::entry::Kind;
use crate::store::list::List;
use crate::store::seq::Seq;
use crate::store::table::{Content, Table};
use crate::store::zset::{Zset, item};
use crate::store::{Found, Keys};

/// Gives a key's large list or sorted set its former structure. `false` where it has none.
pub(crate) fn make_former(keys: &mut Keys<'_>, key: &[u8]) -> Result<bool, Abort> {
    let Some(found) = keys.find(key)? else { return Ok(false) };
    let (kind, value) = match found.kind() {
        Kind::ListEnds => (Kind::ListSeq, former_list(keys, found)?),
        Kind::ZsetScores => (Kind::ZsetTree, former_zset(keys, found)?),
        _ => return Ok(false),
    };
    keys.write_keeping_deadline(key, Some(found), kind, &value)?;
    Ok(true)
}

fn former_list(keys: &mut Keys<'_>, found: Found) -> Result<Vec<u8>, Abort> {
    let items = List::load(keys, Some(found))?.all(keys)?;
    let seq = Seq::create(keys.mem, false)?;
    for item in items {
        seq.push(keys.mem, &item)?;
    }
    Ok(seq.at.0.to_le_bytes().to_vec())
}

fn former_zset(keys: &mut Keys<'_>, found: Found) -> Result<Vec<u8>, Abort> {
    let members = Zset::load(keys, Some(found))?.slice(keys, 0, u64::MAX)?;
    let (table, seq) = (Table::create(keys.mem)?, Seq::create(keys.mem, true)?);
    for (member, score) in members {
        seq.push(keys.mem, &item(score, &member))?;
        let (hash, value) = (keys.root.hasher.hash(&member), score.to_le_bytes());
        let content = Content { kind: Kind::String, value: &value, deadline: None };
        table.write(keys.mem, keys.root.hasher, None, &member, hash, &content)?;
    }
    Ok([table.at, seq.at].iter().flat_map(|at| at.0.to_le_bytes()).collect())
}
