//! What it costs that a volume lies on two members: its home's own pages, and those that the home reaches at the other.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::bed::{Bed, NEAR};
use super::hosts::{READS, pinned, written};
use super::http::Ask;
use super::member::Member;
use super::sheet::{Line, Part};
use crate::adapter::Service;
use crate::initiator::Url;
use crate::machine::{CongestionControl, sample};
use crate::suite::{Run, measure};

/// Pages are dealt from this size on.
const SIZE_BYTES: u64 = 1 << 30;
/// What lies at one member in one piece: of members that have the same room the home has the first.
const PAGE_BYTES: u64 = 16 << 20;
const WARMUP: Duration = Duration::from_secs(1);

const ONE: &str = "on one member";
const OWN: &str = "on two, pages of its home";
const BOTH: &str = "on two, as many pages of the other";
const FORWARDED: &str = "on two, pages of the other (2 x both - own)";

const IOPS: &str = "reads a second";
const CPU: &str = "processor time of a read, all members";

/// What a read may cost to one of a volume on one member.
const OWN_RATIO_MAX: f64 = 1.1;
const FORWARDED_RATIO_MAX: f64 = 2.2;

/// Small reads of a volume on one member and of one on two, which are in the read caches.
pub(super) fn spread(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    // Lives to the end of this function: dropping it restores the system's setting.
    let congestion = CongestionControl::set("cubic");
    let (rounds, seconds): (usize, u64) = if bed.settings.quick { (2, 1) } else { (5, 2) };
    part.note(format!(
        "The first 16 MiB of a volume of 1 GiB on members a and b, which are its home's, the first 32 MiB of it, half of which \
         are the other one's, and 16 MiB of a volume on its home alone, all of which is in the read caches. All servers on core {}, the lean client on core {}; {rounds} rounds of \
         {seconds} s; TCP congestion control {}. Processor time is that of both members; that of a page of the other one is \
         what the reads of both kinds cost beyond those of the home's own.",
        bed.settings.server_core,
        bed.settings.client_core,
        congestion.sentence()
    ));
    let (a, b) = bed.two();
    move_to(bed, b, NEAR)?;
    let _servers = pinned(bed)?;
    let (of_two, home) = on_two(bed)?;
    let (home, other) = if home == a.name { (a, b) } else { (b, a) };
    let iqn = bed.volume(home, "one", PAGE_BYTES)?;
    let of_one = written(bed, (home.portal, PAGE_BYTES), iqn)?;
    // Each reads as much of what is its own.
    let sides =
        [(ONE, &of_one, PAGE_BYTES), (OWN, &of_two, PAGE_BYTES), (BOTH, &of_two, 2 * PAGE_BYTES)];
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..sides.len() {
            bed.check()?;
            let index = (round + turn) % sides.len();
            let (name, url, area) = sides[index];
            let plan = READS.plan(area, WARMUP, Duration::from_secs(seconds));
            let before = sample(other.pid()?)?.cpu;
            let service = Service::Iscsi(url.clone());
            let run = measure(&service, home.pid()?, &plan, bed.settings.client_core, bed.stop)?;
            ensure!(run.errors == 0, "{} reads failed {name}", run.errors);
            let used = sample(other.pid()?)?.cpu.saturating_sub(before);
            let cpu_us = run.target_cpu_us_per_io + us_of_each(used, &run, seconds);
            eprintln!("{:>34} {name:<36} {:>9.0} IOPS {cpu_us:>6.2} us", READS.title, run.iops);
            found[index].push((run.iops, cpu_us));
        }
    }
    part.lines = lines(&sides.map(|(name, ..)| name), &found);
    judge(part);
    Ok(())
}

/// What each read took of a processor time that was taken over the warm-up, too.
fn us_of_each(used: Duration, run: &Run, seconds: u64) -> f64 {
    let time = WARMUP.as_secs_f64() + Duration::from_secs(seconds).as_secs_f64();
    used.as_secs_f64() * 1e6 / (run.iops * time)
}

fn move_to(bed: &Bed<'_>, member: &Member, pool: &str) -> Result<()> {
    let path = format!("/v1/members/{}", member.name);
    bed.group[0].ask(&Ask::patch(&path, &json!({"pool": pool})))?;
    bed.wait_for("the member is in its pool", || {
        let told = bed.told(&bed.group[0])?;
        let mut members = told.as_array().context("no list")?.iter();
        Ok(members.any(|one| one["name"] == member.name && one["pool"] == pool))
    })
}

/// Makes the volume that lies on two members, and writes what is read of it: where it is, and its home.
fn on_two(bed: &Bed<'_>) -> Result<(Url, String)> {
    let (a, b) = bed.two();
    let new = json!({"name": "spread", "size_bytes": SIZE_BYTES, "pool": NEAR, "spread": 2});
    let made = a.ask(&Ask::post("/v1/volumes", &new))?.json()?;
    let slices = made["spread"]["slices"].as_array().context("it does not say where it lies")?;
    ensure!(slices.len() == 2, "it lies on {} members", slices.len());
    // Else the first two pages may be of one member.
    let pages = |slice: usize| slices[slice]["pages"].as_u64().unwrap_or(0);
    let is_even = pages(0) >= pages(1) && pages(0) < 2 * pages(1);
    ensure!(is_even, "the members have {} and {} pages of it", pages(0), pages(1));
    let home = slices[0]["member"].as_str().context("it has no home")?.to_owned();
    let portal = if home == a.name { a.portal } else { b.portal };
    let iqn = made["iqn"].as_str().context("the answer names no iqn")?.to_owned();
    Ok((written(bed, (portal, 2 * PAGE_BYTES), iqn)?, home))
}

/// Both figures of all kinds, with what is made of them.
fn lines(names: &[&str; 3], found: &[Vec<(f64, f64)>; 3]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (work, unit, figure) in
        [(IOPS, "IOPS", (|it| it.0) as fn(&(f64, f64)) -> f64), (CPU, "us", |it| it.1)]
    {
        for (name, all) in names.iter().zip(found) {
            let values = all.iter().map(figure).collect();
            lines.push(Line { values, ..Line::new(work, name, unit) });
        }
    }
    let [_, own, both] = found;
    let values = own.iter().zip(both).map(|(own, both)| 2.0 * both.1 - own.1).collect();
    lines.push(Line { values, ..Line::new(CPU, FORWARDED, "us") });
    lines
}

/// Notes whether a volume on two members costs no more than it may.
fn judge(part: &mut Part) {
    let of = part.median(CPU, ONE);
    for (title, name, most) in [
        (
            "processor time of a read of the home's own page to one on one member",
            OWN,
            OWN_RATIO_MAX,
        ),
        ("that of a page of the other member, over both", FORWARDED, FORWARDED_RATIO_MAX),
    ] {
        let ratio = part.median(CPU, name).zip(of).map(|(found, of)| found / of);
        part.at_most(title, ratio, most, "times");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn a_page_of_the_other_member_costs_what_both_kinds_cost_beyond_the_own() {
        let found = [vec![(100.0, 4.0)], vec![(100.0, 4.2)], vec![(60.0, 7.1)]];
        let mut part = Part::new("spread", "A volume on two members");
        part.lines = lines(&[ONE, OWN, BOTH], &found);
        let forwarded = part.median(CPU, FORWARDED).expect("it is there");
        assert!((forwarded - 10.0).abs() < 1e-9, "{forwarded}");
        judge(&mut part);
        let verdicts: Vec<_> = part.marks.iter().map(|mark| mark.verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed], "{:?}", part.marks);
    }
}
