//! Serial number arithmetic of 32 bits (RFC 1982, as RFC 7143 §4.2.2 asks for all sequence numbers).

/// `a` comes before `b`.
#[inline]
#[must_use]
pub const fn serial_lt(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 0x8000_0000
}

/// `a` comes before `b`, or is `b`.
#[inline]
#[must_use]
pub const fn serial_le(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) < 0x8000_0000
}
