//! Volumes that lie on two members: as the first one, their home, drives them, and as the second one asks for its slices.

mod rebuild;

use group::membership::{About, Inventory, SliceId, SpreadId};
use group::spread::{
    Answer as Heard, Home, HomeSays, HomeStep, Letter, Openings, Order, Pattern, Seat,
    SliceRefusal, SliceStage, SliceStanding, SpreadRecord, SpreadStage,
};
use member::slices::Opening;
use member::{
    OpeningAsked, SeatShown, SecretText, SliceFate, SliceLetter, SliceOpeners, SliceShown,
    SpreadPlan, SpreadRefusal, SpreadRequest, SpreadShown, SpreadStep, VolumeRequest,
};

use super::*;
use crate::server::spread::{Openers, create, delete, grow, look_after, named};
use crate::types::{NewVolume, Volume};

const GIB: u64 = 1 << 30;

fn group_id() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

/// What a home stores when it makes a volume.
fn record_of(plan: &SpreadPlan) -> SpreadRecord {
    SpreadRecord {
        id: plan.id.clone(),
        group: plan.group.clone(),
        home_array: "1".repeat(32),
        name: plan.spec.name.clone(),
        size_bytes: plan.spec.size_bytes,
        page_bytes: group::spread::PAGE_BYTES,
        pattern: plan.pattern.clone(),
        openings: vec![Openings::default(); plan.seats.len()],
        seats: plan.seats.clone(),
        stage: SpreadStage::Making,
    }
}

/// An order of the home for the slice of the second member.
fn letter(order: Order) -> Letter {
    let seats = [(LEFT, "3".repeat(32).parse().expect("it is one")), (RIGHT, slice_id())];
    let seats = seats.map(|(member, slice)| Seat { slice, member }).to_vec();
    let record = SpreadRecord {
        id: spread_id(),
        group: group_id(),
        home_array: "1".repeat(32),
        name: "big".to_owned(),
        size_bytes: GIB,
        page_bytes: group::spread::PAGE_BYTES,
        pattern: Pattern::try_from(vec![0, 1]).expect("a pattern"),
        openings: vec![Openings::default(); 2],
        seats,
        stage: SpreadStage::Making,
    };
    Letter::of(&record, 1, order)
}

/// A home that goes by the rules, and stores nothing.
#[derive(Debug, Default)]
struct Rules(Option<(SpreadRecord, Home)>);

impl Rules {
    fn make(&mut self, plan: &SpreadPlan) {
        let record = record_of(plan);
        let mut home = Home::create(2, record.size_bytes);
        home.stored(record.standing());
        self.0 = Some((record, home));
    }

    /// All that it does by itself; what the other member is to be asked then.
    fn step(&mut self) -> SpreadStep {
        loop {
            let Some((record, home)) = &mut self.0 else { return SpreadStep::Forgotten };
            match home.step() {
                HomeStep::Store(standing) => {
                    *record = record.with(standing);
                    home.stored(standing);
                }
                HomeStep::ShutOut => home.shut_out(),
                HomeStep::Ask(order, slices) if slices.has(0) => home.heard(0, order, Heard::Done),
                HomeStep::Ask(order, _) => {
                    let letter = Letter::of(record, 1, order);
                    let letter = SliceLetter { letter, block_bytes: 512, level: None };
                    return SpreadStep::Ask { letters: vec![(1, RIGHT, letter)] };
                }
                HomeStep::Forget => self.0 = None,
                HomeStep::Rest => return SpreadStep::Rest,
            }
        }
    }

    fn shown(&self) -> Option<SpreadShown> {
        let (record, _) = self.0.as_ref()?;
        let seat =
            |seat: &group::spread::Seat| SeatShown { seat: seat.clone(), pages: 32, trouble: None };
        let slices = record.seats.iter().map(seat).collect();
        Some(SpreadShown { record: record.clone(), is_of: true, slices })
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, RequestError> {
        let none = || RequestError::from(SpreadRefusal::NoSuch);
        let request = match request {
            Request::Spread(request) => request,
            Request::Volume(VolumeRequest::Show { name }) => {
                return Ok(Answer::Volume(Box::new(volume(name))));
            }
            _ => return Err(RequestError::NoResult),
        };
        match request {
            SpreadRequest::Make { plan } => self.make(plan),
            SpreadRequest::Step { .. } => return Ok(Answer::SpreadStep(self.step())),
            SpreadRequest::List => return Ok(Answer::Spreads(self.shown().into_iter().collect())),
            SpreadRequest::Slices => return Ok(Answer::Slices(Vec::new())),
            SpreadRequest::Damaged => return Ok(Answer::Damaged(Vec::new())),
            SpreadRequest::Heard { slice, order, answer, .. } => {
                self.0.as_mut().ok_or_else(none)?.1.heard(*slice, *order, *answer);
                return Ok(Answer::Done);
            }
            SpreadRequest::GiveUp { .. } => {
                self.0.as_mut().ok_or_else(none)?.1.give_up();
                return Ok(Answer::Done);
            }
            SpreadRequest::Grow { size_bytes, .. } => {
                let (_, home) = self.0.as_mut().ok_or_else(none)?;
                home.grow(*size_bytes).map_err(SpreadRefusal::from)?;
            }
            SpreadRequest::Delete { .. } => {
                let (_, home) = self.0.as_mut().ok_or_else(none)?;
                home.delete().map_err(SpreadRefusal::from)?;
            }
            _ => return Err(RequestError::NoResult),
        }
        self.shown().map(|shown| Answer::Spread(Box::new(shown))).ok_or_else(none)
    }
}

fn volume(name: &str) -> member::Volume {
    let info = serde_json::json!({
        "id": 1, "name": name, "size_bytes": GIB, "raid": "raid5", "state": "online", "reason": "",
        "thick": false, "block_bytes": 512, "cache": "durable", "read_ahead_bytes": 0,
        "used_bytes": 0, "reserved_bytes": 0, "snapshots": 0, "origin": null,
        "created_unix_seconds": 1,
    });
    member::Volume {
        info: serde_json::from_value(info).expect("it is one"),
        iqn: format!("iqn.2026-11.com.example:{name}"),
        sessions: 0,
        not_served: None,
        shared: Some(false),
        hosts: member::Hosts::Nobody,
        registrations: None,
        write_protected_by: None,
        not_there: Default::default(),
    }
}

/// How the second member obeys; `None` of what it never answers.
type Obeys = fn(Order) -> Option<Result<Answer, RequestError>>;

fn does(_: Order) -> Option<Result<Answer, RequestError>> {
    Some(Ok(Answer::Done))
}

fn cannot_now(_: Order) -> Option<Result<Answer, RequestError>> {
    // As where its core does not answer.
    Some(Err(RequestError::NoResult))
}

/// Two members of one group with as much room, the first of which is the home.
struct Homely {
    pair: Pair,
    rules: Arc<Mutex<Rules>>,
    obeys: Arc<Mutex<Obeys>>,
}

impl Homely {
    async fn begin(obeys: Obeys) -> Self {
        let rules = Arc::<Mutex<Rules>>::default();
        let obeys = Arc::new(Mutex::new(obeys));
        let (of_left, of_right) = (rules.clone(), obeys.clone());
        let left = move |request: &Request| {
            Some(of_left.lock().expect("no test has failed").answer(request))
        };
        let right = move |request: &Request| match request {
            Request::Spread(SpreadRequest::Letter { letter, .. }) => {
                (of_right.lock().expect("no test has failed"))(letter.letter.order)
            }
            _ => Some(Err(RequestError::NoResult)),
        };
        let pair = Pair::with(left, right).await;
        of_a_group(&pair);
        Self { pair, rules, obeys }
    }

    fn obeys(&self, obeys: Obeys) {
        *self.obeys.lock().expect("no test has failed") = obeys;
    }

    fn app(&self) -> &Arc<App> {
        &self.pair.left.app
    }

    async fn create(&self) -> Result<Volume, Problem> {
        create(self.app(), new_volume(2, GIB)).await
    }

    fn stage(&self) -> Option<SpreadStage> {
        let rules = self.rules.lock().expect("no test has failed");
        rules.0.as_ref().map(|(record, _)| record.stage)
    }

    fn is_forgotten(&self) -> bool {
        self.stage().is_none()
    }

    /// The orders that the second member was given, and by whom.
    fn orders(&self) -> Vec<(MemberId, Order)> {
        let asked = self.pair.right.asked().into_iter();
        asked
            .filter_map(|request| match request {
                Request::Spread(SpreadRequest::Letter { from, letter }) => {
                    Some((from, letter.letter.order))
                }
                _ => None,
            })
            .collect()
    }
}

/// Both know their group, and how much room each has.
fn of_a_group(pair: &Pair) {
    for site in [&pair.left, &pair.right] {
        site.hears(|now| {
            now.roll.about = Some(About {
                id: group_id(),
                name: "lab".to_owned(),
                created_unix_seconds: 7,
                last_member: 2,
            });
            for member in [LEFT, RIGHT] {
                let room = 100 * GIB;
                let inventory =
                    Inventory { free_bytes: room, capacity_bytes: room, ..Inventory::default() };
                now.roll.inventories.insert(member, inventory.into());
            }
        });
    }
}

fn new_volume(members: u8, size_bytes: u64) -> NewVolume {
    let new = serde_json::json!({ "name": "big", "size_bytes": size_bytes, "spread": members });
    serde_json::from_value(new).expect("it is one")
}

#[tokio::test]
async fn a_volume_is_there_when_all_members_have_their_slices() {
    let home = Homely::begin(does).await;
    let made = home.create().await.expect("both do it");
    assert_eq!(home.stage(), Some(SpreadStage::Whole));
    let spread = made.spread.expect("it lies on two");
    let members: Vec<&str> = spread.slices.iter().map(|slice| slice.member.as_str()).collect();
    assert_eq!((members, spread.shortage), (vec!["left", "right"], None));
    assert_eq!(home.orders(), [(LEFT, Order::Make { size_bytes: GIB })]);

    let shown = named(home.app(), "big").await.expect("it is there");
    grow(home.app(), &shown, (None, 2 * GIB)).await.expect("both do it");
    assert_eq!(home.orders()[1..], [(LEFT, Order::Grow { to_bytes: 2 * GIB })]);
    let smaller = grow(home.app(), &shown, (None, GIB)).await.expect_err("data would be lost");
    assert_eq!(smaller.code, Code::WouldLoseData, "{}", smaller.detail);
    delete(home.app(), &shown, None).await.expect("both do it");
    assert_eq!(home.orders()[2..], [(LEFT, Order::Go)]);
    assert!(home.is_forgotten() && named(home.app(), "big").await.is_none());
}

#[tokio::test]
async fn a_member_that_refuses_is_named_and_nothing_is_left() {
    let home = Homely::begin(|order| match order {
        Order::Make { .. } => Some(Err(SpreadRefusal::from(SliceRefusal::Unrecorded).into())),
        order => does(order),
    })
    .await;
    let problem = home.create().await.expect_err("one of them says no");
    assert_eq!(problem.code, Code::WrongState);
    for part in ["volume 'big' is not made", "member 'right'", "nothing is stored of it"] {
        assert!(problem.detail.contains(part), "{}", problem.detail);
    }
    until("nothing is left", async || home.is_forgotten()).await;
    let orders: Vec<Order> = home.orders().into_iter().map(|(_, order)| order).collect();
    assert_eq!(orders, [Order::Make { size_bytes: GIB }, Order::Go]);
}

/// A volume one of whose slices is not there would answer hosts with errors from its first day on.
#[tokio::test]
async fn a_member_that_cannot_say_has_not_done_it() {
    let home = Homely::begin(cannot_now).await;
    let problem = home.create().await.expect_err("one of them is silent");
    assert_eq!(problem.code, Code::Unavailable);
    assert!(problem.detail.contains("it was waited for 6 s: member 'right'"), "{}", problem.detail);
    let is_going = || matches!(home.stage(), Some(SpreadStage::Going { .. }));
    assert!(is_going(), "the member may have made it: {:?}", home.stage());
    home.obeys(does);
    until("it goes when the member answers", async || home.is_forgotten()).await;
}

#[tokio::test]
async fn what_is_deleted_goes_when_its_member_answers_again() {
    let home = Homely::begin(does).await;
    home.create().await.expect("both do it");
    home.obeys(cannot_now);
    let shown = named(home.app(), "big").await.expect("it is there");
    delete(home.app(), &shown, None).await.expect("it is stored that it goes");
    assert!(matches!(home.stage(), Some(SpreadStage::Going { .. })), "{:?}", home.stage());
    let awaited = crate::server::spread::own_slices(home.app()).await.expect("they are listed");
    assert_eq!(awaited.len(), 1, "{awaited:?}");
    assert_eq!((awaited[0].on.as_str(), awaited[0].is_in_vain), ("right", false));
    home.obeys(does);
    until("it goes", async || home.is_forgotten()).await;
}

/// As after the end of the process that drove it.
#[tokio::test]
async fn what_a_start_finds_half_made_is_driven() {
    let home = Homely::begin(does).await;
    home.create().await.expect("both do it");
    {
        let mut rules = home.rules.lock().expect("no test has failed");
        let (record, home) = rules.0.as_mut().expect("it is there");
        home.delete().expect("it is at rest");
        // Stored by the life before.
        if let HomeStep::Store(standing) = home.step() {
            *record = record.with(standing);
            home.stored(standing);
        }
    }
    let (ends, ending) = watch::channel(false);
    let janitor = tokio::spawn(look_after(home.app().clone(), ending));
    until("it goes on", async || home.is_forgotten()).await;
    ends.send_replace(true);
    janitor.await.expect("it ends");
}

#[tokio::test]
async fn a_volume_that_would_lie_on_one_member_is_refused() {
    let home = Homely::begin(does).await;
    let small = create(home.app(), new_volume(2, GIB - 512)).await.expect_err("it is too small");
    assert!(small.code == Code::Invalid && small.detail.contains("1 GiB"), "{}", small.detail);
    let many = create(home.app(), new_volume(17, GIB)).await.expect_err("too many");
    assert_eq!(many.code, Code::Invalid, "{}", many.detail);
    home.pair.left.hears(|now| {
        now.roll.about = None;
    });
    let alone = create(home.app(), new_volume(2, GIB)).await.expect_err("there is no group");
    assert_eq!(alone.code, Code::NoGroup);
    assert!(home.orders().is_empty());
}

fn slice_id() -> SliceId {
    "1".repeat(32).parse().expect("it is one")
}

fn spread_id() -> SpreadId {
    "2".repeat(32).parse().expect("it is one")
}

fn posted(path: &str, body: &impl serde::Serialize) -> (Method, String, axum::body::Bytes) {
    let body = serde_json::to_vec(body).expect("plain values");
    (Method::POST, path.to_owned(), body.into())
}

/// Whoever sends it, the member hears who that is, and not what is written in it.
#[tokio::test]
async fn an_order_is_of_the_member_that_has_sent_it() {
    let home = Homely::begin(does).await;
    let letter = Letter { home: MemberId(7), ..letter(Order::Go) };
    let letter = SliceLetter { letter, block_bytes: 512, level: None };
    let (method, path, body) = posted("/v1/slices/letters", &letter);
    let mut line = super::super::OwnLine::new(home.app().clone(), RIGHT);
    line.ask(method, &path, ("application/json", body)).await.expect("it is obeyed here");
    assert_eq!(home.orders(), [(LEFT, Order::Go)], "the home that is written is another one");
    let audit = home.pair.right.entries();
    assert!(format!("{audit:?}").contains("spread volume 'big'"), "{audit:?}");
    // People have no business there.
    let path = home.pair.left.sends(RIGHT, request(Method::POST, "/v1/slices/letters")).await;
    let status = path.expect("it is answered").status();
    assert!(status.is_client_error(), "{status}");
}

#[tokio::test]
async fn a_slice_is_opened_over_the_line_of_members() {
    let opening = Opening {
        portal: "127.0.0.1:3266".parse().expect("an address"),
        target: "iqn.2026-11.com.example:slice".to_owned(),
        user: "home-1".to_owned(),
        secret: SecretText("it is one of 24 letters".to_owned()),
        mutual_user: "slice-1".to_owned(),
        mutual_secret: SecretText("and this another one of them".to_owned()),
    };
    let opens = opening.clone();
    let pair = Pair::begin(move |request| match request {
        Request::Spread(SpreadRequest::Open { asked, .. }) if asked.life == 7 => {
            Some(Ok(Answer::Opening(Box::new(opens.clone()))))
        }
        _ => Some(Err(SpreadRefusal::NoSuchSlice.into())),
    })
    .await;
    let openers = Openers::here(&pair.left.app);
    let begun = Openings::default().begin(1);
    let asked = OpeningAsked { life: 7, opening: begun.begun };
    let opened = openers.open(RIGHT, &slice_id(), asked).await.expect("it is opened");
    assert_eq!(opened, opening);
    let heard = SpreadRequest::Open { from: LEFT, slice: slice_id(), asked };
    assert_eq!(pair.right.asked(), [Request::Spread(heard)]);
    let other = OpeningAsked { life: 8, ..asked };
    let refused = openers.open(RIGHT, &slice_id(), other).await.expect_err("it is refused");
    assert!(refused.to_string().contains("member 'right'"), "{refused}");
}

/// Has the second member, which has a slice, look what its home says, and gives what it was told.
async fn heard_of(says: fn() -> Result<Answer, RequestError>) -> Option<(MemberId, HomeSays)> {
    let left = move |request: &Request| match request {
        Request::Spread(SpreadRequest::Says { .. }) => Some(says()),
        _ => Some(Err(RequestError::NoResult)),
    };
    let here = SliceStanding { size_bytes: GIB, stage: SliceStage::Here };
    let record = letter(Order::Make { size_bytes: GIB }).record(here);
    let slice = SliceShown { record, fate: SliceFate::Kept, used_bytes: 0, not_served: None };
    let right = move |request: &Request| match request {
        Request::Spread(SpreadRequest::Slices) => Some(Ok(Answer::Slices(vec![slice.clone()]))),
        Request::Spread(SpreadRequest::List) => Some(Ok(Answer::Spreads(Vec::new()))),
        Request::Spread(SpreadRequest::SliceHeard { .. }) => Some(Ok(Answer::Done)),
        _ => Some(Err(RequestError::NoResult)),
    };
    let pair = Pair::with(left, right).await;
    of_a_group(&pair);
    let (ends, ending) = watch::channel(false);
    let janitor = tokio::spawn(look_after(pair.right.app.clone(), ending));
    let told = || {
        pair.right.asked().into_iter().find_map(|request| match request {
            Request::Spread(SpreadRequest::SliceHeard { heard, .. }) => Some(heard),
            _ => None,
        })
    };
    until("it acts by what was said", async || told().is_some()).await;
    ends.send_replace(true);
    janitor.await.expect("it ends");
    told().expect("it was told")
}

#[tokio::test]
async fn a_member_acts_by_what_the_home_of_its_slice_says() {
    let gone = heard_of(|| Ok(Answer::HomeSays(HomeSays::Gone))).await;
    assert_eq!(gone, Some((LEFT, HomeSays::Gone)));
    let has = heard_of(|| Ok(Answer::HomeSays(HomeSays::Have(SpreadStage::Whole)))).await;
    assert_eq!(has, Some((LEFT, HomeSays::Have(SpreadStage::Whole))));
}

#[tokio::test]
async fn a_home_that_says_nothing_has_not_said_that_it_has_no_volume() {
    assert_eq!(heard_of(|| Err(RequestError::NoResult)).await, None);
}
