//! A home that has lost what it had stored, and records that are damaged: what an operator has done then.

use group::spread::SliceRecord;

use array::api::VolumeState;

use super::*;
use crate::running::tests::wait_until;

/// What the home hears of the slice of this member.
pub(super) fn told(lab: &Lab, plan: &SpreadPlan, at: usize) -> Option<SliceRecord> {
    let (from, slice) = (lab.members[0], plan.seats[0].slice.clone());
    match spread(lab.rig(at), SpreadRequest::Tell { from, slice }) {
        Ok(Answer::SliceRecord(record)) => record.map(|record| *record),
        other => panic!("{other:?}"),
    }
}

fn rebuild(lab: &Lab, records: &[SliceRecord]) -> Result<SpreadShown, String> {
    rebuild_with(lab, records, false)
}

pub(super) fn rebuild_with(
    lab: &Lab,
    records: &[SliceRecord],
    despite_later: bool,
) -> Result<SpreadShown, String> {
    let rebuild = SpreadRequest::Rebuild { records: records.to_vec(), despite_later };
    match spread(lab.home(), rebuild) {
        Ok(Answer::Spread(shown)) => Ok(*shown),
        Err(error) => Err(error.to_string()),
        other => panic!("{other:?}"),
    }
}

fn refusal(lab: &Lab, records: &[SliceRecord]) -> String {
    rebuild(lab, records).expect_err("it is not rebuilt")
}

/// The home has lost its settings, and has started anew without them.
fn lose(lab: &mut Lab) {
    lab.home().with(async |member| {
        let _turn = member.settings().hold().await;
        member.settings().lose().await;
    });
    lab.stop(0);
    lab.come(0);
    await_group(lab);
}

/// Waits until the home has heard of its group, since it was started.
pub(super) fn await_group(lab: &Lab) {
    wait_until("it has heard of its group", || {
        lab.home().with(async |member| member.membership().roll_now().is_ok())
    });
}

#[test]
fn a_home_that_has_lost_its_settings_rebuilds_what_its_slices_tell_of() {
    let mut lab = Lab::new(3, 224);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..PAGES, 1);
    lose(&mut lab);
    assert_eq!((listed(lab.home()), targets(lab.home())), (Vec::new(), Vec::new()));
    assert_eq!(lab.says(&plan, 1), HomeSays::Unread);

    let records = [1, 2].map(|at| told(&lab, &plan, at).expect("it has a slice"));
    let why = refusal(&lab, &records[..1]);
    assert!(why.contains("has not told what it has stored"), "{why}");
    assert!(refusal(&lab, &[]).contains("no member has told"));
    // Nobody has its name meanwhile.
    volume_of(lab.home(), VolumeRequest::Create(volume("VM"))).expect("nobody has it");
    refusal(&lab, &records);
    let (name, to) = ("VM".to_owned(), "other".to_owned());
    volume_of(lab.home(), VolumeRequest::Rename { name, to }).expect("nobody has it");
    assert_eq!(spreads(lab.home()), []);

    let shown = rebuild(&lab, &records).expect("all have told");
    assert_eq!((shown.record.stage, shown.is_of), (SpreadStage::Whole, true));
    assert_eq!((shown.record.name.as_str(), shown.record.size_bytes), ("vm", PAGES * PAGE));
    let show = VolumeRequest::Show { name: "vm".to_owned() };
    let Ok(Answer::Volume(volume)) = volume_of(lab.home(), show) else { panic!("it is there") };
    assert_eq!(volume.info.state, VolumeState::Offline, "it is looked at first");
    set_online(lab.home(), "vm", true);
    check(lab.home(), &plan.id, 0..PAGES, 1);
    write(lab.home(), &plan.id, 0..PAGES, 2);
    assert_eq!(lab.says(&plan, 1), HomeSays::Have(SpreadStage::Whole));
    let why = refusal(&lab, &records);
    assert!(why.contains("nothing of that is lost"), "{why}");

    lab.stop(0);
    lab.come(0);
    wait_until("it is served", || targets(lab.home()).iter().any(|iqn| iqn.ends_with(":vm")));
    check(lab.home(), &plan.id, 0..PAGES, 2);
    lab.end();
}

/// As another array has another slice, or none.
#[test]
fn a_home_rebuilds_nothing_that_was_another_members_or_lay_on_another_array() {
    let mut lab = Lab::new(2, 227);
    let plan = lab.make("vm");
    assert_eq!(told(&lab, &plan, 0), None, "what it has itself is no slice of another home");
    let (from, slice) = (lab.members[1], plan.seats[0].slice.clone());
    let tell = spread(lab.rig(1), SpreadRequest::Tell { from, slice });
    assert_eq!(tell.expect("it is answered"), Answer::SliceRecord(None), "it is not its home");
    lose(&mut lab);
    let record = told(&lab, &plan, 1).expect("it has a slice");
    let other = SliceRecord { home_array: "c0ffee".to_owned(), ..record.clone() };
    let why = refusal(&lab, &[other]);
    assert!(why.contains("had the array c0ffee"), "{why}");
    let other = SliceRecord { group: "0".repeat(32).parse().expect("it is one"), ..record.clone() };
    let why = refusal(&lab, &[other]);
    assert!(why.contains("another member of it"), "{why}");
    assert_eq!(spreads(lab.home()), []);

    let name = hidden_name(&plan.id);
    volume_of(lab.home(), VolumeRequest::Purge { name }).expect("nothing is stored of it");
    let why = refusal(&lab, &[record]);
    assert!(why.contains("is not on its array"), "{why}");
    lab.end();
}

#[test]
fn a_damaged_record_goes_by_an_operators_word_and_no_other_does() {
    let lab = Lab::new(2, 229);
    let plan = lab.make("vm");
    let damaged = SliceId::draw().expect("there is randomness");
    let id = damaged.clone();
    lab.rig(1).with(async move |member| member.settings().damage_slice(&id));
    let (from, slice) = (lab.members[0], damaged.clone());
    let why = refused(lab.rig(1), SpreadRequest::Tell { from, slice });
    assert!(why.contains("cannot be read"), "it may be the one: {why}");
    let all = || match spread(lab.rig(1), SpreadRequest::Damaged) {
        Ok(Answer::Damaged(all)) => all,
        other => panic!("{other:?}"),
    };
    let found = all();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].id.as_str(), found[0].is_home), (damaged.as_str(), false));
    let discard = |id: &SliceId| SpreadRequest::DiscardDamaged { id: id.to_string() };
    refused(lab.rig(1), discard(&plan.seats[1].slice));
    spread(lab.rig(1), discard(&damaged)).expect("nobody will ever read it");
    assert_eq!(all(), []);
    refused(lab.rig(1), discard(&damaged));
    write(lab.home(), &plan.id, 0..PAGES, 1);
    lab.end();
}
