//! A portal that servers have by turns: hosts find what any of them has, and none stays there.

use std::net::SocketAddr;
use std::sync::Arc;

use iscsi::pdu::LoginStatus;
use target::{Access, FloatingPortal, RemoteTarget, ShownTo};

use crate::common::{IQN, Login, NoLogin, Rig, UNAVAILABLE, config, on_core, ram};

const OTHERS: &str = "iqn.2026-11.dev.drystone:others";

fn to(target: &str) -> Login {
    Login { target: Some(target.to_owned()), ..Login::new("host") }
}

fn moved(portal: SocketAddr) -> Option<NoLogin> {
    Some(NoLogin::Moved { address: portal.to_string(), is_temporary: true })
}

/// Another address of this machine with the same port.
fn beside(portal: SocketAddr) -> SocketAddr {
    SocketAddr::new([127, 0, 0, 77].into(), portal.port())
}

/// The server takes what comes to the address, whose own portals are these.
fn float(rig: &Rig, address: SocketAddr, own: &[SocketAddr]) {
    rig.server().targets().set_floating(Some(FloatingPortal { address, own: Arc::from(own) }));
}

/// Listens there until the server ends.
fn listen(rig: &Rig, address: SocketAddr) -> bool {
    on_core(rig.server(), move |targets| async move {
        let listener = targets.listen_floating(address).unwrap();
        let has_own = listener.is_some();
        std::mem::forget(listener);
        has_own
    })
}

#[test]
fn a_login_at_a_floating_portal_is_sent_to_the_server_that_has_the_target() {
    let rig = Rig::start(config([ram()]));
    let floating = beside(rig.portal());
    assert!(listen(&rig, floating), "its portal is another address");
    float(&rig, floating, &[rig.portal()]);
    assert_eq!(to(IQN).connect(floating).err(), moved(rig.portal()));
    assert_eq!(rig.server().sessions(), 0, "nobody stays");
    to(IQN).connect(rig.portal()).expect("there it is served");

    // What others have is with them, and what nobody has is nowhere.
    let other: SocketAddr = "127.0.0.9:3260".parse().unwrap();
    let shown_to = Some(ShownTo::new(Access::everyone()).unwrap());
    let remote = RemoteTarget { portals: Arc::from([other]), portal_group: 7, shown_to };
    rig.server().targets().set_elsewhere([(OTHERS.to_owned(), remote)].into());
    assert_eq!(to(OTHERS).connect(floating).err(), moved(other));
    assert_eq!(
        to("iqn.2026-11.dev.drystone:no").connect(floating).err(),
        Some(NoLogin::Refused(LoginStatus::NOT_FOUND))
    );

    // Discovery tells of the portals of each, and of the floating one never.
    let told = Login::discovery().connect(floating).unwrap().text("SendTargets=All");
    let address =
        |portal: SocketAddr, group: u16| ("TargetAddress".to_owned(), format!("{portal},{group}"));
    let name = |iqn: &str| ("TargetName".to_owned(), iqn.to_owned());
    let wanted = [name(IQN), address(rig.portal(), 1), name(OTHERS), address(other, 7)];
    assert_eq!(told, wanted);

    // Where the server itself is not reached by its own portals it is nowhere for now.
    float(&rig, floating, &[]);
    assert_eq!(to(IQN).connect(floating).err(), Some(UNAVAILABLE));
    let told = Login::discovery().connect(floating).unwrap().text("SendTargets=All");
    assert_eq!(told, wanted[2..]);

    // An address that floats no more is one as any.
    rig.server().targets().set_floating(None);
    to(IQN).connect(floating).expect("it is a portal of this server");
}

#[test]
fn a_floating_portal_is_left_by_who_drops_it_and_a_wide_portal_is_one_already() {
    let mut wide = config([ram()]);
    wide.portals = vec!["0.0.0.0:0".parse().unwrap()];
    let rig = Rig::start(wide);
    let port = rig.portal().port();
    let floating = SocketAddr::new([127, 0, 0, 77].into(), port);
    assert!(!listen(&rig, floating), "it listens there");
    let own = SocketAddr::new([127, 0, 0, 1].into(), port);
    float(&rig, floating, &[own]);
    assert_eq!(to(IQN).connect(floating).err(), moved(own));
    to(IQN).connect(own).expect("that is its own");

    let rig = Rig::start(config([ram()]));
    let floating = beside(rig.portal());
    let is_reached = on_core(rig.server(), move |targets| async move {
        let listener = targets.listen_floating(floating).unwrap();
        let is_reached = ring::blocking(move || std::net::TcpStream::connect(floating).is_ok());
        let is_reached = is_reached.await;
        drop(listener);
        is_reached
    });
    assert!(is_reached);
    // Its core closes it in its next turn.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::net::TcpStream::connect(floating).is_ok() {
        assert!(std::time::Instant::now() < end, "it still listens");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
