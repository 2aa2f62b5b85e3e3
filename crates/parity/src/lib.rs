//! P and Q parity of RAID 5 and 6 over GF(2^8). Pure: bytes in, bytes out.
//!
//! With data strips `d0, d1, ...` the two parities are, byte by byte,
//!
//! ```text
//! P = d0 + d1 + d2 + ...            (+ is XOR)
//! Q = g^0 d0 + g^1 d1 + g^2 d2 + ...
//! ```
//!
//! in the field of 256 elements with the polynomial 0x11d and the generator g = 2, the one that
//! RAID 6 is made with everywhere. Any two lost strips can be computed from the others. All
//! strips of a call have the same length; an empty slice stands for a strip of zeroes, which
//! costs nothing.
// Vector loads and stores go through raw pointers; every block says why it is sound.
#![allow(unsafe_code)]

mod field;
mod scalar;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod wide;

use field::{inverse, power};

/// Without wide registers everything is left to `scalar`.
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    pub(crate) fn xor_into(_to: &mut [u8], _from: &[u8]) -> usize {
        0
    }

    pub(crate) fn pq(_data: &[&[u8]], _p: &mut [u8], _q: &mut [u8]) -> usize {
        0
    }

    pub(crate) fn multiply(_to: &mut [u8], _factor: u8) -> usize {
        0
    }

    pub(crate) fn multiply_add(_to: &mut [u8], _from: &[u8], _factor: u8) -> usize {
        0
    }
}

/// More columns than this would need the same factor twice: g has 255 different powers.
pub const COLUMNS_MAX: usize = 255;

/// `to += from`: what P is updated with, and how a change (old + new) is made.
///
/// # Panics
/// When the lengths differ.
pub fn xor_into(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "strips have one length");
    let done = wide::xor_into(to, from);
    scalar::xor_into(&mut to[done..], &from[done..]);
}

/// P of `data`.
///
/// # Panics
/// When the lengths differ.
pub fn p(data: &[&[u8]], p: &mut [u8]) {
    check(data, p.len());
    p.fill(0);
    for strip in data.iter().filter(|strip| !strip.is_empty()) {
        xor_into(p, strip);
    }
}

/// P and Q of `data`.
///
/// # Panics
/// When the lengths differ, or there are more than [`COLUMNS_MAX`] strips.
pub fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    check(data, p.len());
    check(&[q], p.len());
    let done = wide::pq(data, p, q);
    scalar::pq(data, done, p, q);
}

/// Brings Q up to date after column `column` changed by `delta` (old + new). P takes the same
/// delta with [`xor_into`].
///
/// # Panics
/// When the lengths differ, or the column is none.
pub fn update_q(q: &mut [u8], delta: &[u8], column: usize) {
    assert!(column < COLUMNS_MAX, "g has 255 powers");
    multiply_add(q, delta, power(column));
}

/// Computes the data strip `lost` from P and all other data; `data[lost]` is not looked at.
///
/// # Panics
/// When the lengths differ, or there is no such strip.
pub fn data_from_p(data: &[&[u8]], lost: usize, p: &[u8], to: &mut [u8]) {
    assert!(lost < data.len(), "the lost strip is one of the data strips");
    check(&[p], to.len());
    to.copy_from_slice(p);
    for (column, strip) in data.iter().enumerate() {
        if column != lost && !strip.is_empty() {
            xor_into(to, strip);
        }
    }
}

/// Computes the data strip `lost` from Q and all other data, for when P is lost as well.
///
/// # Panics
/// When the lengths differ, or there is no such strip.
pub fn data_from_q(data: &[&[u8]], lost: usize, q: &[u8], to: &mut [u8]) {
    assert!(lost < data.len() && data.len() <= COLUMNS_MAX, "the lost strip is a data strip");
    check(&[q], to.len());
    to.copy_from_slice(q);
    for (column, strip) in data.iter().enumerate() {
        if column != lost && !strip.is_empty() {
            update_q(to, strip, column);
        }
    }
    multiply(to, inverse(power(lost)));
}

/// Computes two lost data strips from P, Q and all other data, into `to.0` and `to.1` in the
/// order of `lost`.
///
/// # Panics
/// When the lengths differ, or `lost` are not two strips of `data`.
pub fn data_from_pq(
    data: &[&[u8]],
    lost: (usize, usize),
    p: &[u8],
    q: &[u8],
    to: (&mut [u8], &mut [u8]),
) {
    let (x, y) = lost;
    assert!(x != y && x.max(y) < data.len(), "two data strips are lost");
    assert!(data.len() <= COLUMNS_MAX, "g has 255 powers");
    check(&[p, q], to.0.len());
    check(&[to.1], to.0.len());
    let (first, second) = to;
    // What is left of P and Q without the known strips: p = dx + dy, q = g^x dx + g^y dy.
    first.copy_from_slice(q);
    second.copy_from_slice(p);
    for (column, strip) in data.iter().enumerate() {
        if column != x && column != y && !strip.is_empty() {
            update_q(first, strip, column);
            xor_into(second, strip);
        }
    }
    // Eliminate dy: dx = (q + g^y p) / (g^x + g^y), which is not 0 because the powers differ.
    multiply_add(first, second, power(y));
    multiply(first, inverse(power(x) ^ power(y)));
    xor_into(second, first);
}

/// `to *= factor`.
fn multiply(to: &mut [u8], factor: u8) {
    let done = wide::multiply(to, factor);
    scalar::multiply(&mut to[done..], factor);
}

/// `to += factor * from`.
fn multiply_add(to: &mut [u8], from: &[u8], factor: u8) {
    assert_eq!(to.len(), from.len(), "strips have one length");
    let done = wide::multiply_add(to, from, factor);
    scalar::multiply_add(&mut to[done..], &from[done..], factor);
}

fn check(data: &[&[u8]], len: usize) {
    assert!(data.len() <= COLUMNS_MAX, "g has 255 powers");
    assert!(data.iter().all(|strip| strip.is_empty() || strip.len() == len), "one length");
}
