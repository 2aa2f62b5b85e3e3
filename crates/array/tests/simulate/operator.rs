//! The operator: makes, changes and deletes volumes and snapshots while hosts use them.

use std::future::Future;
use std::rc::Rc;

use array::api::{Cache, ChangedExtent, VolumeSpec};
use array::{CLUSTER_BLOCKS, CLUSTER_BYTES};

use crate::content::{Content, ZERO};
use crate::machine::Machine;
use crate::model::{Blocks, Doubt, Served, Volume, view_name};
use crate::scenario::Theme;
use crate::subject::{Answer, Refusal, Subject};
use crate::verify;

const VOLUMES_MAX: usize = 5;
const SNAPSHOTS_MAX: usize = 6;

/// Gives orders, one after the other; each operator to volumes of its own.
pub(crate) async fn operator<S: Subject>(machine: Rc<Machine<S>>, number: u32, orders: u32) {
    for _ in 0..orders {
        machine.pause(20_000).await;
        if machine.gave_up.get() {
            return;
        }
        let operator = Operator(&machine, number);
        if machine.scenario.theme == Theme::Walks && machine.random.one_in(2) {
            operator.walk().await;
            continue;
        }
        // Snapshots are what most can go wrong with.
        match machine.random.below(30) {
            0 | 1 => operator.create().await,
            2 => operator.resize().await,
            3 => operator.offline_and_online().await,
            4 => operator.delete().await,
            5 => operator.undelete().await,
            6 => operator.purge().await,
            7..12 => operator.take().await,
            12..14 => operator.rollback().await,
            14..16 => operator.clone_one().await,
            16..19 => operator.delete_snapshot().await,
            19 | 24..30 => operator.serve_snapshot().await,
            20 => operator.look_at_snapshot().await,
            21 | 22 => operator.diff().await,
            _ => verify::look(&machine).await,
        }
    }
}

/// What a volume is asked to be.
pub(crate) fn draw_spec<S: Subject>(machine: &Machine<S>) -> VolumeSpec {
    let random = &machine.random;
    let clusters = match (machine.scenario.theme, random.below(4)) {
        (Theme::Full, _) => random.between(16, 256),
        // Maps of many leaves, of which most have next to nothing.
        (Theme::Walks, _) => random.between(200, 800),
        (_, 0) => random.between(1, 64),
        _ => random.between(1, 16),
    };
    VolumeSpec {
        name: machine.model.borrow_mut().fresh_name('v'),
        size_bytes: clusters * CLUSTER_BYTES as u64,
        level: Some(*random.pick(&machine.scenario.levels)),
        thick: random.one_in(6),
        block_bytes: *random.pick(&[512, 4096]),
        cache: if random.one_in(3) { Cache::Volatile } else { Cache::Durable },
        read_ahead_bytes: *random.pick(&[None, Some(0), Some(128 << 10)]),
        cached: true,
    }
}

struct Operator<'a, S>(&'a Rc<Machine<S>>, u32);

impl<S: Subject> Operator<'_, S> {
    /// Asks for something that a crash would leave in doubt. True if it was done.
    async fn ask(&self, doubt: Doubt, answer: impl Future<Output = Answer<()>>) -> bool {
        if self.0.gave_up.get() {
            self.0.model.borrow_mut().forget(doubt);
            return false;
        }
        let what = format!("{doubt:?}").chars().take(200).collect::<String>();
        self.0.env.note(&what);
        let gone = match &doubt {
            Doubt::Undelete(name) | Doubt::Purge(name) => Some(name.clone()),
            _ => None,
        };
        let asked_bytes = doubt.asked_bytes();
        let id = self.0.model.borrow_mut().doubt(doubt);
        match self.0.answer(&what, answer).await {
            Err(refusal) if self.0.is_overtaxed() => {
                // It may have happened, as after a crash.
                self.0.env.note(refusal.to_string());
                self.0.gave_up.set(true);
                return false;
            }
            Ok(()) => self.0.model.borrow_mut().happened(id),
            Err(Refusal::NoSpace(text)) => {
                self.0.model.borrow_mut().refused(id);
                self.0.out_of_space(&what, &text, asked_bytes);
                return false;
            }
            Err(Refusal::Other(text)) => {
                if let Some(name) = gone.filter(|name| self.0.listing().volume(name).is_none()) {
                    // It was in the recycle bin, and its space was needed meanwhile.
                    self.0.model.borrow_mut().refused(id);
                    let purged = self.0.model.borrow_mut().doubt(Doubt::Purge(name));
                    self.0.model.borrow_mut().happened(purged);
                    return false;
                }
                self.0.fail(format_args!("{what}: {text}"));
            }
        }
        self.0.env.note("ok");
        true
    }

    /// Two must not give orders about one volume at once: their answers could come in any order.
    fn is_mine(&self, volume: &str) -> bool {
        let number: u32 = volume[1..].parse().expect("volumes are named by letter and number");
        number % self.0.scenario.operators == self.1
    }

    /// One of the volumes that are in this state.
    fn volume(&self, served: Served) -> Option<String> {
        let model = self.0.model.borrow();
        let all =
            model.volumes().filter(|(name, volume)| volume.served == served && self.is_mine(name));
        let names: Vec<_> = all.map(|(name, _)| name.clone()).collect();
        (!names.is_empty()).then(|| self.0.random.pick(&names).clone())
    }

    /// One of the snapshots of volumes that are not deleted.
    fn snapshot(&self) -> Option<(String, String)> {
        let model = self.0.model.borrow();
        let is_there = |volume: &Volume| volume.served != Served::Deleted;
        let volumes =
            model.volumes().filter(|(name, volume)| is_there(volume) && self.is_mine(name));
        let pair = |volume: &str, name: &String| (volume.to_owned(), name.clone());
        let all: Vec<_> = volumes
            .flat_map(|(volume, of)| of.snapshots.keys().map(|name| pair(volume, name)))
            .collect();
        (!all.is_empty()).then(|| self.0.random.pick(&all).clone())
    }

    async fn create(&self) {
        if self.0.model.borrow().volumes().count() < VOLUMES_MAX {
            let spec = draw_spec(self.0);
            self.ask(Doubt::Create(spec.clone()), self.0.array.create_volume(spec)).await;
        }
    }

    async fn resize(&self) {
        let Some(name) = self.volume(Served::Online) else { return };
        self.0.close(&name).await;
        let clusters = self.0.random.between(1, 16);
        let old = self.0.model.borrow_mut().volume(&name).spec.size_bytes;
        let size_bytes = old + clusters * CLUSTER_BYTES as u64;
        let doubt = Doubt::Resize(name.clone(), size_bytes);
        self.ask(doubt, self.0.array.resize_volume(&name, size_bytes)).await;
        self.0.reopen(&name);
    }

    async fn serve(&self, name: &str, online: bool) {
        let doubt = Doubt::Serve(name.to_owned(), online);
        self.ask(doubt, self.0.array.serve_volume(name, online)).await;
    }

    async fn offline_and_online(&self) {
        if let Some(name) = self.volume(Served::Offline) {
            return self.serve(&name, true).await;
        }
        let Some(name) = self.volume(Served::Online) else { return };
        self.0.close(&name).await;
        self.serve(&name, false).await;
        if self.0.random.one_in(2) {
            self.serve(&name, true).await;
        }
        self.0.reopen(&name);
    }

    async fn delete(&self) {
        let Some(name) = self.volume(Served::Online) else { return };
        self.0.close(&name).await;
        self.serve(&name, false).await;
        self.end_views(&name).await;
        self.ask(Doubt::Delete(name.clone()), self.0.array.delete_volume(&name)).await;
        self.0.reopen(&name);
    }

    async fn undelete(&self) {
        let Some(name) = self.volume(Served::Deleted) else { return };
        if self.0.listing().volume(&name).is_none() {
            // It was purged for its space.
            let id = self.0.model.borrow_mut().doubt(Doubt::Purge(name));
            return self.0.model.borrow_mut().happened(id);
        }
        self.ask(Doubt::Undelete(name.clone()), self.0.array.undelete_volume(&name)).await;
    }

    async fn purge(&self) {
        let Some(name) = self.volume(Served::Deleted) else { return };
        if self.0.listing().volume(&name).is_some() {
            self.ask(Doubt::Purge(name.clone()), self.0.array.purge_volume(&name)).await;
        }
    }

    /// Snapshots of one or of several volumes at the same moment.
    async fn take(&self) {
        let names: Vec<String> = {
            let model = self.0.model.borrow();
            let room = model.volumes().filter(|(name, volume)| {
                self.is_mine(name)
                    && volume.served == Served::Online
                    && volume.snapshots.len() < SNAPSHOTS_MAX
            });
            room.map(|(name, _)| name.clone()).collect()
        };
        let one = self.0.random.one_in(2);
        let mut names: Vec<_> =
            names.into_iter().filter(|_| one || self.0.random.one_in(2)).collect();
        if one && !names.is_empty() {
            names = vec![self.0.random.pick(&names).clone()];
        }
        if names.is_empty() {
            return;
        }
        let fresh = |name| (name, self.0.model.borrow_mut().fresh_name('s'));
        let set: Vec<_> = names.into_iter().map(fresh).collect();
        let doubt = Doubt::take(&mut self.0.model.borrow_mut(), &set);
        self.ask(doubt, self.0.array.snapshot(&set)).await;
    }

    async fn rollback(&self) {
        let Some((volume, snapshot)) = self.snapshot() else { return };
        self.0.close(&volume).await;
        let online = self.0.model.borrow_mut().volume(&volume).served == Served::Online;
        if online {
            self.serve(&volume, false).await;
        }
        let doubt = Doubt::Rollback(volume.clone(), snapshot.clone());
        self.ask(doubt, self.0.array.rollback(&volume, &snapshot)).await;
        self.serve(&volume, true).await;
        self.0.reopen(&volume);
    }

    async fn clone_one(&self) {
        if self.0.model.borrow().volumes().count() >= VOLUMES_MAX {
            return;
        }
        let Some((volume, snapshot)) = self.snapshot() else { return };
        let name = self.0.model.borrow_mut().fresh_name('c');
        let spec = {
            let mut model = self.0.model.borrow_mut();
            let of = model.volume(&volume);
            let size_bytes = of.snapshots[&snapshot].size_bytes;
            VolumeSpec { name: name.clone(), size_bytes, ..of.spec.clone() }
        };
        let doubt = Doubt::Clone { volume: volume.clone(), snapshot: snapshot.clone(), spec };
        self.ask(doubt, self.0.array.clone_snapshot(&volume, &snapshot, &name)).await;
    }

    async fn delete_snapshot(&self) {
        let Some((volume, name)) = self.snapshot() else { return };
        self.end_view(&volume, &name).await;
        let doubt = Doubt::DeleteSnapshot(volume.clone(), name.clone());
        self.ask(doubt, self.0.array.delete_snapshot(&volume, &name)).await;
    }

    async fn serve_snapshot(&self) {
        let Some((volume, name)) = self.snapshot() else { return };
        if self.end_view(&volume, &name).await {
            return;
        }
        let online = !self.0.model.borrow_mut().volume(&volume).snapshots[&name].online;
        if online && !self.0.random.one_in(3) {
            let fresh = self.0.random.one_in(4);
            let doubt = Doubt::WriteSnapshot(volume.clone(), name.clone(), fresh);
            self.ask(doubt, self.0.array.write_snapshot(&volume, &name, fresh)).await;
            return;
        }
        let doubt = Doubt::ServeSnapshot(volume.clone(), name.clone(), online);
        self.ask(doubt, self.0.array.serve_snapshot(&volume, &name, online)).await;
    }

    /// Hosts may not write to a snapshot any more; false if they could not before.
    async fn end_view(&self, volume: &str, name: &str) -> bool {
        let view = view_name(volume, name);
        let served = self.0.model.borrow_mut().find(&view).map(|view| view.served);
        if served != Some(Served::Online) {
            return false;
        }
        self.0.close(&view).await;
        let doubt = Doubt::ServeSnapshot(volume.to_owned(), name.to_owned(), false);
        self.ask(doubt, self.0.array.serve_snapshot(volume, name, false)).await;
        self.0.reopen(&view);
        true
    }

    async fn end_views(&self, volume: &str) {
        let names: Vec<_> = {
            let mut model = self.0.model.borrow_mut();
            model.volume(volume).snapshots.keys().cloned().collect()
        };
        for name in names {
            self.end_view(volume, &name).await;
        }
    }

    async fn look_at_snapshot(&self) {
        if let Some((volume, name)) = self.snapshot() {
            verify::snapshot(self.0, &volume, &name).await;
        }
    }

    /// Walks over the map of a volume in use, beside its hosts and beside checkpoints: each count of its
    /// space begins with one.
    async fn walk(&self) {
        let Some(volume) = self.volume(Served::Online) else { return };
        let what = format!("walk {volume}");
        let counts = async {
            for _ in 0..4 {
                self.0.array.space(&volume, None).await?;
            }
            Ok::<_, Refusal>(())
        };
        let diff = self.0.array.diff(&volume, None, None);
        let walks = futures_util::future::join(diff, counts);
        let (changed, counted) = self.0.answer(&what, walks).await;
        if self.0.may(&what, changed).is_some() {
            self.0.may(&what, counted);
        }
    }

    /// What changed from one snapshot to another, or to the volume as it is.
    async fn diff(&self) {
        let Some((volume, from)) = self.snapshot() else { return };
        self.0.close(&volume).await;
        let (from, to) = {
            let mut model = self.0.model.borrow_mut();
            let names: Vec<_> = model.volume(&volume).snapshots.keys().cloned().collect();
            let random = &self.0.random;
            let to = random.one_in(2).then(|| random.pick(&names).clone());
            ((!random.one_in(4)).then_some(from), to)
        };
        let what = format!("diff {volume} {from:?} {to:?}");
        let asked = self.0.array.diff(&volume, from.as_deref(), to.as_deref());
        let answer = self.0.answer(&what, asked).await;
        let Some(changed) = self.0.may(&what, answer) else { return self.0.reopen(&volume) };
        let (before, after) = {
            let mut model = self.0.model.borrow_mut();
            let of = model.volume(&volume);
            let blocks = |name: &Option<String>, none: &Blocks| match name {
                Some(name) => of.snapshots[name].blocks.clone(),
                None => none.clone(),
            };
            // Without a first snapshot all that was ever written counts; without a second one
            // the volume as it is.
            (blocks(&from, &Vec::new()), blocks(&to, of.contents.blocks()))
        };
        if let Some(cluster) = missing(&before, &after, &changed) {
            self.0.fail(format_args!("{what} lacks cluster {cluster}"));
        }
        self.0.reopen(&volume);
    }
}

/// A cluster that differs and is in no extent.
fn missing(before: &Blocks, after: &Blocks, changed: &[ChangedExtent]) -> Option<usize> {
    // What is in doubt is held to nothing.
    let content = |blocks: &Blocks, at: usize| -> Option<Content> {
        blocks.get(at).map_or(Some(ZERO), |block| block.sure())
    };
    let differs = |&cluster: &usize| {
        (cluster * CLUSTER_BLOCKS..(cluster + 1) * CLUSTER_BLOCKS).any(|at| {
            let pair = content(before, at).zip(content(after, at));
            pair.is_some_and(|(before, after)| before != after)
        })
    };
    let listed = |cluster: usize| {
        let at = (cluster * CLUSTER_BYTES) as u64;
        changed.iter().any(|extent| (extent.at..extent.at + extent.len_bytes).contains(&at))
    };
    (0..after.len().div_ceil(CLUSTER_BLOCKS)).filter(differs).find(|&cluster| !listed(cluster))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Tag;
    use crate::model::Contents;

    #[test]
    fn a_changed_cluster_must_be_listed() {
        let before = crate::model::zeroes(4 * CLUSTER_BYTES as u64);
        let mut after = Contents::new(before.clone());
        let change = crate::model::Change { op: 1, range: 130..140, content: [Tag(1); 8] };
        after.begin(&change);
        assert_eq!(missing(&before, after.blocks(), &[]), None, "still in doubt");
        after.end(&change, crate::model::Outcome::DoneDurable);
        assert_eq!(missing(&before, after.blocks(), &[]), Some(1));
        let extent = |at| ChangedExtent { at, len_bytes: CLUSTER_BYTES as u64 };
        assert_eq!(missing(&before, after.blocks(), &[extent(0)]), Some(1));
        assert_eq!(missing(&before, after.blocks(), &[extent(64 << 10)]), None);
        assert_eq!(missing(&Vec::new(), after.blocks(), &[]), Some(1), "against nothing");
    }
}
