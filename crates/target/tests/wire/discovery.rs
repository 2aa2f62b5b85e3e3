//! SendTargets (RFC 7143 §13.3, appendix C): what an initiator learns before and after it logs in.

use std::net::SocketAddr;

use crate::common::{IQN, Login, Rig, config, ram};

fn pair(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

fn record(portals: &[SocketAddr]) -> Vec<(String, String)> {
    let mut record = vec![pair("TargetName", IQN)];
    record.extend(portals.iter().map(|portal| pair("TargetAddress", format!("{portal},1"))));
    record
}

#[test]
fn a_discovery_session_finds_the_target_by_all_and_by_name() {
    let rig = Rig::ram();
    let mut session = Login::discovery().connect(rig.portal()).unwrap();
    assert_eq!(session.text("SendTargets=All"), record(&[rig.portal()]));
    assert_eq!(session.text(&format!("SendTargets={IQN}")), record(&[rig.portal()]));
    assert_eq!(session.text("SendTargets=iqn.2026-11.example:nobody"), []);
    // Empty means "the target of this session", which a discovery session does not have.
    assert_eq!(session.text("SendTargets="), [pair("SendTargets", "Reject")]);
    assert_eq!(rig.server().sessions(), 0, "discovery is no I_T nexus");
}

#[test]
fn a_normal_session_learns_about_its_own_target_only() {
    let rig = Rig::ram();
    let mut session = rig.login();
    assert_eq!(session.text("SendTargets="), record(&[rig.portal()]));
    assert_eq!(session.text(&format!("SendTargets={IQN}")), record(&[rig.portal()]));
    assert_eq!(session.text("SendTargets=All"), [pair("SendTargets", "Reject")]);
    let other = session.text("SendTargets=iqn.2026-11.example:nobody");
    assert_eq!(other, [pair("SendTargets", "Reject")]);
    assert_eq!(rig.server().sessions(), 1);
}

#[test]
fn a_wildcard_portal_announces_the_address_that_was_reached() {
    let mut config = config([ram()]);
    config.portals = vec!["0.0.0.0:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    let rig = Rig::start(config);
    let [any, v6] = rig.server().portals() else { panic!("two portals") };
    for reached in ["127.0.0.1", "127.0.0.2"] {
        let reached = SocketAddr::new(reached.parse().unwrap(), any.port());
        let mut session = Login::discovery().connect(reached).unwrap();
        assert_eq!(session.text("SendTargets=All"), record(&[reached, *v6]));
    }
}

#[test]
fn ipv6_portals_stand_in_brackets() {
    let mut config = config([ram()]);
    config.portals = vec!["[::1]:0".parse().unwrap()];
    let rig = Rig::start(config);
    let mut session = Login::discovery().connect(rig.portal()).unwrap();
    let expected = format!("[::1]:{},1", rig.portal().port());
    assert_eq!(session.text("SendTargets=All")[1], pair("TargetAddress", expected));
    rig.ready("host").expect_alive();
}

#[test]
fn an_answer_longer_than_a_segment_comes_in_pieces() {
    let mut config = config([ram()]);
    config.portals = vec!["127.0.0.1:0".parse().unwrap(); 40];
    let rig = Rig::start(config);
    let mut finder = Login::discovery();
    finder.limits.max_recv_data_segment_len_bytes = 512;
    let mut session = finder.connect(rig.portal()).unwrap();
    assert_eq!(session.text("SendTargets=All"), record(rig.server().portals()));
}
