//! Where the members of a test run, and what they say of their group.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use ring::testing::free_ports;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::member::{Home, Member};

/// How long it may take on a busy machine until a group is as it should be: it goes there by steps of some seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// How often that is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// How long etcd has to end when its member is gone: one that leads hands that over first, to one that may lag.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// Where one member runs: its disks, its data, its addresses.
pub(crate) struct Site {
    pub(crate) home: Home,
    pub(crate) name: &'static str,
    /// Where the other members reach it; the five ports from there on are its own as well.
    pub(crate) door: SocketAddr,
}

impl Site {
    /// At 127.0.0.`last_byte`.
    pub(crate) fn new(name: &'static str, last_byte: u8) -> Self {
        Self::with_disks(name, last_byte, "96M")
    }

    /// The same with disks of this size.
    pub(crate) fn with_disks(name: &'static str, last_byte: u8, size: &str) -> Self {
        let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, last_byte));
        let home = Home::files(2, size).at(address);
        Self { home, name, door: SocketAddr::new(address, free_ports(address)) }
    }

    pub(crate) fn start(&self) -> Member<'_> {
        self.home.start(&[])
    }

    /// How its door is written in a command line.
    pub(crate) fn listen(&self) -> String {
        self.door.to_string()
    }

    /// What follows the ticket on the command line of a join.
    pub(crate) fn place(&self) -> [String; 4] {
        ["--member".to_owned(), self.name.to_owned(), "--listen".to_owned(), self.listen()]
    }

    /// The etcds that run on what it keeps; there is one at most, but for a moment.
    pub(crate) fn etcds(&self) -> Vec<Pid> {
        let data = self.home.path("data").display().to_string();
        let all = fs::read_dir("/proc").expect("the kernel tells of its processes");
        let numbers =
            all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |number: &i32| {
            // A process that has ended meanwhile is none of them.
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let program = line.split('\0').next().and_then(|path| path.rsplit('/').next());
            matches!(program, Some("etcd" | "setpriv")) && line.contains(&data)
        };
        numbers.filter(is_ours).filter_map(Pid::from_raw).collect()
    }

    /// Waits until no etcd runs here.
    #[track_caller]
    pub(crate) fn await_no_etcd(&self) {
        wait_for("its etcd ends", LAST_WORDS, || match self.etcds().len() {
            0 => Ok(()),
            left => Err(format!("{left} run")),
        });
    }

    /// Waits until somebody listens at its door: it opens when the member is in a group, which need not be the moment
    /// in which that is answered.
    #[track_caller]
    fn await_door(&self) {
        wait_for("its door opens", PATIENCE, || match TcpStream::connect(self.door) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
    }

    fn etcd_log(&self) -> PathBuf {
        self.home.path("data/group/etcd/etcd.log")
    }
}

impl Drop for Site {
    /// Its member was killed before and takes its etcd along. Where it does not, nothing is left all the same, and the
    /// test fails.
    fn drop(&mut self) {
        let end = Instant::now() + LAST_WORDS;
        while !self.etcds().is_empty() && Instant::now() < end {
            thread::sleep(PAUSE);
        }
        let left = self.etcds();
        for pid in &left {
            // It may have ended by itself.
            let _ = kill_process(*pid, Signal::KILL);
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.etcd_log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("--- last of the etcd of {} ---\n{last}\n---", self.name);
        } else {
            assert!(left.is_empty(), "the etcd of {} outlived its member", self.name);
        }
    }
}

/// Three servers.
pub(crate) fn sites() -> [Site; 3] {
    [Site::new("a", 1), Site::new("b", 2), Site::new("c", 3)]
}

/// Waits until `look` has found what it looks for; what it says until then is told where that does not come.
#[track_caller]
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + limit;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => {
                assert!(Instant::now() < end, "{what}: not yet after {limit:?}: {instead}");
            }
        }
        thread::sleep(PAUSE);
    }
}

/// What a command prints as JSON; or why it does not, where that may be so for a while.
pub(crate) fn asked(member: &Member<'_>, words: &[&str]) -> Result<Value, String> {
    let (code, out, err) = member.home.ask(&[words, &["--json"]].concat());
    if code != 0 {
        return Err(format!("{words:?}: {err}"));
    }
    serde_json::from_str(&out).map_err(|error| format!("{words:?}: {error}: {out}"))
}

/// A command that must succeed, and may tell meanwhile what it waits for.
#[track_caller]
pub(crate) fn run_slowly(member: &Member<'_>, words: &[&str]) -> String {
    let (code, out, said) = member.home.ask(words);
    assert_eq!(code, 0, "{words:?}: {said}\n{}", member.log());
    out
}

/// Waits until a command is refused with these words in one sentence. Before enough is known of other members it is
/// refused with others.
#[track_caller]
pub(crate) fn await_refused(member: &Member<'_>, line: &[&str], words: &[&str]) {
    wait_for(&format!("{line:?} is refused"), PATIENCE, || {
        let (code, out, said) = member.home.ask(line);
        assert_ne!(code, 0, "{line:?}: {out}");
        let is_one = code == 1 && out.is_empty() && said.lines().count() == 1;
        if is_one && words.iter().all(|word| said.contains(word)) { Ok(()) } else { Err(said) }
    });
}

/// Removes a member, the first of these words, with what follows it there. On a busy machine others may not take its
/// part of the store over in time, or the answer may be lost: then it is asked for again.
#[track_caller]
pub(crate) fn remove(member: &Member<'_>, words: &[&str]) {
    let line = [&["member", "remove"][..], words, &["--yes"]].concat();
    let gone = format!("no member '{}'", words[0]);
    wait_for(&format!("{words:?} is removed"), PATIENCE, || match member.home.ask(&line) {
        (0, ..) => Ok(()),
        (_, _, said) if said.contains(&gone) => Ok(()),
        (_, _, said) => Err(said),
    });
}

fn word(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Makes a volume on this member, which tells the others of it.
#[track_caller]
pub(crate) fn make(member: &Member<'_>, whose: &str, volume: &str) {
    member.run(&["volume", "create", volume, "16M", "--on", whose]);
}

/// Waits until this member keeps to the settings of the group.
#[track_caller]
pub(crate) fn await_shared(member: &Member<'_>) {
    wait_for("it shares its settings", PATIENCE, || {
        let group = asked(member, &["group", "show"])?;
        if group["shares"] == true { Ok(()) } else { Err(group.to_string()) }
    });
}

/// The members of all volumes by the names of these, as `volume list` has them.
pub(crate) fn listed(member: &Member<'_>) -> Result<BTreeMap<String, String>, String> {
    let list = asked(member, &["volume", "list"])?;
    let all = list.as_array().ok_or("no list")?;
    Ok(all.iter().map(|one| (word(&one["name"]), word(&one["member"]))).collect())
}

/// How the members are by name, as this one says.
pub(crate) fn states(member: &Member<'_>) -> Result<BTreeMap<String, String>, String> {
    let list = asked(member, &["member", "list"])?;
    let all = list.as_array().ok_or("no list")?;
    Ok(all.iter().map(|one| (word(&one["name"]), word(&one["state"]))).collect())
}

/// Waits until this member says of all members how they are.
#[track_caller]
pub(crate) fn await_states(member: &Member<'_>, wanted: &[(&str, &str)], limit: Duration) {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect();
    wait_for(&format!("{wanted:?}"), limit, || match states(member)? {
        states if states == wanted => Ok(()),
        states => Err(format!("{states:?}")),
    });
}

/// Waits until these members run the store of the group.
#[track_caller]
pub(crate) fn await_store(member: &Member<'_>, wanted: &[&str]) {
    wait_for(&format!("the store runs on {wanted:?}"), PATIENCE, || {
        let group = asked(member, &["group", "show"])?;
        let mut names: Vec<String> =
            group["store"].as_array().ok_or("no list")?.iter().map(word).collect();
        names.sort_unstable();
        if names == wanted && group["store_fault"].is_null() {
            Ok(())
        } else {
            Err(group.to_string())
        }
    });
}

/// The group as this member says, which is in one.
#[track_caller]
pub(crate) fn group_name(member: &Member<'_>) -> String {
    word(&member.json(&["group", "show"])["name"])
}

/// Waits until this member is in no group.
#[track_caller]
pub(crate) fn await_alone(member: &Member<'_>) {
    wait_for("it is in no group", PATIENCE, || match asked(member, &["group", "show"]) {
        Err(said) if said.contains("in no group") => Ok(()),
        Err(said) => Err(said),
        Ok(group) => Err(group.to_string()),
    });
}

/// The members of all volumes by the names of these, as this member says; with whether that member is there.
pub(crate) fn volumes(member: &Member<'_>) -> Result<BTreeMap<String, (String, bool)>, String> {
    let list = asked(member, &["group", "volumes"])?;
    let all = list.as_array().ok_or("no list")?;
    let place = |one: &Value| (word(&one["member"]), one["member_state"] == "present");
    Ok(all.iter().map(|one| (word(&one["name"]), place(one))).collect())
}

/// Waits until this member knows whose this volume is, and whether that one is there.
#[track_caller]
pub(crate) fn await_volume(member: &Member<'_>, volume: &str, whose: &str, is_present: bool) {
    wait_for(&format!("{volume} is of {whose}"), PATIENCE, || {
        let known = volumes(member)?;
        match known.get(volume) {
            Some((member, present)) if member == whose && *present == is_present => Ok(()),
            _ => Err(format!("{known:?}")),
        }
    });
}

/// Waits until this member has told of an event.
#[track_caller]
pub(crate) fn await_event(member: &Member<'_>, kind: &str) {
    wait_for(kind, PATIENCE, || {
        let events = asked(member, &["events"])?;
        let all = events.as_array().ok_or("no list")?;
        if all.iter().any(|event| event["kind"] == kind) { Ok(()) } else { Err(events.to_string()) }
    });
}

/// Makes the group `san1`, whose first member is there; others can come to it from then on.
#[track_caller]
pub(crate) fn create(member: &Member<'_>, site: &Site) -> Value {
    let words = ["group", "create", "san1", "--member", site.name, "--listen", &site.listen()];
    let made = member.json(&words);
    site.await_door();
    made
}

/// What lets one server into the group of this member.
#[track_caller]
pub(crate) fn ticket(member: &Member<'_>) -> String {
    let printed = member.run(&["group", "token"]);
    let text = printed.strip_suffix('\n').expect("it is a line");
    assert!(text.starts_with("drystonejoin_") && !text.contains('\n'), "{text:?}");
    text.to_owned()
}

/// The words with which the member of a site joins the group of another.
pub(crate) fn joining(site: &Site, by: &Site, ticket: &str) -> Vec<String> {
    let words = ["member".to_owned(), "join".to_owned(), by.listen()];
    let words = words.into_iter().chain(["--token".to_owned(), ticket.to_owned()]);
    words.chain(site.place()).collect()
}

/// As they are given on.
pub(crate) fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

/// Lets the member of a site join the group of another one, which is asked for a ticket.
#[track_caller]
pub(crate) fn join(member: &Member<'_>, site: &Site, by: (&Member<'_>, &Site)) -> Value {
    let ticket = ticket(by.0);
    let joined = member.json(&words(&joining(site, by.1, &ticket)));
    site.await_door();
    joined
}

/// A group of three members, each of which runs a part of its store and shares its settings, as all have heard.
#[track_caller]
pub(crate) fn group_of(sites: &[Site; 3]) -> [Member<'_>; 3] {
    let members = sites.each_ref().map(Site::start);
    create(&members[0], &sites[0]);
    for number in [1, 2] {
        join(&members[number], &sites[number], (&members[0], &sites[0]));
    }
    for member in &members {
        await_all(member);
    }
    await_store(&members[0], &["a", "b", "c"]);
    for member in &members {
        await_all_share(member);
    }
    members
}

/// Waits until this member says of each that it shares the settings of the group: who does not neither gives nor takes
/// a volume.
#[track_caller]
fn await_all_share(member: &Member<'_>) {
    wait_for("all are known to share", PATIENCE, || {
        let list = asked(member, &["member", "list"])?;
        let all = list.as_array().ok_or("no list")?;
        if all.iter().all(|one| one["shares"] == true) { Ok(()) } else { Err(list.to_string()) }
    });
}

/// Waits until this member says that all three are there.
#[track_caller]
pub(crate) fn await_all(member: &Member<'_>) {
    await_states(member, &[("a", "present"), ("b", "present"), ("c", "present")], PATIENCE);
}
