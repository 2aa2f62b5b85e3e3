//! Changes and what they cover.

use super::*;

fn change(column: usize, rows: Range<usize>) -> Change {
    let data = Data::from(&ZEROES[..rows.len() * BLOCK_BYTES]);
    Change { column, first_block: rows.start, data }
}

#[test]
fn rows_that_change_alike_are_one_run() {
    let run = |rows, columns| Run { rows, columns };
    assert_eq!(runs(&[change(1, 3..5)]), [run(3..5, 0b10)]);
    let overlapping = [change(0, 0..4), change(2, 2..6), change(0, 9..10)];
    let expected = [run(0..2, 0b001), run(2..4, 0b101), run(4..6, 0b100), run(9..10, 0b001)];
    assert_eq!(runs(&overlapping), expected);
}

#[test]
#[should_panic(expected = "changes twice")]
fn a_block_cannot_change_twice() {
    runs(&[change(1, 3..5), change(1, 4..6)]);
}

#[test]
fn what_is_not_covered_becomes_zeroes() {
    let put = |first_block, blocks: usize| {
        let data = Data::from(&ZEROES[..blocks * BLOCK_BYTES]);
        Put { strip: 1, first_block, data }
    };
    let mut puts = vec![put(2, 3), put(7, 1)];
    fill_with_zeroes(&mut puts, 1);
    let added: Vec<_> =
        puts[2..].iter().map(|put| (put.first_block, put.data.len() / 4096)).collect();
    assert_eq!(added, [(0, 2), (5, 2), (8, 8)]);
    fill_with_zeroes(&mut puts, 1);
    assert_eq!(puts.len(), 5, "nothing is left to cover");
}
