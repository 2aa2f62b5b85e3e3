//! Which label is believed, and whether an array is opened.

use super::*;
use crate::label::ANCESTORS_MAX;
use crate::membership::change::NAME_BYTES_MAX;
use crate::membership::{
    Event, LabelChange, Lack, OpenRefusal, Present, SetDisks, Step, choose, has_missed, lack_of,
    may_return, next_label,
};

fn given(labels: &[Label]) -> Vec<(String, Found)> {
    labels.iter().map(|label| (format!("d{}", label.disk.0), found(label))).collect()
}

fn out(disks: &[u16]) -> Event {
    Event::Out { disks: disks.iter().copied().map(DiskId).collect(), since: SINCE }
}

fn after(label: &Label, events: &[Event], change: u64) -> Label {
    next_label(label, events, ChangeId(change)).unwrap().expect("something changes")
}

fn mirror(disks: &[u16]) -> SetDisks {
    SetDisks {
        members: disks.iter().map(|disk| (DiskId(*disk), false)).collect(),
        losses_max: disks.len() - 1,
    }
}

#[test]
fn all_disks_in_any_order_make_the_array() {
    let label = fresh(5, 0);
    let opening = choose(&given(&carried(&label, &[4, 3, 2, 1, 0])), false).unwrap();
    assert_eq!(opening.current.len(), 5);
    assert_eq!(opening.current[0], Present { index: 0, disk: DiskId(4) });
    assert!(opening.missing.is_empty() && opening.rewrite.is_empty());
}

#[test]
fn the_newest_label_says_who_was_out_failed_or_is_missing() {
    let old = fresh(5, 0);
    let new = after(&old, &[out(&[3, 4])], 2);
    let mut labels = carried(&new, &[0, 1, 2]);
    labels.extend(carried(&old, &[3]));
    let mut disks = given(&labels);
    disks.push(("x".into(), Found::Blank));
    let opening = choose(&disks, false).unwrap();
    assert_eq!(opening.label.change, ChangeId(2));
    assert_eq!(opening.current.len(), 3);
    assert_eq!(opening.stale, [(Present { index: 3, disk: DiskId(3) }, SINCE)]);
    assert_eq!(
        (opening.missing.clone(), opening.missing_names()),
        (vec![DiskId(4)], vec!["d4".into()])
    );
    assert_eq!(opening.foreign, [(4, "blank".to_owned())]);
    let rewrite: Vec<u16> = opening.rewrite.iter().map(|present| present.disk.0).collect();
    assert_eq!(rewrite, [3]);
    // A change that was cut off before disk 2 had it counts all the same: it may have come of one
    // that was relied on and that nobody who is there carries.
    let labels = [carried(&new, &[0, 1]), carried(&old, &[2, 3])].concat();
    let opening = choose(&given(&labels), false).unwrap();
    assert_eq!((opening.label.change, opening.current.len()), (ChangeId(1), 3));
    assert_eq!(opening.stale.len(), 1, "as the new one says; the next comes of the old one");
}

/// A journal that is given up uses positions again: who went out beyond where it begins has not what they
/// stand for then.
#[test]
fn who_is_out_lacks_all_of_a_journal_that_begins_anew() {
    let label = after(&fresh(5, 0), &[out(&[3])], 2);
    let (begins, lies) = (Since { checkpoint: 7, position: 512 }, MemberState::Stale(SINCE));
    assert_eq!(label.member(DiskId(3)).unwrap().state, lies);
    assert!(!has_missed(lies, 600));
    let now = after(&label, &[Event::JournalLost(begins)], 3);
    let state = now.member(DiskId(3)).unwrap().state;
    assert_eq!(state, MemberState::Stale(begins));
    assert!(has_missed(state, 600));
    let later = Event::JournalLost(Since { checkpoint: 8, position: 700 });
    assert_eq!(next_label(&now, &[later], ChangeId(4)), Ok(None), "it was out before");
}

/// An old image of a disk that was out was given what had changed since it went out, and passed for whole.
#[test]
fn a_disk_that_is_older_than_it_was_when_it_went_out_lacks_all() {
    let image = fresh(4, 0);
    let first = after(&image, &[Event::Behind], 2);
    let second = after(&first, &[Event::Behind], 3);
    let went = after(&second, &[out(&[3])], 4);
    let now = after(&went, &[Event::Behind], 5);
    assert_eq!(now.went_out, [(DiskId(3), went.generation)]);
    let lack = |theirs: &Label| {
        let others = [carried(&now, &[0, 1, 2]), carried(theirs, &[3])].concat();
        let lacking = choose(&given(&others), false).unwrap().lacking;
        let own = lack_of(&theirs.for_disk(DiskId(3)), false, &now);
        assert_eq!(lacking.first().map(|(_, lack)| *lack), own);
        own
    };
    assert_eq!(lack(&image), Some(Lack::Old));
    for known in [&first, &second, &went, &now] {
        assert_eq!(lack(known), None, "it went out with one like this");
    }
    // It was up to date since, and the image is of when it was not.
    let back = after(&now, &[Event::UpToDate(DiskId(3))], 6);
    assert_eq!(back.went_out, []);
    let later = after(&after(&back, &[Event::Behind], 7), &[Event::Behind], 8);
    assert_eq!(lack_of(&now.for_disk(DiskId(3)), false, &later), Some(Lack::Old));
    assert_eq!(lack_of(&back.for_disk(DiskId(3)), false, &later), Some(Lack::Old));
}

/// What a disk lacks that lacked all is known from the checkpoint on that recorded it.
#[test]
fn a_disk_that_lacks_all_is_one_that_was_out_once_that_is_recorded() {
    let label = after(&fresh(3, 0), &[Event::LacksAll(vec![DiskId(2)])], 2);
    let state = |label: &Label| label.member(DiskId(2)).unwrap().state;
    assert!(state(&label).lacks_all());
    let recorded = [Event::Recorded { disk: DiskId(2), since: SINCE }];
    let now = after(&label, &recorded, 3);
    assert_eq!(state(&now), MemberState::Stale(SINCE));
    assert_eq!(next_label(&now, &recorded, ChangeId(4)), Ok(None), "nobody else is meant");
    assert_eq!(lack_of(&now.for_disk(DiskId(2)), false, &now), None);
    // It did not take that label: nothing that it has counts still.
    assert_eq!(lack_of(&label.for_disk(DiskId(2)), false, &now), Some(Lack::Cut));
}

#[test]
fn disks_that_left_are_put_aside() {
    let old = fresh(3, 0);
    let new = after(&old, &[Event::Failed(DiskId(1)), Event::Left(DiskId(2))], 2);
    let opening = choose(&given(&carried(&new, &[0, 1, 2])), false).unwrap();
    assert_eq!((opening.current.len(), opening.foreign.len()), (1, 2));
    let mut impostor = old.clone();
    impostor.members[0].uuid = [99; 16];
    let labels = [carried(&new, &[1]), vec![impostor]].concat();
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::NoHolders { .. }), "nothing to start from: {refusal}");
}

#[test]
fn half_of_the_disks_is_enough_when_all_data_is_there() {
    let label = fresh(2, 0);
    let opening = choose(&given(&carried(&label, &[1])), false).unwrap();
    assert_eq!(opening.check_sets([mirror(&[0, 1])]), Ok(()));
    let single = SetDisks { members: vec![(DiskId(0), false)], losses_max: 0 };
    let refusal = opening.check_sets([mirror(&[0, 1]), single.clone()]).unwrap_err();
    assert!(refusal.can_be_accepted() && refusal.missing() == ["d0"], "{refusal}");
    assert!(refusal.to_string().contains("(missing: d0)"), "{refusal}");
    let stale = SetDisks { members: vec![(DiskId(0), false), (DiskId(1), true)], losses_max: 1 };
    assert!(opening.check_sets([stale]).is_err(), "what it holds of the set is old");
    let accepted = choose(&given(&carried(&label, &[1])), true).unwrap();
    assert_eq!(accepted.check_sets([single.clone()]), Ok(()));
    // Most of the disks go on whatever is lost for the time being.
    let most = choose(&given(&carried(&fresh(3, 0), &[1, 2])), false).unwrap();
    assert_eq!(most.check_sets([single]), Ok(()));
}

#[test]
fn without_anybody_who_holds_the_journal_nothing_is_opened() {
    let label = fresh(5, 0);
    let refusal = choose(&given(&carried(&label, &[3, 4])), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::NoHolders { .. }), "{refusal}");
    assert!(!refusal.can_be_accepted(), "no checkpoint, no volumes");
    assert_eq!(refusal.missing(), ["d0", "d1", "d2"]);
    let alone = fresh(4, 1);
    let refusal = choose(&given(&carried(&alone, &[0, 1, 2, 3])), false).unwrap_err();
    assert!(refusal.to_string().contains("journal") && refusal.can_be_accepted(), "{refusal}");
    assert_eq!(refusal.missing(), ["d4"]);
    assert!(choose(&given(&carried(&alone, &[0, 1, 2, 3])), true).is_ok());
    assert!(choose(&given(&carried(&alone, &[0, 4])), false).is_ok());
}

#[test]
fn each_refusal_names_the_disk() {
    let label = fresh(5, 0);
    let mut labels = carried(&label, &[0, 1, 2, 3]);
    labels[3].array = ArrayId([8; 16]);
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(refusal.to_string().starts_with("d0 belongs to array 07"), "{refusal}");
    assert!(refusal.to_string().contains("but d3 to array 08"), "{refusal}");

    let mut disks = given(&carried(&label, &[0, 1, 2, 1]));
    disks[3].0 = "copy".into();
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().starts_with("d1 and copy both are disk 1"), "{refusal}");

    let unmade = Label { generation: 0, ..label.clone() };
    let refusal = choose(&given(&carried(&unmade, &[0, 1])), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::HalfMade { ref name, .. } if name == "d0"));

    let mut disks = given(&carried(&label, &[0, 1, 2]));
    disks[2].1 = Found::Version(1);
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().starts_with("d2 has format version 1"), "{refusal}");

    let disks = [("sdx".to_owned(), Found::Foreign("an XFS file system".into()))];
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().ends_with("sdx is an XFS file system"), "{refusal}");
    assert!(choose(&[], true).unwrap_err().to_string().contains("the 0 given"));
}

#[test]
fn two_halves_that_went_on_alone_are_recognized_however_far_each_went() {
    let both = fresh(2, 0);
    let mut one = after(&both, &[out(&[1])], 2);
    let other = after(&both, &[out(&[0])], 3);
    for _ in 0..3 {
        let refusal = choose(&given(&[one.for_disk(DiskId(0)), other.for_disk(DiskId(1))]), true);
        let text = refusal.unwrap_err().to_string();
        assert!(text.contains("d0 without d1, and d1 without d0"), "{text}");
        assert!(!may_return(&other.for_disk(DiskId(1)), &one));
        one = after(&one, &[Event::Behind], one.change.0 + 10);
    }
    // Each alone is opened.
    assert!(choose(&given(&carried(&one, &[0])), false).is_ok());
    assert!(choose(&given(&carried(&other, &[1])), false).is_ok());
}

/// One half went so far that its label does not remember the one that both halves came of: the other one
/// passed for a part of the same history that was away for long.
#[test]
fn two_halves_that_went_far_are_no_one_history() {
    let both = fresh(2, 0);
    let other = after(&both, &[out(&[0])], 2);
    let mut far = after(&both, &[out(&[1])], 3);
    for change in 0..=ANCESTORS_MAX as u64 {
        far = after(&far, &[Event::Behind], 10 + change);
    }
    assert!(!far.ancestors.contains(&both.change));
    let halves = [far.for_disk(DiskId(0)), other.for_disk(DiskId(1))];
    let refusal = choose(&given(&halves), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    assert!(!may_return(&halves[1], &halves[0]));
    // One that was away all the while, and one that has left.
    let away = both.for_disk(DiskId(1));
    assert!(may_return(&away, &halves[0]));
    let opening = choose(&given(&[halves[0].clone(), away]), false).unwrap();
    assert_eq!((opening.current.len(), opening.stale.len()), (1, 1));
    let without = after(&far, &[Event::Left(DiskId(1))], 4);
    let opening = choose(&given(&[without, halves[1].clone()]), false).unwrap();
    assert_eq!((opening.current.len(), opening.foreign.len()), (1, 1));
}

#[test]
fn a_change_that_was_cut_off_is_no_history_of_its_own() {
    let old = fresh(3, 0);
    // A change that found disk 2 away reached disk 0 only; then 1 and 2 went on without disk 0.
    let cut_off = after(&old, &[out(&[2])], 2);
    let relied_on = after(&old, &[out(&[0])], 3);
    let labels = [carried(&cut_off, &[0]), carried(&relied_on, &[1, 2])].concat();
    let opening = choose(&given(&labels), false).unwrap();
    assert_eq!((opening.stale[0].0.disk, opening.current.len()), (DiskId(0), 2));
    assert!(may_return(&cut_off.for_disk(DiskId(0)), &relied_on));
    // Without disk 1, which both call active, nobody can tell.
    let refusal = choose(&given(&[labels[0].clone(), labels[2].clone()]), false).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    // A member that was up to date again, and whose label was not written: what the others did
    // while it was away is not forgotten.
    let alone = after(&old, &[out(&[2])], 5);
    let back = after(&alone, &[Event::UpToDate(DiskId(2))], 6);
    let labels = [carried(&back, &[0]), carried(&old, &[2])].concat();
    let opening = choose(&given(&labels), false).unwrap();
    assert_eq!((opening.label.change, opening.current.len()), (ChangeId(5), 2));
    // Both were cut off: then nothing relied on either.
    let labels = [carried(&cut_off, &[0]), carried(&relied_on, &[1]), carried(&old, &[2])].concat();
    assert!(choose(&given(&labels), false).is_ok());
}

#[test]
fn an_opening_without_a_disk_leaves_nothing_to_what_that_disk_may_carry() {
    let old = after(&fresh(2, 0), &[out(&[1])], 2);
    // Disk 1 was up to date again, and the label that says so reached disk 1 only.
    let cut_off = after(&old, &[Event::UpToDate(DiskId(1))], 3);
    let found = given(&carried(&old, &[0]));
    let opening = choose(&found, false).unwrap();
    let alone = after(&old, &opening.first_events(&found, SINCE), 4);
    let labels = [carried(&alone, &[0]), carried(&cut_off, &[1])].concat();
    let opening = choose(&given(&labels), false).unwrap();
    assert_eq!((opening.label.change, opening.stale.len()), (ChangeId(4), 1));
}

#[test]
fn a_label_always_came_of_one_that_was_relied_on() {
    let old = fresh(2, 0);
    let cut_off = after(&old, &[out(&[1])], 2);
    // Disk 0 has it and disk 1, which it calls active before, does not know: believed, and forgotten.
    let back = after(&cut_off, &[Event::UpToDate(DiskId(1))], 3);
    let opening = choose(&given(&[carried(&back, &[1]), carried(&cut_off, &[0])].concat()), false);
    let opening = opening.unwrap();
    assert_eq!((opening.current.len(), opening.label.change), (2, ChangeId(2)));
    assert_eq!(opening.label.generation, cut_off.generation);
}

#[test]
fn a_journal_list_with_one_disk_twice_still_keeps_it() {
    let twice = [Event::HoldJournal(vec![DiskId(1), DiskId(1)])];
    let label = after(&fresh(2, 0), &twice, 2);
    assert_eq!(label.journal, [DiskId(1)]);
    assert!(next_label(&label, &[out(&[1])], ChangeId(3)).is_err());
}

#[test]
fn two_disks_of_one_number_are_told_apart() {
    let old = fresh(2, 0);
    let joined = |uuid: u8, change| {
        let event = Event::Joined {
            uuid: [uuid; 16],
            kind: MemberKind::Data,
            size_bytes: SIZE,
            name: "new".into(),
        };
        after(&old, &[event], change)
    };
    // The first took its label and nobody else did; then another one joined.
    let (cut_off, relied_on) = (joined(50, 2), joined(60, 3));
    let mut labels = carried(&relied_on, &[0, 1, 2]);
    labels.push(cut_off.for_disk(DiskId(2)));
    let mut disks = given(&labels);
    disks[3].0 = "first".into();
    let opening = choose(&disks, false).unwrap();
    assert_eq!((opening.current.len(), opening.foreign.len()), (3, 1));
    assert_eq!(opening.foreign[0].0, 3);
}

#[test]
fn the_last_holder_never_leaves_and_a_label_counts_when_all_active_disks_have_it() {
    let label = fresh(3, 0);
    let begun = LabelChange::begin(&label, &[out(&[0])], ChangeId(2)).unwrap().unwrap();
    assert_eq!(begun.writes(), [DiskId(1), DiskId(2)]);
    let Step::Write(again) = begun.written(&[DiskId(2)], SINCE, ChangeId(3)) else { panic!() };
    assert_eq!((again.writes(), again.label().generation), (vec![DiskId(1)], 2));
    let refused = again.clone().written(&[DiskId(1)], SINCE, ChangeId(4));
    assert!(matches!(refused, Step::Refused(_)), "{refused:?}");
    let Step::Durable(now) = again.written(&[], SINCE, ChangeId(4)) else { panic!() };
    assert_eq!((now.holders.clone(), now.journal.clone()), (vec![DiskId(1)], vec![DiskId(1)]));
    assert!(next_label(&now, &[out(&[1])], ChangeId(5)).is_err());
    assert!(next_label(&now, &[Event::Left(DiskId(1))], ChangeId(5)).is_err());
    // A disk for the journal alone leaves when the journal is elsewhere.
    let alone = fresh(3, 1);
    assert!(next_label(&alone, &[out(&[3])], ChangeId(2)).is_err());
    let moved = [Event::HoldJournal(vec![DiskId(0), DiskId(1)]), out(&[3])];
    assert_eq!(after(&alone, &moved, 2).journal, [DiskId(0), DiskId(1)]);
}

/// Where it was opened, the disks that were put back lacked all from then on, and so did the right ones later.
#[test]
fn old_images_that_sets_need_are_refused_also_beside_disks_that_may_come_back() {
    let image = fresh(5, 0);
    let now = after(&after(&image, &[Event::Behind], 2), &[Event::Behind], 3);
    let all = |set: &[u16], losses_max: usize| SetDisks { losses_max, ..mirror(set) };
    let check = |there: &[u16], old: &[u16], losses_max: usize, accepts: bool| {
        let labels = [carried(&now, there), carried(&image, old)].concat();
        let opening = choose(&given(&labels), accepts).unwrap();
        opening.check_old([all(&[0, 1, 2, 3, 4], losses_max)])
    };
    assert_eq!(check(&[0, 1, 2, 3], &[4], 1, false), Ok(()), "it is restored");
    assert_eq!(check(&[0, 1, 2], &[3, 4], 2, false), Ok(()));
    let refusal = check(&[0, 1, 2], &[3, 4], 1, false).unwrap_err();
    let named = |refusal: &OpenRefusal, old: &str| refusal.to_string().contains(old);
    assert!(named(&refusal, "(d3, d4) are older than d0, d1, d2,"), "{refusal}");
    assert_eq!(check(&[0, 1, 2], &[3, 4], 1, true), Ok(()));
    // The set cannot be read now, and could be when the missing ones are back.
    let refusal = check(&[0], &[3, 4], 1, false).unwrap_err();
    assert!(named(&refusal, "(d3, d4) are older than d0,"), "{refusal}");
    assert!(check(&[0, 1, 2], &[4], 1, false).is_err(), "one is missing, and one is old");
}

/// The good disks lay where the old images had been last, and were called old: who believed it threw them away.
#[test]
fn old_images_are_named_where_they_lie_and_not_where_the_good_disks_are() {
    let image = fresh(5, 0);
    let now = after(&after(&image, &[Event::Behind], 2), &[Event::Behind], 3);
    let said = |there: &[u16], old: &[u16]| -> Result<(), OpenRefusal> {
        let images = carried(&image, old).into_iter();
        let images = images.map(|label| (format!("restored/{}", label.disk.0), found(&label)));
        let all = given(&carried(&now, there)).into_iter().chain(images).collect::<Vec<_>>();
        let opening = choose(&all, false)?;
        opening.check_old([SetDisks { losses_max: 1, ..mirror(&[0, 1, 2, 3, 4]) }])
    };
    let refusal = said(&[0, 1, 2], &[3, 4]).unwrap_err().to_string();
    let wanted = "(restored/3 (last at d3), restored/4 (last at d4)) are older than d0, d1, d2,";
    assert!(refusal.contains(wanted), "{refusal}");
    let refusal = said(&[3, 4], &[0, 1, 2]).unwrap_err().to_string();
    let wanted = "(restored/0 (last at d0), restored/1 (last at d1), restored/2 (last at d2)) are";
    assert!(refusal.contains(wanted), "{refusal}");
    // What is not there has no other place than its last one, and a long name is the same for being cut.
    let mut label = fresh(3, 0);
    label.members[2].name = "d".repeat(NAME_BYTES_MAX);
    let mut all = given(&carried(&label, &[0, 2]));
    all[1].0 = "d".repeat(NAME_BYTES_MAX + 1);
    let opening = choose(&all, false).unwrap();
    let names = opening.names([1, 2].map(DiskId).into_iter());
    assert_eq!(names, ["d1", all[1].0.as_str()]);
}

/// What is in the head of an image that is cut short is none the newer for that.
#[test]
fn an_old_image_that_was_cut_short_is_old() {
    let image = fresh(3, 0);
    let now = after(&after(&image, &[Event::Behind], 2), &[Event::Behind], 3);
    assert_eq!(lack_of(&image.for_disk(DiskId(1)), true, &now), Some(Lack::Old));
    assert_eq!(lack_of(&now.for_disk(DiskId(1)), true, &now), Some(Lack::Cut));
    let cut = |label: &Label| Found::Label {
        label: Box::new(label.clone()),
        rewrite: true,
        is_cut: true,
    };
    let mut disks: Vec<_> = carried(&image, &[0, 1, 2])
        .iter()
        .map(|one| (format!("d{}", one.disk.0), cut(one)))
        .collect();
    assert!(choose(&disks, false).is_ok(), "nobody knows better");
    let newer = after(&after(&fresh(4, 0), &[Event::Behind], 2), &[Event::Behind], 3);
    for (disk, label) in disks.iter_mut().zip(carried(&fresh(4, 0), &[0, 1, 2])) {
        disk.1 = cut(&label);
    }
    disks.extend(given(&carried(&newer, &[3])));
    let refusal = choose(&disks, false).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::OldDisks { .. }), "{refusal}");
    assert!(choose(&disks, true).unwrap().goes_back);
}

/// A disk that was not there came back with checkpoints that had been given up.
#[test]
fn who_is_not_there_when_an_array_goes_back_lacks_all() {
    let image = fresh(5, 0);
    let now = after(&after(&image, &[Event::Behind], 2), &[Event::Behind], 3);
    let lacking = |holders: &Label| {
        let disks = given(&[carried(holders, &[0, 1, 2]), carried(&now, &[3])].concat());
        let events = choose(&disks, true).unwrap().first_events(&disks, SINCE);
        let lacks = |event: Event| if let Event::LacksAll(disks) = event { disks } else { vec![] };
        events.into_iter().flat_map(lacks).collect::<Vec<DiskId>>()
    };
    assert_eq!(lacking(&image), [DiskId(4)]);
    assert_eq!(lacking(&now), [], "it has what it had when it went out");
}

/// Nothing was ever relied on but the first label and those of 0 and 1, and the array was not opened with disk 2 beside
/// them. The walk has found it: three disks, two crashes, each in the first label of a start.
#[test]
fn a_disk_whose_labels_were_cut_off_twice_is_no_part_of_its_own() {
    let first = fresh(3, 0);
    // A start without 2 reaches 0 only; one without 1 goes on from that, and reaches 2 only.
    let without_two = after(&first, &[out(&[2])], 11);
    let without_one = after(&without_two, &[out(&[1])], 12);
    // One without 2 shows that the first was cut off, and goes on from the label before.
    let goes_on = after(&first, &[out(&[2])], 13);
    let all = [carried(&goes_on, &[0, 1]), carried(&without_one, &[2])].concat();
    let opening = choose(&given(&all), false).unwrap();
    assert_eq!((opening.label.change, opening.current.len()), (goes_on.change, 2));
    assert_eq!(opening.stale, [(Present { index: 2, disk: DiskId(2) }, SINCE)]);
    assert!(may_return(&without_one.for_disk(DiskId(2)), &goes_on));
    // Without 1 nobody can tell whether 0 and 1 relied on the first; without 0, whether it relied on the second.
    for shown in [0, 1] {
        let labels = [all[shown].clone(), all[2].clone()];
        let refusal = choose(&given(&labels), false).unwrap_err();
        assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    }
    let lacks_one = after(&goes_on, &[out(&[1])], 14);
    assert!(!may_return(&without_one.for_disk(DiskId(2)), &lacks_one));
    let lacks_zero = after(&goes_on, &[out(&[0])], 15);
    assert!(!may_return(&without_one.for_disk(DiskId(2)), &lacks_zero));
}

/// As many times as it happens: each start knows the label of the one before, and not who shows that it was cut off.
#[test]
fn a_disk_whose_labels_were_cut_off_three_times_is_no_part_of_its_own() {
    let first = fresh(5, 0);
    let once = after(&first, &[out(&[4])], 11);
    let twice = after(&once, &[out(&[1])], 12);
    let thrice = after(&twice, &[out(&[2])], 13);
    let goes_on = after(&first, &[out(&[4])], 14);
    let all = [carried(&goes_on, &[0, 1, 2, 3]), carried(&thrice, &[4])].concat();
    let opening = choose(&given(&all), false).unwrap();
    assert_eq!((opening.label.change, opening.current.len()), (goes_on.change, 4));
    assert!(may_return(&thrice.for_disk(DiskId(4)), &goes_on));
    for lacking in [1, 2] {
        let mut labels = all.clone();
        labels.remove(lacking);
        let refusal = choose(&given(&labels), false).unwrap_err();
        assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    }
}

/// What two parts did without each other is not forgotten when the labels that came of it were cut off.
#[test]
fn labels_that_were_cut_off_hide_no_part_that_went_on_alone() {
    let both = fresh(3, 0);
    let (part, other) = (after(&both, &[out(&[2])], 11), after(&both, &[out(&[0, 1])], 12));
    // 0 and 1 have answered by `part`. Then two starts were cut off, each with its label on another of them.
    let (one, two) = (after(&part, &[Event::Behind], 13), after(&part, &[Event::Behind], 14));
    let labels = [one.for_disk(DiskId(0)), two.for_disk(DiskId(1)), other.for_disk(DiskId(2))];
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    // Nor when it was up to date again by the one that was cut off, without having been told.
    let back = after(&part, &[Event::UpToDate(DiskId(2))], 15);
    let labels = [back.for_disk(DiskId(0)), other.for_disk(DiskId(2))];
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::TwoHistories { .. }), "{refusal}");
    assert!(!may_return(&labels[0], &other));
}

/// All labels were cut off, in starts with different disks: which of them goes on is not only a matter of how new it is.
#[test]
fn of_labels_that_were_all_cut_off_one_goes_on_that_all_who_are_in_can_have_taken() {
    let first = fresh(3, 0);
    let without_two = after(&first, &[out(&[2])], 11);
    let without_one = after(&without_two, &[out(&[1])], 12);
    let again = after(&first, &[out(&[2])], 13);
    // The one that goes on from the first label was cut off, too: 0 has it, and was in by the other.
    let disks =
        [again.for_disk(DiskId(0)), first.for_disk(DiskId(1)), without_one.for_disk(DiskId(2))];
    let opening = choose(&given(&disks), false).unwrap();
    assert_eq!((opening.current.len(), opening.lacking.len()), (2, 0));
    // Here the newest is the one: 2 has it, and was in by the other.
    let without_zero = after(&first, &[out(&[0])], 14);
    let disks =
        [without_two.for_disk(DiskId(0)), without_zero.for_disk(DiskId(1)), disks[2].clone()];
    let opening = choose(&given(&disks), false).unwrap();
    assert_eq!((opening.current.len(), opening.lacking.len()), (1, 0));
    assert_eq!(opening.stale.len(), 2);
}
