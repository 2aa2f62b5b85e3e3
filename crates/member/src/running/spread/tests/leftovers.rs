//! Slices that nobody asks for, and what is left where records are lost or members go.

use super::*;
use crate::group_request::GroupRequest;
use crate::running::tests::wait_until;
use crate::spread_request::SliceFate;

fn fate(rig: &Rig) -> SliceFate {
    slices(rig).remove(0).fate
}

fn discard(rig: &Rig, slice: &SliceId) -> Result<Answer, RequestError> {
    spread(rig, SpreadRequest::Discard { slice: slice.clone() })
}

#[test]
fn a_slice_goes_by_the_word_of_its_home_and_by_no_other() {
    let lab = Lab::new(3, 175);
    let plan = lab.make("vm");
    let (home, other, slice) = (lab.members[0], lab.members[2], plan.seats[1].slice.clone());
    assert_eq!(lab.says(&plan, 1), HomeSays::Have(SpreadStage::Whole));
    for heard in [None, Some((other, HomeSays::Gone)), Some((home, lab.says(&plan, 1)))] {
        lab.hear(&plan, 1, heard);
        assert_eq!(fate(lab.rig(1)), SliceFate::Kept, "{heard:?}");
    }
    let why = discard(lab.rig(1), &slice).expect_err("it is needed").to_string();
    assert!(why.contains("it is not known that nobody needs it"), "{why}");
    // One that was made behind the end of its volume: nobody waits for it.
    let late = lab.plan("late");
    let make = lab.order(&late, 1, Order::Make { size_bytes: PAGES * PAGE });
    spread(lab.rig(1), lab.letter(make.clone())).expect("a late order");
    spread(lab.rig(1), lab.letter(make)).expect("it is done");
    assert!(has_slice(lab.rig(1), &late.id));
    assert_eq!(lab.says(&late, 1), HomeSays::Gone);
    lab.hear(&late, 1, Some((home, HomeSays::Gone)));
    assert!(!has_slice(lab.rig(1), &late.id));
    assert_eq!(slices(lab.rig(1)).len(), 1, "the other one is there");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    lab.end();
}

/// What says whose pages lie where is lost, and the pages are not.
#[test]
fn a_home_without_its_records_serves_nothing_and_has_nothing_deleted() {
    let lab = Lab::new(2, 178);
    let lost = lab.plan("lost");
    let name = hidden_name(&lost.id);
    lab.home().with(async move |member| {
        let spec = VolumeSpec { name, ..volume("x") };
        member.array().create_volume(spec).await.expect("a volume");
        member.settle().await;
    });
    assert_eq!((listed(lab.home()), targets(lab.home())), (Vec::new(), Vec::new()));
    let make = lab.order(&lost, 1, Order::Make { size_bytes: PAGES * PAGE });
    spread(lab.rig(1), lab.letter(make)).expect("it was asked for before");
    assert_eq!(lab.says(&lost, 1), HomeSays::Unread, "the own slice is there");
    lab.hear(&lost, 1, Some((lab.members[0], HomeSays::Unread)));
    assert!(has_slice(lab.rig(1), &lost.id));
    let SliceFate::LeftOver(why) = fate(lab.rig(1)) else { panic!("it is not told") };
    assert!(why.contains("cannot read what it has stored"), "{why}");
    let refusal = discard(lab.rig(1), &lost.seats[1].slice).expect_err("it may be mended");
    assert!(refusal.to_string().contains("mend the settings there"), "{refusal}");
    // While nothing can be read nothing is said, and nothing is served.
    let plan = lab.make("vm");
    lab.home().with(async |member| {
        let turn = member.settings().hold().await;
        member.settings().fail_unread().await;
        drop(turn);
        member.serving().apply_access().await;
        member.serving().settle().await;
    });
    assert_eq!(lab.says(&plan, 1), HomeSays::Unread);
    assert_eq!(targets(lab.home()), Vec::<String>::new(), "who may use it is not known");
    lab.end();
}

/// Its member keeps it, for no home.
#[test]
fn a_member_that_cannot_read_what_it_has_opens_nothing() {
    let lab = Lab::new(2, 181);
    let plan = lab.make("vm");
    lab.rig(1).with(async |member| {
        let _turn = member.settings().hold().await;
        member.settings().fail_unread().await;
    });
    refused(lab.rig(1), lab.open(&plan, 1, lab.members[0]));
    refused(lab.rig(1), lab.letter(lab.order(&plan, 1, Order::Go)));
    assert!(has_slice(lab.rig(1), &plan.id));
    assert_eq!((listed(lab.rig(1)), targets(lab.rig(1))), (Vec::new(), Vec::new()));
    lab.end();
}

#[test]
fn a_member_with_slices_stays_in_its_group_unless_somebody_says_otherwise() {
    let lab = Lab::new(3, 184);
    let plan = lab.make("vm");
    let remove = |at: usize, asked: usize, despite_spreads: bool| {
        let member = NAMES[asked].to_owned();
        let remove = GroupRequest::Remove { member, despite_moves: false, despite_spreads };
        lab.rig(at).ask(Request::Group(remove))
    };
    let why = remove(0, 1, false).expect_err("it has a slice").to_string();
    assert!(why.contains("it has a slice of the spread volume 'vm'"), "{why}");
    // A member that has only heard of it says the same.
    wait_until("it has heard", || {
        lab.rig(2).with(async |member| {
            let roll = member.membership().roll_now().expect("it is in a group");
            let mut all = roll.inventories.values().flat_map(|inventory| &inventory.spreads);
            all.any(|spread| spread.members.len() == 3)
        })
    });
    let why = remove(2, 0, false).expect_err("it is the home").to_string();
    assert!(why.contains("it is the home of the spread volume 'vm'"), "{why}");
    let why = remove(2, 1, false).expect_err("it has a slice").to_string();
    assert!(why.contains("it has a slice of the spread volume 'vm'"), "{why}");
    remove(0, 1, true).expect("it may be lost");
    wait_until("it knows", || {
        matches!(fate(lab.rig(1)), SliceFate::LeftOver(_))
            && lab.rig(1).with(async |member| member.spreads.portal.slices().is_none())
    });
    assert!(has_slice(lab.rig(1), &plan.id), "nobody has said that it goes");
    let why = refused(lab.rig(1), lab.open(&plan, 1, lab.members[0]));
    assert!(why.contains("this server is another member now"), "{why}");
    // The volume can be given up: what is left of it there an operator deletes.
    set_online(lab.home(), "vm", false);
    delete(lab.home(), "vm").expect("it is offline");
    let forget = |slice: u8| SpreadRequest::ForgetSeat { id: plan.id.clone(), slice };
    let why = refused(lab.home(), forget(2));
    assert!(why.contains("is a member of the group"), "{why}");
    lab.drive(&plan.id).expect_err("it is another member now");
    spread(lab.home(), forget(1)).expect("it is none any more");
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    discard(lab.rig(1), &plan.seats[1].slice).expect("nobody needs it");
    assert!(!has_slice(lab.rig(1), &plan.id));
    lab.end();
}

/// Numbers of members say nothing outside of it.
#[test]
fn a_home_that_is_in_its_group_no_more_serves_nothing_of_it() {
    let lab = Lab::new(2, 192);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    let (member, despite_spreads) = (NAMES[0].to_owned(), true);
    let remove = GroupRequest::Remove { member, despite_moves: true, despite_spreads };
    lab.rig(1).ask(Request::Group(remove)).expect("it may be lost");
    wait_until("it has left", || {
        lab.home().with(async |member| member.serving().spread().who().is_none())
    });
    wait_until("it is not served", || targets(lab.home()).is_empty());
    assert_eq!(listed(lab.home()), []);
    assert!(!spreads(lab.home())[0].is_of);
    assert!(has_slice(lab.home(), &plan.id), "it is kept for an operator");
    let unserved = plan.id.clone();
    lab.home().with(async move |member| {
        assert!(member.serving().spread().device(&unserved).is_err());
    });
    assert_eq!(lab.says(&plan, 1), HomeSays::OtherGroup);
    wait_until("it is shut", || {
        lab.rig(1).with(async |member| {
            let slices = member.spreads.portal.slices();
            slices.is_none_or(|slices| slices.list().is_empty())
        })
    });
    refused(lab.rig(1), lab.open(&plan, 1, lab.members[0]));
    lab.hear(&plan, 1, Some((lab.members[0], HomeSays::OtherGroup)));
    wait_until("it has heard", || matches!(fate(lab.rig(1)), SliceFate::LeftOver(_)));
    assert!(has_slice(lab.rig(1), &plan.id), "an operator decides");
    discard(lab.rig(1), &plan.seats[1].slice).expect("it is left over");
    assert!(!has_slice(lab.rig(1), &plan.id));
    // What is left of it at its home goes when somebody says so.
    delete(lab.home(), "vm").expect("nobody uses it");
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Rest), "nobody is asked");
    assert!(!has_slice(lab.home(), &plan.id));
    let forget = SpreadRequest::ForgetSeat { id: plan.id.clone(), slice: 1 };
    spread(lab.home(), forget).expect("it is nobody of its group");
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    lab.end();
}

/// As after settings that were given up.
#[test]
fn a_slice_of_which_nothing_is_stored_is_for_nobody_until_it_is_purged() {
    let lab = Lab::new(2, 194);
    let (kept, lost) = (lab.make("kept"), lab.plan("lost"));
    let name = hidden_name(&lost.id);
    lab.rig(1).with(async move |member| {
        let spec = VolumeSpec { name, ..volume("x") };
        member.array().create_volume(spec).await.expect("a volume");
        member.settle().await;
    });
    assert_eq!((listed(lab.rig(1)), targets(lab.rig(1))), (Vec::new(), Vec::new()));
    refused(lab.rig(1), lab.open(&lost, 1, lab.members[0]));
    let why = refused(lab.rig(1), lab.letter(lab.order(&lost, 1, Order::Go)));
    assert!(why.contains("nothing is stored of it here"), "{why}");
    let purge = |at: usize, plan: &SpreadPlan| {
        volume_of(lab.rig(at), VolumeRequest::Purge { name: hidden_name(&plan.id) })
    };
    for at in [0, 1] {
        let why = purge(at, &kept).expect_err("it is one that is known").to_string();
        assert!(why.contains("keeps for itself"), "{why}");
    }
    purge(1, &lost).expect("nobody needs it");
    assert!(!has_slice(lab.rig(1), &lost.id) && has_slice(lab.rig(1), &kept.id));
    spread(lab.rig(1), lab.letter(lab.order(&lost, 1, Order::Go))).expect("it has gone");
    write(lab.home(), &kept.id, 0..PAGES, 1);
    check(lab.home(), &kept.id, 0..PAGES, 1);
    lab.end();
}

/// Its array was lost, and made anew: what lies there now says nothing of what it had.
#[test]
fn a_home_with_another_array_has_nothing_deleted() {
    let mut lab = Lab::new(2, 198);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    lab.stop(0);
    let (old, new) = (lab.path().join("home"), lab.path().join("new"));
    copy_all(&old.join("data/group"), &new.join("data/group"));
    std::fs::rename(&old, lab.path().join("lost")).expect("it is lost");
    std::fs::rename(&new, &old).expect("it is another one");
    lab.come(0);
    assert_ne!(lab.says(&plan, 1), HomeSays::Gone, "before anything is heard");
    wait_until("it has heard of its group", || {
        lab.home().with(async |member| member.membership().roll_now().is_ok())
    });
    assert_ne!(lab.says(&plan, 1), HomeSays::Gone);
    lab.hear(&plan, 1, Some((lab.members[0], lab.says(&plan, 1))));
    assert!(has_slice(lab.rig(1), &plan.id));
    let other = SpreadRequest::Make { plan: Box::new(lab.plan("other")) };
    let why = refused(lab.home(), other);
    assert!(why.contains("is another member of it"), "{why}");
    lab.end();
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it reads");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("it reads").is_dir() {
            true => copy_all(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("it is copied")),
        }
    }
}

/// Both would be one target to hosts, and each a volume of its own.
#[test]
fn a_name_is_one_volume_in_the_group() {
    let lab = Lab::new(2, 196);
    let create =
        |at: usize, name: &str| volume_of(lab.rig(at), VolumeRequest::Create(volume(name)));
    create(1, "db").expect("nobody has it");
    let plan = SpreadPlan {
        spec: VolumeSpec { name: "DB".to_owned(), ..lab.plan("x").spec },
        ..lab.plan("x")
    };
    let why = refused(lab.home(), SpreadRequest::Make { plan: Box::new(plan) });
    assert!(why.contains("'left'"), "{why}");
    let plan = SpreadPlan { online: false, ..lab.plan("vm") };
    let make = || SpreadRequest::Make { plan: Box::new(plan.clone()) };
    spread(lab.home(), make()).expect("it begins");
    spread(lab.home(), make()).expect("it has begun");
    assert!(create(1, "vm").is_err() && create(0, "Vm").is_err());
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Rest));
    assert!(targets(lab.home()).is_empty(), "it is offline, as was asked for");
    assert!(create(1, "vm").is_err());
    set_online(lab.home(), "vm", true);
    assert_eq!(targets(lab.home()).len(), 1);
    lab.end();
}

#[test]
fn the_last_member_does_not_end_a_group_that_its_volumes_are_of() {
    let lab = Lab::new(1, 188);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    let end = || lab.home().ask(Request::Group(GroupRequest::Delete));
    let why = end().expect_err("it is the home").to_string();
    assert!(why.contains("is the home of the spread volume 'vm'"), "{why}");
    set_online(lab.home(), "vm", false);
    delete(lab.home(), "vm").expect("it is offline");
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    end().expect("nothing is left");
    lab.end();
}
