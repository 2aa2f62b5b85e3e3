//! `drystone detach`.

use crate::Failure;
use crate::attach::control::{Process, find_all};
use crate::attach::plan;
use crate::attach::report::Identity;
use crate::attach::udev::Notes;
use crate::cli::attach::DetachArgs;
use ::attach::ublk;
use anyhow::{Context, anyhow};
use std::path::Path;

/// Ends one attachment and waits until it has.
pub(crate) fn run(args: &DetachArgs) -> Result<(), Failure> {
    let dir = plan::runtime_dir(&args.runtime)?;
    let all = find_all(&dir)
        .with_context(|| format!("cannot look for attachments in '{}'", dir.display()))?;
    if is_left(Path::new(&args.which), &dir)? {
        return Ok(());
    }
    let (process, identity) = choose(&all, &args.which)?;
    let known_as = if identity.place.is_empty() { &identity.name } else { &identity.place };
    Ok(process.detach(&identity.name).with_context(|| known_as.clone())?)
}

/// Takes a block device away that nobody serves any more; false if it is none of these.
fn is_left(device: &Path, runtime_dir: &Path) -> anyhow::Result<bool> {
    if !device.starts_with("/dev") || !ublk::left().iter().any(|left| left == device) {
        return Ok(false);
    }
    let is_gone = ublk::take_away(device).with_context(|| device.display().to_string())?;
    if is_gone {
        Notes::of(runtime_dir).forget(device);
    }
    Ok(is_gone)
}

/// The one attachment that `which` means.
fn choose<'a>(all: &'a [Process], which: &str) -> anyhow::Result<(&'a Process, &'a Identity)> {
    let each = all.iter().flat_map(|process| {
        process.attachments.iter().map(move |listed| (process, &listed.identity))
    });
    let mut meant = each.filter(|(_, identity)| means(which, identity));
    let first = meant.next().ok_or_else(|| {
        anyhow!("nothing is attached as '{which}': write what drystone attached shows")
    })?;
    match meant.next() {
        None => Ok(first),
        Some((_, other)) => {
            let [one, other] = told_apart(first.1, other);
            Err(anyhow!("'{which}' is attached more than once: write {one} or {other}"))
        }
    }
}

/// What to write for each of two. Those of one process differ in their names.
fn told_apart(one: &Identity, other: &Identity) -> [String; 2] {
    let both = [one, other];
    if one.pid == other.pid {
        both.map(|identity| identity.name.clone())
    } else {
        both.map(|identity| identity.pid.to_string())
    }
}

fn means(which: &str, identity: &Identity) -> bool {
    let Identity { pid, name, volume, place, .. } = identity;
    if which.is_empty() {
        return false;
    }
    let directory = || {
        let real = Path::new(which).canonicalize();
        real.is_ok_and(|real| real == Path::new(place))
    };
    // The URL is shown with its LUN, and may be written without where that is 0.
    which == pid.to_string()
        || which == name
        || which == place
        || Some(which) == place.strip_prefix("unix:")
        || which == volume
        || Some(which) == volume.strip_suffix("/0")
        || (place.starts_with('/') && directory())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::report::tests::identity;

    #[test]
    fn an_attachment_has_many_names() {
        for name in [
            "4711",
            "unix:/run/a.sock",
            "/run/a.sock",
            "iscsi://192.0.2.1/iqn.2026-11.com.example:a/0",
            "iscsi://192.0.2.1/iqn.2026-11.com.example:a",
        ] {
            assert!(means(name, &identity()), "{name}");
        }
        for other in ["", "471", "/run/b.sock", "iscsi://192.0.2.1/iqn.2026-11.com.example:a/1"] {
            assert!(!means(other, &identity()), "{other}");
        }
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let mounted = Identity { place: real.display().to_string(), ..identity() };
        assert!(means(&format!("{}/", real.display()), &mounted));
    }

    #[test]
    fn two_of_one_process_are_told_apart_by_their_names() {
        let named = |name: &str| Identity { name: name.to_owned(), ..identity() };
        let (one, two) = (named("a"), named("b"));
        assert_eq!(told_apart(&one, &two), ["a", "b"]);
        let elsewhere = Identity { pid: 1, ..one.clone() };
        assert_eq!(told_apart(&one, &elsewhere), ["4711", "1"]);
        assert!(means("a", &one) && !means("b", &one) && !means("", &named("")));
    }

    #[test]
    fn what_is_not_attached_is_said_so() {
        let said = choose(&[], "/mnt/a").unwrap_err().to_string();
        assert_eq!(said, "nothing is attached as '/mnt/a': write what drystone attached shows");
    }
}
