//! Lines as eight lanes, and the bytes that they stand for.

/// Bytes in a line.
pub const LINE_BYTES: usize = 64;

/// The content of a 64-byte line: eight lanes, each a little-endian word of the medium.
pub type Line = [u64; 8];

/// The line that these bytes are.
#[inline]
pub fn line_from_bytes(bytes: &[u8; LINE_BYTES]) -> Line {
    let mut line = [0; 8];
    for (lane, word) in line.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*word);
    }
    line
}

/// The bytes of a line.
#[inline]
pub fn line_to_bytes(line: &Line) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (word, lane) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(line) {
        *word = lane.to_le_bytes();
    }
    bytes
}

/// Reads a run of lines.
///
/// # Panics
/// When `bytes` does not hold exactly the lines of `lines`.
pub fn read_lines(bytes: &[u8], lines: &mut [Line]) {
    assert_eq!(bytes.len(), lines.len() * LINE_BYTES, "bytes and lines differ in number");
    for (line, bytes) in lines.iter_mut().zip(bytes.as_chunks::<LINE_BYTES>().0) {
        *line = line_from_bytes(bytes);
    }
}

/// Writes a run of lines.
///
/// # Panics
/// When `bytes` does not have room for exactly these lines.
pub fn write_lines(lines: &[Line], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), lines.len() * LINE_BYTES, "bytes and lines differ in number");
    for (bytes, line) in bytes.as_chunks_mut::<LINE_BYTES>().0.iter_mut().zip(lines) {
        *bytes = line_to_bytes(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_little_endian_words() {
        let mut bytes = [0; LINE_BYTES];
        bytes[0] = 1;
        bytes[8] = 2;
        bytes[63] = 3;
        let line = line_from_bytes(&bytes);
        assert_eq!(line, [1, 2, 0, 0, 0, 0, 0, 3 << 56]);
        assert_eq!(line_to_bytes(&line), bytes);
    }

    #[test]
    fn runs_are_read_as_they_were_written() {
        let lines: Vec<Line> =
            (0..5).map(|i| std::array::from_fn(|lane| i * 8 + lane as u64)).collect();
        let mut bytes = vec![0; 5 * LINE_BYTES];
        write_lines(&lines, &mut bytes);
        let mut back = vec![[0; 8]; 5];
        read_lines(&bytes, &mut back);
        assert_eq!(back, lines);
    }
}
