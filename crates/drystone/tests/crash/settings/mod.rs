//! The same for what is set: several clients change the configuration as fast as they can, and the member is killed
//! meanwhile, also while it starts. All that was answered is there, and of what was under way all or nothing.
//!
//! Hosts change a reservation beside that, which lies in the same store, and write, so that the array makes
//! checkpoints. Long policies have the store cut its history several times a second.

mod client;
mod ledger;
mod things;

use crate::LEDGER_BLOCKS;
use crate::common::member::{Home, Member};
use crate::common::{drystone, finish};
use crate::host::Host;
use crate::http::{ask, ask_mortal};
use crate::ledger::Ledger as Blocks;
use crate::load::{self, Increments, Registered};
use client::{Client, Counts};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Set to run another number of rounds.
const ROUNDS: &str = "DRYSTONE_SETTINGS_ROUNDS";
const ROUNDS_DEFAULT: usize = 2;
const CLIENTS: usize = 4;
/// Clients that count a schedule up, in competition.
const COUNTING: usize = 2;
const COUNTER: &str = "counter";
/// A volume that is written to, and one that is reserved.
const DATA: &str = "data";
const RESERVED: &str = "reserved";
/// After how many answers the member is killed, the one time in four in which it is killed early, and otherwise: so there
/// are as many on a busy machine. It is killed within a moment, or at the latest after some seconds.
const SHORT_LIFE: Range<usize> = 0..4;
const LIFE: Range<usize> = 4..40;
const MOMENT_MS: Range<u64> = 0..200;
const LIFE_MAX: Duration = Duration::from_secs(8);
/// How long one lives that is killed while it starts.
const START_MS: Range<u64> = 0..800;
/// Between two changes of the reservation: the processor is for the interface, which stands back behind hosts.
const PAUSE: Duration = Duration::from_millis(20);
/// Revoked tokens that are tried after each crash: more failed logins would have to wait.
const TRIED: usize = 3;
const LISTEN: &str = "--api-listen=127.0.0.1:0";

/// What must be found after a crash.
struct Known {
    clients: Vec<Client>,
    counter: Increments,
    registered: Registered,
    blocks: Blocks,
    /// The number of the last record of the audit log before this round.
    audited: u64,
    /// Changes that were answered and were not in the audit log after a crash: its last moment.
    not_audited: usize,
    /// How often the array has made a checkpoint.
    checkpoint: u64,
}

fn log_in(member: &Member<'_>, volume: &str, number: u8) -> Host {
    let host = Host::log_in(member.portal(), &member.iqn(volume), number, &[0]);
    host.expect("a volume that is online lets hosts in")
}

fn show(member: &Member<'_>, path: &str) -> Value {
    ask(&member.home.socket(), "GET", path, &[], None).json()
}

/// Counts the schedule up as it was read, until the member is gone.
fn count(socket: &Path) -> Increments {
    let path = format!("/v1/schedules/{COUNTER}");
    let mut made = Increments::default();
    let mut turn = || {
        let shown = ask_mortal(socket, "GET", &path, &[], None)?;
        let seconds = shown.json()["when"]["every"]["seconds"].as_u64().expect("a number");
        let tag = format!("if-match: {}", shown.header("etag").expect("a tag"));
        let body = json!({"when": {"every": {"seconds": seconds + 1}}});
        made.under_way = 1;
        let reply = ask_mortal(socket, "PATCH", &path, &[&tag], Some(&body))?;
        made.under_way = 0;
        match reply.status {
            200 => made.acknowledged += 1,
            status => assert_eq!(status, 412, "{}", reply.text()),
        }
        Some(())
    };
    while turn().is_some() {}
    made
}

impl Known {
    fn new(member: &Member<'_>) -> Self {
        for volume in [DATA, RESERVED] {
            member.run(&["volume", "create", volume, "8M"]);
        }
        client::make_counter(&member.home.socket());
        let all = things::all(&member.home.socket());
        let mut clients: Vec<Client> = (0..CLIENTS).map(Client::new).collect();
        clients.iter_mut().for_each(|client| client.begin_with(&all));
        let every = show(member, &format!("/v1/schedules/{COUNTER}"))["when"]["every"].clone();
        let acknowledged = every["seconds"].as_u64().expect("a number");
        Self {
            clients,
            counter: Increments { acknowledged, under_way: 0 },
            registered: Registered::default(),
            blocks: Blocks::new(LEDGER_BLOCKS),
            audited: things::last_audited(member),
            not_audited: 0,
            checkpoint: 0,
        }
    }

    /// Changes all of it until the member is killed.
    fn load(&mut self, member: Member<'_>) {
        let registrant = log_in(&member, RESERVED, 20);
        // Otherwise settings have the disks for themselves.
        let writer = (fastrand::u8(..4) == 0).then(|| log_in(&member, DATA, 2));
        let socket = &member.home.socket();
        let wanted = fastrand::usize(if fastrand::u8(..4) == 0 { SHORT_LIFE } else { LIFE });
        let answers = &AtomicUsize::new(0);
        let Self { clients, counter, registered, blocks, .. } = self;
        thread::scope(|scope| {
            scope.spawn(|| load::register(registrant, 0, registered, PAUSE));
            scope.spawn(|| writer.map(|writer| load::write(writer, 0, blocks)));
            let counting: Vec<_> =
                (0..COUNTING).map(|_| scope.spawn(move || count(socket))).collect();
            for client in clients {
                scope.spawn(move || client.work(socket, answers));
            }
            let end = Instant::now() + LIFE_MAX;
            while answers.load(Ordering::Relaxed) < wanted && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(fastrand::u64(MOMENT_MS)));
            member.crash();
            for counted in counting {
                *counter += counted.join().expect("a sound client");
            }
        });
    }

    /// Looks for all that was answered, and goes on with what was not.
    fn verify(&mut self, member: &Member<'_>) -> Result<(), String> {
        let socket = member.home.socket();
        let all = things::all(&socket);
        let judged = self.clients.iter_mut().map(|client| client.judge(&all));
        let judged: Vec<_> = judged.collect::<Result<_, _>>()?;
        let alone: BTreeSet<String> =
            judged.iter().filter_map(|(_, alone)| alone.clone()).collect();
        things::check_names(&all, &alone)?;
        self.verify_counter(member)?;
        self.verify_audit(&socket)?;
        self.audited = things::last_audited(member);
        self.verify_tokens(member)?;
        load::verify(&mut log_in(member, DATA, 1), 0, &mut self.blocks)?;
        load::verify_registered(&mut log_in(member, RESERVED, 1), 0, &mut self.registered)?;
        for (client, (ended, alone)) in self.clients.iter_mut().zip(judged) {
            if let Some(volume) = alone {
                client.clear(&socket, &volume);
            } else {
                client.send_again(&socket, ended);
            }
        }
        let all = things::all(&socket);
        for client in &mut self.clients {
            client.judge(&all).map_err(|what| format!("after it was sent again: {what}"))?;
        }
        self.checkpoint = show(member, "/v1/array")["checkpoint"].as_u64().expect("a number");
        Ok(())
    }

    fn verify_counter(&mut self, member: &Member<'_>) -> Result<(), String> {
        let Increments { acknowledged, under_way } = self.counter;
        let shown = show(member, &format!("/v1/schedules/{COUNTER}"));
        let seconds = shown["when"]["every"]["seconds"].as_u64().expect("a number");
        if !(acknowledged..=acknowledged + under_way).contains(&seconds) {
            return Err(format!("it was counted to {:?}, and is {seconds}", self.counter));
        }
        self.counter = Increments { acknowledged: seconds, under_way: 0 };
        Ok(())
    }

    /// A crash may take the end of the audit log along, and nothing before it.
    fn verify_audit(&mut self, socket: &Path) -> Result<(), String> {
        let audited = things::audited(socket, self.audited);
        let (mut missing, mut newest) = (Vec::new(), 0);
        for client in &mut self.clients {
            missing.extend(client.ledger.judge_audit(&audited, &mut newest)?);
        }
        self.not_audited += missing.len();
        match missing.iter().find(|(answered, _)| *answered < newest) {
            Some((_, what)) => {
                Err(format!("{what} is not in the audit log, but what came later is"))
            }
            None => Ok(()),
        }
    }

    /// Tokens are good that were made and not revoked.
    fn verify_tokens(&self, member: &Member<'_>) -> Result<(), String> {
        let tokens = self.clients.iter().flat_map(|client| &client.tokens);
        let good = tokens.map(|(_, token)| token).take(1);
        let revoked = self.clients.iter().filter_map(|client| client.revoked.last()).take(TRIED);
        let all = good.map(|token| (token, true)).chain(revoked.map(|token| (token, false)));
        for (token, is_good) in all {
            if lets_in(member, token) != is_good {
                return Err(format!("of a token that is good ({is_good}) the contrary is so"));
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for counts in self.clients.iter().map(|client| client.counts) {
            all.changes += counts.changes;
            all.transactions += counts.transactions;
            all.repeats += counts.repeats;
            all.conflicts += counts.conflicts;
            all.completed += counts.completed;
            all.cut_off = [0, 1].map(|at| all.cut_off[at] + counts.cut_off[at]);
        }
        all
    }
}

/// Whether a member lets in over TLS whoever has this token.
fn lets_in(member: &Member<'_>, token: &str) -> bool {
    let line = member.lines.iter().find_map(|line| line.strip_prefix("api address="));
    let (address, sha256) = line.and_then(|it| it.split_once(" sha256=")).expect("a line");
    let file = member.home.path("token");
    fs::write(&file, token).expect("it can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let (url, file) = (format!("https://{address}"), file.display().to_string());
    let way = ["--server", &url, "--token-file", &file, "--fingerprint", sha256];
    let output = finish(&mut drystone(&[&["volume", "list"][..], &way].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_in = output.status.success();
    assert!(is_in || said.contains("the login is not right"), "{said}");
    is_in
}

#[test]
fn what_was_answered_as_set_is_set_after_kill_9() {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_DEFAULT, |text| text.parse().expect(ROUNDS));
    let home = Home::files(4, "128M");
    let member = home.start(&[LISTEN]);
    let mut known = Known::new(&member);
    known.load(member);
    for round in 1..=rounds {
        let mut cut_starts = 0;
        while fastrand::bool() && cut_starts < 3 {
            cut_starts += 1;
            home.start_and_kill(&[LISTEN], Duration::from_millis(fastrand::u64(START_MS)));
        }
        let member = home.start(&[LISTEN]);
        if let Err(what) = known.verify(&member) {
            panic!("after crash {round} and {cut_starts} more while it started: {what}");
        }
        if round < rounds {
            known.load(member);
        } else {
            assert_eq!(member.json(&["array", "check"])["problems"], json!([]));
            member.stop();
        }
    }
    let Counts { changes, transactions, repeats, conflicts, cut_off, completed } = known.counts();
    let [made, not_made] = cut_off;
    println!(
        "{rounds} crashes: {changes} changes of settings, {transactions} of several things, {repeats} sent again, \
         {conflicts} refused as stale; under way {made} were made, {not_made} not, {completed} volumes completed; \
         {} counted, {} keys, checkpoint {}; {} answered changes were too late for the audit log",
        known.counter.acknowledged,
        known.registered.acknowledged,
        known.checkpoint,
        known.not_audited
    );
    // In two rounds the member may have been killed before it answered anything.
    assert!(rounds < 5 || changes > 0 && cut_off != [0, 0], "there was no load");
}
