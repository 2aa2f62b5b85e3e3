//! The values of metrics and of their labels, from what there is to tell.

use std::collections::HashMap;
use std::fs;

use super::sessions::{self, Session};
use super::{Figures, HISTOGRAMS_MAX, VOLUMES_MAX};
use crate::types::{
    CoreFigures, Destination, Disk, DiskFigures, JobKind, Latency, PortalFigures, SetFigures,
    Volume, VolumeFigures, Work,
};

/// Values of labels, and a number.
pub(super) type Sample = (Vec<String>, f64);

/// Values of labels, and how long commands took.
pub(super) type Timed<'a> = (Vec<String>, &'a Latency);

pub(super) fn one(number: f64) -> Vec<Sample> {
    vec![(Vec::new(), number)]
}

/// The volumes that have figures of their own.
pub(super) fn labelled(figures: &Figures) -> impl Iterator<Item = &Volume> {
    figures.volumes.iter().take(VOLUMES_MAX)
}

pub(super) fn of_volumes(figures: &Figures, number: fn(&Volume) -> f64) -> Vec<Sample> {
    labelled(figures).map(|volume| (vec![volume.name.clone()], number(volume))).collect()
}

pub(super) fn of_connections(figures: &Figures) -> Vec<Sample> {
    let mut counts: HashMap<&str, f64> = HashMap::new();
    for volume in figures.connections.iter().filter_map(|connection| connection.volume.as_ref()) {
        *counts.entry(volume).or_default() += 1.0;
    }
    let to = |volume: &Volume| counts.get(volume.name.as_str()).copied().unwrap_or(0.0);
    labelled(figures).map(|volume| (vec![volume.name.clone()], to(volume))).collect()
}

/// Volumes that are served, and behind them their snapshots that are, as far as they have figures of their own.
/// Nothing is summed up: a sum would fall, and so be taken for one that begins anew, when a part of it goes.
pub(super) fn served(figures: &Figures) -> impl Iterator<Item = &VolumeFigures> {
    let all = &figures.done.volumes;
    let volumes = all.iter().filter(|one| one.snapshot.is_none());
    volumes.chain(all.iter().filter(|one| one.snapshot.is_some())).take(VOLUMES_MAX)
}

/// The work of a volume by its direction.
fn by_direction(volume: &VolumeFigures) -> [(Vec<String>, &Work); 3] {
    let all = [("read", &volume.reads), ("write", &volume.writes), ("other", &volume.others)];
    all.map(|(direction, work)| (vec![volume.name(), direction.to_owned()], work))
}

pub(super) fn of_work(figures: &Figures, number: fn(&Work) -> u64) -> Vec<Sample> {
    let all = served(figures).flat_map(by_direction);
    all.map(|(labels, work)| (labels, number(work) as f64)).collect()
}

pub(super) fn latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let all = served(figures).take(HISTOGRAMS_MAX).flat_map(by_direction);
    all.map(|(labels, work)| (labels, &work.latency)).collect()
}

/// The work of the sessions that have figures of their own, by direction.
pub(super) fn of_sessions(figures: &Figures) -> impl Iterator<Item = (Vec<String>, &Work)> {
    let all = sessions::told(&figures.connections).into_iter();
    all.flat_map(|session: Session<'_>| session.by_direction())
}

pub(super) fn of_portals(figures: &Figures, number: fn(&PortalFigures) -> f64) -> Vec<Sample> {
    let one = |portal: &PortalFigures| (vec![portal.portal.to_string()], number(portal));
    figures.done.portals.iter().map(one).collect()
}

pub(super) fn of_cores(figures: &Figures, number: fn(&CoreFigures) -> f64) -> Vec<Sample> {
    let one = |core: &CoreFigures| (vec![core.core.to_string()], number(core));
    figures.done.cores.iter().map(one).collect()
}

pub(super) fn of_disks(figures: &Figures, number: fn(&Disk) -> f64) -> Vec<Sample> {
    let named = |disk: &Disk| vec![disk.id.to_string(), disk.name.clone()];
    figures.disks.iter().map(|disk| (named(disk), number(disk))).collect()
}

/// The work of a disk by what it is asked for.
fn by_operation(disk: &DiskFigures) -> [(Vec<String>, &Work); 3] {
    let all = [("read", &disk.reads), ("write", &disk.writes), ("flush", &disk.flushes)];
    all.map(|(word, work)| (vec![disk.id.to_string(), disk.name.clone(), word.to_owned()], work))
}

pub(super) fn of_disk_work(figures: &Figures, number: fn(&Work) -> u64) -> Vec<Sample> {
    let all = figures.done.disks.iter().flat_map(by_operation);
    all.map(|(labels, work)| (labels, number(work) as f64)).collect()
}

/// There are as many disks as an array may have, which are few.
pub(super) fn disk_latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let all = figures.done.disks.iter().flat_map(by_operation);
    all.map(|(labels, work)| (labels, &work.latency)).collect()
}

/// The level of RAID sets as a label.
fn raid(set: &SetFigures) -> String {
    set.raid.map_or_else(|| "metadata".to_owned(), |raid| raid.to_string())
}

pub(super) fn of_sets(figures: &Figures, number: fn(&SetFigures) -> u64) -> Vec<Sample> {
    figures.done.sets.iter().map(|set| (vec![raid(set)], number(set) as f64)).collect()
}

pub(super) fn set_latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let both = |set: &'_ SetFigures| [(raid(set), "read"), (raid(set), "write")];
    let labels = figures.done.sets.iter().flat_map(both);
    let times = figures.done.sets.iter().flat_map(|set| [&set.reads, &set.writes]);
    labels.map(|(raid, word)| vec![raid, word.to_owned()]).zip(times).collect()
}

/// There are as many as settings may hold, which are few.
pub(super) fn of_destinations(figures: &Figures, number: fn(&Destination) -> f64) -> Vec<Sample> {
    figures.destinations.iter().map(|one| (vec![one.name.clone()], number(one))).collect()
}

pub(super) fn of_jobs(figures: &Figures, number: fn(&crate::types::Job) -> u64) -> Vec<Sample> {
    let of = |kind| {
        let all = figures.jobs.iter().filter(|job| job.kind == kind);
        all.map(number).sum::<u64>() as f64
    };
    JobKind::OF_ARRAY.into_iter().map(|kind| (vec![kind.word().to_owned()], of(kind))).collect()
}

/// The word that JSON has for it.
pub(super) fn word(state: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The second number of `/proc/self/statm`, in pages.
pub(super) fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}
