//! Results and journals that cannot be kept: what was measured is told all the same, and nothing of others is lost.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{binary, drystone, finish};
use crate::{Place, WRITES, code, lab, printed, results, said};

const READS: [&str; 3] = ["--rw=read", "--bs=4k", "--size=1m"];

/// `drystone lab` whose files have no room beyond so many blocks of 512 bytes: a full disk for one process.
fn lab_on_a_full_disk(blocks: u32, args: &[&str]) -> Output {
    let line = args.join("' '");
    let mut shell = Command::new("dash");
    // Ignored, signal 25 (SIGXFSZ) becomes an error of the write.
    let script =
        format!("trap '' 25; ulimit -f {blocks}; exec '{}' lab '{line}'", binary().display());
    finish(shell.args(["-c", &script]).stdin(Stdio::null()))
}

fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("works").map(|entry| entry.expect("works"));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("works");
        (name, fs::read(entry.path()).expect("works"))
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

/// A disk that is full when results are written: what was measured is shown, what to do, and the set of files
/// that was there stays as it was.
#[test]
fn a_full_results_directory_loses_neither_the_table_nor_the_old_set() {
    let place = Place::new();
    let report = place.text("report");
    let args = ["fio", "--on", "ram:1M", "--report", &report];
    let first = lab(&[&args[..], &["--"], &READS].concat());
    assert_eq!(code(&first), 0, "{}", said(&first));
    let before = files(Path::new(&report));
    assert_eq!(before.len(), 3);
    // Room for flatfile.csv, and for nothing that comes behind it.
    let again = [&args[..], &["--json", "--"], &READS, &["--name=again"]].concat();
    let output = lab_on_a_full_disk(4, &again);
    assert_eq!(code(&output), 1);
    let told = said(&output);
    assert_eq!(told.matches("File too large").count(), 1, "{told}");
    assert!(told.contains("report.html") && told.contains("Make room there"), "{told}");
    assert!(told.contains("\nSTEP ") && told.contains("\nagain "), "the table is shown: {told}");
    let figures: Value = serde_json::from_str(&printed(&output)).expect("JSON all the same");
    assert_eq!(figures["steps"][0]["total"]["ios"], 256);
    assert!(files(Path::new(&report)) == before, "all three are of the run before");
    let again = lab(&again);
    assert_eq!(code(&again), 0, "{}", said(&again));
    assert_eq!(results(Path::new(&report))["steps"][0]["name"], "again");
}

#[test]
fn two_runs_into_one_directory_do_not_lose_one() {
    let place = Place::new();
    let report = place.text("report");
    let on = ["fio", "--on", "ram:1M", "--report", &report, "--"];
    let long = [&["lab"], &on[..], &["--runtime=60", "--time_based", "--name=long"]].concat();
    let mut first =
        drystone(&long).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("works");
    // Its first step has begun once it says anything.
    first.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it runs");
    let refused = lab(&[&on[..], &READS].concat());
    assert_eq!(code(&refused), 1);
    let told = said(&refused);
    assert!(told.contains("is where another run keeps its results"), "{told}");
    assert!(told.contains("wait for its end, or name another --report"), "{told}");
    let experiment = lab(&["experiment", "native-vs-iscsi", "--quick", "--report", &report]);
    assert_eq!(code(&experiment), 1);
    assert!(said(&experiment).contains("is where another run"), "{}", said(&experiment));
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("works");
    first.wait().expect("works");
    assert_eq!(results(Path::new(&report))["steps"][0]["name"], "long");
}

#[test]
fn results_of_somebody_else_are_not_replaced() {
    let place = Place::new();
    let report = place.path("report");
    fs::create_dir(&report).expect("works");
    fs::write(report.join("results.json"), "{\"mine\": 1}\n").expect("works");
    let text = report.to_str().expect("works");
    let output = lab(&[&["fio", "--on", "ram:1M", "--report", text, "--"][..], &READS].concat());
    assert_eq!(code(&output), 1, "{}", printed(&output));
    let told = said(&output);
    assert!(
        told.contains("results.json is no file of the lab, and stays as it is: move it away"),
        "{told}"
    );
    assert_eq!(files(&report), [("results.json".to_owned(), b"{\"mine\": 1}\n".to_vec())]);
}

/// Nobody asked for results to be kept: the figures of what was measured are on the screen all the same.
#[test]
fn a_full_disk_of_the_journal_loses_no_figures() {
    let place = Place::new();
    // The disk has room, the journal soon has none.
    let (disk, journal) = (place.disk("disk", 64 << 10), place.text("journal"));
    let steps = "rd=slow,wd=w,iorate=100,elapsed=1\nrd=fast,wd=w,iorate=max,elapsed=60\n";
    let file = place.write("w.vd", &format!("{WRITES}{steps}"));
    let args = ["run", &file, "--on", &disk, "--overwrite", "--journal", &journal];
    let output = lab_on_a_full_disk(512, &args);
    assert_eq!(code(&output), 1);
    let told = said(&output);
    assert!(
        told.contains(&format!("the journal {journal} cannot be written: File too large")),
        "{told}"
    );
    let shown = printed(&output);
    for line in ["\nSTEP ", "\nslow ", "\nfast "] {
        assert!(shown.contains(line), "{line:?}: {shown}");
    }
    // What it has is whole: nothing was added behind what had no room.
    let reads = "sd=s,lun=none\nwd=w,sd=s,xfersize=8k\nrd=r,wd=w,elapsed=0.2\n";
    let file = place.write("r.vd", reads);
    let again = lab(&["run", &file, "--on", &disk, "--journal", &journal, "--validate"]);
    assert_eq!(code(&again), 0, "{}{}", said(&again), printed(&again));
}
