//! Hosts that ask a member for a volume of another one.

use crate::common::member::Member;
use crate::common::run;
use crate::host::Host;
use crate::sites::{
    PATIENCE, Site, await_alone, await_volume, create, join, make, remove, sites, wait_for,
};

/// What a host hears that asks this member for a target.
fn heard(member: &Member<'_>, iqn: &str) -> String {
    match Host::log_in(member.portal(), iqn, 1, &[0]) {
        Ok(_) => "served".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Waits until a host hears this.
#[track_caller]
fn await_heard(member: &Member<'_>, iqn: &str, wanted: &str) {
    wait_for(wanted, PATIENCE, || match heard(member, iqn) {
        said if said.contains(wanted) => Ok(()),
        said => Err(said),
    });
}

#[test]
fn a_host_that_asks_any_member_is_sent_to_the_one_that_has_its_volume() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    a.run(&["volume", "create", "vm-a", "16M"]);
    b.run(&["volume", "create", "vm", "16M"]);
    let (of_a, of_b) = (a.iqn("vm-a"), b.iqn("vm"));
    assert_ne!(of_a, of_b, "names of targets say of which array they are");
    assert!(heard(&a, &of_b).contains("target not found"), "{}", heard(&a, &of_b));
    create(&a, &site_a);
    join(&b, &site_b, (&a, &site_a));
    await_heard(&a, &of_b, &format!("redirected to {}", b.portal()));
    await_heard(&b, &of_a, &format!("redirected to {}", a.portal()));
    assert_eq!((heard(&a, &of_a), heard(&b, &of_b)), ("served".to_owned(), "served".to_owned()));
    a_host_follows(&a, &b, &of_b);

    // A volume that is offline is one of b's all the same: b tells its hosts to come back.
    b.run(&["volume", "offline", "vm", "--yes"]);
    await_heard(&b, &of_b, "service unavailable");
    assert_eq!(heard(&a, &of_b), format!("redirected to {}", b.portal()));
    b.run(&["volume", "delete", "vm", "--yes"]);
    await_heard(&b, &of_b, "target not found");
    await_heard(&a, &of_b, "target not found");

    // One that is new is known soon, also by who began alone.
    make(&b, "b", "next");
    await_volume(&a, "next", "b", true);
    await_heard(&a, &b.iqn("next"), &format!("redirected to {}", b.portal()));
    gone_is_gone(&a, &site_b, &b);
}

/// A host of this project's own: what it writes by way of `asked` lies on `owner`.
fn a_host_follows(asked: &Member<'_>, owner: &Member<'_>, iqn: &str) {
    let url = format!("iscsi://{}/{iqn}", asked.portal());
    let on = ["lab", "fio", "--on", &url, "--overwrite", "--validate-after", "--json", "--"];
    let output = run(&[&on[..], &["--rw=write", "--bs=64k", "--size=4m"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut host = Host::log_in(owner.portal(), iqn, 1, &[0]).expect("it is served there");
    let read = host.run(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0], 4096, &[]).expect("an answer");
    assert!(read.is_good() && read.data.iter().any(|byte| *byte != 0), "it was written there");
}

/// Who is in no group any more is told of nowhere.
fn gone_is_gone(a: &Member<'_>, site_b: &Site, b: &Member<'_>) {
    let next = b.iqn("next");
    remove(a, &["b"]);
    await_alone(b);
    site_b.await_no_etcd();
    await_heard(a, &next, "target not found");
    assert_eq!(heard(b, &next), "served");
}
