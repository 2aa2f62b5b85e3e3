//! What somebody learns at the portal who has no business there, and two homes at one member.

use initiator::{Session, discover};

use super::*;

#[test]
fn a_stranger_learns_no_names_and_is_not_let_in() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let portal = portal_address(holder.address());
        let bare = SessionOptions::new(name("stranger"));
        assert!(discover(&portal, &bare).await.is_err(), "nobody may discover");
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        assert!(discover(&portal, &bare).await.is_err());
        assert!(discover(&portal, &session_options(&opening)).await.is_err(), "not even the home");
        // Who has heard the name has no secret, and guesses none.
        let named = |target: &str| {
            TargetAddress::new(portal.clone(), IscsiName::parse(target).expect("a name"))
        };
        for target in [opening.target.as_str(), "iqn.2026-11.dev.drystone:other"] {
            assert!(Session::open(&named(target), bare.clone()).await.is_err(), "{target}");
        }
        assert_eq!(holder.sessions(), 0);
    });
}

#[test]
fn nobody_is_let_in_without_digests() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        let target = IscsiName::parse(&opening.target).expect("a name");
        let address = TargetAddress::new(portal_address(opening.portal), target);
        let mut options = session_options(&opening);
        options.limits.data_digest = DigestPolicy::Refuse;
        assert!(Session::open(&address, options.clone()).await.is_err());
        options.limits.data_digest = DigestPolicy::Allow;
        assert!(Session::open(&address, options).await.is_ok());
    });
}

#[test]
fn a_slice_without_an_opening_lets_nobody_in() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        let port = holder.go();
        holder.come(port);
        assert!(attach(&opening).await.is_err(), "it was open in an earlier life of the member");
        assert_eq!(holder.served().list(), [(slice, false)]);
    });
}

#[test]
fn two_homes_have_their_slices_each() {
    let holder = Holder::start();
    let (mine, other) = (ram(), ram());
    let (of_home, of_other) = (holder.hold(HOME, &mine), holder.hold(OTHER, &other));
    on_core(async move {
        let start = |slice: &SliceId, home| {
            let asks = Asks { holder: holder.clone(), slice: slice.clone(), home, life: LIFE };
            SliceLink::start(&ring::remote(ring::core_id()), Arc::new(asks), options())
        };
        let (one, two) = (start(&of_home, HOME), start(&of_other, OTHER));
        write(&one, 0, 1).await;
        write(&two, 0, 2).await;
        assert!(read(&*mine, 0).await == block(0, 1) && read(&*other, 0).await == block(0, 2));
        let thief = start(&of_other, HOME);
        until("it is refused", || {
            thief.trouble().is_some_and(|(_, why)| why.contains("is opened for the home"))
        })
        .await;
        write(&two, 0, 3).await;
        let port = holder.go();
        holder.come(port);
        write(&one, 0, 4).await;
        write(&two, 0, 5).await;
        assert!(read(&*mine, 0).await == block(0, 4) && read(&*other, 0).await == block(0, 5));
    });
}
