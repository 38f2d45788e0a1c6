//! Requests: arrays of bulk strings, or a line of words.

use crate::number::parse_int;
use crate::resp::Args;

/// How large requests may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of one word.
    pub bulk_bytes_max: usize,
    /// Words of one command.
    pub words_max: usize,
    /// The client has not said who it is: it gets ten words of 16 KiB.
    pub is_unknown: bool,
}

/// Bytes of a line without its end.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// Limits of clients that have not said who they are.
const UNKNOWN_WORDS_MAX: usize = 10;
const UNKNOWN_BULK_BYTES_MAX: usize = 16 << 10;

/// A request that is still arriving. No byte is parsed twice: an outcome is kept until [`clear`](Self::clear).
#[derive(Default, Debug)]
pub(crate) struct Request {
    /// The bytes of the whole request, or the error of a malformed one.
    outcome: Option<Result<usize, String>>,
    /// Words that are still to come, once the array's head was read.
    words_left: Option<usize>,
    /// Bytes of the next word, once its head was read.
    word_bytes: Option<usize>,
    /// How far the buffer was read, from the request's first byte on.
    read: usize,
    /// No line end lies before that.
    searched: usize,
    /// The words, from the request's first byte on, or in `own`.
    pub ranges: Vec<(usize, usize)>,
    /// The words of a line with quotes, as they are without.
    own: Vec<u8>,
}

/// The result of a look at the buffer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// The request's end has not arrived.
    Partly,
    /// A command, and the bytes that it takes. Without words it wants no answer.
    Whole(usize),
}

impl Request {
    /// For the next request.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.own.clear();
        self.outcome = None;
        (self.words_left, self.word_bytes, self.read, self.searched) = (None, None, 0, 0);
    }

    /// The words of a whole request that begins at the first of these bytes.
    pub fn words<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args::new(if self.own.is_empty() { bytes } else { &self.own }, &self.ranges)
    }

    /// The bytes of the request, once it is whole.
    pub fn whole(&self) -> Option<usize> {
        self.outcome.as_ref()?.as_ref().ok().copied()
    }

    /// Whether some of its bytes were parsed.
    pub fn is_begun(&self) -> bool {
        self.outcome.is_some() || self.read > 0 || self.searched > 0
    }

    /// Whether its end, or an error, was found.
    pub fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// Goes on with what has arrived: all bytes from the request's first on. A request that is whole or
    /// malformed has the same outcome at every further call.
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Parsed, String> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone().map(Parsed::Whole);
        }
        let parsed = self.advance(bytes, limits);
        match &parsed {
            Ok(Parsed::Partly) => {}
            Ok(Parsed::Whole(len)) => self.outcome = Some(Ok(*len)),
            Err(error) => self.outcome = Some(Err(error.clone())),
        }
        parsed
    }

    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Parsed, String> {
        if self.words_left.is_none() {
            match bytes.first() {
                None => return Ok(Parsed::Partly),
                Some(b'*') => {
                    let what = "Protocol error: too big mbulk count string";
                    let Some(line) = self.line(bytes, what)? else { return Ok(Parsed::Partly) };
                    let count = parse_int(&bytes[line.0 + 1..line.1])
                        .filter(|count| *count <= limits.words_max as i64)
                        .ok_or("Protocol error: invalid multibulk length")?;
                    if limits.is_unknown && count > UNKNOWN_WORDS_MAX as i64 {
                        return Err("Protocol error: unauthenticated multibulk length".to_owned());
                    }
                    if count <= 0 {
                        return Ok(Parsed::Whole(self.read));
                    }
                    self.words_left = Some(count as usize);
                }
                Some(_) => return self.inline(bytes),
            }
        }
        while let Some(left @ 1..) = self.words_left {
            let Some(len) = self.word_len(bytes, limits)? else { return Ok(Parsed::Partly) };
            if bytes.len() < self.read + len + 2 {
                return Ok(Parsed::Partly);
            }
            self.ranges.push((self.read, self.read + len));
            self.read += len + 2;
            self.word_bytes = None;
            self.words_left = Some(left - 1);
        }
        Ok(Parsed::Whole(self.read))
    }

    /// The length of the next word.
    fn word_len(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, String> {
        if self.word_bytes.is_none() {
            if let Some(first) = bytes.get(self.read).filter(|first| **first != b'$') {
                let first = char::from(*first);
                return Err(format!("Protocol error: expected '$', got '{first}'"));
            }
            let what = "Protocol error: too big bulk count string";
            let Some(line) = self.line(bytes, what)? else { return Ok(None) };
            let len = bytes.get(line.0 + 1..line.1).and_then(parse_int);
            let len = len
                .filter(|len| (0..=limits.bulk_bytes_max as i64).contains(len))
                .ok_or("Protocol error: invalid bulk length")?;
            if limits.is_unknown && len > UNKNOWN_BULK_BYTES_MAX as i64 {
                return Err("Protocol error: unauthenticated bulk length".to_owned());
            }
            self.word_bytes = Some(len as usize);
        }
        Ok(self.word_bytes)
    }

    /// The next line: where it begins and ends, without what ends it.
    fn line(
        &mut self,
        bytes: &[u8],
        too_long: &'static str,
    ) -> Result<Option<(usize, usize)>, String> {
        let from = self.read.max(self.searched);
        let Some(end) = bytes[from.min(bytes.len())..].iter().position(|byte| *byte == b'\r')
        else {
            self.searched = bytes.len();
            if bytes.len() - self.read > INLINE_BYTES_MAX {
                return Err(too_long.to_owned());
            }
            return Ok(None);
        };
        let end = from + end;
        if end + 1 >= bytes.len() {
            self.searched = end;
            return Ok(None);
        }
        let line = (self.read, end);
        self.read = end + 2;
        Ok(Some(line))
    }

    /// A line of words, as people type them.
    fn inline(&mut self, bytes: &[u8]) -> Result<Parsed, String> {
        let Some(end) = bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = bytes.len();
            if bytes.len() > INLINE_BYTES_MAX {
                return Err("Protocol error: too big inline request".to_owned());
            }
            return Ok(Parsed::Partly);
        };
        let end = self.searched + end;
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.split(line).ok_or("Protocol error: unbalanced quotes in request")?;
        Ok(Parsed::Whole(end + 1))
    }

    /// Splits at white space. Words of a line with quotes are put together in a buffer of their own.
    fn split(&mut self, line: &[u8]) -> Option<()> {
        if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            // Of no use as a word, but `own` is never empty.
            self.own.push(0);
            return self.split_quoted(line);
        }
        let mut at = 0;
        loop {
            while line.get(at).is_some_and(|byte| is_space(*byte)) {
                at += 1;
            }
            if at == line.len() {
                return Some(());
            }
            let rest = &line[at..];
            let len = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
            self.ranges.push((at, at + len));
            at += len;
        }
    }

    /// Quotes may stand within a word and end with it. Double ones have escapes, single ones only that of
    /// the quote.
    fn split_quoted(&mut self, line: &[u8]) -> Option<()> {
        let mut rest = line;
        loop {
            rest = &rest[rest.iter().take_while(|byte| is_space(**byte)).count()..];
            if rest.is_empty() {
                return Some(());
            }
            let start = self.own.len();
            loop {
                match rest {
                    [] => break,
                    [byte, ..] if is_space(*byte) => break,
                    [quote @ (b'"' | b'\''), inner @ ..] => {
                        rest = unquote(inner, *quote, &mut self.own)?;
                        if rest.first().is_some_and(|byte| !is_space(*byte)) {
                            return None;
                        }
                    }
                    [byte, after @ ..] => {
                        self.own.push(*byte);
                        rest = after;
                    }
                }
            }
            self.ranges.push((start, self.own.len()));
        }
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0B'
}

/// The bytes up to the closing quote, appended to `to`; returns the rest behind it.
fn unquote<'a>(mut rest: &'a [u8], quote: u8, to: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [byte, after @ ..] if *byte == quote => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if quote == b'"' && digit(*high).is_some() && digit(*low).is_some() =>
            {
                ((digit(*high)? * 16 + digit(*low)?) as u8, after)
            }
            [b'\\', escaped, after @ ..] if quote == b'"' => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, after)
            }
            [b'\\', b'\'', after @ ..] if quote == b'\'' => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        to.push(byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { bulk_bytes_max: 512 << 20, words_max: 1 << 20, is_unknown: false };

    /// The words of a request and the bytes it took, where it is whole.
    type Words = Option<(Vec<Vec<u8>>, usize)>;

    fn words(bytes: &[u8]) -> Result<Words, String> {
        let mut request = Request::default();
        match request.parse(bytes, &LIMITS)? {
            Parsed::Partly => Ok(None),
            Parsed::Whole(len) => {
                Ok(Some((request.words(bytes).iter().map(<[u8]>::to_vec).collect(), len)))
            }
        }
    }

    #[test]
    fn a_request_is_found_wherever_its_packets_end() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n\r\n\r\n";
        let whole = words(bytes).unwrap().unwrap();
        assert_eq!(
            whole,
            (vec![b"SET".to_vec(), b"k".to_vec(), b"\r\n\r\n".to_vec()], bytes.len())
        );
        let mut request = Request::default();
        for end in 0..bytes.len() {
            assert_eq!(request.parse(&bytes[..end], &LIMITS), Ok(Parsed::Partly), "{end}");
        }
        assert_eq!(request.parse(bytes, &LIMITS), Ok(Parsed::Whole(bytes.len())));
    }

    /// A malformed request stays malformed: a second look neither panics nor begins behind the bad line.
    #[test]
    fn an_error_is_kept() {
        for bytes in [
            &b"*\r\n\r\n"[..],
            b"*x\r\n\r\n",
            b"*x\r\n*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$1\r\na\r\n$x\r\n$1\r\nb\r\n",
            b"*1\r\nfoo\r\n",
            b"a 'b\r\n",
        ] {
            let mut request = Request::default();
            let first = request.parse(bytes, &LIMITS).unwrap_err();
            assert_eq!(request.parse(bytes, &LIMITS), Err(first.clone()), "{bytes:?}");
            assert_eq!(request.whole(), None);
            request.clear();
            assert_eq!(request.parse(bytes, &LIMITS), Err(first));
        }
    }

    #[test]
    fn lines_are_split_at_white_space_and_quotes() {
        let (found, len) = words(b"set  key 'a b' \"c\"\r\nping").unwrap().unwrap();
        assert_eq!((found.concat(), len), (b"setkeya bc".to_vec(), 20));
        for (line, right) in [
            (
                &b"set \"\\x41\\n\\\"\" 'it\\'s' a\"b c\"\r\n"[..],
                &[&b"set"[..], b"A\n\"", b"it's", b"ab c"][..],
            ),
            (b"\"\" ''\n", &[b"", b""]),
            (b"\"\\q\\xZZ\"\n", &[b"qxZZ"]),
        ] {
            assert_eq!(
                words(line).unwrap().unwrap(),
                (right.iter().map(|word| word.to_vec()).collect(), line.len())
            );
        }
        for line in [&b"set 'a\r\n"[..], b"\"a\"b\n", b"a\"b\n", b"\"\\\"\n"] {
            assert!(words(line).unwrap_err().contains("unbalanced"), "{line:?}");
        }
    }

    #[test]
    fn lengths_are_refused_before_memory_is_taken() {
        for (bytes, what) in [
            (&b"*2000000\r\n"[..], "invalid multibulk"),
            (b"*x\r\n", "invalid multibulk"),
            (b"*1\r\n$-1\r\n", "invalid bulk"),
            (b"*1\r\n$9999999999\r\n", "invalid bulk"),
            (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
        ] {
            let error = words(bytes).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        let long = vec![b'a'; INLINE_BYTES_MAX + 1];
        assert!(words(&long).unwrap_err().contains("too big inline"));
        let unknown = Limits { is_unknown: true, ..LIMITS };
        let error = Request::default().parse(b"*11\r\n", &unknown).unwrap_err();
        assert!(error.contains("unauthenticated multibulk"), "{error}");
    }
}
