//! The server and the client with a member that does what a test wants.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use api::client::{Client, ClientError, is_taken};
use api::problem::{Code, Problem};
use api::server::{Ask, Config, Done, Follower, Notifications, Server};
use api::types::{ArrayWork, JobKind, RunState};
use array::api::{CheckReport, JobInfo, SnapshotInfo, SpaceInfo};
use futures_util::FutureExt;
use group::accounts::Logins;
use member::{
    Answer, ArrayRequest, Asker, CurrentAddress, CurrentDestinations, CurrentDoor, CurrentRoll,
    Logs, Request, RequestError, SetRequest, Snapshot, SnapshotRequest, VolumeRequest, Wish,
};

/// What is left without an answer.
type Held = Arc<Mutex<Vec<(Follower, Done)>>>;

/// Answers about jobs, scrubs with three steps, lists snapshots and counts those of [`COUNTED`], fails to show volumes,
/// and holds all else.
struct Fake(Held);

fn job(done_bytes: u64) -> JobInfo {
    let (kind, subject) = (array::api::JobKind::Scrub, "all".to_owned());
    JobInfo { kind, subject, done_bytes, total_bytes: 3, rate_bytes: 0 }
}

/// A volume whose snapshots are counted at once.
const COUNTED: &str = "counted";

fn snapshot(volume: &str, name: &str, space: Option<SpaceInfo>) -> Snapshot {
    let json = serde_json::json!({
        "id": 1, "volume": volume, "name": name, "size_bytes": 1, "created_unix_seconds": 1,
        "online": false, "access": "read-only", "view_id": null, "deleting": false,
    });
    let info: SnapshotInfo = serde_json::from_value(json).expect("a snapshot");
    Snapshot { info, iqn: None, space }
}

/// A member tells without waiting for anything here.
fn tell(follower: &Follower, jobs: Vec<JobInfo>) -> bool {
    follower.tell(jobs).now_or_never().expect("it does not wait")
}

impl Ask for Fake {
    fn ask(&self, request: Request, follower: Follower, done: Done) {
        match request {
            Request::Array(ArrayRequest::Jobs) => done(Ok(Answer::Jobs(vec![job(1)]))),
            Request::Array(ArrayRequest::Scrub) => drop(thread::spawn(move || {
                for step in 1..=3 {
                    assert!(tell(&follower, vec![job(step)]), "a run listens");
                    thread::sleep(Duration::from_millis(100));
                }
                done(Ok(Answer::Report(CheckReport { pages: 7, ..CheckReport::default() })));
            })),
            Request::Array(ArrayRequest::Check) => done(Err(RequestError::NoResult)),
            Request::Volume(VolumeRequest::Show { name }) => {
                done(Err(RequestError::NoSuchVolume(name)));
            }
            Request::Snapshot(SnapshotRequest::List { volume }) => {
                let volume = volume.unwrap_or_else(|| "a".to_owned());
                let all = ["x", "y", "z"].map(|name| snapshot(&volume, name, None));
                done(Ok(Answer::Snapshots(all.to_vec())));
            }
            Request::Snapshot(SnapshotRequest::Count { snapshots })
                if snapshots[0].0 == COUNTED =>
            {
                // So many were counted. One of them has gone meanwhile.
                let unique_bytes = snapshots.len() as u64;
                let space = Some(SpaceInfo { unique_bytes, ..SpaceInfo::default() });
                let there = snapshots.iter().filter(|(_, name)| name != "z");
                let there = there.map(|(volume, name)| snapshot(volume, name, space));
                done(Ok(Answer::Snapshots(there.collect())));
            }
            // What it asks of itself.
            Request::Set(SetRequest::List) => done(Ok(Answer::Sets(Vec::new()))),
            // Of another kind than it should be.
            Request::Connections => done(Ok(Answer::Done)),
            _ => self.0.lock().expect("no test has failed").push((follower, done)),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Some(Arc::default())
    }
}

/// A server of a fake member, and what it holds.
fn serve(socket: &Path, connections_max: usize) -> (Server, Held) {
    let held = Held::default();
    let sentence: fn(&RequestError) -> String = |error| format!("{error}: see elsewhere");
    let logs = Logs::open(socket.parent().expect("it lies in a directory")).expect("threads");
    let config = Config {
        socket: socket.to_owned(),
        connections_max,
        sentence,
        logs,
        advice: |_| String::new(),
        notifications: Notifications {
            destinations: CurrentDestinations::default(),
            statuses: notify::Statuses::default(),
            sender: notify::Sender::new("0", |_| String::new(), |_| String::new()),
        },
        tls: Ok(None),
        door: CurrentDoor::default(),
        roll: CurrentRoll::default(),
        group_address: CurrentAddress::default(),
    };
    (Server::start(config, Fake(held.clone())).expect("it can be started"), held)
}

fn code(error: &ClientError) -> Option<Code> {
    match error {
        ClientError::Problem(problem) => Some(problem.code),
        _ => None,
    }
}

#[test]
fn a_run_is_followed_to_its_end_and_tells_what_it_found_or_why_it_failed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, _held) = serve(&socket, 8);
    let client = Client::new(socket.clone());
    let mut seen = Vec::new();
    let report = client.run(ArrayWork::Scrub, |_| {}, &mut |jobs| {
        seen.extend(jobs.iter().map(|job| job.done_bytes));
    });
    let ended = report.unwrap();
    assert_eq!((ended.state, ended.report.map(|it| it.pages)), (RunState::Done, Some(7)));
    assert_eq!(seen, [1, 2, 3]);
    let failed = client.run(ArrayWork::Check, |_| {}, &mut |_| {}).unwrap_err();
    assert_eq!(code(&failed), Some(Code::Unavailable));
    assert_eq!(failed.to_string(), "the work ended without a result: see elsewhere");
    server.stop();
}

#[test]
fn refusals_are_the_sentences_of_whoever_started_it() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, _held) = serve(&socket, 8);
    let client = Client::new(socket.clone());
    let refused = client.volume("a/../b").unwrap_err();
    assert_eq!(refused.to_string(), "there is no volume 'a/../b': see elsewhere");
    assert_eq!(code(&client.connections().unwrap_err()), Some(Code::Failed));
    assert_eq!(client.jobs().unwrap()[0].total_bytes, 3);
    server.stop();
    assert!(
        matches!(client.jobs().unwrap_err(), ClientError::Nobody(place) if place == socket.to_string_lossy())
    );
}

#[test]
fn who_has_asked_is_not_put_out_and_the_others_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 2);
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let client = Client::new(socket.clone());
            thread::spawn(move || client.volumes())
        })
        .collect();
    while held.lock().unwrap().len() < 2 {
        thread::yield_now();
    }
    let client = Client::new(socket.clone());
    assert_eq!(code(&client.jobs().unwrap_err()), Some(Code::TooBusy));
    for (_, done) in held.lock().unwrap().drain(..) {
        done(Ok(Answer::Volumes(Vec::new())));
    }
    for one in waiting {
        assert_eq!(one.join().unwrap().unwrap(), []);
    }
    client.jobs().unwrap();
    server.stop();
}

#[test]
fn a_stop_waits_two_seconds_for_answers_and_long_work_hears_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 8);
    let client = Client::new(socket.clone());
    let waits = thread::spawn(move || client.wait_for(&[JobKind::Rebuild], &mut |_| {}));
    let client = Client::new(socket.clone());
    let asks = thread::spawn(move || client.volumes());
    while held.lock().unwrap().len() < 2 {
        thread::yield_now();
    }
    let silent = UnixStream::connect(&socket).unwrap();
    let ending = held.clone();
    let ends = thread::spawn(move || {
        // As a member does: what can be ended is, what cannot goes on.
        let is_ending =
            || ending.lock().unwrap().iter().any(|(asker, _)| asker.wish() == Wish::End);
        while !is_ending() {
            thread::sleep(Duration::from_millis(10));
        }
        let mut held = ending.lock().unwrap();
        let at = held.iter().position(|(asker, _)| tell(asker, Vec::new())).expect("it listens");
        (held.remove(at).1)(Err(RequestError::StoppingWatch));
    });
    let begun = Instant::now();
    server.stop();
    let took = begun.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    ends.join().unwrap();
    assert_eq!(code(&waits.join().unwrap().unwrap_err()), Some(Code::Stopping));
    assert!(matches!(asks.join().unwrap().unwrap_err(), ClientError::Ended(_)));
    assert!(!socket.exists());
    drop(silent);
}

#[test]
fn work_that_nobody_follows_any_more_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 8);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /v1/jobs/stream HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    while held.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    let listens = || tell(&held.lock().unwrap()[0].0, vec![job(1)]);
    assert!(listens());
    let mut head = [0; 256];
    assert!(stream.read(&mut head).unwrap() > 0);
    drop(stream);
    let end = Instant::now() + Duration::from_secs(10);
    while listens() {
        assert!(Instant::now() < end, "nobody is there");
        thread::sleep(Duration::from_millis(10));
    }
    server.stop();
}

#[test]
fn those_that_follow_work_leave_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 4);
    let follow = || {
        let client = Client::new(socket.clone());
        thread::spawn(move || client.wait_for(&[JobKind::Rebuild], &mut |_| {}))
    };
    let following = [follow(), follow()];
    while held.lock().unwrap().len() < 2 {
        thread::yield_now();
    }
    let refused = follow().join().unwrap().unwrap_err();
    assert_eq!(code(&refused), Some(Code::TooBusy));
    Client::new(socket.clone()).jobs().unwrap();
    for (_, done) in held.lock().unwrap().drain(..) {
        done(Ok(Answer::Done));
    }
    for one in following {
        one.join().unwrap().unwrap();
    }
    let again = follow();
    while held.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    (held.lock().unwrap().remove(0).1)(Ok(Answer::Done));
    again.join().unwrap().unwrap();
    server.stop();
}

/// Sends a request and does not wait for its answer.
fn send(socket: &Path, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    stream
}

/// The head of an answer and its body.
fn whole(mut stream: UnixStream) -> (String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer to its end");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    (head.to_ascii_lowercase(), body.to_owned())
}

/// Each keeps a core and much memory busy, so that whoever asks and leaves must not begin more of them. Who asks by
/// the socket is one for all.
#[test]
fn one_walk_of_each_who_asks_is_at_work_at_once_whoever_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 16);
    let at_work = || held.lock().unwrap().len();
    let wait_for_one = || {
        let begun = Instant::now();
        while at_work() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "none begins");
            thread::sleep(Duration::from_millis(5));
        }
        // One too many would be there in this time.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(at_work(), 1);
    };
    let walks = ["/v1/snapshots?space=true", "/v1/volumes/a/changes"];
    let first = send(&socket, walks[0]);
    wait_for_one();
    let [gone, next, last] = [1, 0, 1].map(|which| send(&socket, walks[which]));
    wait_for_one();
    // Of the one that is at work, and of one that waits, nobody is there any more.
    drop((first, gone));
    wait_for_one();
    Client::new(socket.clone()).jobs().expect("others are not kept waiting");
    let end_one = || (held.lock().unwrap().remove(0).1)(Err(RequestError::NoResult));
    end_one();
    wait_for_one();
    end_one();
    wait_for_one();
    end_one();
    drop(next);
    let (head, body) = whole(last);
    assert!(head.contains("application/problem+json"), "{head}");
    assert!(body.contains("the work ended without a result: see elsewhere"), "{body}");
    let again = send(&socket, walks[0]);
    wait_for_one();
    end_one();
    drop(again);
    server.stop();
}

/// All that are on other pages would be counted for nothing, for each page anew.
#[test]
fn what_is_on_a_page_is_counted_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, _held) = serve(&socket, 4);
    let ask = |words: &str| {
        let (head, body) = whole(send(&socket, &format!("/v1/snapshots?volume={COUNTED}{words}")));
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let of =
            |one: &serde_json::Value| (one["name"].clone(), one["space"]["unique_bytes"].clone());
        let all: Vec<_> = body.as_array().expect("a list").iter().map(of).collect();
        let next =
            head.split_once("page=").map(|(_, rest)| rest.split('>').next().unwrap().to_owned());
        (serde_json::json!(all), next)
    };
    let (shown, next) = ask("&space=true&limit=1");
    assert_eq!(shown, serde_json::json!([["x", 1]]));
    let (shown, last) = ask(&format!("&space=true&limit=2&page={}", next.expect("there are more")));
    assert_eq!((shown, last), (serde_json::json!([["y", 2]]), None));
    assert_eq!(ask("&limit=1").0, serde_json::json!([["x", null]]));
    server.stop();
}

/// Reads until this has come.
fn read_until(stream: &mut UnixStream, wanted: &str) -> String {
    let (mut text, mut piece) = (String::new(), [0; 16 << 10]);
    while !text.contains(wanted) {
        let len = stream.read(&mut piece).expect("it goes on");
        assert!(len > 0, "it has ended: {text}");
        text.push_str(&String::from_utf8_lossy(&piece[..len]));
    }
    text
}

#[test]
fn figures_are_asked_for_while_somebody_follows_them_and_no_sooner_than_told() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 4);
    let asked = || held.lock().unwrap().len();
    let wait_for = || {
        while asked() == 0 {
            thread::yield_now();
        }
        (held.lock().unwrap().remove(0).1)(Ok(Answer::Figures(Box::default())));
    };
    let mut stream = send(&socket, "/v1/figures/stream");
    wait_for();
    let begun = Instant::now();
    let text = read_until(&mut stream, "}\n\n");
    assert!(text.contains("event: figures\ndata: {\"latency_bounds_us\":["), "{text}");
    assert!(text.to_ascii_lowercase().contains("content-type: text/event-stream"), "{text}");
    while asked() == 0 {
        thread::yield_now();
    }
    let took = begun.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(5)).contains(&took), "{took:?}");
    // Of one that is slow to answer no more is asked, and nobody is told that it lives.
    stream.set_read_timeout(Some(Duration::from_millis(2500))).unwrap();
    assert!(stream.read(&mut [0; 64]).is_err(), "there is nothing to tell");
    assert_eq!(asked(), 1);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    wait_for();
    read_until(&mut stream, "}\n\n");

    // They have places among those who follow events, and give them back.
    let mut other = send(&socket, "/v1/figures/stream?interval_seconds=3600");
    read_until(&mut other, "200 OK");
    let (head, _) = whole(send(&socket, "/v1/figures/stream"));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    drop((stream, other));
    thread::sleep(Duration::from_millis(500));
    held.lock().unwrap().clear();
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(asked(), 0, "nobody follows them");
    let again = send(&socket, "/v1/figures/stream");
    wait_for();
    drop(again);
    server.stop();
}

/// Why it ends is the last that is told.
#[test]
fn figures_that_are_not_there_end_what_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, held) = serve(&socket, 4);
    let stream = send(&socket, "/v1/figures/stream");
    while held.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    (held.lock().unwrap().remove(0).1)(Err(RequestError::NoResult));
    let (_, body) = whole(stream);
    assert!(body.contains("event: problem\ndata: {"), "{body}");
    assert!(body.contains("the work ended without a result: see elsewhere"), "{body}");
    server.stop();
}

#[test]
fn one_too_many_who_follows_events_is_told_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (server, _held) = serve(&socket, 4);
    let begin = || {
        let mut stream = send(&socket, "/v1/events/stream");
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        (stream, String::from_utf8_lossy(&first).into_owned())
    };
    let following = [begin(), begin()];
    assert!(following.iter().all(|(_, first)| first == "HTTP/1.1 200"), "{following:?}");
    let (head, body) = whole(send(&socket, "/v1/events/stream"));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    let problem: Problem = serde_json::from_str(&body).unwrap();
    assert_eq!(problem.code, Code::TooBusy);
    assert_eq!(
        problem.detail,
        "as much work is followed as can be at once: ask for it now and then instead, or try again when others \
         have ended"
    );
    drop(following);
    let end = Instant::now() + Duration::from_secs(10);
    while begin().1 != "HTTP/1.1 200" {
        assert!(Instant::now() < end, "there is room again");
        thread::sleep(Duration::from_millis(50));
    }
    server.stop();
}

#[test]
fn a_socket_is_taken_while_somebody_answers_there() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    assert!(!is_taken(&socket));
    // Left behind by one that was killed.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(!is_taken(&socket));
    let (server, _held) = serve(&socket, 8);
    assert!(is_taken(&socket));
    server.stop();
    assert!(!is_taken(&socket));
}

/// A page with this body, and the way to the next one.
fn page_of(link: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{link}content-length: {}\r\n\r\n{body}", body.len())
}

/// A member that is asked for these paths in their order.
fn answer_in_turn(socket: &Path, answers: Vec<(&'static str, String)>) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    thread::spawn(move || {
        for (path, answer) in answers {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut asked = [0; 4096];
            let len = stream.read(&mut asked).expect("a request");
            let asked = String::from_utf8_lossy(&asked[..len]).into_owned();
            assert!(asked.starts_with(&format!("GET {path}")), "{asked}");
            stream.write_all(answer.as_bytes()).expect("it is taken");
        }
    })
}

#[test]
fn users_are_asked_for_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let users = |users: &[&str], mutual: &str| {
        let user = |name: &str| serde_json::json!({"user": name, "usable": true});
        let users: Vec<_> = users.iter().map(|name| user(name)).collect();
        serde_json::json!({"users": users, "mutual": user(mutual)}).to_string()
    };
    let next = "link: </v1/chap?page=2>; rel=\"next\"\r\n";
    let answers = vec![
        ("/v1/chap ", page_of(next, &users(&["al", "bo"], "before"))),
        ("/v1/chap?page=2 ", page_of("", &users(&["cy"], "now"))),
    ];
    let member = answer_in_turn(&socket, answers);
    let all = Client::new(socket).chap_users().unwrap();
    let names: Vec<&str> = all.users.iter().map(|user| user.user.as_str()).collect();
    assert_eq!((names, all.mutual.unwrap().user.as_str()), (vec!["al", "bo", "cy"], "now"));
    member.join().unwrap();
}

#[test]
fn a_list_that_changes_between_two_pages_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let page = |link: &str, jobs: &[JobInfo]| {
        let jobs: Vec<api::types::Job> = jobs.iter().cloned().map(Into::into).collect();
        page_of(link, &serde_json::to_string(&jobs).unwrap())
    };
    let next = "link: </v1/jobs?page=2>; rel=\"next\"\r\n";
    let gone = serde_json::to_string(&Problem::new(Code::PageGone, "it has changed")).unwrap();
    let gone = format!("HTTP/1.1 410 Gone\r\ncontent-length: {}\r\n\r\n{gone}", gone.len());
    let answers = vec![
        ("/v1/jobs ", page(next, &[job(1)])),
        ("/v1/jobs?page=2 ", gone),
        ("/v1/jobs ", page(next, &[job(2)])),
        ("/v1/jobs?page=2 ", page("", &[job(3)])),
    ];
    let member = answer_in_turn(&socket, answers);
    let jobs = Client::new(socket).jobs().unwrap();
    assert_eq!(jobs.iter().map(|job| job.done_bytes).collect::<Vec<_>>(), [2, 3]);
    member.join().unwrap();
}

#[test]
fn what_answers_and_is_no_member_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let other = thread::spawn(move || {
        for answer in ["what?\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", ""] {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let client = Client::new(socket);
    for _ in 0..2 {
        let error = client.jobs().unwrap_err();
        assert!(matches!(error, ClientError::Strange { .. }), "{error}");
    }
    let error = client.jobs().unwrap_err();
    assert!(matches!(error, ClientError::Ended(_)), "{error}");
    other.join().unwrap();
}
