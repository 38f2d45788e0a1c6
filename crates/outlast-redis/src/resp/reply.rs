//! Replies, in the version of the protocol that a client has asked for.

use crate::number::format_double;

/// A client's replies that have not left yet.
#[derive(Default, Debug)]
pub struct Reply {
    /// As they go over the wire.
    pub bytes: Vec<u8>,
    /// The client has asked for version 3.
    pub is_resp3: bool,
    /// Errors among the replies, each with its place in `bytes`, that are not counted yet.
    pub(crate) errors: Vec<(usize, ErrorCode)>,
}

/// The first word of an error, by which `INFO errorstats` counts it.
pub type ErrorCode = Box<str>;

/// An error whose first word is longer counts as `ERR`.
const CODE_BYTES_MAX: usize = 30;

fn code_of(text: &str) -> ErrorCode {
    match text.split_once(' ') {
        Some((code, _)) if code.len() <= CODE_BYTES_MAX => code.into(),
        _ => "ERR".into(),
    }
}

impl Reply {
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, value: i64) {
        self.bytes.push(kind);
        push_decimal(&mut self.bytes, value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The usual answer of a command that has nothing else to say.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A text without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An array of such texts.
    pub fn simples(&mut self, lines: &[&str]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.simple(line));
    }

    /// Takes replies back: all from byte `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        while self.errors.last().is_some_and(|(at, _)| *at >= len) {
            self.errors.pop();
        }
    }

    /// Puts other replies behind these.
    pub fn append(&mut self, other: Self) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.errors.extend(other.errors.into_iter().map(|(at, code)| (from + at, code)));
    }

    /// The codes of errors since the last call.
    pub fn take_errors(&mut self) -> impl Iterator<Item = ErrorCode> {
        std::mem::take(&mut self.errors).into_iter().map(|(_, code)| code)
    }

    /// An error: its code and a sentence.
    pub fn error(&mut self, text: &str) {
        self.errors.push((self.bytes.len(), code_of(text)));
        let clean: Vec<u8> =
            text.bytes().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }).collect();
        self.line(b'-', &clean);
    }

    /// A whole number.
    pub fn int(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// A length or count.
    pub fn len(&mut self, value: usize) {
        self.number(b':', value as i64);
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// As many bytes as said, which `fill` writes.
    pub fn bulk_with<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.number(b'$', len as i64);
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        fill(&mut self.bytes[start..])?;
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Bytes, or nothing.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people to read.
    pub fn verbatim(&mut self, text: &str) {
        if self.is_resp3 {
            self.number(b'=', text.len() as i64 + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, where there could be an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// The head of a map of `pairs` pairs.
    pub fn map(&mut self, pairs: usize) {
        match self.is_resp3 {
            true => self.number(b'%', pairs as i64),
            false => self.array(pairs * 2),
        }
    }

    /// The head of a set of `len` replies.
    pub fn set(&mut self, len: usize) {
        self.number(if self.is_resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// The head of a message that answers nothing.
    pub fn push(&mut self, len: usize) {
        self.number(if self.is_resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        let text = format_double(value);
        match self.is_resp3 {
            true => self.line(b',', text.as_bytes()),
            false => self.bulk(text.as_bytes()),
        }
    }

    /// A truth value, which version 2 has as 1 or nothing.
    pub fn boolean(&mut self, value: bool) {
        match (self.is_resp3, value) {
            (true, _) => self.line(b'#', if value { b"t" } else { b"f" }),
            (false, true) => self.int(1),
            (false, false) => self.null(),
        }
    }

    /// An array of bytes.
    pub fn bulks<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.array(words.len());
        words.iter().for_each(|word| self.bulk(word.as_ref()));
    }
}

/// Appends a number in decimal digits.
pub(crate) fn push_decimal(bytes: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        bytes.push(b'-');
    }
    bytes.extend_from_slice(&digits[at..]);
}
