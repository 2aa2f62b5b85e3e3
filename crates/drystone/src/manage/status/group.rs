//! The group of the member, if it is in one.

use api::client::ClientError;
use api::problem::Code;
use api::types::Group;

use super::super::Desk;
use crate::advice::Advised;
use crate::print::units;

/// The group, and a sentence for each thing that is not well with it.
pub(super) fn ask(desk: &Desk) -> (Option<Group>, Vec<String>) {
    match desk.client.group() {
        Ok(group) => {
            let problems = problems(&group);
            (Some(group), problems)
        }
        Err(error) if is_none(&error) => (None, Vec::new()),
        // It was in one, and cannot be now: the rest of the member may do well.
        Err(error) => (None, vec![error.sentence()]),
    }
}

/// Whether it is in none; a member of an earlier version knows of none.
fn is_none(error: &ClientError) -> bool {
    let ClientError::Problem(problem) = error else { return false };
    matches!(problem.code, Code::NoGroup | Code::NoSuchPath)
}

fn problems(group: &Group) -> Vec<String> {
    let store = group.store_fault.as_ref().map(|why| {
        format!(
            "the store of group {} does not answer: {why}; hosts are served all the same, but nothing of the group can be \
             changed: see that more than half of {} run and reach each other",
            group.name,
            stores(group)
        )
    });
    // Without the store nobody knows who is away.
    let away = (store.is_none() && !group.away.is_empty()).then(|| {
        let (names, first) = (group.away.join(", "), &group.away[0]);
        let (noun, verb) = if group.away.len() == 1 { ("member", "is") } else { ("members", "are") };
        format!(
            "{noun} {names} of group {} {verb} away, with what hosts have there: start it again, or see whether it reaches \
             the others; 'drystone member remove {first}' if it is gone for good",
            group.name
        )
    });
    let part = group.store_part_fault.as_ref().map(|why| {
        format!(
            "this member's part of the store of group {} does not run: {why}; it is tried again by itself, and the store \
             answers without it while more than half of {} run",
            group.name,
            stores(group)
        )
    });
    let nobody = group.address.as_ref().filter(|_| group.address_member.is_none());
    let nobody = nobody.filter(|_| store.is_none()).map(|address| nobody_has(group, address));
    let own = (!group.settings_differ.is_empty()).then(|| own_settings(group));
    let fault = group.settings_fault.as_ref().map(|why| {
        format!(
            "what is set for group {} is not taken over here: {why}; what was set before goes on, and it is tried again by \
             itself: mend that",
            group.name
        )
    });
    let of_store = store.into_iter().chain(part).chain(away);
    of_store.chain(nobody).chain(own).chain(fault).collect()
}

fn nobody_has(group: &Group, address: &str) -> String {
    let why = match &group.address_fault {
        Some(why) => format!("this one says: {why}"),
        None => "a member that can have it takes it within seconds".to_owned(),
    };
    format!("no member has the address {address} of group {}: {why}", group.name)
}

/// How many things that differ are named.
const NAMED_MAX: usize = 4;

fn own_settings(group: &Group) -> String {
    let differ = &group.settings_differ;
    let mut named = differ[..differ.len().min(NAMED_MAX)].join(", ");
    if differ.len() > NAMED_MAX {
        named.push_str(&format!(" and {} more", differ.len() - NAMED_MAX));
    }
    format!(
        "this member keeps to its own settings, and not to those of group {}, as these are set differently here: {named}; \
         change or delete them here or on another member, or give up what is set here with 'drystone group share \
         --replace-settings'",
        group.name
    )
}

fn stores(group: &Group) -> String {
    if group.store.is_empty() { "its members".to_owned() } else { group.store.join(", ") }
}

/// The group in one line.
pub(super) fn line(group: &Group) -> String {
    let members = units::count(group.members, "member");
    let away = match (&group.store_fault, group.away.len()) {
        (Some(_), _) => "the store does not answer".to_owned(),
        (None, 0) if group.members == 1 => "it is here".to_owned(),
        (None, 0) => "all are there".to_owned(),
        (None, away) => format!("{away} away"),
    };
    format!("{}: {members}, {away}; this one is {}", group.name, group.member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::problem::Problem;
    use serde_json::json;

    fn group(members: usize, away: &[&str], store_fault: Option<&str>) -> Group {
        serde_json::from_value(json!({
            "id": "00", "name": "san1", "member": "a", "door": "192.0.2.10:3262", "members": members,
            "away": away, "store": ["a", "b", "c"], "store_fault": store_fault, "store_part_fault": null,
            "shares": true, "settings_differ": [],
        }))
        .unwrap()
    }

    #[test]
    fn members_that_are_away_are_named_with_what_to_do() {
        assert_eq!(problems(&group(3, &[], None)), [""; 0]);
        let said = problems(&group(3, &["c"], None)).remove(0);
        assert!(said.starts_with("member c of group san1 is away, "), "{said}");
        assert!(said.ends_with("'drystone member remove c' if it is gone for good"), "{said}");
        let said = problems(&group(3, &["b", "c"], None)).remove(0);
        assert!(said.starts_with("members b, c of group san1 are away, "), "{said}");
    }

    #[test]
    fn an_address_that_nobody_has_is_said_with_what_this_member_knows_of_it() {
        let with = |member: Option<&str>, fault: Option<&str>, store_fault| Group {
            address: Some("192.0.2.100/24".to_owned()),
            address_member: member.map(str::to_owned),
            address_fault: fault.map(str::to_owned),
            ..group(3, &[], store_fault)
        };
        // Another one has it, whatever keeps this one from that.
        assert_eq!(problems(&with(Some("b"), Some("no right"), None)), [""; 0]);
        let said = problems(&with(None, Some("no right"), None));
        let wanted =
            "no member has the address 192.0.2.100/24 of group san1: this one says: no right";
        assert_eq!(said, [wanted]);
        let said = problems(&with(None, None, None)).remove(0);
        assert!(said.ends_with("a member that can have it takes it within seconds"), "{said}");
        let said = problems(&with(None, None, Some("no endpoint answers")));
        assert_eq!(said.len(), 1, "who has it is not known: {said:?}");
    }

    #[test]
    fn a_store_that_does_not_answer_is_said_instead_of_who_is_away() {
        let said = problems(&group(3, &["b", "c"], Some("no endpoint answers")));
        assert_eq!(said.len(), 1, "{said:?}");
        let wanted = "the store of group san1 does not answer: no endpoint answers; hosts are served all the same";
        assert!(said[0].starts_with(wanted), "{said:?}");
        assert!(said[0].contains("more than half of a, b, c run"), "{said:?}");
    }

    #[test]
    fn a_part_of_the_store_that_does_not_run_here_is_said_also_while_the_store_answers() {
        let part = Some("etcd has ended".to_owned());
        let said = problems(&Group { store_part_fault: part.clone(), ..group(3, &["c"], None) });
        assert_eq!(said.len(), 2, "{said:?}");
        let wanted = "this member's part of the store of group san1 does not run: etcd has ended; it is tried again";
        assert!(said[0].starts_with(wanted), "{said:?}");
        assert!(said[1].starts_with("member c "), "{said:?}");
        let said = problems(&Group { store_part_fault: part, ..group(3, &[], Some("x")) });
        assert!(said[0].contains("does not answer: x") && said[1].starts_with(wanted), "{said:?}");
    }

    #[test]
    fn a_member_whose_settings_contradict_the_groups_says_which_do_and_what_to_do() {
        let differ = |count: usize| (0..count).map(|n| format!("policy 'p{n}'")).collect();
        let shares = |count| Group {
            shares: count == 0,
            settings_differ: differ(count),
            ..group(3, &[], None)
        };
        assert_eq!(problems(&shares(0)), [""; 0]);
        let said = problems(&shares(2)).remove(0);
        assert!(said.contains("differently here: policy 'p0', policy 'p1'; change or"), "{said}");
        assert!(said.ends_with("'drystone group share --replace-settings'"), "{said}");
        let said = problems(&shares(9)).remove(0);
        assert!(said.contains("policy 'p3' and 5 more; "), "{said}");
    }

    #[test]
    fn a_member_that_cannot_take_over_what_is_set_says_why() {
        let settings_fault = Some("there is no room".to_owned());
        let said = problems(&Group { settings_fault, shares: false, ..group(3, &[], None) });
        assert_eq!(said.len(), 1, "{said:?}");
        let wanted = "what is set for group san1 is not taken over here: there is no room; what was set before goes on";
        assert!(said[0].starts_with(wanted), "{said:?}");
    }

    #[test]
    fn the_group_is_a_line() {
        assert_eq!(line(&group(3, &[], None)), "san1: 3 members, all are there; this one is a");
        assert_eq!(line(&group(3, &["c"], None)), "san1: 3 members, 1 away; this one is a");
        assert_eq!(line(&group(1, &[], None)), "san1: 1 member, it is here; this one is a");
        let silent = line(&group(3, &["c"], Some("x")));
        assert_eq!(silent, "san1: 3 members, the store does not answer; this one is a");
    }

    #[test]
    fn a_member_in_no_group_has_none_and_one_whose_group_is_damaged_says_so() {
        let of = |code| ClientError::Problem(Box::new(Problem::new(code, "it is so")));
        assert!(is_none(&of(Code::NoGroup)) && is_none(&of(Code::NoSuchPath)));
        assert!(!is_none(&of(Code::Unavailable)) && !is_none(&ClientError::Nobody("/s".into())));
    }
}
