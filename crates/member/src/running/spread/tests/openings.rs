//! Disks that were put back from an image, at one of the members that have a volume.

use array::api::VolumeState;
use group::spread::SliceRecord;

use super::rebuild::{await_group, rebuild_with, told};
use super::*;
use crate::running::tests::wait_until;

/// The disks of this member, which does not run.
fn disks(lab: &Lab, at: usize) -> Vec<PathBuf> {
    let home = std::fs::read_dir(lab.path().join(NAMES[at])).expect("it was there");
    let disks = home.map(|entry| entry.expect("it reads").path()).filter(|path| path.is_file());
    let disks: Vec<PathBuf> = disks.collect();
    assert_eq!(disks.len(), 2, "{disks:?}");
    disks
}

/// Keeps an image of what the disks of this member have, in a moment at which it does not run.
fn keep(lab: &mut Lab, at: usize) {
    lab.stop(at);
    let all = lab.path().join("images");
    std::fs::create_dir_all(&all).expect("a directory");
    for disk in disks(lab, at) {
        copy_sparse(&disk, &all.join(disk.file_name().expect("it has one")));
    }
    lab.come(at);
}

fn copy_sparse(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("--sparse=always").args([from, to]).status();
    assert!(copied.expect("cp runs").success(), "{} is not copied", from.display());
}

/// Puts that image back.
fn put_back(lab: &mut Lab, at: usize) {
    lab.stop(at);
    for disk in disks(lab, at) {
        let image = lab.path().join("images").join(disk.file_name().expect("it has one"));
        copy_sparse(&image, &disk);
    }
    lab.come(at);
}

fn trouble(lab: &Lab) -> Option<String> {
    spreads(lab.home())[0].slices[1].trouble.clone().map(|(_, why)| why)
}

#[test]
fn a_slice_that_is_an_older_one_is_not_read() {
    let mut lab = Lab::new(2, 161);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    keep(&mut lab, 1);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    write(lab.home(), &plan.id, 0..PAGES, 2);
    put_back(&mut lab, 1);
    wait_until("it is told", || trouble(&lab).is_some_and(|why| why.contains("an older one")));
    assert_eq!(read_at(lab.home(), &plan.id, PAGE), Err(BlockError::Unreachable));
    check(lab.home(), &plan.id, 0..1, 2);
    // So it stays, whoever starts.
    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    assert_eq!(read_at(lab.home(), &plan.id, PAGE), Err(BlockError::Unreachable));
    lab.end();
}

#[test]
fn a_home_that_is_an_older_one_is_not_obeyed() {
    let mut lab = Lab::new(2, 118);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    keep(&mut lab, 0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &plan.id, 0..PAGES, 1);
    put_back(&mut lab, 0);
    let not_served = |lab: &Lab| {
        let Ok(Answer::Volume(shown)) =
            volume_of(lab.home(), VolumeRequest::Show { name: "vm".to_owned() })
        else {
            panic!("it is not there")
        };
        shown.not_served
    };
    wait_until("it is told", || {
        assert!(targets(lab.home()).is_empty(), "nobody may use it before it is known");
        not_served(&lab).is_some_and(|why| why.contains("was opened by") && why.contains("image"))
    });
    // None of it is: what the home has of it is old, too.
    assert!(targets(lab.home()).is_empty());
    let id = plan.id.clone();
    lab.home().with(async move |member| {
        assert!(member.serving().spread().device(&id).is_err());
    });
    set_online(lab.home(), "vm", false);
    let grow = SpreadRequest::Grow { name: "vm".to_owned(), size_bytes: 2 * PAGES * PAGE };
    for refused in [delete(lab.home(), "vm"), spread(lab.home(), grow)] {
        let why = refused.expect_err("it knows that it is old").to_string();
        assert!(why.contains("nothing is done for an older one"), "{why}");
    }
    lab.end();
}

fn is_old(lab: &Lab, id: &SpreadId) -> bool {
    let id = id.clone();
    lab.home().with(async move |member| member.serving().spread().why_old(&id).is_some())
}

/// Its disks are the newest that there are, as an operator says.
#[test]
fn a_home_that_is_an_older_one_goes_on_by_an_operators_word_alone() {
    let mut lab = Lab::new(3, 120);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    // The third member was away since, and knows of nothing.
    lab.stop(2);
    keep(&mut lab, 0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    let pages_there = || (0..PAGES).filter(|page| page % 3 != 2);
    pages_there().for_each(|page| check(lab.home(), &plan.id, page..page + 1, 1));
    let records = |lab: &Lab| [told(lab, &plan, 1).expect("it has a slice")];
    let early = rebuild_with(&lab, &records(&lab), true).expect_err("it is the latest");
    assert!(early.contains("nothing of that is lost"), "{early}");
    assert!(!targets(lab.home()).is_empty(), "and goes on");
    put_back(&mut lab, 0);
    wait_until("it is told", || is_old(&lab, &plan.id));
    lab.come(2);
    let unsaid = rebuild_with(&lab, &records(&lab), false).expect_err("nobody has said so");
    assert!(unsaid.contains("--despite-later"), "{unsaid}");
    let third = [told(&lab, &plan, 2).expect("it has a slice")];
    let untold = rebuild_with(&lab, &third, true).expect_err("it is not heard what is later");
    assert!(untold.contains("has not told what it has stored"), "{untold}");
    assert!(is_old(&lab, &plan.id));

    goes_on(&mut lab, &plan, &records);
    // So it stays, and the other one is the older one from now on.
    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &plan.id, 0..PAGES, 2);
    put_back(&mut lab, 0);
    wait_until("it is told", || is_old(&lab, &plan.id));
    lab.end();
}

/// An operator says so while the member that has seen a later home restarts.
fn goes_on(lab: &mut Lab, plan: &SpreadPlan, records: &dyn Fn(&Lab) -> [SliceRecord; 1]) {
    // Longer than hosts are kept out for at first, once others can be asked.
    await_group(lab);
    std::thread::sleep(Duration::from_secs(6));
    let told = records(lab);
    lab.stop(1);
    rebuild_with(lab, &told, true).expect("an operator has said so");
    let show = VolumeRequest::Show { name: "vm".to_owned() };
    let Ok(Answer::Volume(shown)) = volume_of(lab.home(), show) else { panic!("it is there") };
    assert_eq!(shown.info.state, VolumeState::Offline, "it is looked at first");
    let id = plan.id.clone();
    let is_for_hosts = lab.home().with(async move |member| {
        let spread = member.serving().spread();
        spread.for_hosts(&id).is_ok_and(|device| device.is_some())
    });
    assert!(!is_for_hosts, "the slices are asked again before hosts are in");
    lab.come(1);
    set_online(lab.home(), "vm", true);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &plan.id, 0..PAGES, 1);
    write(lab.home(), &plan.id, 0..PAGES, 2);
    assert!(!is_old(lab, &plan.id));
}

/// It has not asked anybody, so it does not know.
#[test]
fn what_an_older_home_deletes_goes_by_an_operators_word_alone() {
    let mut lab = Lab::new(2, 167);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    set_online(lab.home(), "vm", false);
    keep(&mut lab, 0);
    set_online(lab.home(), "vm", true);
    wait_until("it is served", || !targets(lab.home()).is_empty());
    check(lab.home(), &plan.id, 0..PAGES, 1);
    put_back(&mut lab, 0);
    delete(lab.home(), "vm").expect("it is offline");
    let why = lab.drive(&plan.id).expect_err("there is a later home");
    assert!(why.contains("nothing is done for an older one"), "{why}");
    assert!(has_slice(lab.rig(1), &plan.id));
    // Whoever knows better has it go there.
    let discard = || SpreadRequest::Discard { slice: plan.seats[1].slice.clone() };
    let why = refused(lab.rig(1), discard());
    assert!(why.contains("it is not known that nobody needs it"), "{why}");
    lab.hear(&plan, 1, Some((lab.members[0], lab.says(&plan, 1))));
    spread(lab.rig(1), discard()).expect("its home deletes it");
    assert!(!has_slice(lab.rig(1), &plan.id));
    assert_eq!(lab.drive(&plan.id), Ok(SpreadStep::Forgotten));
    lab.end();
}

/// A network that is lost and comes back costs no store anything.
#[test]
fn a_session_that_is_lost_takes_no_other_opening() {
    let mut lab = Lab::new(2, 165);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    let number = |lab: &Lab| lab.record(&plan).openings[1].opened.number();
    assert_eq!(number(&lab), 1);
    lab.rig(1).with(async |member| {
        let slices = member.spreads.portal.slices().expect("it is served");
        let (slice, _) = slices.list().remove(0);
        slices.withdraw(&slice).await.expect("it is shut");
    });
    check(lab.home(), &plan.id, 0..PAGES, 1);
    assert_eq!(number(&lab), 1);
    lab.stop(1);
    lab.come(1);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    assert_eq!(number(&lab), 2, "one for each life of both");
    lab.end();
}
