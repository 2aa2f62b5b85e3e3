//! Little-endian numbers at fixed places of a header.

/// The `N` bytes at `at`.
///
/// # Panics
/// When they leave `bytes`: headers are cut to their full length before their fields are read.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range is N bytes long")
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Puts `field` at `at`.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_stay_in_their_place() {
        let mut bytes = [0xff; 16];
        put(&mut bytes, 2, &0x0102_0304_0506_0708_u64.to_le_bytes());
        assert_eq!(&bytes[..4], [0xff, 0xff, 8, 7]);
        assert_eq!(u64_at(&bytes, 2), 0x0102_0304_0506_0708);
        assert_eq!(u32_at(&bytes, 2), 0x0506_0708);
        assert_eq!(u16_at(&bytes, 8), 0x0102);
        assert_eq!(array_at(&bytes, 10), [0xff; 6]);
    }
}
