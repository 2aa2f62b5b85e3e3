//! A volume from its beginning to its end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::running::tests::wait_until;

#[test]
fn a_volume_lies_on_three_members_and_outlives_each() {
    let mut lab = Lab::new(3, 150);
    let plan = lab.make("vm");
    let id = plan.id.clone();
    assert_eq!(listed(lab.home()), [("vm".to_owned(), PAGES * PAGE)]);
    let iqns = targets(lab.home());
    assert!(iqns.len() == 1 && iqns[0].ends_with(":vm"), "{iqns:?}");
    for at in [1, 2] {
        assert_eq!(listed(lab.rig(at)), [], "a slice is no volume");
        assert!(targets(lab.rig(at)).is_empty(), "nobody is served a slice by its member");
        assert!(slices(lab.rig(at))[0].not_served.is_none());
    }
    write(lab.home(), &id, 0..PAGES, 1);
    check(lab.home(), &id, 0..PAGES, 1);
    // Over a border, in one piece.
    let over = PAGE - 2 * BLOCK as u64;
    let written = id.clone();
    lab.home().with(async move |member| {
        write_at(&member, &written, (over, blocks(over, 4, 1))).await.expect("it is written");
    });
    check(lab.home(), &id, 0..PAGES, 1);
    for at in 0..3 {
        assert_eq!(pages_written(&lab, &plan, at), [at as u64, at as u64 + 3], "at member {at}");
    }
    // A member restarts: what was written is there, and what is written waits for it.
    lab.stop(1);
    assert_eq!(read_at(lab.home(), &id, 0), Ok(()), "the others' pages are there");
    lab.come(1);
    check(lab.home(), &id, 0..PAGES, 1);
    write(lab.home(), &id, 0..PAGES, 2);
    // The home restarts: the former opening of each slice ends with it.
    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &id, 0..PAGES, 2);
    write(lab.home(), &id, 0..PAGES, 3);
    check(lab.home(), &id, 0..PAGES, 3);
    gone_for_good(&lab, &plan);
    lab.end();
}

/// The pages of which the slice of a member has the first block.
fn pages_written(lab: &Lab, plan: &SpreadPlan, at: usize) -> Vec<u64> {
    let name = hidden_name(&plan.id);
    lab.rig(at).with(async move |member| {
        let device = member.array().device(&name).expect("it is there");
        let mut written = Vec::new();
        for page in 0..PAGES {
            let found = device.read(page * PAGE, BLOCK).await.expect("it is read");
            let mut bytes = vec![0; BLOCK];
            found.copy_to(0, &mut bytes);
            if bytes == block(page * PAGE, 1) {
                written.push(page);
            }
        }
        written
    })
}

/// It is deleted, and nothing of it is left anywhere.
fn gone_for_good(lab: &Lab, plan: &SpreadPlan) {
    let home = lab.home();
    let refused = delete(home, "vm").expect_err("hosts may use it").to_string();
    assert!(refused.contains("is online: take it offline first"), "{refused}");
    set_online(home, "vm", false);
    assert!(targets(home).is_empty());
    let Ok(Answer::Spread(shown)) = delete(home, "vm") else { panic!("it is not deleted") };
    assert!(matches!(shown.record.stage, SpreadStage::Going { .. }));
    assert_eq!(listed(home), [], "it is served to nobody any more");
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten), "who asks again hears the same");
    for at in 0..3 {
        assert!(!has_slice(lab.rig(at), &plan.id), "at member {at}");
        assert!(slices(lab.rig(at)).is_empty() && spreads(lab.rig(at)).is_empty());
    }
    // Its name is free.
    let create = || volume_of(home, VolumeRequest::Create(volume("vm")));
    wait_until("the name is given back", || create().is_ok());
}

#[test]
fn a_slice_that_is_away_hurts_its_own_pages_only() {
    let mut lab = Lab::new(2, 154);
    let plan = lab.make("vm");
    let id = plan.id.clone();
    write(lab.home(), &id, 0..PAGES, 1);
    lab.stop(1);
    check(lab.home(), &id, 0..1, 1);
    let begun = std::time::Instant::now();
    assert_eq!(read_at(lab.home(), &id, PAGE), Err(BlockError::Unreachable));
    assert!(begun.elapsed() < PATIENCE * 3, "it does not wait for ever");
    check(lab.home(), &id, 3..4, 1);
    let trouble = |lab: &Lab| spreads(lab.home())[0].slices[1].trouble.clone();
    let (_, why) = trouble(&lab).expect("it is away");
    assert!(why.contains("away"), "{why}");
    // The home starts while it is away: the volume is served.
    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &id, 0..1, 1);
    lab.come(1);
    wait_until("it is back", || trouble(&lab).is_none());
    check(lab.home(), &id, 0..PAGES, 1);
    lab.end();
}

/// How the last writes of blocks ended, by place.
type Written = Arc<Mutex<BTreeMap<u64, Vec<(u64, bool)>>>>;

/// Writes to these blocks, one after the other, until it is told to stop.
async fn keep_writing(
    member: std::rc::Rc<crate::running::Member>,
    id: SpreadId,
    (places, written, is_over): (Vec<u64>, Written, Arc<AtomicBool>),
) {
    let mut version = 10;
    while !is_over.load(Ordering::SeqCst) {
        version += 1;
        for at in &places {
            let ended = write_at(&member, &id, (*at, block(*at, version))).await;
            written.lock().unwrap().entry(*at).or_default().push((version, ended.is_ok()));
        }
    }
}

#[test]
fn what_was_answered_is_there_whoever_restarts_meanwhile() {
    let mut lab = Lab::new(3, 200);
    let plan = lab.make("vm");
    let (written, is_over) = (Written::default(), Arc::new(AtomicBool::new(false)));
    let left = Arc::new(());
    for writer in 0..4_u64 {
        let at = |page: u64| page * PAGE + writer * 2 * BLOCK as u64;
        let places: Vec<u64> = (0..PAGES).map(at).collect();
        let (id, held) = (plan.id.clone(), left.clone());
        let how = (places, written.clone(), is_over.clone());
        lab.home().with(async move |member| {
            ring::spawn(async move {
                keep_writing(member, id, how).await;
                drop(held);
            });
        });
    }
    let count = || written.lock().unwrap().values().map(Vec::len).sum::<usize>();
    for at in [1, 2, 1] {
        let before = count();
        wait_until("it is written to", || count() > before + 20);
        lab.stop(at);
        lab.come(at);
    }
    let before = count();
    wait_until("it is written to again", || count() > before + 20);
    is_over.store(true, Ordering::SeqCst);
    wait_until("all is answered", || Arc::strong_count(&left) == 1);
    let (id, all) = (plan.id.clone(), written.lock().unwrap().clone());
    lab.home().with(async move |member| {
        let device = member.serving().spread().device(&id).expect("it is served");
        for (at, versions) in all {
            let found = device.read(at, BLOCK).await.expect("it is read");
            let mut bytes = vec![0; BLOCK];
            found.copy_to(0, &mut bytes);
            // Of what was not answered nobody knows whether it was done.
            let answered = versions.iter().rposition(|(_, ended)| *ended).expect("one was");
            let may_be = versions[answered..].iter().map(|(version, _)| block(at, *version));
            assert!(may_be.into_iter().any(|it| it == bytes), "other data at {at}");
        }
    });
    lab.end();
}

/// Other programs may have it, or members of before there were slices.
#[test]
fn a_port_that_is_in_use_is_tried_again() {
    let lab = Lab::new(2, 204);
    let address = lab.rig(1).with(async |member| member.membership().slices_address());
    let taken = std::net::TcpListener::bind(address.expect("it is in a group"));
    let taken = taken.expect("nobody has it");
    let plan = lab.make("vm");
    let why = slices(lab.rig(1))[0].not_served.clone().expect("it is told");
    assert!(why.contains("does not serve its slices"), "{why}");
    drop(taken);
    wait_until("it is served", || slices(lab.rig(1))[0].not_served.is_none());
    write(lab.home(), &plan.id, 0..PAGES, 1);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    lab.end();
}

#[test]
fn a_slice_is_for_its_home_and_a_home_for_its_group() {
    let lab = Lab::new(3, 157);
    let plan = lab.make("vm");
    let refusal = refused(lab.rig(1), lab.open(&plan, 1, lab.members[2]));
    assert!(refusal.contains("whose home is"), "{refusal}");
    let unknown = refused(lab.rig(2), lab.open(&plan, 1, lab.members[0]));
    assert!(unknown.contains("has no such slice"), "{unknown}");
    // Nobody else gives orders.
    let go = Box::new(lab.order(&plan, 1, Order::Go));
    let other = SpreadRequest::Letter { from: lab.members[2], letter: go };
    let refusal = refused(lab.rig(1), other);
    assert!(refusal.contains("nothing is done for anybody else"), "{refusal}");
    assert!(has_slice(lab.rig(1), &plan.id));
    // Nor is a volume made for who believes the home to be another member.
    let mut wrong = lab.plan("other");
    wrong.seats.swap(0, 1);
    let refusal = refused(lab.home(), SpreadRequest::Make { plan: Box::new(wrong) });
    assert!(refusal.contains("is another member of it"), "{refusal}");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    lab.end();
}
