//! Tokens and their registry.

use super::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn request(ranges: &[(u64, u32)], inactivity_timeout_s: u32) -> PopulateToken {
    let ranges = ranges.iter().map(|&(lba, blocks)| TokenRange { lba, blocks }).collect();
    PopulateToken { immediate: false, inactivity_timeout_s, ranges }
}

fn create(registry: &mut TokenRegistry<u32>, id: u64, now: Duration) -> RodToken {
    create_for(registry, (id, 0), 30, now)
}

fn create_for(
    registry: &mut TokenRegistry<u32>,
    of: (u64, u32),
    inactivity_s: u32,
    now: Duration,
) -> RodToken {
    let source =
        TokenSource { unit: naa(7), target_name: "iqn.2026-11.dev.drystone:v", block_bytes: 512 };
    let request = request(&[(10, 4), (0, 2)], inactivity_s);
    registry.create(of, &source, &request, now, &[0xa5; 256]).unwrap()
}

fn refusal(registry: &mut TokenRegistry<u32>, token: &RodToken, now: Duration) -> AdditionalSense {
    let sense = registry.resolve(token.bytes(), now).unwrap_err();
    assert_eq!(sense.key, SenseKey::IllegalRequest);
    sense.additional
}

#[test]
fn the_wire_form_is_the_generic_rod_token() {
    let mut registry = TokenRegistry::new();
    let token = create(&mut registry, 77, SECOND);
    let bytes = token.bytes();
    assert_eq!(bytes[..8], [0, 1, 0, 0, 0, 0, 0x01, 0xf8]);
    assert_eq!(bytes[8..16], 77_u64.to_be_bytes());
    assert_eq!(bytes[16..28], [0xe4, 0, 0, 0, 1, 3, 0, 16, 0x60, 0, 0, 0]);
    assert_eq!(bytes[48..64], (6_u128 * 512).to_be_bytes());
    assert_eq!(bytes[96..100], 512_u32.to_be_bytes());
    assert_eq!(bytes[128..132], [0x53, 0xa8, 0, 28]);
    assert_eq!(&bytes[132..158], b"iqn.2026-11.dev.drystone:v");
    assert_eq!(bytes[256..], [0xa5; 256]);
    assert!(!format!("{token:?}").contains("a5"), "the secret stays out of logs");
}

#[test]
fn a_token_is_resolved_to_what_it_was_made_for() {
    let mut registry = TokenRegistry::new();
    let (first, second) = (create(&mut registry, 7, SECOND), create(&mut registry, 8, SECOND));
    assert_ne!(first.bytes(), second.bytes(), "even with equal random bytes");
    assert!(registry.contains(8) && !registry.contains(9));
    let contents = registry.resolve(second.bytes(), SECOND).unwrap();
    let ranges = request(&[(10, 4), (0, 2)], 30).ranges;
    assert_eq!(contents, TokenContents { block_bytes: 512, ranges: &ranges });
}

#[test]
fn a_header_says_what_a_token_is() {
    let mut token = [0; ROD_TOKEN_BYTES];
    token[..8].copy_from_slice(&[0xff, 0xff, 0, 1, 0, 0, 0x01, 0xf8]);
    assert_eq!(RodToken::kind_of(&token), Ok(TokenKind::Zeroes), "known without being made");
    let mut made = *create(&mut TokenRegistry::new(), 7, SECOND).bytes();
    assert_eq!(RodToken::kind_of(&made), Ok(TokenKind::Blocks(7)));
    made[1] = 0x80;
    let unsupported = illegal(AdditionalSense::UNSUPPORTED_REQUEST_TOKEN_TYPE);
    assert_eq!(RodToken::kind_of(&made), Err(unsupported));
    made[7] = 0;
    let length = illegal(AdditionalSense::INVALID_TOKEN_LENGTH);
    assert_eq!(RodToken::kind_of(&made), Err(length));
}

#[test]
fn a_token_expires_when_it_is_not_used() {
    let mut registry = TokenRegistry::new();
    let token = create(&mut registry, 7, SECOND);
    assert!(registry.resolve(token.bytes(), 30 * SECOND).is_ok());
    assert!(registry.resolve(token.bytes(), 59 * SECOND).is_ok(), "use puts the end off");
    assert_eq!(refusal(&mut registry, &token, 89 * SECOND), AdditionalSense::INVALID_TOKEN_EXPIRED);
    registry.drop_expired(89 * SECOND);
    assert_eq!(refusal(&mut registry, &token, 89 * SECOND), AdditionalSense::INVALID_TOKEN_UNKNOWN);
}

#[test]
fn deleted_and_revoked_tokens_say_so() {
    let mut registry = TokenRegistry::new();
    let tokens: Vec<_> = (0..2).map(|id| create(&mut registry, id, SECOND)).collect();
    let mut forged = *tokens[0].bytes();
    forged[300] = 0;
    registry.delete(&forged);
    assert!(registry.resolve(tokens[0].bytes(), SECOND).is_ok(), "a guess deletes nothing");
    registry.delete(tokens[0].bytes());
    registry.revoke_range(&TokenRange { lba: 2, blocks: 8 });
    assert!(registry.resolve(tokens[1].bytes(), SECOND).is_ok(), "blocks between its ranges");
    registry.revoke_range(&TokenRange { lba: 13, blocks: 1 });
    let why = [0, 1].map(|n: usize| refusal(&mut registry, &tokens[n], SECOND));
    let revoked = AdditionalSense::INVALID_TOKEN_REVOKED;
    assert_eq!(why, [AdditionalSense::INVALID_TOKEN_DELETED, revoked]);
    let third = create(&mut registry, 3, SECOND);
    registry.revoke_all();
    assert_eq!(refusal(&mut registry, &third, SECOND), revoked);
}

#[test]
fn the_number_of_tokens_is_bounded_and_expired_ones_make_room() {
    let mut registry = TokenRegistry::new();
    (0..TOKENS_MAX as u64).for_each(|id| drop(create(&mut registry, id, SECOND)));
    let source = TokenSource { unit: naa(1), target_name: "iqn.x", block_bytes: 512 };
    let request = request(&[(0, 1)], 30);
    let one_more = registry.create((999, 0), &source, &request, 31 * SECOND, &[0; 256]);
    let code = AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN;
    assert_eq!(one_more, Err(illegal(code)));
    registry.drop_expired(31 * SECOND);
    assert!(registry.is_empty());
}

#[test]
fn tokens_that_have_done_their_work_make_room_for_others_of_their_owner() {
    let mut registry = TokenRegistry::new();
    let (mine, other) = (1, 2);
    let owners = [mine, mine, mine, mine, other];
    let tokens: Vec<_> = (0..)
        .zip(owners)
        .map(|(id, owner)| create_for(&mut registry, (id, owner), 30, SECOND))
        .collect();
    for (token, at) in [(0, 2), (1, 9), (4, 2)] {
        registry.resolve(tokens[token].bytes(), at * SECOND).unwrap();
    }
    registry.delete(tokens[2].bytes());
    registry.drop_spent(8 * SECOND, |&owner| owner == mine);
    let left: Vec<_> = (0..5).filter(|&id| registry.contains(id)).collect();
    assert_eq!(left, [1, 3, 4], "in use, not used yet, and of another owner");
    assert_eq!(registry.places().copied().collect::<Vec<_>>(), [mine, mine, other]);
    registry.clear();
    assert_eq!(registry.len(), 0);
}

#[test]
fn report_all_rod_tokens_keeps_the_secret() {
    let mut registry = TokenRegistry::new();
    let tokens: Vec<_> = (0..3).map(|id| create(&mut registry, id, SECOND)).collect();
    registry.delete(tokens[1].bytes());
    let data = report_all(&registry.management_tokens(2 * SECOND));
    assert_eq!(data[..8], [0, 0, 0, 196, 0, 0, 0, 0]);
    assert_eq!(data[8..104], tokens[0].bytes()[..96]);
    assert_eq!(data[104..], tokens[2].bytes()[..96]);
    let data = report_all(&registry.management_tokens(31 * SECOND));
    assert_eq!(data, [0, 0, 0, 4, 0, 0, 0, 0], "all expired");
}

#[test]
fn a_long_target_name_is_cut_between_characters() {
    let name = "ü".repeat(100);
    let source = TokenSource { unit: naa(1), target_name: &name, block_bytes: 512 };
    let request = request(&[(0, 1)], 30);
    let mut registry = TokenRegistry::new();
    let token = registry.create((1, ()), &source, &request, SECOND, &[1; 256]).unwrap();
    let text = &token.bytes()[132..256];
    let end = text.iter().position(|&byte| byte == 0).expect("a NUL ends it");
    assert_eq!((token.bytes()[131], end), (124, 122));
    assert!(std::str::from_utf8(&text[..end]).is_ok());
}

proptest! {
    #[test]
    fn no_token_panics(
        mut bytes in prop::collection::vec(any::<u8>(), ROD_TOKEN_BYTES), head in any::<bool>()
    ) {
        let mut registry = TokenRegistry::new();
        let token = create(&mut registry, 7, SECOND);
        if head {
            bytes[..256].copy_from_slice(&token.bytes()[..256]);
        }
        let bytes: [u8; ROD_TOKEN_BYTES] = bytes.try_into().unwrap();
        let _any_answer = RodToken::kind_of(&bytes);
        prop_assert!(registry.resolve(&bytes, SECOND).is_err(), "it cannot be guessed");
    }
}

/// A token, its ranges, and until when it is good.
type Known = (RodToken, Vec<(u64, u32)>, Duration);

/// What hosts do with the tokens of a unit, and to its blocks.
#[derive(Debug, Clone)]
enum Step {
    Create(Vec<(u64, u32)>),
    Use(usize),
    Delete(usize),
    Change(u64, u32),
    Wait(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let range = || (0..24_u64, 1..5_u32);
    prop_oneof![
        3 => prop::collection::vec(range(), 1..3).prop_map(Step::Create),
        4 => any::<usize>().prop_map(Step::Use),
        1 => any::<usize>().prop_map(Step::Delete),
        3 => range().prop_map(|(lba, blocks)| Step::Change(lba, blocks)),
        2 => (0..20_u8).prop_map(Step::Wait),
    ]
}

proptest! {
    /// A token stands for what its blocks held when it was made, or for nothing: whoever changes one of
    /// them, lets it lie for too long or deletes it, it is of no use from then on.
    #[test]
    fn histories_of_tokens_match_the_model(steps in prop::collection::vec(any_step(), 1..80)) {
        const KEPT: Duration = Duration::from_secs(30);
        let mut registry = TokenRegistry::new();
        let mut model: Vec<Known> = Vec::new();
        let mut now = SECOND;
        for (id, step) in (0..).zip(steps) {
            match step {
                Step::Create(ranges) => {
                    let source = TokenSource { unit: naa(7), target_name: "iqn.x", block_bytes: 512 };
                    let wanted = request(&ranges, KEPT.as_secs() as u32);
                    let token = registry.create((id, 0), &source, &wanted, now, &[1; 256]).unwrap();
                    model.push((token, ranges, now + KEPT));
                }
                Step::Use(which) if !model.is_empty() => {
                    let at = which % model.len();
                    let (token, ranges, until) = &mut model[at];
                    let found = registry.resolve(token.bytes(), now).map(|it| it.ranges.to_vec());
                    prop_assert_eq!(found.is_ok(), *until > now);
                    if let Ok(found) = found {
                        prop_assert_eq!(found, request(ranges, 1).ranges);
                        *until = now + KEPT;
                    }
                }
                Step::Delete(which) if !model.is_empty() => {
                    let at = which % model.len();
                    registry.delete(model[at].0.bytes());
                    model[at].2 = Duration::ZERO;
                }
                Step::Change(lba, blocks) => {
                    registry.revoke_range(&TokenRange { lba, blocks });
                    let overlaps = |&(at, len): &(u64, u32)| {
                        at < lba + u64::from(blocks) && lba < at + u64::from(len)
                    };
                    for (_, ranges, until) in &mut model {
                        if ranges.iter().any(overlaps) {
                            *until = Duration::ZERO;
                        }
                    }
                }
                Step::Wait(seconds) => now += u32::from(seconds) * SECOND,
                Step::Use(_) | Step::Delete(_) => {}
            }
        }
    }
}
