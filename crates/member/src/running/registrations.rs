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

    pub(super) fn show_reservations(&self, name: &str) -> Result<Answer, RequestError> {
        let iqn = self.serving.names().volume(&self.find(name)?.name);
        let targets = self.serving.targets();
        let info = targets.reservations(&iqn);
        let info = info.ok_or_else(|| RequestError::ReservationsAway(name.to_owned()))?;
        Ok(Answer::Reservations(Box::new(Reservations { volume: name.to_owned(), info })))
    }

    /// Ends all reservations of a volume. Hosts that nobody lets in any more end none, and those that are let in cannot
    /// end those of others that fence them off.
    pub(super) async fn clear_reservations(&self, name: &str) -> Result<Answer, RequestError> {
        // What is taken away meanwhile would take the old ones along.
        let _turn = self.turn.take().await;
        let Answer::Reservations(before) = self.show_reservations(name)? else {
            return Err(RequestError::NoResult);
        };
        let iqn = self.serving.names().volume(name);
        let registrations = self.serving.targets().clear_reservations(&iqn).await?;
        if registrations > 0 || before.info.legacy.is_some() {
            let text = format!(
                "reservations of volume {name} were cleared by an operator: {registrations} registrations, {}",
                before.in_words()
            );
            let event = Event::about(Kind::ReservationsCleared, ObjectKind::Volume, name, text);
            self.events.tell(event);
        }
        self.show_reservations(name)
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
