//! `drystone plan connections`: the arithmetic is the lab's, the words are here.

use lab::connections::{Configuration, HOST_LIMITS, Outcome, Plan, Remedy};

use crate::Failure;
use crate::cli::plan::{ConnectionsArgs, PlanArgs, PlanCommand};
use crate::print;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units::count;

/// Plans what is asked for.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let PlanCommand::Connections(args) = &args.what;
    let plan = configuration(args).plan().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(if args.json { print::json(&plan) } else { print::out(&text(&plan)) }?)
}

fn configuration(args: &ConnectionsArgs) -> Configuration {
    Configuration {
        members: args.members,
        hosts: args.hosts,
        guest_initiators: args.guest_initiators,
        volumes: args.volumes,
        per_slice: args.per_slice,
        per_volume_max: args.per_volume,
        pool_limit: args.pool_limit,
        group_limit: args.group_limit,
    }
}

fn text(plan: &Plan) -> String {
    let asked = &plan.configuration;
    let row = |what: &str, number: u64| [what.to_owned(), number.to_string()];
    let mut text = table(
        [Text("WHAT"), Number("CONNECTIONS")],
        [
            row("of a host to one volume", plan.per_host_and_volume),
            row("of a host to all volumes", plan.per_host),
            row("of all hosts to one volume", plan.per_volume),
            row("of the pool", plan.total),
            row("allowed", plan.limit),
        ],
    );
    let initiators = asked.hosts + asked.guest_initiators;
    text.push_str(&format!(
        "\nA volume lies on {}, and {} connect to it.\n",
        counted(plan.slices, "member"),
        counted(initiators, "host"),
    ));
    text.push_str(&verdict(plan));
    let crowded = HOST_LIMITS.iter().filter(|(limit, _)| plan.per_host > *limit);
    for (limit, whose) in crowded {
        text.push_str(&format!("A host would open {}: {whose} can open {limit}.\n", plan.per_host));
    }
    if !plan.remedies.is_empty() {
        text.push_str("\nEach of these by itself:\n\n");
        text.push_str(&remedies(&plan.remedies, asked));
    }
    if !plan.combined.is_empty() {
        text.push_str("\nNone of them suffices. Together with one connection per slice:\n\n");
        text.push_str(&remedies(&plan.combined, asked));
    }
    text
}

fn verdict(plan: &Plan) -> String {
    let limits = format!(
        "With these hosts {} fit, with these volumes {}.\n",
        counted(plan.volumes_max, "volume"),
        counted(plan.hosts_max, "host"),
    );
    match plan.over {
        0 => format!("It fits, with room for {} more. {limits}", plan.limit - plan.total),
        over => format!("It does not fit: {} too many. {limits}", counted(over, "connection")),
    }
}

fn remedies(remedies: &[Remedy], before: &Configuration) -> String {
    let rows = remedies.iter().map(|remedy| {
        let verdict = match remedy.room {
            Some(room) => format!("fits, room for {room}"),
            None => "does not fit".to_owned(),
        };
        [
            advice(&remedy.outcome, before),
            remedy.total.to_string(),
            remedy.saved.to_string(),
            verdict,
        ]
    });
    table([Text("REMEDY"), Number("IN THE POOL"), Number("FEWER"), Text("THEN")], rows)
}

fn advice(outcome: &Outcome, before: &Configuration) -> String {
    match outcome {
        Outcome::OnePerSlice => "one connection per slice".to_owned(),
        Outcome::FewerVolumes { volumes: 1, .. } => "a single volume".to_owned(),
        Outcome::FewerVolumes { volumes, size_percent } => format!(
            "{} instead of {}, each {}.{:02} times as large",
            counted(*volumes, "volume"),
            before.volumes,
            size_percent / 100,
            size_percent % 100
        ),
        Outcome::AccessControl { hosts_per_volume: 1 } => "each volume for one host".to_owned(),
        Outcome::AccessControl { hosts_per_volume } => {
            format!("each volume for {} at most", counted(*hosts_per_volume, "host"))
        }
        Outcome::MorePools { members, volumes, members_missing, .. } => {
            let list =
                |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("+");
            let more = match members_missing {
                0 => String::new(),
                missing => format!(", {} more", counted(*missing, "member")),
            };
            format!(
                "{} pools: {} members{more}, {} volumes",
                members.len(),
                list(members),
                list(volumes)
            )
        }
    }
}

fn counted(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_fits_gets_no_advice() {
        let text = text(&Configuration::new(5, 2, 1).plan().unwrap());
        assert!(text.contains("of the pool                          12\n"), "{text}");
        assert!(text.contains("It fits, with room for 1012 more."), "{text}");
        assert!(!text.contains("REMEDY"), "{text}");
    }

    #[test]
    fn a_pool_that_does_not_fit_is_told_each_way_out() {
        let text = text(&Configuration::new(3, 10, 50).plan().unwrap());
        for part in [
            "It does not fit: 1976 connections too many.",
            "With these hosts 17 volumes fit, with these volumes 3 hosts.",
            "A host would open 300: Windows Server can open 255.",
            "one connection per slice",
            "17 volumes instead of 50, each 2.95 times as large",
            "each volume for 3 hosts at most",
            "2 pools: 2+1 members, 25+25 volumes",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
    }
}
