//! `drystone volume transits` and `drystone volume settle`: volumes that are between two members, and what becomes of
//! those that no group decides about any more.

use super::Desk;
use super::confirm::confirm;
use crate::advice::advised;
use crate::cli::volume::SettleArgs;
use crate::print::table::Column::Text;
use crate::print::table::table_of_members;
use anyhow::bail;
use api::client::ALL_OTHERS;
use api::types::{Transit, TransitState, TransitWay};

/// Digits of the number of a move that are shown: of those at hand no two begin alike.
const DIGITS_SHOWN: usize = 8;

/// Lists them.
pub(super) fn list(desk: &Desk) -> anyhow::Result<()> {
    let transits = desk.ask_all(|member| member.transits())?;
    desk.show(&transits, |transits| Ok(listed(transits)))
}

fn listed(transits: &[Transit]) -> String {
    if transits.is_empty() {
        return "no volume is between two members\n".to_owned();
    }
    let columns =
        [Text("VOLUME"), Text("WAY"), Text("OTHER"), Text("STATE"), Text("MOVE"), Text("WHY")];
    let row = |transit: &Transit| {
        let cells = [
            transit.volume.clone(),
            way(transit.way).to_owned(),
            transit.other.clone(),
            transit.state.word().to_owned(),
            digits(transit),
            transit.why.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        (transit.member.clone(), cells)
    };
    table_of_members(columns, transits.iter().map(row))
}

const fn way(way: TransitWay) -> &'static str {
    match way {
        TransitWay::Leaves => "leaves for",
        TransitWay::Arrives => "comes from",
    }
}

fn digits(transit: &Transit) -> String {
    transit.id.chars().take(DIGITS_SHOWN).collect()
}

/// Has one member keep what it has of a volume, or delete it for good.
pub(super) fn settle(desk: &Desk, args: &SettleArgs) -> anyhow::Result<()> {
    let transits = desk.ask(|member| member.transits())?;
    let transit = chosen(&transits, &desk.client.members_missing(), args)?;
    check_undecided(transit)?;
    let keeps = args.keeps();
    confirm(&args.confirm, &question(transit, keeps))?;
    let there = transit.member.clone().or_else(|| desk.on_member.clone());
    desk.client.on(there).settle_transit(&transit.id, keeps).map_err(advised)?;
    desk.done(&settled(transit, keeps))
}

/// The one that is meant. Of a volume that members may have of whom nothing is known, none is taken to be the only one.
fn chosen<'a>(
    transits: &'a [Transit],
    missing: &[String],
    args: &SettleArgs,
) -> anyhow::Result<&'a Transit> {
    let SettleArgs { name, id, .. } = args;
    let is_meant = |transit: &&Transit| {
        transit.volume == *name && id.as_ref().is_none_or(|id| transit.id.starts_with(id))
    };
    let found: Vec<&Transit> = transits.iter().filter(is_meant).collect();
    match found[..] {
        _ if missing.iter().any(|member| member == ALL_OTHERS) => bail!(
            "this member has heard nothing of its group since it was started, and other members may have a part in the \
             move of '{name}': settle it when it has"
        ),
        _ if !missing.is_empty() => bail!(
            "not all members answer ({}), and these may have a part in the move of '{name}': say with --on MEMBER whose \
             copy is meant",
            missing.join(", ")
        ),
        [] => bail!(
            "there is nothing to settle about a volume '{name}': 'drystone volume transits' lists what is between two \
             members"
        ),
        [one] => Ok(one),
        [one, ref rest @ ..] if rest.iter().all(|it| it.member == one.member) => {
            let moves: Vec<String> = found.iter().map(|it| part(it, &digits(it))).collect();
            bail!(
                "{} has a part in several moves of '{name}': say which with --move, {}",
                whose(one),
                moves.join(" or ")
            )
        }
        _ => {
            let copies: Vec<String> = found.iter().map(|it| part(it, &whose(it))).collect();
            bail!(
                "members have a part each in the move of '{name}': say with --on MEMBER whose copy is meant, {}",
                copies.join(" or ")
            )
        }
    }
}

/// What is called so, with which way the volume goes.
fn part(transit: &Transit, called: &str) -> String {
    format!("{called} ({} {})", way(transit.way), transit.other)
}

/// Refuses before there is a question what would be refused after it.
fn check_undecided(transit: &Transit) -> anyhow::Result<()> {
    let name = &transit.volume;
    let why = transit.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    match transit.state {
        TransitState::Undecided => Ok(()),
        TransitState::UnderWay => bail!("the move of '{name}' is under way: wait for its end"),
        TransitState::Waits => bail!(
            "the group decides about the move of '{name}', which goes on by itself when its store and the other \
             member answer{why}"
        ),
    }
}

/// The member that has it.
fn whose(transit: &Transit) -> String {
    let name = transit.member.as_ref();
    name.map_or_else(|| "this member".to_owned(), |name| format!("member '{name}'"))
}

fn question(transit: &Transit, keeps: bool) -> String {
    let (name, whose) = (&transit.volume, whose(transit));
    match keeps {
        true => format!(
            "Serve this copy of volume '{name}' at {whose}? If another member serves it too, hosts may write to either."
        ),
        false => format!("Delete this copy of volume '{name}' at {whose} for good?"),
    }
}

fn settled(transit: &Transit, keeps: bool) -> String {
    let (name, whose) = (&transit.volume, whose(transit));
    match keeps {
        true => format!("{whose} keeps '{name}': 'drystone volume show {name}' tells how it does"),
        false => format!("what {whose} had of '{name}' is deleted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manage::Confirm;

    fn transit(volume: &str, id: char, member: Option<&str>, way: TransitWay) -> Transit {
        let other = if way == TransitWay::Leaves { "right" } else { "left" };
        Transit {
            id: id.to_string().repeat(32),
            volume: volume.to_owned(),
            way,
            other: other.to_owned(),
            state: TransitState::Undecided,
            why: Some("this member is in no group any more".to_owned()),
            member: member.map(str::to_owned),
        }
    }

    fn args(name: &str, id: Option<&str>) -> SettleArgs {
        let (name, id) = (name.to_owned(), id.map(str::to_owned));
        SettleArgs { name, keep: true, discard: false, id, confirm: Confirm { yes: true } }
    }

    #[test]
    fn the_only_part_is_meant_and_of_several_one_has_to_be_named() {
        use TransitWay::{Arrives, Leaves};
        let (left, right) =
            (transit("vm", 'a', Some("left"), Leaves), transit("vm", 'a', Some("right"), Arrives));
        let other = transit("other", 'b', Some("left"), Leaves);
        let of = |all: &[&Transit], missing: &[&str], id: Option<&str>| {
            let all: Vec<Transit> = all.iter().copied().cloned().collect();
            let missing: Vec<String> = missing.iter().map(|name| (*name).to_owned()).collect();
            let chosen = chosen(&all, &missing, &args("vm", id)).cloned();
            chosen.map_err(|error| error.to_string())
        };
        assert_eq!(of(&[&other, &left], &[], None), Ok(left.clone()));
        let none = of(&[&other], &[], None).unwrap_err();
        assert!(none.starts_with("there is nothing to settle about a volume 'vm': "), "{none}");
        let both = of(&[&left, &right], &[], None).unwrap_err();
        let wanted = "whose copy is meant, member 'left' (leaves for right) or member 'right' (comes from left)";
        assert!(both.ends_with(wanted), "{both}");
        // Nobody knows what those have that do not answer.
        let away = of(&[&left], &["right"], None).unwrap_err();
        assert!(away.starts_with("not all members answer (right), "), "{away}");
        let deaf = of(&[&left], &[ALL_OTHERS], None).unwrap_err();
        assert!(deaf.starts_with("this member has heard nothing of its group"), "{deaf}");

        let again = transit("vm", 'c', Some("left"), Arrives);
        let two = of(&[&left, &again], &[], None).unwrap_err();
        let wanted = "with --move, aaaaaaaa (leaves for right) or cccccccc (comes from left)";
        assert!(two.starts_with("member 'left' has ") && two.ends_with(wanted), "{two}");
        assert_eq!(of(&[&left, &again], &[], Some("cccccccc")), Ok(again.clone()));
        assert!(of(&[&left, &again], &[], Some("d")).is_err());
    }

    #[test]
    fn what_the_group_decides_is_not_settled() {
        let undecided = transit("vm", 'a', None, TransitWay::Leaves);
        assert!(check_undecided(&undecided).is_ok());
        let waits = Transit { state: TransitState::Waits, ..undecided.clone() };
        let said = check_undecided(&waits).unwrap_err().to_string();
        assert!(said.ends_with("answer: this member is in no group any more"), "{said}");
        let silent = Transit { why: None, ..waits };
        let said = check_undecided(&silent).unwrap_err().to_string();
        assert!(said.ends_with("the other member answer"), "{said}");
        let driven = Transit { state: TransitState::UnderWay, ..undecided };
        let said = check_undecided(&driven).unwrap_err().to_string();
        assert!(said.starts_with("the move of 'vm' is under way"), "{said}");
    }

    #[test]
    fn it_is_asked_whose_copy_is_served_or_deleted() {
        let mut transit = transit("vm", 'a', Some("left"), TransitWay::Leaves);
        let keep = question(&transit, true);
        assert!(keep.starts_with("Serve this copy of volume 'vm' at member 'left'? If "), "{keep}");
        let wanted = "Delete this copy of volume 'vm' at member 'left' for good?";
        assert_eq!(question(&transit, false), wanted);
        assert_eq!(settled(&transit, false), "what member 'left' had of 'vm' is deleted");
        transit.member = None;
        assert!(question(&transit, true).contains(" at this member? "));
        assert!(settled(&transit, true).starts_with("this member keeps 'vm': "));
    }

    #[test]
    fn a_list_says_where_each_goes_and_what_settles_it() {
        assert_eq!(listed(&[]), "no volume is between two members\n");
        let leaves = transit("vm", 'a', Some("left"), TransitWay::Leaves);
        let text = listed(&[leaves]);
        let (head, row) = text.split_once('\n').unwrap();
        let words: Vec<&str> = head.split_whitespace().collect();
        assert_eq!(words, ["VOLUME", "MEMBER", "WAY", "OTHER", "STATE", "MOVE", "WHY"]);
        let wanted = "vm      left    leaves for  right  undecided  aaaaaaaa  this";
        assert!(row.starts_with(wanted), "{row}");
        let alone = Transit { why: None, ..transit("vm", 'b', None, TransitWay::Arrives) };
        let text = listed(&[alone]);
        let wanted = "vm      comes from  left   undecided  bbbbbbbb  -\n";
        assert!(!text.contains("MEMBER") && text.ends_with(wanted), "{text}");
    }
}
