//! The guest's pages: which were touched, and what they held before it.
//!
//! An access is reported when it is done, so the bytes under a page's first store are gone by then.
//! What a page can hold before it is touched is known otherwise: zeros, or bytes that stood in it
//! when it was mapped. The latter are kept from then on.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::qemu::{Rights, rights};

pub const PAGE: u64 = 4096;

/// Pages of a leaf of the table, as a power of two.
const LEAF_BITS: u32 = 17;
/// Leaves: addresses have 48 bits.
const LEAVES: usize = 1 << (48 - 12 - LEAF_BITS);

type Leaf = [AtomicBool; 1 << LEAF_BITS];

static TABLE: [AtomicPtr<Leaf>; LEAVES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; LEAVES];

/// What changes only when a page is touched or mapped.
static SLOW: Mutex<Option<Slow>> = Mutex::new(None);

#[derive(Default)]
struct Slow {
    /// In the order of their first touch.
    touched: Vec<u64>,
    /// Bytes of pages that were mapped with them and are not touched.
    before: HashMap<u64, Box<[u8; PAGE as usize]>>,
}

/// The table's entry for a page, if pages near it were touched.
#[inline(always)]
fn entry(page: u64) -> Option<&'static AtomicBool> {
    let leaf = TABLE[(page >> LEAF_BITS) as usize & (LEAVES - 1)].load(Ordering::Acquire);
    // SAFETY: entries are null or point to leaves that are never freed.
    let leaf = unsafe { leaf.as_ref()? };
    Some(&leaf[page as usize & ((1 << LEAF_BITS) - 1)])
}

/// Whether a page was touched.
#[inline(always)]
pub fn is_touched(page: u64) -> bool {
    entry(page).is_some_and(|entry| entry.load(Ordering::Acquire))
}

/// Marks an untouched page, and calls `first` with its bytes before
/// any thread can find it: those that it holds, but for the range that a store has changed already.
/// Whether the page can be read.
pub fn touch(
    page: u64,
    base: u64,
    changed: Option<(usize, usize)>,
    mut first: impl FnMut(&[u8; PAGE as usize]),
) -> bool {
    let mut slow = SLOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let slow = slow.get_or_insert_default();
    if is_touched(page) {
        return true;
    }
    let before = slow.before.remove(&page);
    let Some(mut bytes) = read(page, base) else { return false };
    if let Some((from, len)) = changed {
        let old = before.as_ref().map_or([0; PAGE as usize], |before| **before);
        bytes[from..from + len].copy_from_slice(&old[from..from + len]);
    }
    slow.touched.push(page);
    first(&bytes);
    if entry(page).is_none() {
        let zeros: Vec<AtomicBool> = (0..1 << LEAF_BITS).map(|_| AtomicBool::new(false)).collect();
        let leaf: Box<Leaf> = zeros.into_boxed_slice().try_into().expect("a leaf's length");
        let place = &TABLE[(page >> LEAF_BITS) as usize & (LEAVES - 1)];
        place.store(Box::into_raw(leaf), Ordering::Release);
    }
    entry(page).expect("its leaf is there").store(true, Ordering::Release);
    true
}

/// The bytes of a page of the guest, whatever its rights; none where it is not mapped.
pub fn read(page: u64, base: u64) -> Option<[u8; PAGE as usize]> {
    static MEMORY: Mutex<Option<(u32, File)>> = Mutex::new(None);
    let mut memory = MEMORY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let process = std::process::id();
    // A child of fork must not read its parent's.
    if memory.as_ref().is_none_or(|memory| memory.0 != process) {
        *memory = Some((process, File::open("/proc/self/mem").ok()?));
    }
    let mut bytes = [0; PAGE as usize];
    let file = &memory.as_ref()?.1;
    file.read_exact_at(&mut bytes, (page * PAGE).wrapping_add(base)).ok()?;
    Some(bytes)
}

/// Pages of the guest within a range of addresses.
pub fn pages(at: u64, len: u64) -> impl Iterator<Item = u64> {
    let end = at.saturating_add(len).min(1 << 47);
    at / PAGE..end.div_ceil(PAGE)
}

/// Keeps what untouched pages of a range hold that may be stored to.
pub fn keep(at: u64, len: u64, base: u64) {
    let mut slow = SLOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let slow = slow.get_or_insert_default();
    for page in pages(at, len) {
        if is_touched(page) || rights(page * PAGE) != Rights::Write {
            continue;
        }
        match read(page, base) {
            Some(bytes) if bytes.iter().any(|byte| *byte != 0) => {
                slow.before.insert(page, Box::new(bytes));
            }
            _ => drop(slow.before.remove(&page)),
        }
    }
}

/// Keeps what all pages hold that the guest may store to.
pub fn keep_all(base: u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let parse = |text| u64::from_str_radix(text, 16).unwrap_or(0).wrapping_sub(base);
        let (from, to) = (parse(from), parse(to));
        // A page that holds code which was translated may be stored to, but the host's page not.
        if rights.starts_with('r') && from < to && to <= 1 << 47 {
            keep(from, to - from, base);
        }
    }
}

/// All touched pages, in the order of their first touch.
pub fn touched() -> Vec<u64> {
    let slow = SLOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    slow.as_ref().map_or_else(Vec::new, |slow| slow.touched.clone())
}

/// Forgets what was touched, in a child of fork: its pages hold what they hold.
pub fn forget(base: u64) {
    {
        let mut slow = SLOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for page in std::mem::take(&mut slow.get_or_insert_default().touched) {
            entry(page).expect("it was touched").store(false, Ordering::Release);
        }
    }
    keep_all(base);
}
