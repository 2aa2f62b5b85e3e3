//! Changes that are cut off, refused or given up, and those that are done.

use super::*;
use crate::running::tests::wait_until;

fn grow(rig: &Rig, pages: u64) -> Result<Answer, RequestError> {
    spread(rig, SpreadRequest::Grow { name: "vm".to_owned(), size_bytes: pages * PAGE })
}

#[test]
fn a_volume_grows_with_its_slices_while_it_is_used() {
    let mut lab = Lab::new(2, 160);
    let plan = lab.make("vm");
    let id = plan.id.clone();
    write(lab.home(), &id, 0..PAGES, 1);
    let smaller = grow(lab.home(), 1).expect_err("it is smaller").to_string();
    assert!(smaller.contains("cannot be made smaller"), "{smaller}");
    let Ok(Answer::Spread(shown)) = grow(lab.home(), 9) else { panic!("it does not grow") };
    assert!(matches!(shown.record.stage, SpreadStage::Growing { .. }));
    assert_eq!(listed(lab.home()), [("vm".to_owned(), PAGES * PAGE)], "not before all have");
    assert_eq!(lab.drive(&id), Ok(SpreadStep::Rest));
    assert_eq!(listed(lab.home()), [("vm".to_owned(), 9 * PAGE)]);
    write(lab.home(), &id, PAGES..9, 1);
    check(lab.home(), &id, 0..9, 1);
    // One whose member is away keeps its size, also where some slices have grown: those stay as large as they are.
    lab.stop(1);
    grow(lab.home(), 12).expect("it begins");
    assert!(matches!(lab.drive(&id), Ok(SpreadStep::Ask { .. })));
    spread(lab.home(), SpreadRequest::GiveUp { id: id.clone() }).expect("nobody waits");
    assert_eq!(lab.drive(&id), Ok(SpreadStep::Rest));
    lab.come(1);
    check(lab.home(), &id, 0..9, 1);
    grow(lab.home(), 12).expect("it begins");
    let larger = lab.order(&plan, 1, Order::Grow { to_bytes: 12 * PAGE });
    spread(lab.rig(1), lab.letter(larger)).expect("it grows");
    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    assert_eq!(lab.drive(&id), Ok(SpreadStep::Rest), "who starts anew gives it up");
    assert_eq!(listed(lab.home()), [("vm".to_owned(), 9 * PAGE)]);
    check(lab.home(), &id, 0..9, 1);
    lab.end();
}

#[test]
fn what_a_member_refuses_is_given_up_and_leaves_nothing() {
    let lab = Lab::new(2, 163);
    let plan = lab.plan("vm");
    let name = hidden_name(&plan.id);
    // Nothing is stored of it there: it is not taken for the slice.
    lab.rig(1).with(async move |member| {
        let spec = VolumeSpec { name, ..volume("x") };
        member.array().create_volume_offline(spec).await.expect("a volume");
    });
    spread(lab.home(), SpreadRequest::Make { plan: Box::new(plan.clone()) }).expect("it begins");
    let why = lab.drive(&plan.id).expect_err("one refuses");
    assert!(why.contains("nothing is stored of it here"), "{why}");
    assert_eq!(listed(lab.home()), [], "it was never there");
    // It says that it has gone when what is in the way has.
    lab.rig(1).with({
        let name = hidden_name(&plan.id);
        async move |member| {
            member.array().delete_volume(&name).await.expect("it is in the bin");
            member.array().purge_volume(&name).await.expect("it goes");
        }
    });
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    assert!(!has_slice(lab.home(), &plan.id) && spreads(lab.home()).is_empty());
    lab.make("vm");
    lab.end();
}

#[test]
fn what_is_half_made_is_for_nobody_and_goes_when_its_home_starts_anew() {
    let mut lab = Lab::new(2, 166);
    let plan = lab.plan("vm");
    spread(lab.home(), SpreadRequest::Make { plan: Box::new(plan.clone()) }).expect("it begins");
    let Ok(Answer::SpreadStep(SpreadStep::Ask { letters })) =
        spread(lab.home(), SpreadRequest::Step { id: plan.id.clone() })
    else {
        panic!("nobody is asked");
    };
    assert_eq!(letters.len(), 1, "the own slice is there");
    spread(lab.rig(1), lab.letter(letters[0].2.clone())).expect("it is made");
    assert!(has_slice(lab.home(), &plan.id) && has_slice(lab.rig(1), &plan.id));
    assert_eq!((listed(lab.home()), targets(lab.home())), (Vec::new(), Vec::new()));
    let show = VolumeRequest::Show { name: "vm".to_owned() };
    let why = volume_of(lab.home(), show).expect_err("it is not there").to_string();
    assert!(why.contains("is being made"), "{why}");
    let create = VolumeRequest::Create(volume("vm"));
    volume_of(lab.home(), create).expect_err("its name is taken");
    lab.stop(0);
    lab.come(0);
    assert_eq!((listed(lab.home()), targets(lab.home())), (Vec::new(), Vec::new()));
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    assert!(!has_slice(lab.home(), &plan.id) && !has_slice(lab.rig(1), &plan.id));
    lab.end();
}

#[test]
fn a_slice_goes_only_when_its_home_has_it_open_no_more() {
    let lab = Lab::new(2, 169);
    let plan = lab.make("vm");
    let id = plan.id.clone();
    write(lab.home(), &id, 0..PAGES, 1);
    let served = || {
        lab.rig(1).with(async |member| {
            member.spreads.portal.slices().map(|slices| slices.list()).unwrap_or_default()
        })
    };
    assert_eq!(served(), [(plan.seats[1].slice.clone(), true)]);
    spread(lab.rig(1), lab.letter(lab.order(&plan, 1, Order::Go))).expect("its home says so");
    assert_eq!(served(), [], "nobody has it");
    assert!(!has_slice(lab.rig(1), &id));
    // It is asked for again, and does not come back as an empty one.
    let grow = lab.order(&plan, 1, Order::Grow { to_bytes: 9 * PAGE });
    let why = refused(lab.rig(1), lab.letter(grow));
    assert!(why.contains("nothing can be made larger"), "{why}");
    assert_eq!(read_at(lab.home(), &id, PAGE), Err(BlockError::Unreachable));
    lab.end();
}

#[test]
fn slices_go_behind_what_hosts_have_under_way() {
    let mut lab = Lab::new(2, 172);
    let plan = lab.make("vm");
    let id = plan.id.clone();
    write(lab.home(), &id, 0..PAGES, 1);
    // A deletion that is cut off goes on.
    set_online(lab.home(), "vm", false);
    delete(lab.home(), "vm").expect("it is offline");
    lab.stop(1);
    assert!(matches!(lab.drive(&id), Ok(SpreadStep::Ask { .. })), "one is silent");
    assert!(!has_slice(lab.home(), &id), "the own one goes first");
    lab.stop(0);
    lab.come(0);
    assert_eq!(listed(lab.home()), []);
    assert!(matches!(lab.drive(&id), Ok(SpreadStep::Ask { .. })), "it is silent yet");
    lab.come(1);
    assert!(has_slice(lab.rig(1), &id), "nothing has told it");
    assert_eq!(lab.says(&plan, 1), HomeSays::Have(spreads(lab.home())[0].record.stage));
    assert_eq!(lab.drive(&id), Ok(SpreadStep::Forgotten));
    assert!(!has_slice(lab.rig(1), &id));
    lab.end();
}
