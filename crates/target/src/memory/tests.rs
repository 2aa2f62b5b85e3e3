//! Shares, turns and trust, with the sums that they come to.

use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn stranger(name: &str, last_byte: u8) -> Rc<Owner> {
    Owner::new(&name.into(), [192, 0, 2, last_byte].into())
}

/// One that has sent 8 GiB, and so is trusted with 128 MiB.
fn owner(name: &str, last_byte: u8) -> Rc<Owner> {
    let owner = stranger(name, last_byte);
    owner.delivered(8 << 30);
    owner
}

type Waiting = Pin<Box<dyn Future<Output = Claim>>>;

/// One that waits for 1 MiB, and has found none.
fn waiting(owner: &Rc<Owner>) -> Waiting {
    let owner = owner.clone();
    let mut claim: Waiting = Box::pin(async move { Claim::wait(&owner, Use::Pulled, MIB).await });
    assert!((&mut claim).now_or_never().is_none());
    claim
}

/// All that it may have, in pieces of 1 MiB.
fn all(owner: &Rc<Owner>) -> Vec<Claim> {
    std::iter::from_fn(|| Claim::new(owner, Use::Pulled, MIB)).collect()
}

#[test]
fn an_owner_has_two_thirds_and_the_next_two_thirds_of_the_rest() {
    // A pool of 256 MiB has 32 for what is pulled.
    let (one, two, three) = (owner("one", 1), owner("two", 2), owner("three", 3));
    let held = [&one, &two, &three].map(all);
    assert_eq!(held.each_ref().map(Vec::len), [22, 7, 2]);
    // The other uses are not touched by that, and what is given back can be had again.
    assert!(has_room(&one, Use::Read, MIB) && has_room(&one, Use::Pushed, MIB));
    drop(held);
    assert_eq!(all(&one).len(), 22);
}

#[test]
fn the_more_sessions_the_less_comes_unasked() {
    let burst = |sessions| first_burst_bytes(sessions, 256 << 10) >> 10;
    let offered = [0, 6, 7, 13, 14, 100, 1000].map(burst);
    assert_eq!(offered, [256, 256, 128, 128, 64, 16, 8]);
}

/// All that it may have of what comes unasked, in pieces of 1 MiB.
fn pushed(owner: &Rc<Owner>) -> Vec<Claim> {
    std::iter::from_fn(|| Claim::new(owner, Use::Pushed, MIB)).collect()
}

#[test]
fn strangers_share_a_half_and_leave_the_other_to_those_who_send() {
    // A pool of 256 MiB has 112 for what comes unasked.
    let strangers: Vec<_> = (0..40).map(|n| stranger(&n.to_string(), n)).collect();
    let held: Vec<_> = strangers.iter().map(pushed).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 56);
    // Nor do those who wait keep others waiting.
    let held_pulled: Vec<_> = strangers.iter().map(all).collect();
    assert_eq!(held_pulled.iter().map(Vec::len).sum::<usize>(), 16);
    let mut waits: Vec<_> = strangers.iter().map(waiting).collect();
    let good = owner("good", 100);
    assert_eq!(all(&good).len(), 11);
    drop(held_pulled);
    let served: Vec<_> = waits.iter_mut().filter_map(FutureExt::now_or_never).collect();
    assert_eq!(served.len(), 16, "as soon as others give theirs back");
    drop(served);
    drop(waits);
    assert_eq!(pushed(&good).len(), 38, "two thirds of what is left");
    // As much as has come from it, and the rest as a stranger; under this name from this address.
    let new = stranger("new", 101);
    new.delivered(3 * MIB);
    assert_eq!(pushed(&new).len(), 3);
    assert_eq!(pushed(&stranger("good", 102)).len(), 0);
    assert_eq!(pushed(&stranger("other", 100)).len(), 0);
    // Only those who are known find their windows open.
    assert!(is_short(&strangers[0]) && !is_short(&good));
    good.distrust();
    assert_eq!(pushed(&good).len(), 0, "until it has sent again");
    drop(held);
    let left =
        CORE.with(|core| core.held_by.each_ref().map(|levels| levels.each_ref().map(Cell::get)));
    assert_eq!(left, [[0; LEVELS]; USES]);
}

#[test]
fn who_has_taken_what_it_asked_for_does_not_share_with_strangers() {
    let reads = |owner: &Rc<Owner>| -> Vec<_> {
        std::iter::from_fn(|| Claim::new(owner, Use::Read, MIB)).collect()
    };
    // A pool of 256 MiB has 48 for what is read.
    let strangers: Vec<_> = (0..40).map(|n| stranger(&n.to_string(), n)).collect();
    let held: Vec<_> = strangers.iter().map(reads).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 24);
    let good = stranger("good", 100);
    good.delivered(1 << 30);
    assert_eq!(reads(&good).len(), 0, "to have sent is not to have taken");
    good.taken(3 * MIB);
    assert_eq!(reads(&good).len(), 3);
    // At its next login, too, until it leaves what it asked for to lie.
    drop(good);
    let good = stranger("good", 100);
    assert_eq!(reads(&good).len(), 3);
    good.distrust();
    assert_eq!(reads(&good).len(), 0);
    assert_eq!(reads(&owner("sends", 101)).len(), 0);
    drop(held);
}

#[test]
fn who_kept_room_for_nothing_has_less_of_what_comes_unasked() {
    let (idle, other) = (owner("idle", 1), owner("other", 2));
    // A pool of 256 MiB has 112 for that.
    assert_eq!(pushed(&idle).len(), 75);
    idle.distrust();
    let held = pushed(&idle);
    assert_eq!(held.len(), 3);
    assert!(idle.holds_much(Way::In) && !other.holds_much(Way::In));
    assert_eq!(pushed(&other).len(), 73);
    // Its name and its address, and nothing else of them.
    assert!(Claim::new(&stranger("idle", 3), Use::Pushed, MIB).is_none());
    assert!(Claim::new(&stranger("neighbour", 1), Use::Pushed, MIB).is_none());
    assert_eq!(all(&idle).len(), 11);
    // Nor is it another one when it comes again.
    drop((held, idle));
    assert_eq!(pushed(&stranger("idle", 1)).len(), 3);
}

#[test]
fn names_of_one_address_share_what_an_address_has() {
    let names: Vec<_> = (0..8).map(|name| owner(&name.to_string(), 1)).collect();
    let held: Vec<_> = names.iter().map(all).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 22);
    assert!(Claim::new(&owner("else", 2), Use::Pulled, MIB).is_some());
    // And one name the same from all addresses.
    drop(held);
    let held: Vec<_> = (1..9).map(|from| all(&owner("name", from))).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 22);
}

#[test]
fn addresses_of_one_network_are_one_in_ipv6() {
    let from = |name: &str, address: &str| {
        let owner = Owner::new(&name.into(), address.parse().unwrap());
        owner.delivered(8 << 30);
        owner
    };
    let held: Vec<_> =
        (0..8).map(|n| all(&from(&n.to_string(), &format!("2001:db8:0:1::{n}")))).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 22);
    assert!(Claim::new(&from("else", "2001:db8:0:2::1"), Use::Pulled, MIB).is_some());
}

#[test]
fn each_name_has_its_turn_and_within_a_name_the_first() {
    let (full, a, b) = (owner("full", 1), owner("a", 2), owner("b", 3));
    let mut whole = Claim::none(&full, Use::Pulled);
    // What little is left would do for one who wants little.
    whole.grow(32 * MIB - 4096);
    let [mut a1, mut a2, mut b1] = [waiting(&a), waiting(&a), waiting(&b)];
    let done = |claim: &mut Waiting| claim.now_or_never();
    // Nothing overtakes those that wait, however little it wants.
    assert!(Claim::new(&owner("late", 4), Use::Pulled, 1).is_none());
    drop(whole);
    let first = done(&mut a1).expect("it was first");
    let second = done(&mut b1).expect("the other name is next");
    let third = done(&mut a2).expect("there is room for all");
    drop((first, second, third));
    assert!(Claim::new(&owner("late", 4), Use::Pulled, 1).is_some());
}

#[test]
fn who_holds_too_much_itself_keeps_nobody_waiting() {
    let (much, other) = (owner("much", 1), owner("other", 2));
    let mut held = all(&much);
    let mut more = waiting(&much);
    // It does not fit, and waits for nothing but itself.
    let claim = Claim::wait(&other, Use::Pulled, MIB).now_or_never();
    assert!(claim.is_some());
    drop(claim);
    held.truncate(10);
    assert!((&mut more).now_or_never().is_some());
}

#[test]
fn who_no_longer_waits_is_passed_over_and_what_it_was_given_is_given_back() {
    let (full, a, b) = (owner("full", 1), owner("a", 2), owner("b", 3));
    let mut whole = Claim::none(&full, Use::Pulled);
    whole.grow(32 * MIB);
    let (gone, granted) = (waiting(&a), waiting(&a));
    let mut last = waiting(&b);
    drop(gone);
    drop(whole);
    drop(granted);
    assert!((&mut last).now_or_never().is_some());
    drop(last);
    let total = CORE.with(|core| core.held[Use::Pulled as usize].get());
    assert_eq!(total, 0, "nothing is counted that nobody has");
    let short = stranger("short", 4);
    short.delivered(REMEMBERED_BYTES - 1);
    drop((full, a, b, short));
    let kept = CORE.with(|core| core.accounts.borrow().len());
    assert_eq!(kept, 6, "only names and addresses from which much has come");
}

#[test]
fn who_has_sent_much_is_known_at_its_next_login() {
    drop(owner("good", 1));
    let strangers: Vec<_> = (10..50).map(|n| stranger(&n.to_string(), n)).collect();
    let held: Vec<_> = strangers.iter().map(all).collect();
    assert_eq!(all(&stranger("good", 1)).len(), 11);
    assert_eq!(all(&stranger("good", 2)).len(), 0);
    drop(held);
    // Of very many the newest are remembered.
    for n in 0..trust::REMEMBERED_MAX {
        Owner::new(&n.to_string().into(), [10, 0, (n / 256) as u8, n as u8].into()).delivered(MIB);
    }
    assert!(
        CORE.with(|core| core.accounts.borrow().len())
            <= trust::REMEMBERED_MAX + 2 * strangers.len()
    );
}

/// What names must have sent to be trusted costs them little once; the others who sent no more are not
/// trusted any more then.
#[test]
fn who_is_known_and_sends_nothing_takes_the_trust_in_others_along() {
    let names: Vec<_> = (0..8).map(|n| stranger(&n.to_string(), n)).collect();
    names.iter().for_each(|it| it.delivered(8 * MIB));
    let mut held: Vec<_> = names.iter().map(|it| asks(it, 8 * MIB)).collect();
    let granted = held.iter().filter(|(_, granted)| granted.is_some()).count();
    assert_eq!(granted, 3, "all that is not kept for those who have sent many times as much");
    for name in &names[..3] {
        name.distrust();
    }
    held.drain(..3);
    // Others of them would have had as much again.
    let granted = held.iter_mut().filter_map(|(waits, _)| waits.now_or_never());
    assert_eq!(granted.collect::<Vec<_>>().len(), 2, "the part of strangers");
}

/// Names that have sent just enough to be known for what they announce, and send none of it, are in nobody's
/// way who has sent much more; and those who are trusted do not keep the others from their part.
#[test]
fn who_has_sent_just_enough_keeps_nobody_waiting_who_has_sent_much_more() {
    let good = owner("good", 100);
    let enough: Vec<_> = (0..40).map(|n| stranger(&n.to_string(), n)).collect();
    enough.iter().for_each(|it| it.delivered(8 * MIB));
    let mut asked: Vec<_> = enough.iter().map(|it| asks(it, 8 * MIB)).collect();
    assert_eq!(asked.iter().filter(|(_, granted)| granted.is_some()).count(), 3);
    let (_, granted) = asks(&good, 8 * MIB);
    assert!(granted.is_some(), "it does not stand behind 37 others");
    // It holds what is left, and waits for more; so do others who are trusted.
    let mut waits: Vec<_> = (101..104).map(|n| asks(&owner(&n.to_string(), n), 8 * MIB)).collect();
    assert!(waits.iter().all(|(_, granted)| granted.is_none()));
    drop(granted);
    assert!((&mut waits[0].0).now_or_never().is_some());
    // What one of those in the lower part gives back goes to all in turns.
    for (_, granted) in &mut asked[..3] {
        drop(granted.take());
    }
    let others = asked[3..].iter_mut().filter_map(|(waits, _)| waits.now_or_never());
    let others = others.collect::<Vec<_>>().len();
    assert!((1..=3).contains(&others), "{others}");
}

#[test]
fn who_becomes_known_while_it_waits_leaves_the_strangers() {
    let strangers: Vec<_> = (0..40).map(|n| stranger(&n.to_string(), n)).collect();
    let held: Vec<_> = strangers.iter().map(all).collect();
    let (late, good) = (stranger("late", 99), stranger("good", 100));
    let mut waits = [&good, &good, &late].map(waiting);
    good.delivered(MIB);
    look_anew(&good, Way::In);
    // What it is given it keeps.
    let given = waits.each_mut().map(|it| it.now_or_never());
    assert_eq!(given.each_ref().map(Option::is_some), [true, false, false]);
    // The other is with the strangers still, once.
    let pulled = Use::Pulled as usize;
    let lines = CORE.with(|core| core.turns[pulled].lens());
    assert_eq!(lines, [0, 0, 2, 0]);
    drop(held);
}

/// One that waits for so much, or has it.
fn asks(owner: &Rc<Owner>, bytes: usize) -> (Waiting, Option<Claim>) {
    let owner = owner.clone();
    let mut claim: Waiting = Box::pin(async move { Claim::wait(&owner, Use::Pulled, bytes).await });
    let granted = (&mut claim).now_or_never();
    (claim, granted)
}

#[test]
fn strangers_that_wait_hold_up_nobody_who_is_known_however_many_they_are() {
    // Strangers have 16 MiB of 32: two may hold 8 each, and the others wait.
    let strangers: Vec<_> = (0..45).map(|n| stranger(&n.to_string(), n % 4)).collect();
    let mut asked: Vec<_> = strangers.iter().map(|it| asks(it, 8 * MIB)).collect();
    assert_eq!(asked.iter().filter(|(_, granted)| granted.is_some()).count(), 2);
    // The known hold less than what is left, and there is less than any stranger waits for.
    let mut held = all(&owner("much", 100));
    held.extend(all(&owner("more", 101)));
    assert_eq!(held.len(), 15);
    let good = [owner("good", 102), owner("other", 103)];
    let one = Claim::new(&good[0], Use::Pulled, MIB);
    assert!(one.is_some(), "there is one left");
    let mut waits = good.each_ref().map(waiting);
    for it in &mut waits {
        drop(held.pop());
        assert!(it.now_or_never().is_some(), "it does not stand behind 43 strangers");
    }
    let new = stranger("new", 104);
    let (mut new, granted) = asks(&new, MIB);
    assert!(granted.is_none(), "who is new waits with the strangers");
    // Those who kept room for nothing let the others go first.
    for stranger in &strangers {
        stranger.distrust();
    }
    for (_, granted) in &mut asked {
        drop(granted.take());
    }
    assert!((&mut new).now_or_never().is_some());
}

#[test]
fn the_known_and_the_strangers_have_turns() {
    let (full, known, new) = (owner("full", 1), owner("known", 2), stranger("new", 3));
    let [whole, small] = [24, 8].map(|mib| {
        let mut claim = Claim::none(&full, Use::Pulled);
        claim.grow(mib * MIB);
        claim
    });
    let mut known_waits = [8, 4].map(|mib| asks(&known, mib * MIB).0);
    let (mut new_waits, _) = asks(&new, 10 * MIB);
    drop(small);
    let first = (&mut known_waits[0]).now_or_never();
    assert!(first.is_some(), "all of one turn");
    drop(first);
    // It is the turn of the stranger, which needs more: nobody overtakes it.
    assert!((&mut known_waits[1]).now_or_never().is_none());
    assert!(Claim::new(&known, Use::Pulled, 1).is_none());
    drop(whole);
    assert!((&mut new_waits).now_or_never().is_some());
    assert!((&mut known_waits[1]).now_or_never().is_some());
}

#[test]
fn a_turn_is_as_much_for_many_short_ones_as_for_a_long_one() {
    let (full, long, short) = (owner("full", 1), owner("long", 2), owner("short", 3));
    let mut whole = Claim::none(&full, Use::Pulled);
    whole.grow(32 * MIB);
    let mut long_waits = [(); 4].map(|()| asks(&long, 8 * MIB).0);
    let mut short_waits = [(); 9].map(|()| waiting(&short));
    drop(whole);
    let mut got = |claim: &mut Waiting| claim.now_or_never();
    let long: Vec<_> = long_waits.iter_mut().filter_map(&mut got).collect();
    let short: Vec<_> = short_waits.iter_mut().filter_map(&mut got).collect();
    assert_eq!((long.len(), short.len()), (2, 9));
}

#[test]
fn who_comes_last_is_not_behind_all_strangers_that_were_there_before() {
    let strangers: Vec<_> = (0..200).map(|n| stranger(&n.to_string(), n)).collect();
    let mut asked: Vec<_> = strangers.iter().map(|it| asks(it, 8 * MIB)).collect();
    let new = stranger("new", 250);
    let (mut new, granted) = asks(&new, MIB);
    assert!(granted.is_none());
    // One for the stranger who waits longest, and one for the newcomer.
    for (_, granted) in &mut asked[..2] {
        drop(granted.take());
    }
    assert!((&mut new).now_or_never().is_some());
    assert!((&mut asked[2].0).now_or_never().is_some());
}

#[test]
fn an_address_that_waits_in_two_lines_keeps_its_place_among_the_new_ones() {
    let (full, both, new) = (owner("full", 1), stranger("both", 2), stranger("new", 3));
    both.delivered(4 * MIB);
    let held = [&both, &new].map(|it| asks(it, MIB).1);
    assert!(held.iter().all(Option::is_some));
    let mut rest = Claim::none(&full, Use::Pulled);
    rest.grow(30 * MIB);
    // It is known for 4 MiB, not for 9 more; both addresses have some.
    let waits = [(&both, 9), (&new, 1), (&both, 1)].map(|(it, mib)| asks(it, mib * MIB));
    assert!(waits.iter().all(|(_, granted)| granted.is_none()));
    CORE.with(|core| {
        let turns = &core.turns[Use::Pulled as usize];
        assert_eq!(turns.lens(), [0, 1, 2, 0]);
        assert!(turns.are_new_in_order(Use::Pulled));
    });
}

#[test]
fn what_others_have_sent_from_an_address_stays_theirs() {
    let (good, bad) = (owner("good", 1), stranger("bad", 1));
    bad.delivered(8 * MIB);
    bad.distrust();
    let strangers: Vec<_> = (10..50).map(|n| stranger(&n.to_string(), n)).collect();
    let held: Vec<_> = strangers.iter().map(all).collect();
    assert!(Claim::new(&bad, Use::Pulled, MIB).is_none(), "strangers have their part");
    assert!(Claim::new(&good, Use::Pulled, MIB).is_some());
    drop(held);
}

/// What hosts do to the memory of a core: who, and how much or which one.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(u8, usize),
    GiveBack(usize),
    GoAway(usize),
    Deliver(u8, usize),
    Distrust(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (who, much) = (|| 0..6_u8, || 1..10_usize);
    prop_oneof![
        8 => (who(), much()).prop_map(|(who, much)| Step::Ask(who, much)),
        4 => any::<usize>().prop_map(Step::GiveBack),
        1 => any::<usize>().prop_map(Step::GoAway),
        2 => (who(), 0..11_u32).prop_map(|(who, much)| Step::Deliver(who, 1 << much)),
        1 => who().prop_map(Step::Distrust),
    ]
}

/// The sums are what is held, no part has more than it may, and the new ones stand in their order.
fn check(held: &[(u8, Claim)]) -> Result<(), TestCaseError> {
    let of = Use::Pulled;
    let sum: usize = held.iter().map(|(_, claim)| claim.bytes).sum();
    CORE.with(|core| {
        prop_assert_eq!(core.held[of as usize].get(), sum);
        prop_assert_eq!(core.part_held(of, Level::Trusted), sum);
        for level in Level::ALL {
            prop_assert!(core.part_held(of, level) <= of.part_bytes(level), "{:?}", level);
        }
        prop_assert!(core.turns[of as usize].are_new_in_order(of));
        Ok(())
    })
}

proptest! {
    /// Whatever hosts ask for, are given and leave, no part has more than it may, and when all is given back
    /// everybody who waits is served, however he is known.
    #[test]
    fn memory_is_within_its_bounds_and_whoever_waits_is_served_in_the_end(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let owners: Vec<_> = (0..6).map(|n| stranger(&n.to_string(), n / 2)).collect();
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Ask(who, much) => match asks(&owners[usize::from(who)], much * MIB) {
                    (_, Some(claim)) => held.push((who, claim)),
                    (waits, None) => waiting.push((who, waits)),
                },
                Step::GiveBack(which) if !held.is_empty() => {
                    drop(held.swap_remove(which % held.len()));
                }
                Step::GoAway(which) if !waiting.is_empty() => {
                    drop(waiting.swap_remove(which % waiting.len()));
                }
                Step::Deliver(who, much) => {
                    owners[usize::from(who)].delivered(much * MIB);
                    look_anew(&owners[usize::from(who)], Way::In);
                }
                Step::Distrust(who) => owners[usize::from(who)].distrust(),
                Step::GiveBack(_) | Step::GoAway(_) => {}
            }
            waiting.retain_mut(|(who, waits)| match waits.now_or_never() {
                Some(claim) => {
                    held.push((*who, claim));
                    false
                }
                None => true,
            });
            check(&held)?;
        }
        while !waiting.is_empty() {
            prop_assert!(!held.is_empty() || look_again(Use::Pulled));
            held.clear();
            let before = waiting.len();
            waiting.retain_mut(|(who, waits)| match waits.now_or_never() {
                Some(claim) => {
                    held.push((*who, claim));
                    false
                }
                None => true,
            });
            prop_assert!(waiting.len() < before, "{before} wait for what nobody has");
        }
        held.clear();
        check(&held)?;
    }
}

/// Addresses that have had a turn, and want more, do not stand before one that comes later and has nothing:
/// what each of them was given counted as if it had just come.
#[test]
fn who_comes_last_does_not_wait_for_the_second_turns_of_all_others() {
    let flood: Vec<_> = (0..20).map(|n| stranger(&n.to_string(), n)).collect();
    let asked = (0..8).flat_map(|_| flood.iter().map(|it| asks(it, MIB)));
    let (mut held, mut waits) = (Vec::new(), Vec::new());
    for (claim, granted) in asked {
        match granted {
            Some(granted) => held.push(granted),
            None => waits.push(claim),
        }
    }
    assert_eq!(held.len(), 16, "the part of strangers");
    let mut newcomer = waiting(&stranger("new", 99));
    for given_back in 1..=20 {
        held.remove(0);
        if (&mut newcomer).now_or_never().is_some() {
            assert!(given_back <= 3, "after {given_back}");
            return;
        }
        waits.retain_mut(|claim| match claim.now_or_never() {
            Some(granted) => {
                held.push(granted);
                false
            }
            None => true,
        });
    }
    panic!("it waits behind all of them");
}

/// Those who wait let it be known every 100 ms. Each time all who wait at the same address were looked at, and the
/// time was asked for each of them, several times: 500 sessions that asked and took nothing kept a core
/// busy with that, and a neighbour's read took half a second.
#[test]
fn what_those_who_wait_cost_does_not_grow_with_their_number() {
    const MANY: usize = 1000;
    let names: Vec<_> = (0..MANY).map(|n| stranger(&n.to_string(), 1)).collect();
    let mut held = all(&names[0]);
    // From now on levels depend on the time.
    names[0].distrust();
    let waits: Vec<_> = names.iter().map(waiting).collect();
    let counts = || CORE.with(|core| core.clock.take_counts());

    counts();
    drop(held.pop());
    let [asked, levels] = counts();
    assert!(asked <= 1, "the time was asked {asked} times for what one gave back");
    assert!((1..MANY / 2).contains(&levels), "{levels} levels were worked out for it");

    for name in &names {
        look_anew(name, Way::In);
    }
    let [asked, levels] = counts();
    assert!(asked <= Way::In.uses().len() * MANY, "the time was asked {asked} times");
    assert!(levels < 20 * MANY, "{levels} levels were worked out");
    drop(waits);
}
