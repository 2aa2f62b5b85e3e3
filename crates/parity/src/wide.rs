//! 32 bytes at a time with AVX2, where the machine has it.
//!
//! Each function does a prefix of its work and says how many bytes that was: nothing without
//! AVX2, else all but a tail shorter than a vector.

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::field::{NIBBLES, REDUCTION};

const VECTOR_BYTES: usize = 32;
/// Vectors that are in flight together, so that one's latency hides behind the others.
const LANES: usize = 4;

pub(crate) fn xor_into(to: &mut [u8], from: &[u8]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the machine has AVX2.
    unsafe { xor_into_avx2(to, from) }
}

pub(crate) fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    let len = p.len() - p.len() % VECTOR_BYTES;
    let even = len - len % (LANES * VECTOR_BYTES);
    // SAFETY: the machine has AVX2.
    unsafe {
        pq_avx2::<LANES>(data, 0..even, p, q);
        pq_avx2::<1>(data, even..len, p, q);
    }
    len
}

pub(crate) fn multiply(to: &mut [u8], factor: u8) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the machine has AVX2.
    unsafe { multiply_avx2(to, factor) }
}

pub(crate) fn multiply_add(to: &mut [u8], from: &[u8], factor: u8) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the machine has AVX2.
    unsafe { multiply_add_avx2(to, from, factor) }
}

#[target_feature(enable = "avx2")]
fn load(from: &[u8]) -> __m256i {
    assert!(from.len() >= VECTOR_BYTES);
    // SAFETY: 32 bytes are there, just checked; the load needs no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(to: &mut [u8], value: __m256i) {
    assert!(to.len() >= VECTOR_BYTES);
    // SAFETY: 32 bytes are there, just checked; the store needs no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx2")]
fn xor_into_avx2(to: &mut [u8], from: &[u8]) -> usize {
    let (to, _) = to.as_chunks_mut::<VECTOR_BYTES>();
    let (from, _) = from.as_chunks::<VECTOR_BYTES>();
    for (to, from) in to.iter_mut().zip(from) {
        let sum = _mm256_xor_si256(load(to), load(from));
        store(to, sum);
    }
    to.len() * VECTOR_BYTES
}

/// P and Q of `bytes`, a multiple of `N` vectors, by Horner's rule as in `scalar`.
#[target_feature(enable = "avx2")]
fn pq_avx2<const N: usize>(
    data: &[&[u8]],
    bytes: std::ops::Range<usize>,
    p: &mut [u8],
    q: &mut [u8],
) {
    let zero = _mm256_setzero_si256();
    let reduction = _mm256_set1_epi8(REDUCTION.cast_signed());
    for at in bytes.step_by(N * VECTOR_BYTES) {
        let (mut sums, mut weighted) = ([zero; N], [zero; N]);
        for strip in data.iter().rev() {
            for lane in &mut weighted {
                // A byte whose top bit is set is negative: that is the carry.
                let carry = _mm256_and_si256(_mm256_cmpgt_epi8(zero, *lane), reduction);
                *lane = _mm256_xor_si256(_mm256_add_epi8(*lane, *lane), carry);
            }
            if strip.is_empty() {
                continue;
            }
            let strip = &strip[at..at + N * VECTOR_BYTES];
            for (i, (sum, lane)) in sums.iter_mut().zip(&mut weighted).enumerate() {
                let value = load(&strip[i * VECTOR_BYTES..]);
                *sum = _mm256_xor_si256(*sum, value);
                *lane = _mm256_xor_si256(*lane, value);
            }
        }
        for i in 0..N {
            store(&mut p[at + i * VECTOR_BYTES..], sums[i]);
            store(&mut q[at + i * VECTOR_BYTES..], weighted[i]);
        }
    }
}

/// A factor's products with low and with high nibbles, in both halves of a vector.
#[target_feature(enable = "avx2")]
fn tables(factor: u8) -> (__m256i, __m256i) {
    let table = &NIBBLES[usize::from(factor)];
    // SAFETY: the table has 32 bytes, 16 for each load; neither needs alignment.
    let (low, high) = unsafe {
        (_mm_loadu_si128(table.as_ptr().cast()), _mm_loadu_si128(table[16..].as_ptr().cast()))
    };
    (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
}

#[target_feature(enable = "avx2")]
fn product(value: __m256i, (low, high): (__m256i, __m256i)) -> __m256i {
    let nibble = _mm256_set1_epi8(15);
    let lower = _mm256_shuffle_epi8(low, _mm256_and_si256(value, nibble));
    let shifted = _mm256_srli_epi16::<4>(value);
    _mm256_xor_si256(lower, _mm256_shuffle_epi8(high, _mm256_and_si256(shifted, nibble)))
}

#[target_feature(enable = "avx2")]
fn multiply_avx2(to: &mut [u8], factor: u8) -> usize {
    let tables = tables(factor);
    let (to, _) = to.as_chunks_mut::<VECTOR_BYTES>();
    for to in to.iter_mut() {
        let value = product(load(to), tables);
        store(to, value);
    }
    to.len() * VECTOR_BYTES
}

#[target_feature(enable = "avx2")]
fn multiply_add_avx2(to: &mut [u8], from: &[u8], factor: u8) -> usize {
    let tables = tables(factor);
    let (to, _) = to.as_chunks_mut::<VECTOR_BYTES>();
    let (from, _) = from.as_chunks::<VECTOR_BYTES>();
    for (to, from) in to.iter_mut().zip(from) {
        let sum = _mm256_xor_si256(load(to), product(load(from), tables));
        store(to, sum);
    }
    to.len() * VECTOR_BYTES
}
