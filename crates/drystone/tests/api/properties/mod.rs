//! Requests made from the OpenAPI document, by the thousand and by chance, against a real member: whatever is
//! asked, the answer is one of those that the document gives, and none tells of a fault of the member.
//!
//! `DRYSTONE_API_SECONDS` says how long (default: 20), `DRYSTONE_API_SEED` which history of requests. What a
//! request meets depends on those before it and on time, so that a history is printed rather than made
//! smaller: each fault with its request.

mod request;
mod values;

use crate::common::drystone;
use crate::common::member::Home;
use crate::document::{Document, name_of};
use crate::http::{self, Reply};
use fastrand::Rng;
use request::Request;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use values::Values;

/// How many faults are told of in full.
const FAULTS_SHOWN: usize = 20;

/// Requests between two looks at what there is.
const REQUESTS_OF_A_LOOK: u64 = 100;

fn number(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Sends a request and hears the answer; of one that does not end, what comes with its head.
fn ask(socket: &Path, request: &Request) -> Result<Reply, String> {
    let mut stream = http::connect(socket);
    // One that is refused early may be closed before all was sent.
    drop(stream.write_all(&request.bytes()));
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(&piece[..len]),
            Err(error) if bytes.is_empty() => return Err(format!("no answer: {error}")),
            Err(_) => break,
        }
        if let Some((head, said)) = followed(&bytes) {
            return Ok(Reply::of(&head, &said));
        }
    }
    if bytes.is_empty() {
        return Err("the connection was closed without an answer".to_owned());
    }
    Ok(Reply::parse(&bytes))
}

/// The head and the rest, where it is a stream of events.
fn followed(bytes: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, rest) = text.split_once("\r\n\r\n")?;
    head.contains("text/event-stream").then(|| (head.to_owned(), rest.to_owned()))
}

/// What a run finds.
struct Client {
    document: Document,
    faults: BTreeMap<String, (u64, String)>,
    /// How often each operation was answered by which status.
    statuses: BTreeMap<(String, u16), u64>,
}

impl Client {
    /// Judges the answer to a request.
    fn judge(&mut self, operation: &Value, request: &Request, answer: Result<Reply, String>) {
        let name = name_of(operation);
        let outcome = answer.and_then(|reply| {
            *self.statuses.entry((name.clone(), reply.status)).or_default() += 1;
            let told =
                |fault: String| format!("{} {fault}: {}", reply.status, short(&reply.text()));
            self.fault(operation, request, &reply).map_err(told)
        });
        if let Err(fault) = outcome {
            let kind: String = fault.chars().take(90).collect();
            let shown = format!("{fault}\n    {}", request.shown());
            let found = self.faults.entry(format!("{name}: {kind}")).or_insert((0, shown));
            found.0 += 1;
        }
    }

    fn fault(&mut self, operation: &Value, request: &Request, reply: &Reply) -> Result<(), String> {
        self.document.fits(operation, reply)?;
        if reply.status >= 500 && !is_fair(reply) {
            return Err("is a fault of the member".to_owned());
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let (Some(body), true) = (&request.json, schema.is_object()) else { return Ok(()) };
        let wrong = self.document.faults(schema, body);
        if !wrong.is_empty() && reply.status < 300 {
            return Err(format!("was done, against the document: {wrong:?}"));
        }
        // To a schema -0 and 1.0 are whole numbers, too; docs/api.md says how those are written.
        let text = reply.text();
        let does_not_read =
            text.contains("the body does not read") && !text.contains("floating point");
        if wrong.is_empty() && does_not_read {
            return Err("does not read, and is as the document says".to_owned());
        }
        Ok(())
    }

    fn tell(&self, asked: u64, seed: u64) {
        let mut by_status = BTreeMap::<u16, u64>::new();
        for ((_, status), count) in &self.statuses {
            *by_status.entry(*status).or_default() += count;
        }
        let done: BTreeSet<&String> = self
            .statuses
            .keys()
            .filter(|(_, status)| *status < 300)
            .map(|(name, _)| name)
            .collect();
        eprintln!("{asked} requests of seed {seed}: {by_status:?}, {} operations done", done.len());
        let shown: Vec<String> = self.faults.iter().take(FAULTS_SHOWN).map(of_fault).collect();
        assert!(
            shown.is_empty(),
            "seed {seed}, {} kinds:\n{}",
            self.faults.len(),
            shown.join("\n")
        );
        assert!(done.len() > 40, "most operations did what they are for: {done:?}");
    }
}

fn of_fault((kind, (count, shown)): (&String, &(u64, String))) -> String {
    format!("{count} times {kind}\n    {shown}")
}

fn short(text: &str) -> String {
    text.chars().take(400).collect()
}

/// Answers of 5xx that are about the request: there is not the space, or as much is under way as may be.
fn is_fair(reply: &Reply) -> bool {
    let code = reply.check_problem().unwrap_or_default();
    [(507, "no-space"), (503, "too-busy")].contains(&(reply.status, code.as_str()))
}

/// Names of what there is now, so that requests meet it.
fn names(socket: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for list in ["volumes", "snapshots", "policies", "schedules", "accounts", "tokens", "runs"] {
        let reply = http::ask(socket, "GET", &format!("/v1/{list}?limit=20"), &[], None);
        let all = reply.json();
        let of = |one: &Value| one["name"].as_str().or(one["id"].as_str()).map(str::to_owned);
        names.extend(all.as_array().into_iter().flatten().filter_map(of));
    }
    names.truncate(60);
    names
}

/// What requests are to meet from the beginning.
fn furnish(socket: &Path) {
    let make = |path: &str, body: Value| {
        let reply = http::ask(socket, "POST", path, &[], Some(&body));
        assert!(reply.status < 300, "{path}: {}", reply.text());
    };
    make("/v1/volumes", json!({"name": "a", "size_bytes": 64 << 20}));
    make("/v1/volumes", json!({"name": "b", "size_bytes": 16 << 20}));
    make("/v1/snapshots", json!({"volumes": ["a", "b"], "name": "c"}));
    make("/v1/chap", json!({"user": "a", "secret": "hush-hush-hush"}));
    make("/v1/policies", json!({"name": "a"}));
}

#[test]
fn no_request_made_from_the_document_finds_a_fault_or_an_answer_that_it_does_not_give() {
    let (seconds, seed) = (number("DRYSTONE_API_SECONDS", 20), number("DRYSTONE_API_SEED", 1));
    let home = Home::files(5, "256M");
    // What is taken for the path of a disk by chance is made in there.
    let line = home.command_line(&["--raid", "raid6"]);
    let mut command = drystone(&line.iter().map(String::as_str).collect::<Vec<_>>());
    command.current_dir(home.path("."));
    let member = home.start_by(command);
    let socket = home.socket();
    furnish(&socket);
    let shown = crate::ask(&member, "GET", "/v1/openapi.json", None);
    let document = Document::new(shown.json());
    let operations = document.operations();
    let mut client = Client { document, faults: BTreeMap::new(), statuses: BTreeMap::new() };
    let (mut rng, mut asked, mut known) = (Rng::with_seed(seed), 0, Vec::new());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if asked % REQUESTS_OF_A_LOOK == 0 {
            known = names(&socket);
        }
        let operation = rng.choice(&operations).expect("there are operations");
        let values = Values { document: &client.document, names: &known };
        let request = Request::made(&values, &mut rng, operation);
        client.judge(&operation.2, &request, ask(&socket, &request));
        asked += 1;
    }
    client.tell(asked, seed);
    member.stop();
}
