//! The schemes, by name.

use std::ffi::{CString, c_char};
use std::ptr::null;
use std::sync::OnceLock;

use outlast::Scheme;
use outlast::scheme::SCHEMES;

/// A scheme's name and what it does, as C reads texts.
fn texts() -> &'static [(CString, CString)] {
    static TEXTS: OnceLock<Vec<(CString, CString)>> = OnceLock::new();
    let text = |text: &str| CString::new(text).expect("a name has no zero in it");
    TEXTS.get_or_init(|| SCHEMES.iter().map(|row| (text(row.name), text(row.about))).collect())
}

/// A scheme's name.
pub(super) fn name_of(scheme: Scheme) -> *const c_char {
    let row = SCHEMES.iter().position(|row| row.scheme == scheme);
    row.map_or(null(), |row| texts()[row].0.as_ptr())
}

/// How many schemes there are.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_scheme_count() -> usize {
    SCHEMES.len()
}

/// The name of a scheme, counted from 0; null behind the last. The text lives as long as the
/// program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_scheme_name(number: usize) -> *const c_char {
    texts().get(number).map_or(null(), |row| row.0.as_ptr())
}

/// A scheme's mechanism, in one line; null behind the last. The text lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_scheme_about(number: usize) -> *const c_char {
    texts().get(number).map_or(null(), |row| row.1.as_ptr())
}
