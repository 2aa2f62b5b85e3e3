//! `drystone volume slices`, `discard-slice` and `rebuild`: the parts of volumes that lie on several members.

use super::Desk;
use super::confirm::confirm;
use crate::advice::advised;
use crate::cli::manage::Confirm;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table_of_members;
use crate::print::units;
use anyhow::bail;
use api::types::{Slice, SliceState, VolumeSlice, VolumeSpread};

/// Digits of the number of a slice that are shown: of those at hand no two begin alike.
const DIGITS_SHOWN: usize = 8;

/// Lists them.
pub(super) fn list(desk: &Desk) -> anyhow::Result<()> {
    let slices = desk.ask_all(|member| member.slices())?;
    desk.show(&slices, |slices| Ok(listed(slices)))
}

fn listed(slices: &[Slice]) -> String {
    if slices.is_empty() {
        return "no member has a part of another one's volume\n".to_owned();
    }
    let columns = [
        Text("VOLUME"),
        Text("HOME"),
        Text("ON"),
        Text("STATE"),
        Number("USED"),
        Text("SLICE"),
        Text("WHY"),
    ];
    let row = |slice: &Slice| {
        let cells = [
            known(&slice.volume),
            known(&slice.home),
            slice.on.clone(),
            word(slice.state).to_owned(),
            slice.used_bytes.map_or_else(|| "-".to_owned(), units::bytes),
            digits_of(slice),
            slice.why.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        (slice.member.clone(), cells)
    };
    table_of_members(columns, slices.iter().map(row))
}

/// What is known of one that is damaged.
fn known(word: &str) -> String {
    if word.is_empty() { "-".to_owned() } else { word.to_owned() }
}

const fn word(state: SliceState) -> &'static str {
    match state {
        SliceState::Served => "served",
        SliceState::NotServed => "not served",
        SliceState::LeftOver => "left-over",
        SliceState::Going => "going",
        SliceState::Awaited => "awaited",
        SliceState::Damaged => "damaged",
    }
}

fn digits_of(slice: &Slice) -> String {
    slice.id.chars().take(DIGITS_SHOWN).collect()
}

/// Deletes one that is left over, or has its home wait for one no more.
pub(super) fn discard(desk: &Desk, digits: &str, asked: &Confirm) -> anyhow::Result<()> {
    let slices = desk.ask(|member| member.slices())?;
    let slice = chosen(&slices, digits)?;
    confirm(asked, &question(slice))?;
    let there = slice.member.clone().or_else(|| desk.on_member.clone());
    desk.client.on(there).discard_slice(&slice.id).map_err(advised)?;
    desk.done(&match slice.state {
        SliceState::Awaited => {
            format!("the part of '{}' on {} is not waited for", slice.volume, slice.on)
        }
        SliceState::Damaged => format!("what was stored as {} is thrown away", digits_of(slice)),
        _ => format!("the part of '{}' on {} is deleted", slice.volume, slice.on),
    })
}

/// Has the home of one make its volume anew, or go on `despite_later` homes.
pub(super) fn rebuild(desk: &Desk, digits: &str, despite_later: bool) -> anyhow::Result<()> {
    let slices = desk.ask(|member| member.slices())?;
    let slice = meant(&slices, digits)?;
    if slice.state == SliceState::Damaged {
        bail!(
            "this record is damaged: write the number of a part of the volume that another member has, and can read \
             ('drystone volume slices')"
        );
    }
    let home = desk.client.on(Some(slice.home.clone()));
    let name = home.rebuild_volume(&slice.id, despite_later).map_err(advised)?.name;
    let done =
        if despite_later { "goes on as it is at its home" } else { "is made anew of its parts" };
    desk.done(&format!(
        "'{name}' {done}, and is offline: look at it, then 'drystone volume online {name}'"
    ))
}

/// The one that is to be discarded.
fn chosen<'a>(slices: &'a [Slice], digits: &str) -> anyhow::Result<&'a Slice> {
    let first = meant(slices, digits)?;
    match first.state {
        SliceState::LeftOver | SliceState::Awaited | SliceState::Damaged => Ok(first),
        SliceState::Served | SliceState::NotServed => bail!(
            "this slice is in use: '{}' goes with all of its parts, by 'drystone volume purge {}'",
            first.volume,
            first.volume
        ),
        SliceState::Going => bail!("this slice is being deleted already"),
    }
}

/// The one that is meant. What its member has is meant before what its home says of it.
fn meant<'a>(slices: &'a [Slice], digits: &str) -> anyhow::Result<&'a Slice> {
    let is_meant = |slice: &&Slice| !digits.is_empty() && slice.id.starts_with(digits);
    let mut found: Vec<&Slice> = slices.iter().filter(is_meant).collect();
    found.sort_by_key(|slice| slice.state == SliceState::Awaited);
    let Some(first) = found.first().copied() else {
        bail!("there is no slice '{digits}': see 'drystone volume slices'");
    };
    if found.iter().any(|slice| slice.id != first.id) {
        bail!("several slices begin with '{digits}': write more digits of it");
    }
    Ok(first)
}

fn question(slice: &Slice) -> String {
    match slice.state {
        SliceState::Awaited => {
            format!("Wait no more for the part of '{}' on {}?", slice.volume, slice.on)
        }
        SliceState::Damaged => {
            format!("Throw what is stored as {} on {} away for good?", digits_of(slice), slice.on)
        }
        _ => format!("Delete the part of '{}' on {} for good?", slice.volume, slice.on),
    }
}

/// Where a volume lies, a line for each member, the home first.
pub(super) fn lines(spread: &VolumeSpread) -> Vec<String> {
    let page = units::bytes(spread.page_bytes);
    let line = |(number, slice): (usize, &VolumeSlice)| {
        let home = if number == 0 { " (home)" } else { "" };
        let pages = format!("{} of {page}", units::count(page_count(slice.pages), "page"));
        let away = slice.unreachable_seconds.map_or_else(String::new, |seconds| {
            let why = slice.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            format!(", cannot be reached for {seconds} s{why}")
        });
        format!("{}{home} {pages}{away}", slice.member)
    };
    let grows = spread.growing_to_bytes.map(|to| format!("grows to {}", units::bytes(to)));
    let slices = spread.slices.iter().enumerate().map(line);
    slices.chain(grows).chain(spread.shortage.clone()).collect()
}

fn page_count(pages: u64) -> usize {
    usize::try_from(pages).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(id: &str, state: SliceState) -> Slice {
        Slice {
            id: id.to_owned(),
            volume: "big".to_owned(),
            home: "left".to_owned(),
            on: "right".to_owned(),
            state,
            is_in_vain: false,
            why: None,
            used_bytes: Some(1024),
            member: None,
        }
    }

    #[test]
    fn only_what_is_left_over_or_awaited_is_discarded() {
        let slices = [
            slice("aa00", SliceState::Served),
            slice("ab00", SliceState::Awaited),
            slice("ab00", SliceState::LeftOver),
            slice("dd00", SliceState::Damaged),
        ];
        let of = |digits: &str| chosen(&slices, digits).map(|slice| slice.state);
        assert_eq!(of("ab").expect("it is one"), SliceState::LeftOver, "at its member first");
        assert_eq!(of("dd").expect("it is one"), SliceState::Damaged);
        for (digits, why) in
            [("a", "several"), ("", "no slice"), ("c", "no slice"), ("aa", "purge")]
        {
            let error = of(digits).expect_err("it is not to be discarded").to_string();
            assert!(error.contains(why), "{digits}: {error}");
        }
        assert!(listed(&slices).contains("left-over"), "{}", listed(&slices));
    }

    #[test]
    fn a_volume_says_where_it_lies() {
        let of = |member: &str, away: Option<u64>| VolumeSlice {
            id: "00".to_owned(),
            member: member.to_owned(),
            pages: 22,
            unreachable_seconds: away,
            why: away.map(|_| "it is away".to_owned()),
        };
        let spread = VolumeSpread {
            id: "00".to_owned(),
            page_bytes: 16 << 20,
            growing_to_bytes: None,
            slices: vec![of("left", None), of("right", Some(40))],
            shortage: None,
        };
        let lines = lines(&spread);
        assert_eq!(lines[0], "left (home) 22 pages of 16 MiB");
        assert!(lines[1].ends_with("cannot be reached for 40 s: it is away"), "{}", lines[1]);
    }
}
