//! Many lives of one journal, each ended by a loss of power or of the process.

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
    /// The same for what survives the process alone.
    answered: usize,
    /// Of the last checkpoint.
    mark: Mark,
    next_block: u64,
}

fn append(journal: &Arc<Journal>, model: &Rc<RefCell<Model>>, dice: &mut Dice) -> Option<Ticket> {
    let mut model = model.borrow_mut();
    let block = model.next_block;
    let blocks = [1, 1, 2, 5, 16, 60][dice.roll(6)];
    let payload = payload(block, blocks);
    let (record, appended) = match dice.roll(8) {
        0 | 1 => (zero(block), journal.append(&zero(block), None)),
        2..5 => {
            let record = data(block, blocks);
            let appended = journal.append_volatile(&record, Some(&payload));
            (record, appended)
        }
        _ => (data(block, blocks), journal.append(&data(block, blocks), Some(&payload))),
    };
    let appended = appended.ok()?;
    model.next_block += u64::from(blocks);
    model.appended.push((record, appended.position));
    Some(appended.ticket)
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// With the process: what is written stays.
    Kill,
    PowerCut,
}

/// One life: steps of writers and disks in any order, then the end.
fn live(
    disks: &[TestDisk],
    journal: &Arc<Journal>,
    model: &Rc<RefCell<Model>>,
    dice: &mut Dice,
    end: End,
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
                    let durable = dice.roll(8) == 0;
                    executor.spawn(async move {
                        if journal.answered(ticket, durable).await.is_ok() {
                            let model = &mut *model.borrow_mut();
                            // A checkpoint meanwhile took what was counted then.
                            if model.mark != mark {
                                return;
                            }
                            model.answered = model.answered.max(count);
                            if durable || ticket.is_durable {
                                model.acknowledged = model.acknowledged.max(count);
                            }
                        }
                    });
                }
            }
            4 if cut.is_none() => cut = Some((journal.cut(), model.borrow().appended.len())),
            5 => {
                let Some((mark, count)) = cut.take_if(|(mark, _)| is_durable_until(journal, *mark))
                else {
                    continue;
                };
                let model = &mut *model.borrow_mut();
                model.appended.drain(..count);
                model.acknowledged = model.acknowledged.saturating_sub(count);
                model.answered = model.answered.saturating_sub(count);
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
    let mut torn = |sectors: usize| match dice.roll(3) {
        0 => 0,
        1 => sectors,
        _ => dice.roll(sectors + 1),
    };
    let ended = |disk: &TestDisk| match end {
        End::Kill => disk.release(&mut torn),
        End::PowerCut => TestDisk::with(disk.crash(&mut torn)),
    };
    disks.iter().map(ended).collect()
}

fn check(model: &mut Model, records: &[(Record, u64)], scanned: &Scanned, end: End) {
    let kept = if end == End::Kill { model.answered } else { model.acknowledged };
    assert!(records.len() >= kept, "something answered is gone");
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
    // What was not found never will be; what was is still in the cache if only the process ended.
    model.appended.truncate(records.len());
    model.answered = records.len();
    model.acknowledged = match end {
        End::Kill => model.acknowledged.min(records.len()),
        End::PowerCut => records.len(),
    };
}

fn many_lives(seed: u64, holders_count: usize) {
    let mut dice = Dice(seed | 1);
    let mut disks: Vec<TestDisk> = (0..holders_count).map(|_| TestDisk::new()).collect();
    let model = Rc::new(RefCell::new(Model::default()));
    let mut journal = new_journal(&disks);
    for _ in 0..8 {
        let end = if dice.roll(2) == 0 { End::Kill } else { End::PowerCut };
        disks = live(&disks, &journal, &model, &mut dice, end);
        let mark = model.borrow().mark;
        let (records, scanned) = recover(&disks, mark).unwrap();
        check(&mut model.borrow_mut(), &records, &scanned, end);
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
