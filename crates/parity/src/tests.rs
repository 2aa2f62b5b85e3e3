use super::*;

use proptest::prelude::*;

use crate::field::product;

/// Lengths around the vector of 32 bytes and the four of them that run together.
const LENGTHS: [usize; 10] = [0, 1, 31, 32, 33, 127, 128, 129, 160, 4096];

/// P and Q as they are defined, one byte and one column at a time.
fn by_definition(data: &[Vec<u8>], len: usize) -> (Vec<u8>, Vec<u8>) {
    let sum = |term: &dyn Fn(usize, u8) -> u8| -> Vec<u8> {
        (0..len)
            .map(|at| {
                let bytes = data.iter().enumerate();
                let terms = bytes.map(|(i, strip)| term(i, strip.get(at).copied().unwrap_or(0)));
                terms.fold(0, |sum, term| sum ^ term)
            })
            .collect()
    };
    (sum(&|_, byte| byte), sum(&|column, byte| product(power(column), byte)))
}

fn slices(data: &[Vec<u8>]) -> Vec<&[u8]> {
    data.iter().map(Vec::as_slice).collect()
}

/// A stripe of some columns, each full or standing for zeroes.
fn stripe() -> impl Strategy<Value = (usize, Vec<Vec<u8>>)> {
    (0..LENGTHS.len(), 1usize..12).prop_flat_map(|(length, columns)| {
        let len = LENGTHS[length];
        let full = prop::collection::vec(any::<u8>(), len);
        let strip = prop_oneof![4 => full, 1 => Just(Vec::new())];
        (Just(len), prop::collection::vec(strip, columns))
    })
}

proptest! {
    #[test]
    fn parity_is_what_the_definition_says((len, data) in stripe()) {
        let (mut sum, mut weighted) = (vec![1; len], vec![2; len]);
        pq(&slices(&data), &mut sum, &mut weighted);
        prop_assert_eq!((&sum, &weighted), (&by_definition(&data, len).0, &by_definition(&data, len).1));
        let mut alone = vec![3; len];
        p(&slices(&data), &mut alone);
        prop_assert_eq!(&alone, &sum);
        scalar::pq(&slices(&data), 0, &mut alone, &mut weighted.clone());
        prop_assert_eq!(alone, sum);
    }

    #[test]
    fn the_scalar_kernels_agree_with_the_wide_ones(
        length in 0..LENGTHS.len(), factor: u8, bytes in prop::collection::vec(any::<u8>(), 8192)
    ) {
        let len = LENGTHS[length];
        let (to, from) = (&bytes[..len], &bytes[4096..4096 + len]);
        let run = |wide: &dyn Fn(&mut [u8]), scalar: &dyn Fn(&mut [u8])| {
            let (mut one, mut other) = (to.to_vec(), to.to_vec());
            wide(&mut one);
            scalar(&mut other);
            one == other
        };
        prop_assert!(run(&|to| multiply(to, factor), &|to| scalar::multiply(to, factor)));
        prop_assert!(run(&|to| multiply_add(to, from, factor), &|to| scalar::multiply_add(to, from, factor)));
        prop_assert!(run(&|to| xor_into(to, from), &|to| scalar::xor_into(to, from)));
        let expected: Vec<u8> = to.iter().map(|byte| product(*byte, factor)).collect();
        prop_assert!(run(&|to| multiply(to, factor), &|to| to.copy_from_slice(&expected)));
    }

    #[test]
    fn any_lost_strips_come_back((len, data) in stripe(), x: prop::sample::Index, y: prop::sample::Index) {
        let full = |strip: &Vec<u8>| if strip.is_empty() { vec![0; len] } else { strip.clone() };
        let (sum, weighted) = by_definition(&data, len);
        let (x, y) = (x.index(data.len()), y.index(data.len()));
        // What is lost holds garbage, so that using it would show.
        let mut left = data.clone();
        left[x] = vec![0xa5; len];
        let (mut one, mut other) = (vec![1; len], vec![2; len]);
        data_from_p(&slices(&left), x, &sum, &mut one);
        prop_assert_eq!(&one, &full(&data[x]));
        data_from_q(&slices(&left), x, &weighted, &mut one);
        prop_assert_eq!(&one, &full(&data[x]));
        if x != y {
            left[y] = vec![0x5a; len];
            data_from_pq(&slices(&left), (x, y), &sum, &weighted, (&mut one, &mut other));
            prop_assert_eq!((one, other), (full(&data[x]), full(&data[y])));
        }
    }

    #[test]
    fn an_update_gives_the_parity_of_the_new_data(
        (len, data) in stripe(), column: prop::sample::Index, fill: u8
    ) {
        let column = column.index(data.len());
        let (mut sum, mut weighted) = by_definition(&data, len);
        let mut changed = data.clone();
        changed[column] = (0..len).map(|at| (at as u8).wrapping_mul(fill)).collect();
        let mut delta = changed[column].clone();
        for (delta, old) in delta.iter_mut().zip(&data[column]) {
            *delta ^= old;
        }
        xor_into(&mut sum, &delta);
        update_q(&mut weighted, &delta, column);
        prop_assert_eq!((sum, weighted), by_definition(&changed, len));
    }
}

#[test]
fn the_widest_stripe_survives_any_two_losses() {
    let data: Vec<Vec<u8>> = (0..COLUMNS_MAX).map(|i| vec![i as u8, 1, !i as u8]).collect();
    let (sum, weighted) = by_definition(&data, 3);
    for (x, y) in [(0, 254), (254, 0), (253, 254), (0, 1), (100, 200)] {
        let (mut one, mut other) = (vec![0; 3], vec![0; 3]);
        data_from_pq(&slices(&data), (x, y), &sum, &weighted, (&mut one, &mut other));
        assert_eq!((&one, &other), (&data[x], &data[y]));
    }
}

#[test]
#[should_panic(expected = "one length")]
fn strips_of_different_lengths_are_refused() {
    pq(&[&[1, 2], &[1]], &mut [0; 2], &mut [0; 2]);
}

#[test]
#[should_panic(expected = "two data strips")]
fn a_strip_cannot_be_lost_twice() {
    data_from_pq(&[&[1], &[1]], (1, 1), &[0], &[0], (&mut [0], &mut [0]));
}
