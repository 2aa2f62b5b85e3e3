//! `drystone volume move` and `drystone member vacate`: volumes go to other members of the group.

use super::Desk;
use super::confirm::confirm;
use super::run::{how_far, tell_begun};
use crate::Failure;
use crate::cli::manage::{Confirm, Follow, MemberArgs};
use crate::print::table::Column::Text;
use crate::print::table::table;
use crate::print::units;
use anyhow::{anyhow, bail};
use api::types::{Run, RunState, Volume, VolumeState};
use serde::Serialize;

/// Where a volume is to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Where<'a> {
    pub(super) member: Option<&'a str>,
    pub(super) pool: Option<&'a str>,
}

/// Has a volume moved, and shows it where it is then.
pub(super) fn volume(
    desk: &Desk,
    name: &str,
    to: Where<'_>,
    follow: &Follow,
) -> anyhow::Result<()> {
    let begun = desk.ask(|member| member.move_volume(name, to.member, to.pool))?;
    let there = desk.where_it_was_done();
    if follow.no_wait {
        return desk.show(&begun, |begun| Ok(format!("{}\n", goes_on(begun, &there))));
    }
    tell_begun(&begun, there.on_member.as_deref());
    let ended = end_of(&there, &begun)?;
    desk.show(&ended, |ended| Ok(format!("{}\n", moved(name, ended))))
}

/// Waits for the end of a move, which may be that somebody else has cancelled it.
fn end_of(there: &Desk, begun: &Run) -> anyhow::Result<Run> {
    let ended = there.follow(|member, progress| member.end_of_run(&begun.id, progress))?;
    match (ended.state, &ended.problem) {
        (RunState::Cancelled, _) => bail!("{}", how_far(&ended)),
        (RunState::Failed, Some(problem)) => bail!("{problem}"),
        _ => Ok(ended),
    }
}

fn goes_on(begun: &Run, there: &Desk) -> String {
    let on = there.on_member.as_deref().map_or_else(String::new, |name| format!(" --on {name}"));
    format!(
        "the move goes on: 'drystone run list{on}' shows how far it is, and 'drystone run cancel {}{on}' ends it",
        begun.id
    )
}

fn moved(name: &str, ended: &Run) -> String {
    match &ended.to {
        Some(to) => format!("volume '{name}' is on member '{to}'"),
        None => format!("volume '{name}' has moved"),
    }
}

/// What became of a volume of a member that was vacated.
#[derive(Debug, Serialize)]
struct Vacated {
    volume: String,
    /// Where it is now, if it has moved.
    to: Option<String>,
    /// Why it is where it was.
    problem: Option<String>,
}

/// Moves all volumes of a member to others, one after the other. Exit status 1 if some stayed.
pub(crate) fn vacate(
    name: &str,
    pool: Option<&str>,
    confirmed: &Confirm,
    asked: &MemberArgs,
) -> Result<(), Failure> {
    if asked.on_member.as_deref().is_some_and(|on| !on.eq_ignore_ascii_case(name)) {
        let sentence = "the volumes of a member are moved by that member: leave --on away";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    let desk = Desk::on(asked, Some(name.to_owned()))?;
    Ok(vacate_by(&desk, name, pool, confirmed)?)
}

fn vacate_by(
    desk: &Desk,
    name: &str,
    pool: Option<&str>,
    confirmed: &Confirm,
) -> anyhow::Result<()> {
    if let Some(pool) = pool {
        // Refused also where there is nothing to move: who has mistyped it believes that it would have been used.
        desk.ask(|member| member.pool(pool))?;
    }
    let volumes = desk.ask_all(|member| member.volumes())?;
    if volumes.is_empty() {
        return desk.show(&[(); 0], |_| Ok(format!("member '{name}' has no volumes\n")));
    }
    let count = units::count(volumes.len(), "volume");
    let question = format!(
        "Move {count} of member '{name}' to other members? The hosts of each lose their sessions for some seconds."
    );
    confirm(confirmed, &question)?;
    let to = Where { member: None, pool };
    let all: Vec<Vacated> = volumes.into_iter().map(|volume| moved_off(desk, volume, to)).collect();
    let left = all.iter().filter(|it| it.problem.is_some()).count();
    desk.show(&all, |all| Ok(list(all)))?;
    match left {
        0 => Ok(()),
        _ => Err(anyhow!(
            "{} of member '{name}' did not move, or it is not known yet whether: 'drystone volume list' says where each is",
            units::count(left, "volume")
        )),
    }
}

/// Moves one volume, if it can be.
fn moved_off(desk: &Desk, volume: Volume, to: Where<'_>) -> Vacated {
    let name = volume.name;
    if volume.state == VolumeState::Deleted {
        let problem = format!(
            "it is in the recycle bin: take it out ('drystone volume undelete {name}') or give it up ('drystone volume \
             purge {name}')"
        );
        return Vacated { volume: name, to: None, problem: Some(problem) };
    }
    let begun = desk.ask(|member| member.move_volume(&name, to.member, to.pool));
    let ended = begun.and_then(|begun| {
        let there = desk.where_it_was_done();
        tell_begun(&begun, there.on_member.as_deref());
        end_of(&there, &begun)
    });
    match ended {
        Ok(ended) => Vacated { volume: name, to: ended.to, problem: None },
        Err(error) => Vacated { volume: name, to: None, problem: Some(format!("{error:#}")) },
    }
}

fn list(all: &[Vacated]) -> String {
    let columns = [Text("VOLUME"), Text("NOW ON"), Text("WHY NOT")];
    let dash = || "-".to_owned();
    let row = |it: &Vacated| {
        let to = it.to.clone().unwrap_or_else(dash);
        [it.volume.clone(), to, it.problem.clone().unwrap_or_else(dash)]
    };
    table(columns, all.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stayed_says_why() {
        let all = [
            Vacated { volume: "a".into(), to: Some("right".into()), problem: None },
            Vacated { volume: "b".into(), to: None, problem: Some("it is half made".into()) },
        ];
        let text = list(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("a") && lines[1].contains("right"), "{text}");
        assert!(lines[2].ends_with("it is half made"), "{text}");
    }
}
