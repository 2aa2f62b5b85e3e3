//! Many lives of one journal, each ended by a loss of power.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }
}

/// What the journal must remember.
#[derive(Default)]
struct Model {
    /// All that was appended after the last checkpoint, in order.
    appended: Vec<(Record, u64)>,
    /// How many of them, from the first on, somebody was told are durable.
    acknowledged: usize,
    /// Of the last checkpoint.
    mark: Mark,
    next_block: u64,
}

fn append(journal: &Arc<Journal>, model: &Rc<RefCell<Model>>, dice: &mut Dice) -> Option<Ticket> {
    let mut model = model.borrow_mut();
    let block = model.next_block;
    let blocks = [1, 1, 2, 5, 16, 60][dice.roll(6)];
    let (record, appended) = match dice.roll(4) {
        0 => (zero(block), journal.append(&zero(block), None)),
        _ => (data(block, blocks), write(journal, block, blocks)),
    };
    let appended = appended.ok()?;
    model.next_block += u64::from(blocks);
    model.appended.push((record, appended.position));
    Some(appended.ticket)
}

/// One life: `steps` of writers and disks in any order, then the power fails.
fn live(
    disks: &[TestDisk],
    journal: &Arc<Journal>,
    model: &Rc<RefCell<Model>>,
    dice: &mut Dice,
) -> Vec<TestDisk> {
    let mut executor = Executor::default();
    start(&mut executor, journal, &Arc::default());
    disks.iter().for_each(|disk| disk.set_slow(true));
    let mut cut: Option<(Mark, usize)> = None;
    for _ in 0..40 + dice.roll(200) {
        executor.turn();
        match dice.roll(10) {
            0..4 => {
                if let Some(ticket) = append(journal, model, dice) {
                    let (journal, model) = (Arc::clone(journal), Rc::clone(model));
                    let (count, mark) = (model.borrow().appended.len(), model.borrow().mark);
                    executor.spawn(async move {
                        if journal.durable(ticket).await.is_ok() {
                            let model = &mut *model.borrow_mut();
                            // A checkpoint meanwhile took what was counted then.
                            if model.mark == mark {
                                model.acknowledged = model.acknowledged.max(count);
                            }
                        }
                    });
                }
            }
            4 if cut.is_none() => cut = Some((journal.cut(), model.borrow().appended.len())),
            5 => {
                let Some((mark, count)) =
                    cut.take_if(|(mark, _)| is_durable(journal, Ticket(mark.sequence)))
                else {
                    continue;
                };
                let model = &mut *model.borrow_mut();
                model.appended.drain(..count);
                model.acknowledged = model.acknowledged.saturating_sub(count);
                model.mark = mark;
                journal.trim(mark);
            }
            _ => {
                let disk = &disks[dice.roll(disks.len())];
                if disk.pending() > 0 {
                    disk.complete(dice.roll(disk.pending()));
                }
            }
        }
    }
    executor.turn();
    let torn = |disk: &TestDisk| {
        disk.crash(&mut |sectors| match dice.roll(3) {
            0 => 0,
            1 => sectors,
            _ => dice.roll(sectors + 1),
        })
    };
    disks.iter().map(torn).map(TestDisk::with).collect()
}

fn check(model: &mut Model, records: &[(Record, u64)], scanned: &Scanned) {
    assert!(records.len() >= model.acknowledged, "something acknowledged is gone");
    assert!(records.len() <= model.appended.len(), "more than was appended");
    assert_eq!(records, &model.appended[..records.len()], "in order");
    let ring_bytes = layout().journal_bytes;
    for (record, position) in records {
        let Record::Data { block, blocks, .. } = record else { continue };
        for index in 0..u64::from(*blocks) {
            let mut bytes = [0; 8];
            let at = (position + index * BLOCK) % ring_bytes;
            scanned.image.read_into(at as usize, &mut bytes);
            assert_eq!(bytes, bytes_of(block + index), "payload of block {}", block + index);
        }
    }
    // What was found is there to stay; what was not never will be.
    model.appended.truncate(records.len());
    model.acknowledged = records.len();
}

fn many_lives(seed: u64, holders_count: usize) {
    let mut dice = Dice(seed | 1);
    let mut disks: Vec<TestDisk> = (0..holders_count).map(|_| TestDisk::new()).collect();
    let model = Rc::new(RefCell::new(Model::default()));
    let mut journal = new_journal(&disks);
    for _ in 0..8 {
        disks = live(&disks, &journal, &model, &mut dice);
        let mark = model.borrow().mark;
        let (records, scanned) = recover(&disks, mark).unwrap();
        check(&mut model.borrow_mut(), &records, &scanned);
        let lagging = scanned.lagging.clone();
        let all = holders(&disks);
        let next = Journal::new(ARRAY, &layout(), all.clone(), mark, scanned);
        journal = Arc::new(next);
        for holder in all.iter().filter(|holder| lagging.contains(&holder.disk)) {
            run(journal.fill(holder)).unwrap();
        }
        // Any holder alone knows all of it now.
        let alone = recover(&disks[..1], mark).unwrap();
        assert_eq!((alone.0.len(), alone.1.lagging.len()), (records.len(), 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_acknowledged_survives_and_the_rest_is_a_prefix(seed in any::<u64>()) {
        many_lives(seed, 1 + (seed % 3) as usize);
    }
}
