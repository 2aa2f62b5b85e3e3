//! From SPECs to open disks.

use crate::advice::advised;
use crate::export::ready::Lun;
use crate::os::machine;
use anyhow::{Context, anyhow};
use block::BlockDevice;
use member::spec::open::{self, How};
use member::spec::{Cache, DiskError, Spec};
use std::sync::Arc;

/// Opens every disk, in LUN order; the first failure closes those before it.
pub(crate) fn open_all(specs: &[Spec], iqn: &str) -> anyhow::Result<Vec<(target::UnitSpec, Lun)>> {
    let machine = machine::identity();
    specs
        .iter()
        .enumerate()
        .map(|(number, spec)| {
            let device = open(spec)?;
            let serial = spec.serial.clone().map_or_else(
                || Ok(machine::serial(&machine, iqn, &identity_of(spec, number)?)),
                Ok::<_, anyhow::Error>,
            )?;
            Ok(unit(spec, number, device, serial))
        })
        .collect()
}

/// The LUN as the target takes it, and as it is told to the user.
fn unit(
    spec: &Spec,
    number: usize,
    device: Arc<dyn BlockDevice>,
    serial: String,
) -> (target::UnitSpec, Lun) {
    let geometry = device.geometry();
    let lun = Lun {
        number,
        size_bytes: geometry.size_bytes(),
        block_bytes: geometry.block_bytes,
        serial: serial.clone(),
        cache: spec.cache,
        read_only: spec.read_only,
        name: spec.name.clone(),
    };
    let unit = target::UnitSpec {
        device,
        referrals: None,
        serial,
        write_cache: spec.cache == Cache::Volatile,
        read_only: spec.read_only,
        name: spec.name.clone(),
    };
    (unit, lun)
}

/// Opens one disk.
fn open(spec: &Spec) -> anyhow::Result<Arc<dyn BlockDevice>> {
    let how = How {
        block_bytes: spec.block_bytes,
        read_only: spec.read_only,
        write_through: spec.cache == Cache::Durable,
        direct: false,
    };
    open::open(&spec.medium, &spec.name, how).map_err(|error| match error {
        DiskError::Missing(path) => {
            let path = path.display();
            anyhow!(
                "{path} does not exist; to create it, add a size and leave out ro: file:{path}:10G"
            )
        }
        error => advised(error),
    })
}

/// What tells this disk from the target's others, and stays over restarts: the path for what
/// lies in a file, whatever its LUN; the LUN for what is in memory.
fn identity_of(spec: &Spec, number: usize) -> anyhow::Result<String> {
    let Some(path) = spec.path() else { return Ok(format!("{number}")) };
    let path = path.canonicalize().with_context(|| format!("cannot find '{}'", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn opened(texts: &[String]) -> Result<Vec<Lun>, String> {
        let specs: Vec<_> = texts.iter().map(|text| Spec::parse(text).unwrap()).collect();
        match open_all(&specs, "iqn.2026-11.com.example:a") {
            Ok(disks) => Ok(disks.into_iter().map(|(_, lun)| lun).collect()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn every_medium_opens_with_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let file = format!("file:{}:1M", path.display());
        let texts = [
            "ram:1M,ro".to_owned(),
            "null:1T,block=4096".to_owned(),
            format!("{file},cache=volatile"),
            format!("sim:nl-sas:4T:{},block=4096", dir.path().join("slow.img").display()),
            "sim:nvme:1T,cache=volatile".to_owned(),
        ];
        let luns = opened(&texts).unwrap();
        let seen: Vec<_> = luns
            .iter()
            .map(|lun| (lun.number, lun.size_bytes, lun.block_bytes, lun.read_only, lun.cache))
            .collect();
        assert_eq!(
            seen,
            [
                (0, 1 << 20, 512, true, Cache::Durable),
                (1, 1 << 40, 4096, false, Cache::Durable),
                (2, 1 << 20, 512, false, Cache::Volatile),
                (3, 4 << 40, 4096, false, Cache::Durable),
                (4, 1 << 40, 512, false, Cache::Volatile),
            ]
        );
        assert_eq!(luns[2].name, file);
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
    }

    #[test]
    fn serials_follow_the_file_and_differ_between_disks() {
        let dir = tempfile::tempdir().unwrap();
        let spec = |name: &str| format!("file:{}:1M", dir.path().join(name).display());
        let serials = |texts: &[String]| -> Vec<String> {
            opened(texts).unwrap().into_iter().map(|lun| lun.serial).collect()
        };
        let one = serials(&[spec("a"), spec("b"), "ram:1M".to_owned(), "ram:1M".to_owned()]);
        assert_eq!(one.iter().collect::<std::collections::HashSet<_>>().len(), 4, "{one:?}");
        let other = serials(&[spec("b"), spec("a")]);
        assert_eq!(one[..2], [other[1].clone(), other[0].clone()]);
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        assert_eq!(serials(&[spec("link")]), one[..1]);
        assert_eq!(serials(&["ram:1M,serial=MINE".to_owned()]), ["MINE"]);
    }

    #[test]
    fn what_cannot_be_opened_is_told_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        fs::write(path("ragged"), vec![0; 1000]).unwrap();
        fs::write(path("small"), vec![0; 1024]).unwrap();
        let cases = [
            (format!("file:{}", path("missing")), "does not exist"),
            (format!("file:{},ro", path("missing")), "does not exist"),
            (format!("file:{}", path("ragged")), "not one or more blocks of 512"),
            (format!("file:{},block=4096", path("small")), "not one or more blocks of 4096"),
            (format!("file:{}:1M", path("small")), "leave out the size to serve it as it is"),
            (format!("file:{}", dir.path().display()), "is no regular file"),
            (format!("disk:{}", path("small")), "is no block device"),
            (format!("disk:{}", path("missing")), "No such file or directory"),
            (format!("file:{}:1M", path("no/dir")), "No such file or directory"),
            ("ram:7E".to_owned(), "write a smaller size"),
        ];
        for (text, part) in cases {
            let said = opened(std::slice::from_ref(&text)).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
            assert_eq!(said.lines().count(), 1, "{text}: {said}");
        }
        assert!(!fs::exists(path("missing")).unwrap());
    }

    #[test]
    fn a_file_that_is_served_is_not_served_twice() {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec::parse(&format!("file:{}:1M", dir.path().join("a").display())).unwrap();
        let _first = open(&spec).unwrap();
        let said = open(&spec).unwrap_err().to_string();
        assert!(said.contains("is open in this drystone already"), "{said}");
    }
}
