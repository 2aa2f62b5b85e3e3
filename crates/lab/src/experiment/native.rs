//! `native-vs-iscsi`: one file directly, and through iSCSI on the same machine.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::ExperimentError;
use super::bed::{Bed, Run, iops};
use super::server::Export;
use crate::report::{Finding, Report};

const FILE_BYTES: u64 = 256 << 20;

/// Name, size, reads in a hundred, order.
const WORK: [(&str, &str, u32, &str); 4] = [
    ("read-random", "4k", 100, "random"),
    ("write-random", "4k", 0, "random"),
    ("read-seq", "256k", 100, "sequential"),
    ("write-seq", "256k", 0, "sequential"),
];

fn workload(seconds: f64) -> String {
    let mut text = "sd=file,threads=32\n".to_owned();
    for (name, size, reads, order) in WORK {
        text += &format!("wd={name},sd=file,xfersize={size},rdpct={reads},seekpct={order}\n");
    }
    // Filled first, so that nobody reads holes.
    text += "rd=fill,wd=write-seq,iorate=max,elapsed=5\n";
    for (name, ..) in WORK {
        text += &format!("rd={name},wd={name},iorate=max,elapsed={seconds},warmup=1,interval=1\n");
    }
    text
}

/// The file of the experiment. It goes with its owner, also where a signal ends the run.
#[derive(Debug)]
struct Image(PathBuf);

impl Image {
    fn make(path: PathBuf) -> io::Result<Self> {
        // Never somebody's own file, nor what a link there leads to.
        let file = File::create_new(&path)?;
        let image = Self(path);
        file.set_len(FILE_BYTES)?;
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // It is in nobody's way where it cannot be removed; the next run says so.
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let path = bed.path("disk.img");
    let failed = |source| ExperimentError::File { path: path.clone(), source };
    let image = Image::make(path.clone()).map_err(failed)?;
    let native = bed.measure(&Run {
        label: "native".to_owned(),
        workload: workload(bed.options.seconds),
        on: vec![path.display().to_string()],
        namespace: None,
        options: Vec::new(),
    })?;
    let disk = format!("file:{},cache=volatile", path.display().to_string().replace(',', ",,"));
    let server = Export::of(&disk).serve(bed)?;
    let remote = bed.measure(&Run {
        label: "iscsi".to_owned(),
        workload: workload(bed.options.seconds),
        on: vec![server.url(0)],
        namespace: None,
        options: vec!["--target-pid".to_owned(), server.pid().to_string()],
    })?;
    drop(server);
    drop(image);
    let steps: Vec<_> = [&native, &remote].iter().flat_map(|run| run.steps.clone()).collect();
    let findings = WORK.map(|(name, size, ..)| {
        let of = |label: &str| iops(&steps, &format!("{label}: {name}"));
        let (native, remote) = (of("native"), of("iscsi"));
        Finding {
            what: format!("{name}, {size}, 32 under way, a file through the page cache"),
            paper: "ten SAS disks, caches off: RAID 5 and 6 are almost comparable natively and over \
                iSCSI where work is mostly reads"
                .to_owned(),
            ours: format!(
                "native {native:.0} IOPS, iSCSI {remote:.0}, {:.0} % of it. Memory is the limit here, \
                 so that this is what iSCSI costs where disks cost nothing",
                remote / native.max(1.0) * 100.0
            ),
            met: None,
        }
    });
    Ok(bed.conclude(
        "The same file directly and through iSCSI",
        vec![native, remote],
        findings.to_vec(),
        Vec::new(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;

    #[test]
    fn the_file_goes_also_when_the_run_ends_early() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.img");
        let image = Image::make(path.clone()).unwrap();
        assert_eq!(path.metadata().unwrap().len(), FILE_BYTES);
        let refused = Image::make(path.clone()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists(), "what was there stays");
        drop(image);
        assert!(!path.exists());
    }

    #[test]
    fn it_fills_the_file_first() {
        let script = vdbench::parse(&workload(1.0)).unwrap();
        assert_eq!((script.steps.len(), script.steps[0].name.as_str()), (5, "fill"));
    }
}
