//! A group is made and grows.

use serde_json::Value;

use crate::common::member::Member;
use crate::sites::{
    PATIENCE, Site, await_all, await_event, await_store, await_volume, create, group_name, join,
    make, sites, volumes, wait_for,
};

/// What each member says of all of them: number, name, door and portals.
fn listed(member: &Member<'_>) -> Vec<[Value; 4]> {
    let list = member.json(&["member", "list"]);
    let all = list.as_array().expect("a list").iter();
    all.map(|one| ["number", "name", "door", "portals"].map(|key| one[key].clone())).collect()
}

#[test]
fn three_servers_become_one_group_that_each_of_them_tells_of() {
    let sites = sites();
    let [a, b, c] = sites.each_ref().map(Site::start);
    a.run(&["volume", "create", "vm-a", "16M"]);
    for alone in [&["group", "show"][..], &["member", "list"], &["group", "volumes"]] {
        let said = a.refused(alone);
        assert!(said.contains("in no group"), "{alone:?}: {said}");
    }
    let made = create(&a, &sites[0]);
    assert_eq!((&made["name"], &made["member"]), (&"san1".into(), &"a".into()), "{made}");
    assert_eq!((&made["members"], &made["door"]), (&1.into(), &sites[0].listen().into()));
    let again = a.refused(&["group", "create", "other", "--listen", &sites[0].listen()]);
    assert!(again.contains("in the group 'san1' already"), "{again}");

    let joined = join(&b, &sites[1], (&a, &sites[0]));
    assert_eq!((&joined["id"], &joined["member"]), (&made["id"], &"b".into()), "{joined}");
    wait_for("b is there", PATIENCE, || match group_of(&b) {
        (members, away) if members == 2 && away == 0 => Ok(()),
        known => Err(format!("{known:?}")),
    });
    // Any member lets others in.
    join(&c, &sites[2], (&b, &sites[1]));
    for member in [&a, &b, &c] {
        await_all(member);
    }
    await_store(&c, &["a", "b", "c"]);
    wait_for("each runs one etcd", PATIENCE, || {
        match sites.each_ref().map(|it| it.etcds().len()) {
            [1, 1, 1] => Ok(()),
            numbers => Err(format!("{numbers:?}")),
        }
    });
    make(&b, "b", "vm-b");
    is_told_by_each([&a, &b, &c], &sites.each_ref().map(Site::listen));
    await_event(&a, "group_created");
    await_event(&b, "group_joined");
    await_event(&a, "member_joined");

    c.run(&["group", "rename", "san2"]);
    for member in [&a, &b, &c] {
        wait_for("each knows the new name", PATIENCE, || match group_name(member) {
            name if name == "san2" => Ok(()),
            name => Err(name),
        });
        wait_for("its status says so", PATIENCE, || match member.home.ask(&["status"]).1 {
            status if status.contains("san2: 3 members, all are there; this one is") => Ok(()),
            status => Err(status),
        });
    }
    for member in [a, b, c] {
        member.stop();
    }
    sites.iter().for_each(Site::await_no_etcd);
}

/// How many members there are, and how many are away.
fn group_of(member: &Member<'_>) -> (u64, usize) {
    let group = member.json(&["group", "show"]);
    let away = group["away"].as_array().expect("a list").len();
    (group["members"].as_u64().expect("a number"), away)
}

/// All say the same of the three members and of their two volumes.
fn is_told_by_each(members: [&Member<'_>; 3], doors: &[String; 3]) {
    let portals = members.map(|member| member.portal().to_string());
    let number = |at: usize| Value::from(at + 1);
    let wanted: Vec<[Value; 4]> = ["a", "b", "c"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let portals = vec![portals[at].clone()];
            [number(at), name.into(), doors[at].clone().into(), portals.into()]
        })
        .collect();
    for (at, member) in members.into_iter().enumerate() {
        await_volume(member, "vm-a", "a", true);
        await_volume(member, "vm-b", "b", true);
        assert_eq!(volumes(member).expect("it answers").len(), 2);
        wait_for("all portals are known", PATIENCE, || match listed(member) {
            list if list == wanted => Ok(()),
            list => Err(format!("{list:?}")),
        });
        let list = member.json(&["member", "list"]);
        let mut here = list.as_array().expect("a list").iter().filter(|one| one["here"] == true);
        assert_eq!(here.next().expect("one was asked")["number"], number(at), "{list}");
        assert!(here.next().is_none(), "{list}");
    }
    let list = members[2].json(&["group", "volumes"]);
    let mut all = list.as_array().expect("a list").iter();
    let found = all.find(|one| one["name"] == "vm-b").expect("it is there");
    assert_eq!(found["iqn"], members[1].iqn("vm-b"), "{list}");
    assert_eq!(found["size_bytes"], 16 << 20, "{list}");
}
