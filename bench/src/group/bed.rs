//! What every part needs: a group of three members, one member in none, and turns.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::http::{Ask, Reply};
use super::member::Member;
use super::sheet::{ALONE, Line};
use crate::cli::GroupArgs;
use crate::machine::in_path;
use crate::suite::Scratch;

/// The longest time for all of it but the end.
const TIME_MAX: Duration = Duration::from_secs(420);
/// How long it may take until a group is as it should be: it goes there by steps of some seconds.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// Volumes that one request makes: with all that is said of them it stays far below the longest body.
const BATCH: usize = 50;
pub(super) const VOLUME_BYTES: u64 = 16 << 20;
/// All volumes that there may be, on one page.
pub(super) const LIST: &str = "/v1/volumes?limit=1000";
/// The pools of the first member and of the second, so that it is known where a new volume goes.
pub(super) const NEAR: &str = "near";
pub(super) const FAR: &str = "far";

/// How it is done.
#[derive(Debug)]
pub(super) struct Settings {
    program: PathBuf,
    scratch: PathBuf,
    port: u16,
    pub(super) quick: bool,
    pub(super) rounds: usize,
    pub(super) volumes: usize,
    pub(super) server_core: usize,
    pub(super) client_core: usize,
}

impl Settings {
    /// From the command line.
    ///
    /// # Errors
    /// Says what is missing.
    pub(super) fn new(args: &GroupArgs) -> Result<Self> {
        ensure!(
            args.drystone.is_file(),
            "{} is not there: cargo build --release -p drystone, or --drystone PATH",
            args.drystone.display()
        );
        for (program, package) in [("etcd", "etcd-server"), ("setpriv", "util-linux")] {
            let is_there = in_path(program).is_some();
            ensure!(is_there, "{program} is not installed: apt-get install {package}");
        }
        let (rounds, volumes) = if args.quick { (20, 150) } else { (100, 1000) };
        Ok(Self {
            program: args.drystone.clone(),
            scratch: std::path::absolute(&args.scratch)?,
            port: args.port,
            quick: args.quick,
            rounds: args.rounds.unwrap_or(rounds) as usize,
            volumes: args.volumes.unwrap_or(volumes) as usize,
            server_core: args.server_core,
            client_core: args.client_core,
        })
    }

    pub(super) fn method(&self) -> String {
        format!(
            "Three members of one group and one in none, all on this machine, with four sparse files each in {}; what \
             is to be compared takes turns, {} times, after one time that does not count. What the group has is asked \
             of member a.",
            self.scratch.display(),
            self.rounds
        )
    }
}

/// The place where parts are run. What it has started ends with it.
pub(super) struct Bed<'a> {
    pub(super) settings: Settings,
    pub(super) stop: &'a AtomicBool,
    /// Hosts and operators ask the first.
    pub(super) group: [Member; 3],
    pub(super) alone: Member,
    deadline: Instant,
    // Behind those that keep something in it: fields go in this order.
    _scratch: Scratch,
}

/// One that takes part in turns, by its name: how long it took this time.
pub(super) type Turn<'a> = (&'static str, Box<dyn FnMut(usize) -> Result<Duration> + 'a>);

impl<'a> Bed<'a> {
    /// Starts all members and makes three of them a group.
    pub(super) fn new(settings: Settings, stop: &'a AtomicBool) -> Result<Self> {
        let scratch = Scratch::new(&settings.scratch)?;
        let member = |name, last_byte| -> Result<Member> {
            let directory = scratch.directory(name)?;
            Ok(Member::new((name, last_byte), &settings.program, directory, settings.port))
        };
        let mut bed = Self {
            group: [member("a", 1)?, member("b", 2)?, member("c", 3)?],
            alone: member("alone", 4)?,
            deadline: Instant::now() + TIME_MAX,
            settings,
            stop,
            _scratch: scratch,
        };
        for member in bed.group.iter_mut().chain([&mut bed.alone]) {
            member.start(stop)?;
        }
        bed.make_group()?;
        Ok(bed)
    }

    /// The member that is asked, and another one.
    pub(super) fn two(&self) -> (&Member, &Member) {
        (&self.group[0], &self.group[1])
    }

    fn make_group(&self) -> Result<()> {
        let [a, b, c] = &self.group;
        let new = json!({"name": "bench", "member": a.name, "listen": a.door().to_string()});
        a.ask(&Ask::post("/v1/group", &new))?;
        self.wait_for("the door of the group", || Ok(TcpStream::connect(a.door()).is_ok()))?;
        for member in [b, c] {
            let token = a.ask(&Ask::post("/v1/group/tokens", &json!({})))?.json()?;
            let join = json!({
                "group": a.door().to_string(),
                "token": token["token"],
                "member": member.name,
                "listen": member.door().to_string(),
            });
            member.ask(&Ask::post("/v1/group/join", &join))?;
        }
        for (pool, member) in [(NEAR, a), (FAR, b)] {
            a.ask(&Ask::post("/v1/pools", &json!({"name": pool})))?;
            let path = format!("/v1/members/{}", member.name);
            a.ask(&Ask::patch(&path, &json!({"pool": pool})))?;
        }
        for member in &self.group {
            self.wait_for("the group is whole", || Ok(is_whole(&self.told(member)?)))?;
        }
        self.wait_for("the store runs on all", || {
            let group = a.ask(&Ask::get("/v1/group"))?.json()?;
            let parts = group["store"].as_array().map(Vec::len);
            Ok(parts == Some(self.group.len()) && group["store_fault"].is_null())
        })
    }

    /// What a member tells of all members.
    pub(super) fn told(&self, member: &Member) -> Result<Value> {
        member.ask(&Ask::get("/v1/members"))?.json()
    }

    /// Makes a volume at this very member: the name of its target.
    pub(super) fn volume(&self, member: &Member, name: &str, size_bytes: u64) -> Result<String> {
        let new = json!({"name": name, "size_bytes": size_bytes});
        let made = member.ask(&Ask::post("/v1/volumes", &new).of_it_alone())?.json()?;
        made["iqn"].as_str().map(str::to_owned).context("the answer names no iqn")
    }

    /// Waits until all members know all volumes of the group.
    pub(super) fn await_told(&self) -> Result<()> {
        let mut total = 0;
        for member in &self.group {
            total += member.ask(&Ask::get(LIST).of_it_alone())?.count()?;
        }
        for member in &self.group {
            self.wait_for("all volumes are told", || {
                Ok(volumes_told(&self.told(member)?) == Some(total as u64))
            })?;
        }
        Ok(())
    }

    /// Sees to it that there are so many volumes in the group, evenly, and of the member in none: how many each side
    /// has then.
    pub(super) fn furnish(&self) -> Result<(usize, usize)> {
        let wanted = self.settings.volumes;
        let mut total = 0;
        for (index, member) in self.group.iter().enumerate() {
            total += self.fill_up(member, share(wanted, self.group.len(), index))?;
        }
        let alone = self.fill_up(&self.alone, wanted)?;
        self.await_told()?;
        Ok((total, alone))
    }

    /// Sees to it that this member has so many volumes: how many it has then.
    pub(super) fn fill_up(&self, member: &Member, wanted: usize) -> Result<usize> {
        let had = member.ask(&Ask::get(LIST).of_it_alone())?.count()?;
        let missing: Vec<usize> = (had..wanted).collect();
        for batch in missing.chunks(BATCH) {
            self.check()?;
            let volume = |number: &usize| {
                let name = format!("many-{}-{number}", member.name);
                json!({"volume": {"name": name, "size_bytes": VOLUME_BYTES}, "online": true})
            };
            let volumes: Vec<Value> = batch.iter().map(volume).collect();
            let change = json!({"new_volumes": volumes});
            member.ask(&Ask::patch("/v1/configuration", &change))?;
        }
        Ok(had.max(wanted))
    }

    /// All who take part, in turns: each round begins with another one. The first round does not count.
    ///
    /// # Errors
    /// Of one of them, which ends the part; a signal, or there is no time left.
    pub(super) fn turns(&self, work: &'static str, mut all: Vec<Turn<'_>>) -> Result<Vec<Line>> {
        let lines = all.iter().map(|(name, _)| Line::new(work, name, "ms"));
        let mut lines: Vec<Line> = lines.collect();
        for round in 0..=self.settings.rounds {
            for turn in 0..all.len() {
                self.check()?;
                let index = (round + turn) % all.len();
                let (name, one) = &mut all[index];
                let took = one(round).with_context(|| format!("{work}, {name}"))?;
                if round > 0 {
                    lines[index].values.push(took.as_secs_f64() * 1e3);
                }
            }
        }
        for line in &lines {
            eprintln!("{:>34} {:<28} {:>9.2} ms", work, line.entrant, line.median().unwrap_or(0.0));
        }
        Ok(lines)
    }

    /// Waits until it is so.
    pub(super) fn wait_for(
        &self,
        what: &str,
        mut look: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !look().with_context(|| what.to_owned())? {
            self.pause(POLL)?;
            ensure!(Instant::now() < end, "{what}: not yet after {PATIENCE:?}");
        }
        Ok(())
    }

    /// Waits so long, unless that is to end.
    pub(super) fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL));
        }
    }

    /// Whether to go on.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        let is_over = Instant::now() >= self.deadline;
        ensure!(!is_over, "there is no time left: all of it may take {TIME_MAX:?}");
        Ok(())
    }
}

/// How long it takes to ask this member, and what it answers.
pub(super) fn timed(member: &Member, ask: &Ask<'_>) -> Result<(Duration, Reply)> {
    let begun = Instant::now();
    let reply = member.ask(ask)?;
    Ok((begun.elapsed(), reply))
}

/// What takes turns under this name.
pub(super) fn turn<'a>(
    name: &'static str,
    one: impl FnMut(usize) -> Result<Duration> + 'a,
) -> Turn<'a> {
    (name, Box::new(one))
}

/// A turn of the member in no group.
pub(super) fn alone<'a>(one: impl FnMut(usize) -> Result<Duration> + 'a) -> Turn<'a> {
    turn(ALONE, one)
}

/// Which part of so many things the one at `index` of `among` has.
pub(super) fn share(things: usize, among: usize, index: usize) -> usize {
    things / among + usize::from(index < things % among)
}

/// Whether all three members are there, each in its pool, with room and the settings of the group, as one of them
/// tells.
pub(super) fn is_whole(members: &Value) -> bool {
    let pools = [("a", NEAR), ("b", FAR), ("c", "default")];
    let Some(members) = members.as_array() else { return false };
    members.len() == pools.len()
        && pools.iter().zip(members).all(|((name, pool), member)| {
            member["name"] == *name
                && member["pool"] == *pool
                && member["state"] == "present"
                && member["shares"] == true
                && member["free_bytes"].as_u64() > Some(VOLUME_BYTES)
        })
}

/// How many volumes all members have, as one of them tells.
pub(super) fn volumes_told(members: &Value) -> Option<u64> {
    members.as_array()?.iter().map(|member| member["volumes"].as_u64()).sum()
}
