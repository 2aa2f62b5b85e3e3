//! Values of keys (RFC 7143 6.1): numbers, booleans, and binary strings in hexadecimal or base64.

/// A decimal or hexadecimal (`0x`) constant of up to 64 bits.
#[must_use]
pub fn parse_number(value: &str) -> Option<u64> {
    let (digits, radix) = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (value, 10),
    };
    // `from_str_radix` takes a sign, which the standard does not know.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// `Yes` or `No`.
#[must_use]
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A binary value: `0x` and hexadecimal digits, or `0b` and base64 (RFC 2045). `None` if it is neither
/// or longer than `len_bytes_max` once decoded.
#[must_use]
pub fn decode_binary(value: &str, len_bytes_max: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = value.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" => decode_hex(digits.as_bytes()),
        "0b" | "0B" => decode_base64(digits.as_bytes()),
        _ => None,
    }?;
    (bytes.len() <= len_bytes_max).then_some(bytes)
}

/// With an odd number of digits the first stands alone, as in a number.
fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    for &digit in first {
        bytes.push(nibble(digit)?);
    }
    for pair in pairs.chunks_exact(2) {
        bytes.push(nibble(pair[0])? << 4 | nibble(pair[1])?);
    }
    (!bytes.is_empty()).then_some(bytes)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Padding may be there or not; bits beyond the last whole byte must be 0, so that a value has one form.
fn decode_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let padding = digits.iter().rev().take_while(|&&digit| digit == b'=').count();
    if padding > 2 || (padding > 0 && !digits.len().is_multiple_of(4)) {
        return None;
    }
    let digits = &digits[..digits.len() - padding];
    if digits.is_empty() || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut pending, mut pending_bits) = (0_u32, 0);
    for digit in digits {
        let value = BASE64.iter().position(|known| known == digit)?;
        pending = (pending << 6) | value as u32;
        pending_bits += 6;
        if pending_bits >= 8 {
            pending_bits -= 8;
            bytes.push((pending >> pending_bits) as u8);
            pending &= (1 << pending_bits) - 1;
        }
    }
    (pending == 0).then_some(bytes)
}

/// `0x` and two digits for each byte.
#[must_use]
pub fn encode_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut value = String::with_capacity(2 + 2 * bytes.len());
    value.push_str("0x");
    for byte in bytes {
        write!(value, "{byte:02x}").expect("writing to a string cannot fail");
    }
    value
}

/// `0b` and base64 with padding.
#[must_use]
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut value = String::from("0b");
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit)) as usize % 64;
            let is_used = digit <= chunk.len();
            value.push(if is_used { char::from(BASE64[index]) } else { '=' });
        }
    }
    value
}
