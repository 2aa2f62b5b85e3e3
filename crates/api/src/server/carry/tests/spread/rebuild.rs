//! A home that has lost what it had stored asks for what others have, and a record that is damaged is shown and discarded.

use group::spread::{NotRebuilt, SliceRecord};
use member::DamagedRecord;

use super::*;
use crate::server::spread::{discard, own_slices, rebuild};
use crate::types::SliceState;

/// What the second member has stored.
fn record() -> SliceRecord {
    let here = SliceStanding { size_bytes: GIB, stage: SliceStage::Here };
    letter(Order::Make { size_bytes: GIB }).record(here)
}

/// What the home makes of it.
fn rebuilt() -> SpreadShown {
    let SliceRecord { spread, group, home_array, dealt, name, .. } = record();
    let record = SpreadRecord {
        id: spread,
        group,
        home_array,
        name,
        size_bytes: GIB,
        page_bytes: dealt.page_bytes,
        pattern: dealt.pattern,
        openings: vec![Openings::default(); dealt.seats.len()],
        seats: dealt.seats,
        stage: SpreadStage::Whole,
    };
    SpreadShown { record, is_of: true, slices: Vec::new() }
}

/// A home that has one rebuilt of what the second member says.
async fn home(tells: fn() -> Result<Answer, RequestError>) -> Pair {
    let left = |request: &Request| match request {
        Request::Spread(SpreadRequest::Rebuild { records, .. }) => {
            let missing = NotRebuilt::Missing(vec![RIGHT]);
            Some(match records[..] == [record()] {
                true => Ok(Answer::Spread(Box::new(rebuilt()))),
                false => Err(SpreadRefusal::from(missing).into()),
            })
        }
        Request::Spread(SpreadRequest::List) => Some(Ok(Answer::Spreads(vec![rebuilt()]))),
        Request::Volume(VolumeRequest::Show { name }) => {
            Some(Ok(Answer::Volume(Box::new(volume(name)))))
        }
        _ => Some(Err(RequestError::NoResult)),
    };
    let right = move |request: &Request| match request {
        Request::Spread(SpreadRequest::Tell { from: LEFT, .. }) => Some(tells()),
        _ => Some(Err(RequestError::NoResult)),
    };
    let pair = Pair::with(left, right).await;
    of_a_group(&pair);
    pair
}

#[tokio::test]
async fn a_home_rebuilds_of_what_all_members_have_told() {
    let pair = home(|| Ok(Answer::SliceRecord(Some(Box::new(record()))))).await;
    let made = rebuild(&pair.left.app, slice_id().as_str(), false).await.expect("it has told");
    assert_eq!(made.name, "big");
    let asked = SpreadRequest::Tell { from: LEFT, slice: slice_id() };
    assert_eq!(pair.right.asked(), [Request::Spread(asked)]);
    for despite_later in [false, true] {
        rebuild(&pair.left.app, slice_id().as_str(), despite_later).await.expect("it has told");
        let records = vec![record()];
        let said = SpreadRequest::Rebuild { records, despite_later };
        assert!(pair.left.asked().contains(&Request::Spread(said)), "{despite_later}");
    }
    let none = rebuild(&pair.left.app, "big", false).await.expect_err("it is no number");
    assert_eq!(none.code, Code::NoSuchSlice);
}

#[tokio::test]
async fn a_member_that_has_not_told_is_named() {
    let pair = home(|| Err(SpreadRefusal::Unread("a record is damaged".to_owned()).into())).await;
    let problem =
        rebuild(&pair.left.app, slice_id().as_str(), false).await.expect_err("one is silent");
    assert_eq!(problem.code, Code::Unavailable);
    for part in ["member 'right' has a slice of the volume", "a record is damaged"] {
        assert!(problem.detail.contains(part), "{}", problem.detail);
    }
}

/// It would say what is stored of a slice whose member is away.
#[tokio::test]
async fn a_member_tells_of_itself_alone() {
    let other = || Ok(Answer::SliceRecord(Some(Box::new(SliceRecord { me: LEFT, ..record() }))));
    let pair = home(other).await;
    let problem = rebuild(&pair.left.app, slice_id().as_str(), false).await;
    let problem = problem.expect_err("it is not its own");
    for part in ["has a slice of the volume", "'right' has told of what another member has"] {
        assert!(problem.detail.contains(part), "{}", problem.detail);
    }
}

#[tokio::test]
async fn a_damaged_record_is_shown_and_discarded_by_its_number() {
    let damaged = || DamagedRecord {
        id: spread_id().to_string(),
        is_home: true,
        why: "it does not read".to_owned(),
    };
    let left = move |request: &Request| match request {
        Request::Spread(SpreadRequest::Slices) => Some(Ok(Answer::Slices(Vec::new()))),
        Request::Spread(SpreadRequest::List) => Some(Ok(Answer::Spreads(Vec::new()))),
        Request::Spread(SpreadRequest::Damaged) => Some(Ok(Answer::Damaged(vec![damaged()]))),
        Request::Spread(SpreadRequest::DiscardDamaged { .. }) => Some(Ok(Answer::Done)),
        _ => Some(Err(RequestError::NoResult)),
    };
    let pair = Pair::with(left, |_| Some(Err(RequestError::NoResult))).await;
    of_a_group(&pair);
    let all = own_slices(&pair.left.app).await.expect("they are listed");
    assert_eq!((all.len(), all[0].state), (1, SliceState::Damaged));
    assert_eq!((all[0].on.as_str(), all[0].volume.as_str()), ("left", ""));
    discard(&pair.left.app, &all[0].id).await.expect("nobody will ever read it");
    let id = spread_id().to_string();
    let asked = Request::Spread(SpreadRequest::DiscardDamaged { id });
    assert!(pair.left.asked().contains(&asked));
    discard(&pair.left.app, slice_id().as_str()).await.expect_err("it is not there");
}
