//! `drystone detach`.

use crate::Failure;
use crate::attach::control::{Found, find_all};
use crate::attach::plan;
use crate::attach::report::Identity;
use crate::cli::attach::DetachArgs;
use anyhow::{Context, anyhow};
use std::path::Path;

/// Ends one attachment and waits until it has.
pub(crate) fn run(args: &DetachArgs) -> Result<(), Failure> {
    let dir = plan::runtime_dir(&args.runtime)?;
    let all = find_all(&dir)
        .with_context(|| format!("cannot look for attachments in '{}'", dir.display()))?;
    let found = choose(all, &args.which)?;
    let said = || format!("cannot detach {}", found.identity.place);
    Ok(found.detach().with_context(said)?)
}

/// The one attachment that `which` means.
fn choose(all: Vec<Found>, which: &str) -> anyhow::Result<Found> {
    let mut meant = all.into_iter().filter(|found| means(which, &found.identity));
    let first = meant.next().ok_or_else(|| {
        anyhow!("nothing is attached as '{which}': write what drystone attached shows")
    })?;
    match meant.next() {
        None => Ok(first),
        Some(other) => Err(anyhow!(
            "'{which}' is attached more than once: write {} or {}",
            first.identity.pid,
            other.identity.pid
        )),
    }
}

fn means(which: &str, identity: &Identity) -> bool {
    let Identity { pid, volume, place, .. } = identity;
    let directory = || {
        let real = Path::new(which).canonicalize();
        real.is_ok_and(|real| real == Path::new(place))
    };
    // The URL is shown with its LUN, and may be written without where that is 0.
    which == pid.to_string()
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
    fn what_is_not_attached_is_said_so() {
        let said = choose(Vec::new(), "/mnt/a").unwrap_err().to_string();
        assert_eq!(said, "nothing is attached as '/mnt/a': write what drystone attached shows");
    }
}
