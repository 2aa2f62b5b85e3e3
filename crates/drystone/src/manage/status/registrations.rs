//! Volumes whose room for registrations of persistent reservations is full, or nearly so.

use api::types::{Registrations, Volume};

/// How many hosts or volumes a sentence names.
const NAMED_MAX: usize = 3;

/// From which share of the registrations that a volume may have on it is low on them, in percent.
const LOW_PERCENT: usize = 80;

/// What lets more hosts in.
const REMEDY: &str = "from a host that is registered, take those off that are gone for good ('sg_persist --out --preempt'), \
                      or end all of them ('drystone volume reservations clear')";

/// A sentence for each volume that has hardly room, and one for the room that all share.
pub(super) fn low(volumes: &[Volume]) -> Vec<String> {
    let with = |volume: &'_ Volume| Some((volume.name.clone(), volume.registrations.clone()?));
    let mut low: Vec<_> = volumes.iter().filter_map(with).collect();
    low.sort_by_key(|(_, registrations)| std::cmp::Reverse(registrations.count));
    let is_own = |of: &Registrations| of.count * 100 >= of.count_max * LOW_PERCENT;
    let own = low.iter().filter(|(_, of)| is_own(of)).map(|(name, of)| {
        format!(
            "volume {name} has {} of {} registrations of persistent reservations{}, and hosts that need more are \
             refused: {REMEDY}",
            of.count,
            of.count_max,
            whose(of)
        )
    });
    own.chain(shared(&low)).collect()
}

fn shared(low: &[(String, Registrations)]) -> Option<String> {
    let percent = low.iter().find_map(|(_, of)| of.shared_percent)?;
    let holders = low.iter().filter(|(_, of)| of.shared_percent.is_some());
    let named = named(holders.map(|(name, of)| format!("{name}{}", whose(of))).collect());
    Some(format!(
        "{percent} % of the room for registrations of persistent reservations is taken that all volumes share, by those of \
         {named}: {REMEDY}"
    ))
}

/// The hosts that have most of them, in parentheses.
fn whose(of: &Registrations) -> String {
    let hosts = of.hosts.iter().map(|host| format!("{} of {}", host.count, host.host)).collect();
    if of.hosts.is_empty() { String::new() } else { format!(" ({})", named(hosts)) }
}

/// The first of them, and how many more there are.
fn named(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let named = names.join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use api::types::Registrant;

    use super::super::tests::volume;
    use super::*;

    fn with(name: &str, shared_percent: Option<usize>, hosts: &[(&str, usize)]) -> Volume {
        let hosts: Vec<_> = hosts
            .iter()
            .map(|(host, count)| Registrant { host: (*host).to_owned(), count: *count })
            .collect();
        let count = hosts.iter().map(|host| host.count).sum();
        let registrations = Some(Registrations { count, count_max: 512, shared_percent, hosts });
        Volume { registrations, ..volume(name, "online", 0) }
    }

    #[test]
    fn volumes_that_have_hardly_room_are_named_with_whose_it_is() {
        assert_eq!(low(&[volume("well", "online", 0)]), [""; 0]);
        let said = low(&[
            with(
                "vm",
                None,
                &[("iqn.a", 256), ("iqn.b", 160), ("iqn.c", 9), ("iqn.d", 1), ("iqn.e", 1)],
            ),
            with("db", Some(95), &[("iqn.a", 20)]),
            with("off", Some(95), &[]),
        ]);
        assert_eq!(said.len(), 2, "{said:?}");
        let own = "volume vm has 427 of 512 registrations of persistent reservations (256 of iqn.a, 160 of iqn.b, 9 of \
                   iqn.c and 2 more), and hosts that need more are refused: from a host that is registered";
        assert!(said[0].starts_with(own), "{}", said[0]);
        let shared = "95 % of the room for registrations of persistent reservations is taken that all volumes share, by \
                      those of db (20 of iqn.a), off: from a host";
        assert!(said[1].starts_with(shared), "{}", said[1]);
    }
}
