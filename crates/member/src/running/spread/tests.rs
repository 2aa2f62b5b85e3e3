//! Members that have volumes together: with arrays, over an etcd that they run, and with homes that ask the other members
//! for openings directly.

mod changes;
mod leftovers;
mod life;
mod openings;
mod rebuild;
mod refusals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use array::api::VolumeSpec;
use block::{BlockError, WriteFlags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use group::membership::{GroupId, SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{
    Answer as Said, HomeSays, Letter, Openings, Order, PAGE_BYTES, Pattern, Question, Seat,
    SpreadRecord, SpreadStage, hidden_name,
};

use crate::RequestError;
use crate::life::Remote;
use crate::membership::tests::{free_at, join, make_group, start};
use crate::reply::Answer;
use crate::request::{Request, VolumeRequest};
use crate::slices::{AskError, Opening};
use crate::spread_request::{
    Begun, OpeningAsked, SliceLetter, SliceOpeners, SliceShown, SpreadPlan, SpreadRequest,
    SpreadShown, SpreadStep,
};
use crate::testing::{Rig, Silent, volume};

const PAGE: u64 = PAGE_BYTES;
const BLOCK: usize = 4096;

/// Pages of a volume as the tests have it made.
const PAGES: u64 = 6;

/// How long requests of these tests wait for a slice that is away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Members of one group: the first one is the home of the volumes of a test.
struct Lab {
    dir: tempfile::TempDir,
    rigs: Vec<Option<Rig>>,
    members: Vec<MemberId>,
    group: GroupId,
    reached: Arc<Reached>,
}

/// The members that run.
#[derive(Debug, Default)]
struct Reached(Mutex<BTreeMap<MemberId, Remote>>);

/// How a home reaches them.
#[derive(Debug)]
struct Direct {
    home: MemberId,
    reached: Arc<Reached>,
}

impl Direct {
    /// Asks a member that runs.
    fn ask(
        &self,
        to: MemberId,
        request: SpreadRequest,
    ) -> BoxFuture<'static, Result<Answer, AskError>> {
        let remote = self.reached.0.lock().unwrap().get(&to).cloned();
        async move {
            let remote = remote.ok_or("the member is away")?;
            let (done, answer) = ring::oneshot();
            remote.ask(Request::Spread(request), Silent, move |answer| {
                done.send(answer.map_err(|error| error.to_string()));
            });
            Ok(answer.await.ok_or("it has ended")??)
        }
        .boxed()
    }
}

impl SliceOpeners for Direct {
    fn begin(
        &self,
        to: MemberId,
        slice: &SliceId,
        openings: Openings,
    ) -> BoxFuture<'static, Result<Begun, AskError>> {
        let (from, slice) = (self.home, slice.clone());
        let answer = self.ask(to, SpreadRequest::Begin { from, slice, openings });
        async move {
            match answer.await? {
                Answer::Begun(begun) => Ok(begun),
                other => Err(format!("{other:?}").into()),
            }
        }
        .boxed()
    }

    fn open(
        &self,
        to: MemberId,
        slice: &SliceId,
        asked: OpeningAsked,
    ) -> BoxFuture<'static, Result<Opening, AskError>> {
        let (from, slice) = (self.home, slice.clone());
        let answer = self.ask(to, SpreadRequest::Open { from, slice, asked });
        async move {
            match answer.await? {
                Answer::Opening(opening) => Ok(*opening),
                other => Err(format!("{other:?}").into()),
            }
        }
        .boxed()
    }
}

const NAMES: [&str; 3] = ["home", "left", "right"];

impl Lab {
    /// So many members, at addresses from 127.0.0.`number` on.
    fn new(count: usize, number: u8) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let rigs: Vec<Rig> = NAMES[..count].iter().map(|name| start(dir.path(), name)).collect();
        make_group(&rigs[0], NAMES[0], free_at(number));
        for (at, rig) in (1_u8..).zip(&rigs[1..]) {
            join(rig, NAMES[usize::from(at)], free_at(number + at), (&rigs[0], false));
        }
        let me = |rig: &Rig| rig.with(async |member| member.serving().spread().who());
        let who: Vec<_> = rigs.iter().map(|rig| me(rig).expect("it is a member")).collect();
        let lab = Self {
            dir,
            members: who.iter().map(|(_, me)| *me).collect(),
            group: who[0].0.clone(),
            rigs: rigs.into_iter().map(Some).collect(),
            reached: Arc::default(),
        };
        (0..count).for_each(|at| lab.reach(at));
        lab
    }

    /// A member that has come is found by the others, and finds them.
    fn reach(&self, at: usize) {
        let rig = self.rig(at);
        self.reached.0.lock().unwrap().insert(self.members[at], rig.remote());
        let openers = Direct { home: self.members[at], reached: self.reached.clone() };
        rig.with(async move |member| {
            member.serving().spread().set_patience(PATIENCE);
            member.open_slices_by(Arc::new(openers));
        });
    }

    fn rig(&self, at: usize) -> &Rig {
        self.rigs[at].as_ref().expect("it runs")
    }

    fn home(&self) -> &Rig {
        self.rig(0)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// A member ends in order.
    fn stop(&mut self, at: usize) {
        self.reached.0.lock().unwrap().remove(&self.members[at]);
        self.rigs[at].take().expect("it runs").stop();
    }

    fn come(&mut self, at: usize) {
        let dir: PathBuf = self.path();
        self.rigs[at] = Some(start(Path::new(&dir), NAMES[at]));
        self.reach(at);
    }

    fn end(mut self) {
        for at in
            (0..self.rigs.len()).rev().filter(|at| self.rigs[*at].is_some()).collect::<Vec<_>>()
        {
            self.stop(at);
        }
    }

    /// A volume over all of them.
    fn plan(&self, name: &str) -> SpreadPlan {
        let seat = |member: &MemberId| Seat {
            slice: SliceId::draw().expect("there is randomness"),
            member: *member,
        };
        let places = match self.members.len() {
            1 => vec![0],
            2 => vec![0, 1, 1],
            _ => vec![0, 1, 2],
        };
        SpreadPlan {
            id: SpreadId::draw().expect("there is randomness"),
            group: self.group.clone(),
            spec: VolumeSpec { size_bytes: PAGES * PAGE, block_bytes: 512, ..volume(name) },
            pattern: Pattern::try_from(places).expect("a pattern"),
            seats: self.members.iter().map(seat).collect(),
            online: true,
        }
    }

    /// Makes one and has it served.
    fn make(&self, name: &str) -> SpreadPlan {
        let plan = self.plan(name);
        let made = spread(self.home(), SpreadRequest::Make { plan: Box::new(plan.clone()) });
        let Ok(Answer::Spread(shown)) = made else { panic!("{made:?}") };
        assert_eq!((shown.record.stage, shown.is_of), (SpreadStage::Making, true));
        assert_eq!(self.drive(&plan.id), Ok(SpreadStep::Rest));
        plan
    }

    /// Does what is next for a volume, asking the members that run, until nothing is left to be asked of these. Who does not
    /// run is silent.
    fn drive(&self, id: &SpreadId) -> Result<SpreadStep, String> {
        loop {
            let step = spread(self.home(), SpreadRequest::Step { id: id.clone() });
            let step = match step.map_err(|error| error.to_string())? {
                Answer::SpreadStep(step) => step,
                other => panic!("{other:?}"),
            };
            let SpreadStep::Ask { letters } = &step else { return Ok(step) };
            let mut is_silent = true;
            for (slice, member, letter) in letters.clone() {
                let at = self.members.iter().position(|it| *it == member).expect("a member");
                let Some(rig) = &self.rigs[at] else { continue };
                is_silent = false;
                let order = letter.letter.order;
                let said = spread(rig, self.letter(letter));
                let answer = if said.is_ok() { Said::Done } else { Said::Refused };
                let id = id.clone();
                spread(self.home(), SpreadRequest::Heard { id, slice, order, answer })
                    .expect("it is heard");
                if let Err(error) = said {
                    return Err(error.to_string());
                }
            }
            if is_silent {
                return Ok(step);
            }
        }
    }

    fn letter(&self, letter: SliceLetter) -> SpreadRequest {
        SpreadRequest::Letter { from: self.members[0], letter: Box::new(letter) }
    }

    /// An order of the home for the slice of this member.
    fn order(&self, plan: &SpreadPlan, at: usize, order: Order) -> SliceLetter {
        let number = u8::try_from(at).expect("few slices");
        SliceLetter {
            letter: Letter::of(&self.record(plan), number, order),
            block_bytes: 512,
            level: None,
        }
    }

    /// The array of the home.
    fn array(&self) -> String {
        self.home().with(async |member| member.array().info().id)
    }

    /// What the home has stored of a volume; of one that it does not have, what it stores when it makes that.
    fn record(&self, plan: &SpreadPlan) -> SpreadRecord {
        let mut stored = spreads(self.home()).into_iter().map(|shown| shown.record);
        stored.find(|record| record.id == plan.id).unwrap_or_else(|| SpreadRecord {
            id: plan.id.clone(),
            group: self.group.clone(),
            home_array: self.array(),
            name: plan.spec.name.clone(),
            size_bytes: plan.spec.size_bytes,
            page_bytes: PAGE,
            pattern: plan.pattern.clone(),
            openings: vec![Openings::default(); plan.seats.len()],
            seats: plan.seats.clone(),
            stage: SpreadStage::Making,
        })
    }

    /// Asks this member for its slice, as `from`, in a life that nobody has.
    fn open(&self, plan: &SpreadPlan, at: usize, from: MemberId) -> SpreadRequest {
        let opening = self.record(plan).openings[at].opened;
        let asked = OpeningAsked { life: 1, opening };
        SpreadRequest::Open { from, slice: plan.seats[at].slice.clone(), asked }
    }

    /// What the home says of the slice of this member.
    fn says(&self, plan: &SpreadPlan, at: usize) -> HomeSays {
        let question = Question {
            group: self.group.clone(),
            home: self.members[0],
            home_array: self.array(),
            spread: plan.id.clone(),
            slice: plan.seats[at].slice.clone(),
        };
        let from = self.members[at];
        match spread(self.home(), SpreadRequest::Says { from, question }) {
            Ok(Answer::HomeSays(says)) => says,
            other => panic!("{other:?}"),
        }
    }

    /// The member hears that.
    fn hear(&self, plan: &SpreadPlan, at: usize, heard: Option<(MemberId, HomeSays)>) {
        let slice = plan.seats[at].slice.clone();
        let heard = spread(self.rig(at), SpreadRequest::SliceHeard { slice, heard });
        assert_eq!(heard.expect("it is heard"), Answer::Done);
    }
}

fn spread(rig: &Rig, request: SpreadRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Spread(request))
}

fn refused(rig: &Rig, request: SpreadRequest) -> String {
    spread(rig, request).expect_err("it is refused").to_string()
}

fn volume_of(rig: &Rig, request: VolumeRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Volume(request))
}

fn set_online(rig: &Rig, name: &str, online: bool) {
    let set = VolumeRequest::SetOnline { name: name.to_owned(), online };
    volume_of(rig, set).expect("it is done");
}

fn delete(rig: &Rig, name: &str) -> Result<Answer, RequestError> {
    spread(rig, SpreadRequest::Delete { name: name.to_owned() })
}

/// The volumes of a member, and their sizes.
fn listed(rig: &Rig) -> Vec<(String, u64)> {
    let Ok(Answer::Volumes(all)) = volume_of(rig, VolumeRequest::List) else { panic!("no list") };
    all.into_iter().map(|it| (it.info.name, it.info.size_bytes)).collect()
}

fn spreads(rig: &Rig) -> Vec<SpreadShown> {
    match spread(rig, SpreadRequest::List) {
        Ok(Answer::Spreads(all)) => all,
        other => panic!("{other:?}"),
    }
}

fn slices(rig: &Rig) -> Vec<SliceShown> {
    match spread(rig, SpreadRequest::Slices) {
        Ok(Answer::Slices(all)) => all,
        other => panic!("{other:?}"),
    }
}

/// Whether the array has a slice of it.
fn has_slice(rig: &Rig, id: &SpreadId) -> bool {
    let name = hidden_name(id);
    rig.with(async move |member| member.array().volume(&name).is_ok())
}

/// What is served there as targets.
fn targets(rig: &Rig) -> Vec<String> {
    rig.with(async |member| member.serving().sessions().into_keys().collect())
}

/// A block that tells where it belongs and which one it is, and ends in its own CRC32C.
fn block(at: u64, version: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [at, version].iter().flat_map(|n| n.to_le_bytes()).cycle().take(BLOCK - 4).collect();
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// Where the tests write: at the beginning, in the middle and at the end of each page; over the border to the next one, too.
fn places(pages: std::ops::Range<u64>) -> Vec<(u64, usize)> {
    let of_page = |page: u64| {
        let at = page * PAGE;
        [(at, 1), (at + PAGE / 2, 4), (at + PAGE - BLOCK as u64, 1)]
    };
    pages.flat_map(of_page).collect()
}

/// So many blocks of this version from there on.
fn blocks(at: u64, count: usize, version: u64) -> Vec<u8> {
    (0..count as u64).flat_map(|n| block(at + n * BLOCK as u64, version)).collect()
}

async fn write_at(
    member: &crate::running::Member,
    id: &SpreadId,
    (at, bytes): (u64, Vec<u8>),
) -> Result<(), BlockError> {
    let device = member.serving().spread().device(id).expect("it is served");
    let data: Arc<[u8]> = bytes.into();
    device.write(at, data.into(), WriteFlags::default()).await
}

/// Writes this version to all places of these pages, and over the borders behind them.
fn write(rig: &Rig, id: &SpreadId, pages: std::ops::Range<u64>, version: u64) {
    let id = id.clone();
    rig.with(async move |member| {
        for (at, count) in places(pages) {
            let written = write_at(&member, &id, (at, blocks(at, count, version))).await;
            written.expect("it is written");
        }
    });
}

/// Reads what was written to them.
fn check(rig: &Rig, id: &SpreadId, pages: std::ops::Range<u64>, version: u64) {
    let id = id.clone();
    rig.with(async move |member| {
        let device = member.serving().spread().device(&id).expect("it is served");
        for (at, count) in places(pages) {
            let found = device.read(at, count * BLOCK).await.expect("it is read");
            let mut bytes = vec![0; count * BLOCK];
            found.copy_to(0, &mut bytes);
            assert!(bytes == blocks(at, count, version), "other data at {at}");
        }
    });
}

/// How a read at this place ends.
fn read_at(rig: &Rig, id: &SpreadId, at: u64) -> Result<(), BlockError> {
    let id = id.clone();
    rig.with(async move |member| {
        let device = member.serving().spread().device(&id).expect("it is served");
        device.read(at, BLOCK).await.map(drop)
    })
}
