//! Byte work of the atomic commands, shared by the local devices.

use ring::{Buf, Data};

use crate::BlockError;

/// Aligned for direct I/O.
#[repr(align(4096))]
struct Aligned([u8; 256 << 10]);

static ALIGNED: Aligned = Aligned([0; 256 << 10]);

/// What zeroes are written from, and read from where nothing is stored: aligned for direct I/O.
pub static ZEROES: &[u8] = &ALIGNED.0;

/// Data of `len` zeroes, which costs memory only beyond the length of [`ZEROES`].
///
/// # Errors
/// [`BlockError::NoMemory`].
pub fn zeroes(len: usize) -> Result<Data, BlockError> {
    match ZEROES.get(..len) {
        Some(zeroes) => Ok(Data::from(zeroes)),
        None => Buf::zeroed(len).map(Data::from).ok_or(BlockError::NoMemory),
    }
}

/// Bytes that do not change any more, as a digest or a comparison needs them: memory that a device lends
/// may change under a write that runs beside the read.
///
/// # Errors
/// [`BlockError::NoMemory`], where they would have to be copied.
#[inline]
pub fn stable(data: Data) -> Result<Data, BlockError> {
    data.into_stable().ok_or(BlockError::NoMemory)
}

/// Runs `f` over the bytes of `data`, which do not change meanwhile.
///
/// # Errors
/// [`BlockError::NoMemory`], where they would have to be copied.
pub fn with_stable<T>(data: &Data, f: impl FnOnce(&[u8]) -> T) -> Result<T, BlockError> {
    data.with_stable(f).ok_or(BlockError::NoMemory)
}

/// The first index at which `found` and `wanted` (of equal length) differ.
pub(crate) fn first_difference(found: &[u8], wanted: &Data) -> Result<Option<usize>, BlockError> {
    debug_assert_eq!(found.len(), wanted.len());
    with_stable(wanted, |wanted| {
        // Equality is the common answer and runs at memory speed; only then look for the place.
        if found == wanted {
            return None;
        }
        found.iter().zip(wanted).position(|(a, b)| a != b)
    })
}

/// ORs `data` into `buf` (of equal length).
pub(crate) fn or_into(buf: &mut Buf, data: &Data) -> Result<(), BlockError> {
    debug_assert_eq!(buf.len(), data.len());
    with_stable(data, |bytes| {
        for (into, byte) in buf.iter_mut().zip(bytes) {
            *into |= byte;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_to_the_byte() {
        let data = Data::from(&b"drystone"[..]);
        assert_eq!(first_difference(b"drystone", &data), Ok(None));
        assert_eq!(first_difference(b"drystonE", &data), Ok(Some(7)));
        assert_eq!(first_difference(b"Drystone", &data), Ok(Some(0)));
    }

    #[test]
    fn or_keeps_bits_of_both_sides() {
        let mut buf = Buf::zeroed(3).unwrap();
        buf.copy_from_slice(&[0x0f, 0x00, 0x80]);
        or_into(&mut buf, &Data::from(&[0xf0, 0x00, 0x81][..])).unwrap();
        assert_eq!(&buf[..], &[0xff, 0x00, 0x81]);
    }

    #[test]
    fn bytes_of_a_region_are_compared_too() {
        let region = ring::Region::new(4096).unwrap();
        region.write(0, b"abc");
        assert_eq!(first_difference(b"abd", &region.slice(0, 3)), Ok(Some(2)));
    }
}
