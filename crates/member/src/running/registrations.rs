//! Reservations of hosts: who holds which, their end by an operator, and volumes that have hardly room for more
//! registrations of persistent ones, of their own or of what all share.

use std::collections::{BTreeMap, BTreeSet};

use target::{REGISTRATIONS_MAX, UnitRegistrations};

use super::{Member, RequestError};
use crate::events::{Event, Kind, ObjectKind};
use crate::reply::{Answer, Registrations, Reservations};

/// From how much in percent on operators hear of it.
const LOW_PERCENT: usize = 80;

impl Member {
    /// Those, by their serial numbers.
    pub(super) fn low_on_registrations(&self) -> BTreeMap<String, Registrations> {
        low(self.settings.shared_room(), self.serving.targets().registrations())
    }

    /// The volume of this name as what hosts reserve.
    pub(super) fn served_volume(&self, volume: String) -> Result<Reserved, RequestError> {
        let iqn = self.serving.iqn_of_volume(&self.find(&volume)?);
        Ok(Reserved { iqn, volume, snapshot: None })
    }

    /// The same of a snapshot.
    pub(super) fn served_snapshot(
        &self,
        volume: String,
        name: String,
    ) -> Result<Reserved, RequestError> {
        self.find_snapshot(&volume, &name)?;
        let iqn = self.serving.iqn_of_snapshot(&volume, &name);
        Ok(Reserved { iqn, volume, snapshot: Some(name) })
    }

    pub(super) fn show_reservations(&self, of: &Reserved) -> Result<Answer, RequestError> {
        self.reservations(of).map(|found| Answer::Reservations(Box::new(found)))
    }

    fn reservations(&self, of: &Reserved) -> Result<Reservations, RequestError> {
        let info = self.serving.targets().reservations(&of.iqn).ok_or_else(|| of.away())?;
        Ok(Reservations { volume: of.volume.clone(), snapshot: of.snapshot.clone(), info })
    }

    /// Ends all reservations of what `find` finds. Hosts that nobody lets in any more end none, and those that are let in
    /// cannot end those of others that fence them off.
    pub(super) async fn clear_reservations(
        &self,
        find: impl FnOnce(&Self) -> Result<Reserved, RequestError>,
    ) -> Result<Answer, RequestError> {
        // What is taken away meanwhile would take the old ones along.
        let _turn = self.turn.take().await;
        let of = find(self)?;
        // What hosts had reserved may have been sent.
        self.check_staying([of.volume.as_str()])?;
        let before = self.reservations(&of)?;
        let registrations = self.serving.targets().clear_reservations(&of.iqn).await?;
        if registrations > 0 || before.info.legacy.is_some() {
            let text = format!(
                "reservations of {} were cleared by an operator: {registrations} registrations, {}",
                of.in_words(),
                before.in_words()
            );
            let about = (Kind::ReservationsCleared, ObjectKind::Volume);
            self.events.tell(Event::about(about.0, about.1, &of.volume, text));
        }
        self.show_reservations(&of)
    }
}

/// What hosts reserve: a volume, or a snapshot that is served as a target of its own.
#[derive(Debug)]
pub(super) struct Reserved {
    iqn: String,
    volume: String,
    snapshot: Option<String>,
}

impl Reserved {
    fn away(&self) -> RequestError {
        let volume = self.volume.clone();
        match self.snapshot.clone() {
            None => RequestError::ReservationsAway(volume),
            Some(name) => RequestError::SnapshotReservationsAway { volume, name },
        }
    }

    fn in_words(&self) -> String {
        match &self.snapshot {
            None => format!("volume {}", self.volume),
            Some(name) => format!("snapshot {name} of volume {}", self.volume),
        }
    }
}

/// Which of `units` have hardly room, and which hold some of what is shared, where that runs short.
fn low(
    (percent, holders): (usize, BTreeSet<String>),
    units: Vec<UnitRegistrations>,
) -> BTreeMap<String, Registrations> {
    let shared_percent = (percent >= LOW_PERCENT).then_some(percent);
    let holds = |serial: String| (serial, Registrations { hosts: Vec::new(), shared_percent });
    let holders = holders.into_iter().filter(|_| shared_percent.is_some());
    let mut low: BTreeMap<_, _> = holders.map(holds).collect();
    for UnitRegistrations { serial, hosts } in units {
        let count = hosts.values().sum::<usize>();
        if count * 100 < REGISTRATIONS_MAX * LOW_PERCENT && !low.contains_key(&serial) {
            continue;
        }
        let mut hosts: Vec<_> =
            hosts.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        hosts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        low.entry(serial).or_default().hosts = hosts;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(serial: &str, hosts: &[(&str, usize)]) -> UnitRegistrations {
        let hosts = hosts.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        UnitRegistrations { serial: serial.to_owned(), hosts }
    }

    #[test]
    fn who_has_hardly_room_is_told_with_whose_it_is() {
        let units = || vec![unit("a", &[("x", 100), ("y", 310)]), unit("b", &[("x", 409)])];
        let holders = || BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        let hosts = |hosts: &[(&str, usize)]| -> Vec<_> {
            hosts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let alone = low((79, holders()), units());
        let a = Registrations { hosts: hosts(&[("y", 310), ("x", 100)]), shared_percent: None };
        assert_eq!(alone, BTreeMap::from([("a".to_owned(), a.clone())]));
        let all = low((80, holders()), units());
        let b = Registrations { hosts: hosts(&[("x", 409)]), shared_percent: Some(80) };
        let c = Registrations { hosts: hosts(&[]), shared_percent: Some(80) };
        let wanted = [("a", a), ("b", b), ("c", c)].map(|(name, of)| (name.to_owned(), of));
        assert_eq!(all, BTreeMap::from(wanted));
    }
}
