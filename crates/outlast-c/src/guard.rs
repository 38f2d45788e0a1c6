//! The boundary to C, for both headers: nothing unwinds over it, and texts end with a zero.

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what a C function does. After a panic `give_up` undoes what is left of the thread's
/// transactions, and the panic's text comes back as an error.
pub(crate) fn run<R>(body: impl FnOnce() -> R, give_up: impl FnOnce()) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let _ = catch_unwind(AssertUnwindSafe(give_up));
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
        let text = format!("a bug in Outlast: {text}");
        // A payload's own destructor may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        text
    })
}

/// A text for C.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_panic_nor_what_it_leaves_behind_unwinds() {
        struct Grenade;
        impl Drop for Grenade {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        let mut gave_up = false;
        let body = || std::panic::panic_any(Grenade);
        let result: Result<(), String> = run(body, || {
            gave_up = true;
            panic!("and again");
        });
        assert_eq!(result, Err("a bug in Outlast: no text".to_owned()));
        assert!(gave_up);
        assert_eq!(run(|| 7, || unreachable!("nothing failed")), Ok(7));
        assert_eq!(c_text("a\0b").as_c_str(), c"a b");
    }
}
