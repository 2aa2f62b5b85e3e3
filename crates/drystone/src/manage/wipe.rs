//! `drystone disk wipe`, which asks no member.

use super::confirm::confirm;
use crate::advice::advised;
use crate::cli::manage::Confirm;
use crate::print;
use anyhow::{Context, bail};
use array::label::{Found, erase};
use array::{RingEnv, probe};
use group::words::counted;
use member::spec::disk::MemberDisk;

/// Takes the label off a disk.
pub(super) fn run(
    disk: &MemberDisk,
    foreign: bool,
    asked: &Confirm,
    json: bool,
) -> anyhow::Result<()> {
    let name = disk.name();
    if disk.is_new() || disk.path().is_none() {
        bail!("there is no disk '{name}': write the path of a file or block device");
    }
    // Whoever uses it holds a lock, so that it cannot be opened.
    let device = disk.open().map_err(advised)?;
    let core = ring::CoreConfig::default();
    let looked = device.clone();
    let found = ring::block_on(&core, async move { probe(&RingEnv, &*looked).await });
    let found = found.context("cannot start the I/O engine")??;
    let Some(question) = question(&name, &found, foreign)? else {
        return said(&format!("'{name}' is blank already"), json);
    };
    confirm(asked, &question)?;
    let erased = ring::block_on(&core, async move { erase(&*device).await });
    let erased = erased.context("cannot start the I/O engine")?;
    erased.with_context(|| format!("'{name}' may keep a part of its label"))?;
    said(&format!("'{name}' is blank: an array can take it in"), json)
}

/// What to ask; `None` when there is nothing to take off.
fn question(name: &str, found: &Found, foreign: bool) -> anyhow::Result<Option<String>> {
    Ok(Some(match found {
        Found::Blank => return Ok(None),
        Found::Label { label, .. } if label.generation == 0 => format!(
            "Take the label off '{name}', of an array whose making was cut off and which holds no data?"
        ),
        Found::Label { label, .. } => format!(
            "Give up what '{name}' holds as disk {} of array {}, which has {}?",
            label.disk.0,
            label.array,
            counted(label.members.iter().filter(|member| member.is_used()).count() as u64, "disk")
        ),
        Found::Damaged(why) => {
            format!("Give up what '{name}' holds as a disk of an array ({why})?")
        }
        Found::Version(version) => {
            format!("Give up what '{name}' holds as a disk of an array of version {version}?")
        }
        Found::Foreign(what) if foreign => {
            format!("Give up what '{name}' holds for good: {what}?")
        }
        Found::Foreign(what) => bail!(
            "'{name}' holds {what}, and no label of an array: write --foreign to give that up for good"
        ),
    }))
}

fn said(sentence: &str, json: bool) -> anyhow::Result<()> {
    match json {
        true => print::json(&serde_json::json!({ "done": true })),
        false => print::out(&format!("{sentence}\n")),
    }
}
