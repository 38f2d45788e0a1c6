//! The checksum of Redis: CRC-64 with the polynomial of Jones, reflected.

const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut crc, mut bit) = (index as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// The checksum of what `crc` is of, and more bytes.
pub(super) fn update(crc: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(crc, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[test]
fn it_is_the_checksum_of_redis() {
    assert_eq!(update(0, b"123456789"), 0xE9C6_D914_C4B8_D9CA);
}
