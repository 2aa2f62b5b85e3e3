//! Atomic operations over a border from two cores at once, over a slice that takes its time.

use super::*;

use std::time::Duration;

use ring::CoreId;

const ROUNDS: u64 = 150;

fn disk() -> Arc<SpreadDisk> {
    let slow = FaultyDisk::new(ram(2 * MIB));
    let fault = Fault::Delay(Duration::from_micros(30));
    slow.inject(Rule::always(Operation::Write, fault));
    let slices = vec![ram(2 * MIB), Arc::new(slow)];
    Arc::new(SpreadDisk::new(slices, dealing(MIB, &[0, 1]), 2 * MIB / BLOCK).unwrap())
}

fn on_two_cores<F, Fut>(work: F)
where
    F: Fn(CoreId) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    ring::launch(2, &CoreConfig::default(), work).unwrap().join().unwrap();
}

/// The number that both blocks at the border hold: one on each side.
fn number_of(both: &[u8]) -> u64 {
    let (first, second) = both.split_at(BLOCK as usize);
    assert_eq!(first[..8], second[..8], "half of an atomic operation is seen");
    u64::from_le_bytes(first[..8].try_into().unwrap())
}

fn numbered(number: u64) -> Data {
    let mut both = vec![0; 2 * BLOCK as usize];
    for block in both.chunks_mut(BLOCK as usize) {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    data(both)
}

/// Both count over the border, and write plainly beside it, in the same stripes.
#[test]
fn counts_over_a_border_add_up() {
    let disk = disk();
    let shared = Arc::clone(&disk);
    on_two_cores(move |core| {
        let disk = Arc::clone(&shared);
        async move {
            let beside = if core == CoreId::from(0) { MIB - 2 * BLOCK } else { MIB + BLOCK };
            for round in 0..ROUNDS {
                loop {
                    let number = number_of(&read(&*disk, MIB - BLOCK, 2 * BLOCK).await);
                    let (old, new) = (numbered(number), numbered(number + 1));
                    let counted = disk.compare_and_write(MIB - BLOCK, old, new, VOLATILE);
                    if counted.await.unwrap() == Compared::Equal {
                        break;
                    }
                }
                disk.write(beside, summed(BLOCK, round as u32), VOLATILE).await.unwrap();
                let found = read(&*disk, beside, BLOCK).await;
                assert!(found == bytes_of(&summed(BLOCK, round as u32)), "a neighbour");
            }
        }
    });
    on_a_core(async move {
        assert_eq!(number_of(&read(&*disk, MIB - BLOCK, 2 * BLOCK).await), 2 * ROUNDS);
    });
}

/// One writes in colours, the other reads, and sees one of them on both sides, or changes one side in a colour of its
/// own, which is there until the next round.
#[test]
fn colours_over_a_border_do_not_mix() {
    const AT: u64 = MIB - (32 << 10);
    const LEN: u64 = 64 << 10;
    const OWN: u8 = 0x80;
    let disk = disk();
    on_two_cores(move |core| {
        let disk = Arc::clone(&disk);
        async move {
            for round in 0..ROUNDS {
                if core == CoreId::from(0) {
                    let colour = 1 << (round % 7);
                    disk.write(AT, equal(LEN, colour), ATOMIC).await.unwrap();
                } else if round % 5 == 4 {
                    let side = if round % 2 == 0 { AT } else { MIB };
                    disk.write(side, equal(BLOCK, OWN), VOLATILE).await.unwrap();
                } else {
                    let seen = read(&*disk, AT, LEN).await;
                    let colour = seen[BLOCK as usize];
                    let is_right = |byte: &u8| [colour, OWN].contains(byte);
                    assert!(seen.iter().all(is_right), "half of an atomic write is seen");
                }
            }
        }
    });
}
