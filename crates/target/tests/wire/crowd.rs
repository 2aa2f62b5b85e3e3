//! Logins that wait for a disk that hangs, and what they hold meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{BHS_LEN_BYTES, LoginRequest, LoginStatus, NopOut, RESERVED_TAG, Stage};
use target::Config;

use crate::common::{
    Command, Connection, IQN, Login, NoLogin, PATIENCE, Queues, Rig, config, faulty, wait_until,
};

fn with_hung_disk(change: impl Fn(&mut Config)) -> (Rig, FaultyDisk, Connection) {
    let (disk, device) = faulty();
    let mut config = config([device]);
    change(&mut config);
    let rig = Rig::start(config);
    let mut host = rig.ready("hung");
    disk.inject(Rule::always(Operation::Read, Fault::Hang));
    host.issue(&Command::read(0, 1));
    wait_until("the read is at the disk", || disk.held() == 1);
    (rig, disk, host)
}

/// Asks for the session of `hung` in one request, and does not wait for the answer.
fn ask(rig: &Rig) -> TcpStream {
    let text = format!("InitiatorName=iqn.2026-11.example:hung\0TargetName={IQN}\0");
    let request = LoginRequest {
        is_immediate: true,
        is_transit: true,
        is_continued: false,
        stage: Stage::OPERATIONAL,
        next_stage: Stage::FULL_FEATURE,
        version_max: 0,
        version_min: 0,
        total_ahs_words: 0,
        data_segment_len_bytes: u32::try_from(text.len()).unwrap(),
        isid: [0x80, 0, 0, 1, 0, 0],
        tsih: 0,
        itt: 3,
        cid: 0,
        cmd_sn: 1,
        exp_stat_sn: 0,
    };
    let mut bytes = request.to_bhs().bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut stream = TcpStream::connect(rig.portal()).unwrap();
    stream.write_all(&bytes).unwrap();
    stream
}

#[test]
fn who_goes_away_while_it_waits_holds_no_connection() {
    let (rig, disk, mut host) = with_hung_disk(|config| config.limits.connections = 3);
    let waits = ask(&rig);
    host.expect_closed();
    let _a = Login::new("a").from(2).connect(rig.portal()).unwrap();
    let _b = Login::new("b").from(3).connect(rig.portal()).unwrap();
    let further = Login::new("c").from(4);
    assert!(further.connect(rig.portal()).is_err());
    drop(waits);
    // Long before its time to log in is over.
    wait_until("there is room", || further.connect(rig.portal()).is_ok());
    disk.heal();
    disk.release();
}

#[test]
fn a_connection_that_takes_the_place_of_another_does_not_wait_for_ever() {
    let (rig, disk, host) = with_hung_disk(|config| {
        config.limits.login_timeout = Duration::from_millis(300);
    });
    let begun = Instant::now();
    let joined = Login::new("hung").joining(&host, 0).connect(rig.portal());
    let took = begun.elapsed();
    assert_eq!(joined.err(), Some(NoLogin::Refused(LoginStatus::SERVICE_UNAVAILABLE)));
    assert!(took < PATIENCE / 2, "{took:?}");
    disk.heal();
    disk.release();
    wait_until("its session is lost", || rig.server().sessions() == 0);
}

/// Each try is answered when the next one has taken its place, however many there are.
#[test]
fn the_last_of_many_tries_gets_the_session() {
    let (rig, disk, mut host) = with_hung_disk(|_| ());
    let mut before = ask(&rig);
    host.expect_closed();
    for _ in 0..300 {
        let next = ask(&rig);
        before.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0; BHS_LEN_BYTES];
        before.read_exact(&mut answer).unwrap();
        assert_eq!(answer[36..38], LoginStatus::SERVICE_UNAVAILABLE.0.to_be_bytes());
        before = next;
    }
    disk.heal();
    disk.release();
    let mut answer = [0; BHS_LEN_BYTES];
    before.read_exact(&mut answer).unwrap();
    assert_eq!(answer[36..38], [0, 0], "the last one has the session");
    assert_eq!(rig.server().sessions(), 1);
}

/// Each ping is as long as its answer: what is in no socket is with the target.
#[test]
fn little_is_kept_for_a_discovery_session_that_does_not_read() {
    let rig = Rig::ram();
    let greedy = Login::discovery().connect(rig.portal()).unwrap();
    let mut socket = greedy.socket();
    socket.set_nonblocking(true).unwrap();
    let ping = NopOut {
        is_immediate: true,
        data_segment_len_bytes: 8 << 10,
        lun: 0,
        itt: 7,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    };
    let pdu = [&ping.to_bhs().bytes()[..], &[0; 8 << 10]].concat();
    let (mut sent, mut full) = (0, 0);
    while full < 100 {
        match socket.write(&pdu[sent % pdu.len()..]) {
            Ok(bytes) => (sent, full) = (sent + bytes, 0),
            Err(_) => {
                full += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    let queues = Queues::of(&greedy);
    let in_sockets = || {
        let all = [queues.at_host(), queues.at_target()];
        all.into_iter().flatten().sum::<usize>()
    };
    wait_until("nothing moves any more", || {
        let before = in_sockets();
        std::thread::sleep(Duration::from_millis(100));
        before == in_sockets()
    });
    // What is on its way to be acknowledged is in the queues of both sides.
    let kept = sent.saturating_sub(in_sockets());
    assert!(kept < 1 << 20, "{kept} of {sent} bytes are kept");
}
