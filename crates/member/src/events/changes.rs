//! What has changed about an array between two looks at it, as events.

use std::collections::{BTreeMap, BTreeSet};

use array::api::{ArrayInfo, DiskInfo, DiskState, JobInfo, JobKind, VolumeInfo, VolumeState};

use super::{Event, Kind, ObjectKind};

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// Name, state and reason.
    disks: BTreeMap<u16, (String, DiskState, String)>,
    volumes: BTreeMap<u32, (String, VolumeState, String)>,
    /// The subjects of rebuilds.
    rebuilds: BTreeSet<String>,
    warnings: BTreeSet<String>,
    /// How many of the levels of space in use are reached.
    levels: usize,
    used_percent: u64,
}

impl Look {
    pub(crate) fn of(
        info: &ArrayInfo,
        disks: Vec<DiskInfo>,
        volumes: Vec<VolumeInfo>,
        jobs: Vec<JobInfo>,
    ) -> Self {
        // What the array warns of about a disk is told as that of the disk.
        let of_disks: Vec<String> =
            disks.iter().map(|disk| format!("disk {}: {}", disk.name, disk.reason)).collect();
        let warnings = info.warnings.iter().filter(|text| !of_disks.contains(text));
        let percent = info.used_percent();
        let reached = |level: &&u8| percent >= u64::from(**level);
        Self {
            warnings: warnings.cloned().collect(),
            levels: info.settings.warn_percents.iter().filter(reached).count(),
            used_percent: percent,
            disks: disks
                .into_iter()
                .map(|disk| (disk.id.0, (disk.name, disk.state, disk.reason)))
                .collect(),
            volumes: volumes.into_iter().map(|v| (v.id, (v.name, v.state, v.reason))).collect(),
            rebuilds: jobs
                .into_iter()
                .filter(|job| job.kind == JobKind::Rebuild)
                .map(|job| job.subject)
                .collect(),
        }
    }

    /// As it would be if all were well: what is not is told at the first look.
    pub(crate) fn all_well(&self) -> Self {
        let well = |(id, (name, _, _)): (&u16, &(String, DiskState, String))| {
            (*id, (name.clone(), DiskState::Online, String::new()))
        };
        let served = |(id, (name, state, _)): (&u32, &(String, VolumeState, String))| {
            let state = if is_in_trouble(*state) { VolumeState::Online } else { *state };
            (*id, (name.clone(), state, String::new()))
        };
        Self {
            disks: self.disks.iter().map(well).collect(),
            volumes: self.volumes.iter().map(served).collect(),
            ..Self::default()
        }
    }

    /// What has happened `since`.
    pub(crate) fn changes(&self, since: &Self) -> Vec<Event> {
        let mut events = self.of_disks(since);
        events.extend(self.of_volumes(since));
        events.extend(self.of_rebuilds(since));
        if self.levels > since.levels {
            let text = format!("{} % of the space of the array is in use", self.used_percent);
            events.push(Event::of_array(Kind::SpaceLow, text));
        }
        // As many as before are the same ones, with other numbers in them.
        if self.warnings.len() > since.warnings.len() {
            let warned = self.warnings.difference(&since.warnings);
            events.extend(warned.map(|text| Event::of_array(Kind::ArrayWarning, text)));
        }
        events
    }

    fn of_disks(&self, since: &Self) -> Vec<Event> {
        let about =
            |kind, name: &str, text: String| Event::about(kind, ObjectKind::Disk, name, text);
        let mut events = Vec::new();
        for (id, (name, state, reason)) in &self.disks {
            let before = since.disks.get(id).map(|(_, before, _)| *before);
            if before.is_none() {
                events.push(about(
                    Kind::DiskAdded,
                    name,
                    format!("disk {name} has joined the array"),
                ));
            }
            let is_news = before.map_or(*state != DiskState::Online, |before| before != *state);
            if is_news {
                let (kind, is) = of_state(*state);
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                events.push(about(kind, name, format!("disk {name} {is}{why}")));
            }
        }
        for (_, (name, _, _)) in since.disks.iter().filter(|(id, _)| !self.disks.contains_key(id)) {
            events.push(about(Kind::DiskLeft, name, format!("disk {name} has left the array")));
        }
        events
    }

    fn of_volumes(&self, since: &Self) -> Vec<Event> {
        let news = self.volumes.iter().filter_map(|(id, (name, state, reason))| {
            let before =
                since.volumes.get(id).map_or(VolumeState::Online, |(_, before, _)| *before);
            let (kind, is) = match (before, *state) {
                (before, state) if before == state => return None,
                (_, VolumeState::Lost) => (Kind::VolumeLost, "is not available"),
                (_, VolumeState::Degraded) => {
                    (Kind::VolumeDegraded, "has less redundancy than it should")
                }
                (before, VolumeState::Online) if is_in_trouble(before) => {
                    (Kind::VolumeRecovered, "has all its disks again")
                }
                _ => return None,
            };
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some(Event::about(kind, ObjectKind::Volume, name, format!("volume {name} {is}{why}")))
        });
        news.collect()
    }

    fn of_rebuilds(&self, since: &Self) -> Vec<Event> {
        let about = |kind, subject: &String, text: String| {
            Event::about(kind, ObjectKind::Disk, subject, text)
        };
        let begun = self.rebuilds.difference(&since.rebuilds);
        let begun =
            begun.map(|of| about(Kind::RebuildBegun, of, format!("a rebuild of {of} has begun")));
        let ended = since.rebuilds.difference(&self.rebuilds);
        let ended =
            ended.map(|of| about(Kind::RebuildEnded, of, format!("the rebuild of {of} has ended")));
        begun.chain(ended).collect()
    }
}

const fn is_in_trouble(state: VolumeState) -> bool {
    matches!(state, VolumeState::Lost | VolumeState::Degraded)
}

/// The kind of event that a disk comes to a state by, and the words for it.
const fn of_state(state: DiskState) -> (Kind, &'static str) {
    match state {
        DiskState::Online => (Kind::DiskOnline, "is online, and all is well with it"),
        DiskState::Suspect => (Kind::DiskSuspect, "is suspect"),
        DiskState::Retiring => (Kind::DiskRetiring, "is retiring"),
        DiskState::Resyncing => (Kind::DiskReturned, "is resyncing"),
        DiskState::Missing => (Kind::DiskMissing, "is missing"),
        DiskState::Failed => (Kind::DiskFailed, "has failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(disks: &[(u16, &str, DiskState)], volumes: &[(u32, &str, VolumeState)]) -> Look {
        let disk = |(id, name, state): &(u16, &str, DiskState)| {
            (*id, ((*name).to_owned(), *state, "why".to_owned()))
        };
        let volume = |(id, name, state): &(u32, &str, VolumeState)| {
            (*id, ((*name).to_owned(), *state, String::new()))
        };
        Look {
            disks: disks.iter().map(disk).collect(),
            volumes: volumes.iter().map(volume).collect(),
            ..Look::default()
        }
    }

    fn kinds(events: &[Event]) -> Vec<(&str, &str)> {
        events.iter().map(|event| (event.kind.as_str(), event.object.name.as_str())).collect()
    }

    #[test]
    fn each_change_of_a_disk_or_volume_is_an_event_and_nothing_else_is() {
        use {DiskState as D, VolumeState as V};
        let before = look(
            &[(0, "a", D::Online), (1, "b", D::Online), (2, "c", D::Missing), (3, "d", D::Online)],
            &[(1, "v", V::Online), (2, "w", V::Lost), (3, "x", V::Online), (4, "y", V::Online)],
        );
        assert_eq!(kinds(&before.changes(&before)), []);
        let now = look(
            &[
                (0, "a", D::Failed),
                (1, "b", D::Suspect),
                (2, "c", D::Resyncing),
                (4, "e", D::Online),
            ],
            &[
                (1, "v", V::Degraded),
                (2, "w", V::Online),
                (3, "x", V::Offline),
                (5, "z", V::Online),
            ],
        );
        let wanted = [
            ("disk_failed", "a"),
            ("disk_suspect", "b"),
            ("disk_returned", "c"),
            ("disk_added", "e"),
            ("disk_left", "d"),
            ("volume_degraded", "v"),
            ("volume_recovered", "w"),
        ];
        let events = now.changes(&before);
        assert_eq!(kinds(&events), wanted);
        assert_eq!(events[0].text, "disk a has failed: why");
    }

    #[test]
    fn what_is_not_well_at_the_start_is_told() {
        let start = look(
            &[(0, "a", DiskState::Online), (1, "b", DiskState::Missing)],
            &[(1, "v", VolumeState::Lost), (2, "off", VolumeState::Offline)],
        );
        let wanted = [("disk_missing", "b"), ("volume_lost", "v")];
        assert_eq!(kinds(&start.changes(&start.all_well())), wanted);
    }

    #[test]
    fn work_and_warnings_begin_and_end() {
        let text = |text: &str| BTreeSet::from([text.to_owned()]);
        let busy = Look {
            rebuilds: text("sda"),
            warnings: text("90 % is in use"),
            levels: 1,
            used_percent: 81,
            ..Look::default()
        };
        let begun = busy.changes(&Look::default());
        let wanted = ["rebuild_begun", "space_low", "array_warning"];
        assert_eq!(begun.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), wanted);
        let other = Look { warnings: text("91 % is in use"), used_percent: 91, ..busy.clone() };
        assert_eq!(kinds(&other.changes(&busy)), [], "the same with another number");
        let ended = Look::default().changes(&busy);
        assert_eq!(kinds(&ended), [("rebuild_ended", "sda")]);
    }
}
