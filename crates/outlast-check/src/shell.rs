//! Commands that are printed for a reader to run.

use std::borrow::Cow;

/// Text as one word of a command: quoted where a shell would take it for several, or for something
/// other than text.
///
/// ```
/// use outlast_check::shell::word;
///
/// assert_eq!(word("skip-flush:RedoRecord"), "skip-flush:RedoRecord");
/// assert_eq!(word("other form (tags)"), "'other form (tags)'");
/// assert_eq!(word("it's"), r"'it'\''s'");
/// ```
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(quoted(text))
    }
}

/// Text in quotes, as a shell takes it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
