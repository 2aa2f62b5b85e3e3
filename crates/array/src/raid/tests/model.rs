//! Random histories of a set against a plain model.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

use crate::raid::{Access, Heal};

/// One step of a history; numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    /// A stripe without live data is written anew, these columns (bit = column).
    Fresh {
        stripe: u32,
        columns: u8,
    },
    /// Blocks of a column change, which may be new.
    Update {
        stripe: u32,
        column: usize,
        first: usize,
        blocks: usize,
    },
    /// A slot is no longer live.
    Free {
        stripe: u32,
        column: usize,
    },
    Lose {
        disk: usize,
    },
    Return,
    Corrupt {
        stripe: u32,
        member: usize,
        block: usize,
    },
    Scrub {
        stripe: u32,
    },
    Replace {
        member: usize,
    },
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let stripe = 0..STRIPES;
    prop_oneof![
        3 => (stripe.clone(), any::<u8>()).prop_map(|(stripe, columns)| Step::Fresh { stripe, columns }),
        6 => (stripe.clone(), 0usize..8, 0usize..16, 1usize..17)
            .prop_map(|(stripe, column, first, blocks)| Step::Update { stripe, column, first, blocks }),
        1 => (stripe.clone(), 0usize..8).prop_map(|(stripe, column)| Step::Free { stripe, column }),
        2 => (0usize..8).prop_map(|disk| Step::Lose { disk }),
        2 => Just(Step::Return),
        3 => (stripe.clone(), 0usize..8, 0usize..16)
            .prop_map(|(stripe, member, block)| Step::Corrupt { stripe, member, block }),
        1 => stripe.prop_map(|stripe| Step::Scrub { stripe }),
        1 => (0usize..8).prop_map(|member| Step::Replace { member }),
        1 => Just(Step::Crash),
    ]
}

/// The set, what it must hold, and what is known to be wrong with it.
struct History {
    rig: Rig,
    /// By slot: the seeds of its blocks.
    live: Vec<Option<[u64; CLUSTER_BLOCKS]>>,
    away: BTreeSet<usize>,
    /// Stripes and members with silent damage.
    rotten: BTreeSet<(u32, usize)>,
    heals: Vec<Heal>,
    next_seed: u64,
}

impl History {
    fn new(level: Option<Level>, members: u16) -> Self {
        let rig = Rig::new(level, members);
        let live = vec![None; rig.set.slots() as usize];
        let (away, rotten) = (BTreeSet::new(), BTreeSet::new());
        Self { rig, live, away, rotten, heals: Vec::new(), next_seed: 1 }
    }

    fn seeds(&mut self, count: usize) -> Vec<u64> {
        let first = self.next_seed;
        self.next_seed += count as u64;
        (first..self.next_seed).collect()
    }

    fn disk_of(&self, member: usize) -> usize {
        usize::from(self.rig.set.members()[member].disk.0)
    }

    /// Members whose strip of the stripe cannot be relied on; one that was given it and has not
    /// flushed it lacks it after a crash.
    fn unsound(&self, stripe: u32) -> usize {
        let record = self.rig.set.record();
        let stale = record.stale.get(stripe as usize).copied().unwrap_or(0);
        let unsound = (0..self.rig.members()).filter(|member| {
            let is_rotten = self.rotten.contains(&(stripe, *member));
            is_rotten || stale >> member & 1 == 1 || self.away.contains(&self.disk_of(*member))
        });
        unsound.count()
    }

    fn slot(&self, stripe: u32, column: usize) -> usize {
        self.rig.set.shape().slot(stripe, column) as usize
    }

    fn is_live(&self, stripe: u32, column: usize) -> bool {
        self.live[self.slot(stripe, column)].is_some()
    }

    fn live_columns(&self, stripe: u32) -> u8 {
        let columns = 0..self.rig.set.shape().columns();
        columns.filter(|c| self.is_live(stripe, *c)).fold(0, |mask, c| mask | 1 << c)
    }

    /// What the owner of the data knows of each block of the stripe.
    fn known(&self, stripe: u32) -> impl Fn(usize, usize) -> Option<u32> + use<> {
        let slots = (0..self.rig.set.shape().columns()).map(|c| self.slot(stripe, c));
        let crc_of = |slot: usize| self.live[slot].map(|seeds| crcs(slot as u32, 0, &seeds));
        let crcs: Vec<_> = slots.map(crc_of).collect();
        move |column, row| Some(crcs[column].as_ref()?[row])
    }

    async fn fresh(&mut self, stripe: u32, columns: u8) {
        let count = self.rig.set.shape().columns();
        let columns: Vec<_> = (0..count).filter(|c| columns >> c & 1 == 1).collect();
        if self.live_columns(stripe) != 0 || columns.is_empty() {
            return;
        }
        let mut data = Vec::new();
        for column in columns {
            let seeds = self.seeds(CLUSTER_BLOCKS);
            data.push((column, blocks(&seeds)));
            let slot = self.slot(stripe, column);
            self.live[slot] = Some(seeds.try_into().unwrap());
        }
        self.rotten.retain(|(of, _)| *of != stripe);
        self.rig.raid.write_fresh(&self.rig.set, stripe, &data, FLAGS).await.unwrap();
    }

    async fn update(&mut self, stripe: u32, column: usize, first: usize, count: usize) {
        let column = column % self.rig.set.shape().columns();
        let slot = self.slot(stripe, column);
        // A slot that was not live is written as a whole, as its other blocks mean nothing.
        let is_new = self.live[slot].is_none();
        let (first, count) =
            if is_new { (0, CLUSTER_BLOCKS) } else { (first, count.min(CLUSTER_BLOCKS - first)) };
        let seeds = self.seeds(count);
        let (raid, set) = (&self.rig.raid, &self.rig.set);
        if set.shape().parity() == 0 {
            raid.write_slot(set, slot as u32, first, blocks(&seeds), FLAGS).await.unwrap();
        } else {
            let all = self.known(stripe);
            // The owner of this slot does not know its neighbours.
            let known = |of: usize, row: usize| if of == column { all(of, row) } else { None };
            let changes = [change(column, first, &seeds)];
            let update = match raid.plan_update(set, stripe, &changes, &known).await {
                Err(ReadError::Unproved) => {
                    let live = self.live_columns(stripe);
                    raid.plan_anew(set, stripe, &changes, live, &all).await.unwrap()
                }
                update => update.unwrap(),
            };
            raid.apply(set, &update, FLAGS, &[]).await.unwrap();
            if is_new {
                let shape = set.shape();
                self.rotten.retain(|(of, m)| *of != stripe || shape.strip_of(stripe, *m) != column);
            }
        }
        self.live[slot].get_or_insert([0; CLUSTER_BLOCKS])[first..first + count]
            .copy_from_slice(&seeds);
    }

    fn free(&mut self, stripe: u32, column: usize) {
        let column = column % self.rig.set.shape().columns();
        let slot = self.slot(stripe, column);
        self.live[slot] = None;
        if self.live_columns(stripe) == 0 {
            self.rig.set.forget(stripe);
        }
    }

    fn lose(&mut self, disk: usize) {
        let disk = disk % self.rig.disks.len();
        if !self.away.insert(disk) {
            return;
        }
        if (0..STRIPES).any(|stripe| self.unsound(stripe) > self.rig.losses_max()) {
            self.away.remove(&disk);
            return;
        }
        self.rig.raid.disks().get(DiskId(disk as u16)).unwrap().set_access(Access::None);
        self.rig.disks[disk].kill();
    }

    async fn bring_back(&mut self) {
        let Some(disk) = self.away.pop_first() else { return };
        self.rig.bring_back(disk);
        // Half of what it missed; the rest stays for another time.
        for stripe in self.rig.set.stale_stripes().into_iter().step_by(2) {
            self.refresh(stripe).await;
        }
        // Sometimes nothing is durable yet when the next thing happens.
        if self.next_seed.is_multiple_of(3) {
            return;
        }
        self.rig.set.flush_begins();
        self.rig.set.flush_ends();
    }

    async fn refresh(&mut self, stripe: u32) {
        let known = self.known(stripe);
        let before = self.rig.set.stale(stripe);
        let proof = Proof { crcs: &known, is_sure: false, ..Proof::NOTHING };
        let done = self.rig.raid.refresh_stripe(&self.rig.set, stripe, proof).await.unwrap();
        assert_eq!(done.unproved, []);
        self.heals.extend(done.heals);
        let now = self.rig.set.stale(stripe);
        self.rotten.retain(|(of, member)| *of != stripe || (before & !now) >> member & 1 == 0);
    }

    fn corrupt(&mut self, stripe: u32, member: usize, block: usize) {
        let member = member % self.rig.members();
        let set = &self.rig.set;
        let sound = !self.away.contains(&self.disk_of(member));
        if !sound || set.stale(stripe) >> member & 1 == 1 {
            return;
        }
        let is_new = self.rotten.insert((stripe, member));
        if self.unsound(stripe) > self.rig.losses_max() {
            if is_new {
                self.rotten.remove(&(stripe, member));
            }
            return;
        }
        let seat = self.rig.set.members()[member];
        self.rig.disks[usize::from(seat.disk.0)]
            .flip(self.rig.set.byte_at(seat, stripe, block) + 9);
    }

    async fn scrub(&mut self, stripe: u32) {
        let known = self.known(stripe);
        let found =
            self.rig.raid.scrub_stripe(&self.rig.set, stripe, contents(&known)).await.unwrap();
        assert!(found.doubted.is_empty(), "{found:?}");
        assert_eq!(found.bad, found.repaired);
        // Without all columns the parity cannot be judged, unless their checksums are known.
        let is_whole = self.rig.set.written(stripe) == self.live_columns(stripe);
        if is_whole || self.unsound(stripe) == 0 {
            // Who is away was not looked at.
            let members = 0..self.rig.members();
            let away: BTreeSet<usize> =
                members.filter(|m| self.away.contains(&self.disk_of(*m))).collect();
            self.rotten.retain(|(of, member)| *of != stripe || away.contains(member));
        }
    }

    async fn replace(&mut self, member: usize) {
        let member = member % self.rig.members();
        let spare = (0..self.rig.disks.len()).find(|disk| {
            let is_used = (0..self.rig.members()).any(|m| self.disk_of(m) == *disk);
            !is_used && !self.away.contains(disk)
        });
        let Some(spare) = spare else { return };
        let seat = Seat { disk: DiskId(spare as u16), chunk: 0 };
        self.rig.set.set_replacement(member, seat).unwrap();
        for stripe in 0..STRIPES {
            self.refresh(stripe).await;
        }
        self.rig.set.flush_begins();
        self.rig.set.flush_ends();
        assert!(promote(&self.rig.set).is_some());
        // Parity has no checksum: it is copied as it is, which keeps damage but adds none.
        let shape = self.rig.set.shape();
        let is_data = |stripe| shape.strip_of(stripe, member) < shape.columns();
        self.rotten.retain(|(stripe, of)| *of != member || !is_data(*stripe));
    }

    fn crash(&mut self) {
        let record = self.rig.set.record();
        let set = Set::new(record, LAYOUT).unwrap();
        self.rig.set = Arc::new(set);
    }

    async fn check(&mut self) {
        for stripe in 0..STRIPES {
            for column in 0..self.rig.set.shape().columns() {
                let slot = self.slot(stripe, column);
                let Some(seeds) = self.live[slot] else { continue };
                let good = self.rig.read(slot as u32, 0, &seeds).await;
                self.heals.extend(good.unwrap().heals);
            }
        }
    }

    async fn run(&mut self, step: &Step) {
        match *step {
            Step::Fresh { stripe, columns } => self.fresh(stripe, columns).await,
            Step::Update { stripe, column, first, blocks } => {
                self.update(stripe, column, first, blocks).await;
            }
            Step::Free { stripe, column } => self.free(stripe, column),
            Step::Lose { disk } => self.lose(disk),
            Step::Return => self.bring_back().await,
            Step::Corrupt { stripe, member, block } => self.corrupt(stripe, member, block),
            Step::Scrub { stripe } => self.scrub(stripe).await,
            Step::Replace { member } => self.replace(member).await,
            Step::Crash => self.crash(),
        }
        self.check().await;
        // Late heals, as a busy array does them: they may no longer fit anything.
        if self.heals.len() > 3 {
            for heal in std::mem::take(&mut self.heals) {
                self.rig.raid.heal(&self.rig.set, &heal).await.unwrap();
            }
            self.check().await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 2000, ..ProptestConfig::default() })]
    #[test]
    fn any_history_within_the_level_keeps_all_data(
        set in prop::sample::select(SETS.to_vec()), steps in prop::collection::vec(step(), 1..30)
    ) {
        on_a_core(async move {
            let mut history = History::new(set.0, set.1);
            for step in &steps {
                history.run(step).await;
            }
        });
    }
}
