//! Tokens to join with: worth something once, for a time, and to who has the secret.

use super::meddled::Meddled;
use super::*;

#[test]
fn a_token_lets_in_one_server() {
    let membership = group(&store());
    let (id, secret) = token(&membership);
    let admit = |applicant| wait(membership.admit(&id, secret.as_str(), applicant, NOW));
    let (number, roll) = admit(applicant(2)).unwrap();
    roll.check();
    assert_eq!((number, roll.tokens.len()), (MemberId(2), 0));
    assert_eq!(roll, read(&membership));
    let again = admit(applicant(3)).unwrap_err();
    assert!(matches!(again, MembershipError::Token), "{again}");
    assert_eq!(names(&read(&membership)), [(1, "server-1"), (2, "server-2")]);
    assert_eq!(join(&membership, applicant(3)).unwrap().0, MemberId(3));
}

#[test]
fn a_token_that_has_expired_lets_nobody_in() {
    let membership = group(&store());
    let minute = Duration::from_secs(60);
    let (id, secret, kept) = wait(membership.create_token(minute, NOW)).unwrap();
    assert_eq!(kept.expires_unix_seconds, NOW + 60);
    let at = |now| Applicant { clock_unix_seconds: now, ..applicant(2) };
    let judge = |now| wait(membership.judge(&id, secret.as_str(), &at(now), now));
    assert_eq!(judge(NOW + 59).unwrap(), MemberId(2));
    for now in [NOW + 60, NOW + 61, NOW + 1_000_000] {
        let refused = judge(now).unwrap_err();
        assert!(matches!(refused, MembershipError::Token), "{refused}");
        let refused = wait(membership.admit(&id, secret.as_str(), at(now), now)).unwrap_err();
        assert!(matches!(refused, MembershipError::Token), "{refused}");
    }
    assert_eq!(names(&read(&membership)), [(1, "server-1")]);
}

#[test]
fn who_has_no_good_token_hears_one_sentence_and_nothing_of_the_group() {
    let membership = group(&store());
    let (used, used_secret) = token(&membership);
    wait(membership.admit(&used, used_secret.as_str(), applicant(2), NOW)).unwrap();
    let (good, good_secret) = token(&membership);
    let (other, other_secret) = token(&membership);
    assert_ne!(good, other);
    // Last, as one that is made later sweeps it away.
    let second = Duration::from_secs(1);
    let (old, old_secret, _) = wait(membership.create_token(second, NOW - 1)).unwrap();
    assert!(read(&membership).tokens.contains_key(&old));
    let cut = &good_secret.as_str()[..good_secret.as_str().len() - 1];
    let tries = [
        (good.as_str(), other_secret.as_str()),
        (good.as_str(), cut),
        (good.as_str(), ""),
        (other.as_str(), good_secret.as_str()),
        ("00000000", good_secret.as_str()),
        ("", ""),
        (used.as_str(), used_secret.as_str()),
        (old.as_str(), old_secret.as_str()),
    ];
    // All else that is wrong with it is not said.
    let wrong = Applicant { name: "server-1".to_owned(), clock_unix_seconds: 0, ..applicant(1) };
    let before = read(&membership);
    for (id, secret) in tries {
        for applicant in [wrong.clone(), applicant(3)] {
            assert_eq!(
                said(wait(membership.admit(id, secret, applicant.clone(), NOW))),
                MembershipError::Token.to_string(),
                "{id}"
            );
            assert_eq!(
                said(wait(membership.judge(id, secret, &applicant, NOW))),
                MembershipError::Token.to_string(),
                "{id}"
            );
        }
    }
    assert_eq!(read(&membership), before);
    wait(membership.admit(&good, good_secret.as_str(), applicant(3), NOW)).unwrap();
    wait(membership.admit(&other, other_secret.as_str(), applicant(4), NOW)).unwrap();
}

#[test]
fn a_token_lasts_from_a_second_to_a_week() {
    let membership = group(&store());
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    let wrong = [
        Duration::ZERO,
        Duration::from_millis(999),
        days(LIFETIME_DAYS_MAX) + Duration::from_secs(1),
        Duration::MAX,
    ];
    for lifetime in wrong {
        let refused = wait(membership.create_token(lifetime, NOW)).unwrap_err();
        assert!(matches!(refused, MembershipError::Lifetime), "{lifetime:?}: {refused}");
    }
    for lifetime in [Duration::from_secs(1), days(LIFETIME_DAYS_MAX)] {
        let (id, _, kept) = wait(membership.create_token(lifetime, NOW)).unwrap();
        assert_eq!(kept.expires_unix_seconds - NOW, lifetime.as_secs());
        assert_eq!(read(&membership).tokens[&id], kept);
    }
    assert!(said(wait(membership.create_token(days(8), NOW))).ends_with("one second to 7 days"));
}

#[test]
fn there_are_so_many_tokens_and_those_that_expired_make_room() {
    let membership = group(&store());
    let mut ids = Vec::new();
    for _ in 0..TOKENS_MAX {
        ids.push(token(&membership).0);
    }
    let full = wait(membership.create_token(HOUR, NOW)).unwrap_err();
    assert!(matches!(full, MembershipError::TooManyTokens), "{full}");
    wait(membership.revoke_token(&ids[0])).unwrap();
    let gone = wait(membership.revoke_token(&ids[0])).unwrap_err();
    assert!(matches!(&gone, MembershipError::NoSuchToken(id) if *id == ids[0]), "{gone}");
    token(&membership);
    let later = NOW + HOUR.as_secs();
    let full = wait(membership.create_token(HOUR, later - 1)).unwrap_err();
    assert!(matches!(full, MembershipError::TooManyTokens), "{full}");
    let (id, _, _) = wait(membership.create_token(HOUR, later)).unwrap();
    assert_eq!(read(&membership).tokens.keys().collect::<Vec<_>>(), [&id]);
}

/// Whoever reaches the door can present one, again and again: the store is not read from end to end each time.
#[test]
fn a_token_that_is_worth_nothing_costs_one_key_and_rubbish_none() {
    let store = store();
    let others = group(&store);
    let meddled = Meddled::with(&store);
    let membership = meddled.membership();
    let (id, secret) = token(&others);
    let tried = |id: &str, secret: &str| {
        meddled.asked();
        let judged = wait(membership.judge(id, secret, &applicant(2), NOW)).unwrap_err();
        let admitted = wait(membership.admit(id, secret, applicant(2), NOW)).unwrap_err();
        for error in [judged, admitted] {
            assert!(matches!(error, MembershipError::Token), "{id}: {error}");
        }
        meddled.asked()
    };
    let (good, long) = (secret.as_str(), format!("{}0", secret.as_str()));
    for (id, secret) in [
        ("", good),
        ("0012abc", good),
        ("0012abcg", good),
        ("../about", good),
        (id.as_str(), ""),
        (id.as_str(), &good[1..]),
        (id.as_str(), long.as_str()),
    ] {
        assert_eq!(tried(id, secret), [], "{id}");
    }
    let once = |id: &str| Selection::key(format!("group/tokens/{id}"));
    let other = TokenText::draw().unwrap();
    assert_eq!(tried(&id, other.as_str()), [once(&id), once(&id)], "the wrong secret");
    wait(others.revoke_token(&id)).unwrap();
    assert_eq!(tried(&id, good), [once(&id), once(&id)], "there is none");
    let second = Duration::from_secs(1);
    let (old, secret, _) = wait(others.create_token(second, NOW - 1)).unwrap();
    assert_eq!(tried(&old, secret.as_str()), [once(&old), once(&old)], "it has expired");
}

#[test]
fn the_store_has_no_secret_of_a_token() {
    let store = store();
    let membership = group(&store);
    let (id, secret) = token(&membership);
    let all = wait(store.range(Selection::prefix(""))).unwrap();
    assert!(all.kvs.iter().any(|kv| kv.key == format!("group/tokens/{id}").as_bytes()));
    for kv in all.kvs {
        let text = String::from_utf8_lossy(&kv.value).into_owned();
        let digits = secret.as_str().trim_start_matches("drystone_");
        assert!(!text.contains(digits), "{text}");
    }
}

#[test]
fn without_a_group_there_are_no_tokens() {
    let membership = Membership::new(store());
    let refused = [
        wait(membership.create_token(HOUR, NOW)).map(|_| ()),
        wait(membership.revoke_token("00000000")),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, MembershipError::NoGroup), "{error}");
    }
    let secret = TokenText::draw().unwrap();
    let refused = [
        wait(membership.judge("00000000", secret.as_str(), &applicant(2), NOW)).map(|_| ()),
        wait(membership.admit("00000000", secret.as_str(), applicant(2), NOW)).map(|_| ()),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, MembershipError::Token), "{error}");
    }
}
