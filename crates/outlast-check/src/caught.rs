//! Panics of the code that is checked: caught with message and place, and not printed.
//!
//! A recovery that panics on one image panics on thousands. While checked code runs, the panic
//! hook of this module notes what the panic says instead of printing it; panics of all other code
//! reach the hook that was there before.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::sync::Once;

/// A panic's message and place: the payload with which it goes on once it was noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panicked(pub String);

/// The message of a panic whose payload is no text.
const SILENT: &str = "with no message";

thread_local! {
    /// Whether the code that runs on this thread is being checked.
    static CHECKED: Cell<bool> = const { Cell::new(false) };
    static NOTED: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// Runs checked code.
///
/// # Errors
/// A panic as [`Panicked`], any other unwinding with its own payload.
pub fn catch<R>(body: impl FnOnce() -> R) -> std::thread::Result<R> {
    install();
    let outer = CHECKED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    CHECKED.set(outer);
    result.map_err(|payload| match NOTED.take() {
        // A note may also be of a panic that the checked code caught by itself.
        Some(noted) if payload.is::<String>() || payload.is::<&str>() => Box::new(noted),
        _ => payload,
    })
}

/// Runs checked code on a thread whose owner catches panics: they go on as [`Panicked`].
pub fn note<R>(body: impl FnOnce() -> R) -> R {
    catch(body).unwrap_or_else(|payload| resume_unwind(payload))
}

/// The message in a panic's payload.
pub fn message(payload: &(dyn Any + Send)) -> String {
    let noted = payload.downcast_ref::<Panicked>().map(|panicked| panicked.0.as_str());
    noted.unwrap_or_else(|| said(payload)).to_owned()
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or(SILENT)
}

fn install() {
    static INSTALLED: Once = Once::new();
    // The hook cannot be changed while this thread unwinds; such a check prints its panics.
    if INSTALLED.is_completed() || std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| if CHECKED.get() { keep(info) } else { before(info) }));
    });
}

fn keep(info: &PanicHookInfo<'_>) {
    let text = said(info.payload());
    let noted = match info.location() {
        Some(at) => format!("{text}, at {}:{}", at.file(), at.line()),
        None => text.to_owned(),
    };
    NOTED.set(Some(Panicked(noted)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_noted_with_its_message_and_place() {
        let payload = catch(|| panic!("{} are too many", 7)).unwrap_err();
        let text = message(&*payload);
        assert!(text.starts_with("7 are too many, at ") && text.contains("caught.rs:"), "{text}");
    }

    #[test]
    fn other_payloads_pass_and_old_notes_are_not_theirs() {
        let _ = catch(|| {
            let _ = catch_unwind(|| panic!("caught by the checked code"));
        });
        let payload = catch(|| resume_unwind(Box::new(5u8))).unwrap_err();
        assert_eq!(payload.downcast_ref::<u8>(), Some(&5));
    }

    #[test]
    fn code_that_is_not_checked_is_not_watched() {
        let _ = catch(|| ());
        assert!(!CHECKED.get());
        let _ = catch(|| catch(|| panic!("inner")).unwrap_err());
        assert!(!CHECKED.get() && NOTED.take().is_none());
    }
}
