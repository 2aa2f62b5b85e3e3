//! The same for the volumes of an array: `drystone up` is killed under load on every RAID level, with
//! disks that keep all that was written, and with disks whose write cache goes with the process, as
//! in a power cut. Meanwhile snapshots are taken, an operator fails, replaces and adds disks, and
//! between crashes disks rot.

use crate::common::member::{Home, Member, text};
use crate::host::Host;
use crate::ledger::{BLOCK_BYTES, Ledger};
use crate::load::{self, Increments};
use crate::{COUNTER_LBA, LEDGER_BLOCKS, LIFE_MS, rounds};
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS_DEFAULT: usize = 50;
pub(crate) const DISKS: usize = 6;
const DISK_BYTES: &str = "128M";
/// How often everything is verified, a snapshot is looked at, a disk rots while nobody looks, and the
/// operator does something to a disk under load.
const CHECK_EVERY: usize = 10;
const SNAPSHOT_EVERY: usize = 5;
const ROT_EVERY: usize = 7;
const OPERATE_EVERY: usize = 4;
/// Blocks of 4 KiB that rot at once, all of one disk, and where: behind the labels.
const ROT_BLOCKS: usize = 24;
const ROT_FROM: u64 = 1 << 20;
/// How long disks may take to settle after a crash.
pub(crate) const SETTLE_TIME: Duration = Duration::from_secs(120);

/// What ends the member, and so what a disk keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process dies: what it wrote is there.
    Process,
    /// The power goes: what it did not flush is there in part.
    Power,
}

impl Crash {
    pub(crate) fn home(self) -> Home {
        match self {
            Crash::Process => Home::files(DISKS, DISK_BYTES),
            Crash::Power => Home::volatile(DISKS, DISK_BYTES),
        }
    }

    pub(crate) fn disk(self, home: &Home, name: &str) -> String {
        match self {
            Crash::Process => format!("{}:{DISK_BYTES}", text(&home.path(name))),
            Crash::Power => home.volatile_disk(name, DISK_BYTES),
        }
    }

    /// A volume whose writes are answered before they are flushed survives the process alone.
    pub(crate) fn volumes(self) -> Vec<Volume> {
        let names = ["raid10", "raid5", "raid6", "raid50", "volatile"];
        let kept = if self == Crash::Power { &names[..4] } else { &names[..] };
        let volume = |name: &&'static str| Volume {
            name,
            ledger: Ledger::new(LEDGER_BLOCKS),
            counter: Increments::default(),
        };
        kept.iter().map(volume).collect()
    }
}

/// A volume and what must be found on it after a crash.
pub(crate) struct Volume {
    name: &'static str,
    ledger: Ledger,
    counter: Increments,
}

pub(crate) fn create(member: &Member<'_>, volumes: &[Volume]) {
    for volume in volumes {
        let options = match volume.name {
            "volatile" => ["--cache", "volatile"],
            level => ["--raid", level],
        };
        member.run(&[&["volume", "create", volume.name, "8M"][..], &options].concat());
    }
}

fn log_in(member: &Member<'_>, volume: &str, number: u8) -> Host {
    let host = Host::log_in(member.portal(), &member.iqn(volume), number, &[0]);
    host.expect("a volume that is online lets hosts in")
}

/// All bytes of a volume's ledger.
fn contents(host: &mut Host) -> Vec<u8> {
    let read = |first: usize| {
        let [a, b, c, d] = ((first * BLOCK_BYTES / 512) as u32).to_be_bytes();
        let answer = host.run(0, &[0x28, 0, a, b, c, d, 0, 0, 128, 0], 128 * 512, &[]);
        answer.expect("the member is there").data
    };
    (0..LEDGER_BLOCKS).step_by(128 * 512 / BLOCK_BYTES).flat_map(read).collect()
}

/// Loads all volumes until the member is killed, which is when `life` is over, and does `meanwhile`; returns how many
/// writes were acknowledged.
pub(crate) fn load(
    member: Member<'_>,
    volumes: &mut [Volume],
    life: impl FnOnce(),
    meanwhile: impl FnOnce(&Home) + Send,
) -> usize {
    let hosts: Vec<_> = volumes
        .iter()
        .map(|volume| [2, 3, 4].map(|number| log_in(&member, volume.name, number)))
        .collect();
    let home = member.home;
    thread::scope(|scope| {
        let working: Vec<_> = hosts
            .into_iter()
            .zip(volumes)
            .map(|([writer, one, other], volume)| {
                let Volume { ledger, counter, .. } = volume;
                let writer = scope.spawn(move || load::write(writer, 0, ledger));
                let counting =
                    [one, other].map(|host| scope.spawn(move || load::count(host, 0, COUNTER_LBA)));
                (writer, counting, counter)
            })
            .collect();
        scope.spawn(move || meanwhile(home));
        life();
        member.crash();
        let mut writes = 0;
        for (writer, counting, counter) in working {
            writes += writer.join().expect("a sound host");
            for host in counting {
                *counter += host.join().expect("a sound host");
            }
        }
        writes
    })
}

/// Some time.
pub(crate) fn sleep(ms: std::ops::Range<u64>) {
    thread::sleep(Duration::from_millis(fastrand::u64(ms)));
}

/// Looks for all that was acknowledged.
pub(crate) fn verify(member: &Member<'_>, volumes: &mut [Volume]) -> Result<(), String> {
    for volume in volumes {
        let mut host = log_in(member, volume.name, 1);
        load::verify(&mut host, 0, &mut volume.ledger)
            .and_then(|()| load::verify_counter(&mut host, 0, COUNTER_LBA, &mut volume.counter))
            .map_err(|what| format!("{}: {what}", volume.name))?;
    }
    Ok(())
}

/// The snapshot still holds what the volume held when it was taken.
fn verify_snapshot(member: &Member<'_>, (volume, kept): &(&str, Vec<u8>)) {
    member.run(&["snapshot", "clone", volume, "kept", "look"]);
    assert!(contents(&mut log_in(member, "look", 1)) == *kept, "the snapshot of {volume} changed");
    member.run(&["volume", "offline", "look", "--yes"]);
    member.run(&["volume", "delete", "look", "--yes"]);
    member.run(&["volume", "purge", "look", "--yes"]);
    member.run(&["snapshot", "delete", volume, "kept", "--yes"]);
}

/// Changes disks while hosts work and crashes come.
struct Operator {
    crash: Crash,
    /// The number of the next new disk.
    next: usize,
    done: [usize; 3],
}

impl Operator {
    fn new(crash: Crash) -> Operator {
        Operator { crash, next: DISKS, done: [0; 3] }
    }

    fn new_disk(&mut self, home: &Home) -> String {
        self.next += 1;
        self.crash.disk(home, &format!("disk-{}", self.next - 1))
    }

    /// The words of a command to the oldest disk, which may be cut off anywhere.
    fn choose(&mut self, home: &Home, oldest: &str) -> Vec<String> {
        let what = fastrand::usize(..3);
        self.done[what] += 1;
        let new = self.new_disk(home);
        let words: Vec<&str> = match what {
            0 => vec!["disk", "fail", oldest, "--yes"],
            1 => vec!["disk", "replace", oldest, &new, "--no-wait"],
            _ => vec!["disk", "add", &new],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Waits until no disk is on its way in or out, and brings the array back to its number of
    /// disks.
    fn settle(&mut self, member: &Member<'_>) {
        let end = Instant::now() + SETTLE_TIME;
        let disks = loop {
            member.run(&["array", "rebuild-status", "--wait"]);
            let disks = online(member);
            match disks {
                Some(disks) => break disks,
                None => assert!(
                    Instant::now() < end,
                    "disks do not settle: {}",
                    member.run(&["disk", "list"])
                ),
            }
            thread::sleep(Duration::from_millis(100));
        };
        for _ in disks.len()..DISKS {
            let new = self.new_disk(member.home);
            member.run(&["disk", "add", &new]);
        }
        for oldest in disks.iter().take(disks.len().saturating_sub(DISKS)) {
            member.run(&["disk", "retire", oldest, "--yes"]);
        }
    }
}

/// The names of all disks, oldest first, if all are online.
fn online(member: &Member<'_>) -> Option<Vec<String>> {
    let disks = member.json(&["disk", "list"]);
    let disks = disks.as_array().expect("a list of disks").iter();
    let name = |disk: &serde_json::Value| {
        (disk["state"] == "online").then(|| disk["name"].as_str().expect("a word").to_owned())
    };
    disks.map(name).collect()
}

/// Some blocks of a disk hold something else, and nobody has noticed.
fn rot(disk: &str) {
    let file = fs::OpenOptions::new().write(true).open(disk).expect("the disk is there");
    let blocks = file.metadata().expect("it has a size").len() / 4096 - 32;
    for _ in 0..ROT_BLOCKS {
        let garbage: Vec<u8> = (0..4096).map(|_| fastrand::u8(..)).collect();
        let block = fastrand::u64(ROT_FROM / 4096..blocks);
        file.write_all_at(&garbage, block * 4096).expect("it can be written to");
    }
}

/// A scrub repairs what rotted, and loses nothing.
fn heal(member: &Member<'_>) {
    assert_eq!(member.json(&["array", "scrub"])["problems"], json!([]));
}

/// Crashes of a kind under load, with an operator who works on the disks and disks that rot.
/// Tells what was done.
fn survive(crash: Crash) -> String {
    let rounds = rounds(ROUNDS_DEFAULT);
    let mut home = crash.home();
    let mut volumes = crash.volumes();
    let mut operator = Operator::new(crash);
    let mut writes = 0;
    let mut rotten = 0;
    let mut kept: Option<(&str, Vec<u8>)> = None;
    for round in 0..=rounds {
        let member = home.start(&[]);
        if round == 0 {
            create(&member, &volumes);
        }
        if let Err(what) = verify(&member, &mut volumes) {
            panic!("after crash {round} and {writes} writes: {what}");
        }
        operator.settle(&member);
        if std::mem::take(&mut rotten) > 0 {
            heal(&member);
        }
        if let Some(kept) = kept.take() {
            verify_snapshot(&member, &kept);
        }
        if round % CHECK_EVERY == 0 || round == rounds {
            assert_eq!(member.json(&["array", "check"])["problems"], json!([]), "crash {round}");
        }
        if round % SNAPSHOT_EVERY == 1 {
            let name = volumes[round / SNAPSHOT_EVERY % volumes.len()].name;
            member.run(&["snapshot", "create", name, "kept"]);
            kept = Some((name, contents(&mut log_in(&member, name, 1))));
        }
        let disks = online(&member).unwrap_or_default();
        let operates = round % OPERATE_EVERY == OPERATE_EVERY - 1;
        if round == rounds {
            member.stop();
        } else {
            let words = match disks.first().filter(|_| operates) {
                Some(oldest) => operator.choose(&home, oldest),
                None => Vec::new(),
            };
            let meanwhile = |home: &Home| {
                if !words.is_empty() {
                    // The crash may come before it was heard.
                    home.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
                }
            };
            writes += load(member, &mut volumes, || sleep(LIFE_MS), meanwhile);
        }
        // One thing at a time: a disk that leaves is as good as one that rots.
        if round % ROT_EVERY == ROT_EVERY - 1 && !operates && !disks.is_empty() {
            rotten = 1;
            rot(&disks[fastrand::usize(..disks.len())]);
        }
        // The member remembers its disks, and those of the beginning leave one by one.
        home.forget();
    }
    let increments: u64 = volumes.iter().map(|volume| volume.counter.acknowledged).sum();
    let [failed, replaced, added] = operator.done;
    assert!(writes > rounds && increments > 0, "there was no load");
    format!(
        "{rounds} crashes of an array ({crash:?}): {writes} writes, {increments} increments, \
         {failed} disks failed, {replaced} replaced, {added} added"
    )
}

#[test]
fn nothing_that_volumes_acknowledged_is_lost_by_kill_9() {
    println!("{}", survive(Crash::Process));
}

#[test]
fn nothing_that_volumes_acknowledged_is_lost_by_power_cuts() {
    println!("{}", survive(Crash::Power));
}
