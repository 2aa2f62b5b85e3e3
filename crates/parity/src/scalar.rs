//! The same for any machine, eight bytes or one at a time: what `wide` leaves over, and what it is
//! tested against.

use crate::field::{NIBBLES, REDUCTION};

pub(crate) fn xor_into(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

/// P and Q of the bytes from `start` on. Q is summed by Horner's rule, from the last column
/// down, so that every step is a multiplication by g.
pub(crate) fn pq(data: &[&[u8]], start: usize, p: &mut [u8], q: &mut [u8]) {
    for at in start..p.len() {
        let (mut sum, mut weighted) = (0u8, 0u8);
        for strip in data.iter().rev() {
            let carry = if weighted & 0x80 == 0 { 0 } else { REDUCTION };
            let byte = strip.get(at).copied().unwrap_or(0);
            weighted = (weighted << 1) ^ carry ^ byte;
            sum ^= byte;
        }
        (p[at], q[at]) = (sum, weighted);
    }
}

pub(crate) fn multiply(to: &mut [u8], factor: u8) {
    let table = &NIBBLES[usize::from(factor)];
    for byte in to {
        *byte = table[usize::from(*byte & 15)] ^ table[16 + usize::from(*byte >> 4)];
    }
}

pub(crate) fn multiply_add(to: &mut [u8], from: &[u8], factor: u8) {
    let table = &NIBBLES[usize::from(factor)];
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= table[usize::from(from & 15)] ^ table[16 + usize::from(from >> 4)];
    }
}
