//! Where each request is carried out: here, or on another member of the group, to which it is sent on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use group::membership::{ListedVolume, MembershipError, Roll};
use group::ownership::MemberId;
use member::{GroupError, RequestError, RollNow};
use serde::Deserialize;

use super::gather::{Meant, may_answer};
use super::looking::{Look, look};
use super::naming::{check_alone, check_at_group, member_in};
use super::whereabouts::{Kind, Named};
use super::whose::{Whose, whose};
use super::{doubt, placing, send};
use crate::headers::{HERE, MEMBER};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::App;
use crate::server::body;

/// Things that other members are asked for at once, of which none of them has told. A schedule has no more volumes.
const LOOKED_FOR_MAX: usize = 32;

/// What a body says about where its request goes. What does not read is refused where it is carried out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    name: Option<String>,
    /// What a clone is to be called.
    to: Option<String>,
    volumes: Option<Vec<String>>,
    pub(super) size_bytes: Option<u64>,
    pub(super) thick: bool,
    pub(super) pool: Option<String>,
}

/// Where a request goes.
struct Way {
    request: Request,
    /// To which other member; `None` stays here.
    to: Option<MemberId>,
    /// What changes about names when it is done.
    named: Named,
    /// Of a new volume: where it goes if nobody can be reached there.
    spare: Option<Spare>,
}

/// The same request for the next best member.
struct Spare {
    request: Request,
    /// `None` is this one.
    to: Option<MemberId>,
}

/// One request that may go to another member.
struct Asked<'a> {
    app: &'a Arc<App>,
    now: Arc<RollNow>,
    caller: Caller,
    /// No other member is asked for it.
    is_alone: bool,
    /// Why nobody knows whether something is there that was found nowhere.
    unsure: OnceLock<Problem>,
}

/// Sends a request on to the member that it is for, or has it carried out here. Each answer of a group says by which
/// member it was.
pub(in crate::server) async fn carry(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = check_at_group(&request) {
        return problem.into_response();
    }
    let caller = request.extensions().get::<Caller>().cloned();
    let (Some(now), Some(caller)) = (app.roll.now(), caller) else {
        return match check_alone(request.headers()) {
            Ok(()) if app.is_deaf() => doubt::deaf(request, next).await,
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        };
    };
    if caller.is_carried() {
        return signed(next.run(request).await, &now, now.me);
    }
    let asked = Asked::new(&app, now.clone(), caller);
    let done = match asked.way(request).await {
        Ok(way) => asked.done(way, next).await,
        Err(problem) => Err(problem),
    };
    let (mut response, on) = match done {
        Ok(done) => done,
        Err(problem) => return problem.into_response(),
    };
    if let Some(unsure) = asked.unsure.into_inner() {
        response = doubt::unless_missing(response, move || unsure).await;
    }
    signed(response, &now, on)
}

/// An answer that says by which member it is.
fn signed(mut response: Response, now: &RollNow, on: MemberId) -> Response {
    let name = now.roll.members.get(&on).map(|record| record.name.as_str());
    // Names of members are letters, digits, '-', '.' and '_'.
    if let Some(name) = name.and_then(|name| HeaderValue::from_str(name).ok()) {
        response.headers_mut().entry(MEMBER).or_insert(name);
    }
    response
}

impl<'a> Asked<'a> {
    /// Who has logged in is known to all members that share their accounts. One that keeps to its own cannot say who
    /// may do what with others: they are not asked for those who log in there. Who is at its socket rules its machine,
    /// and with that its certificate.
    fn new(app: &'a Arc<App>, now: Arc<RollNow>, caller: Caller) -> Self {
        let shares = now.roll.inventories.get(&now.me).is_some_and(|own| own.shares);
        let is_alone = caller.login().is_some() && !shares;
        Self { app, now, caller, is_alone, unsure: OnceLock::new() }
    }
}

impl Asked<'_> {
    /// Where a request goes, and what it is to go on with.
    async fn way(&self, request: Request) -> Result<Way, Problem> {
        let (mut parts, mut sent) = request.into_parts();
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
        let whose = route.as_deref().map_or(Whose::Here, |route| whose(&parts.method, route));
        let (mut told, mut bytes) = (Told::default(), Bytes::new());
        if whose.is_told_by_body() {
            bytes = body::read(&parts, sent).await?;
            told = told_by(&bytes);
            sent = Body::from(bytes.clone());
        }
        let path = words_of(&mut parts).await;
        let on = match member_in(&parts.headers)? {
            Some(name) => {
                let pool = told.pool.as_deref().filter(|_| whose == Whose::Placed);
                Some(self.named(name, pool)?)
            }
            None => self.whose(whose, &path, &told, &mut parts).await?,
        };
        let to = on.filter(|on| *on != self.now.me);
        if to.is_some() && self.is_alone {
            return Err(keeps_to_its_own());
        }
        let is_placed = whose == Whose::Placed && !parts.headers.contains_key(MEMBER);
        let next = to.filter(|_| is_placed).and_then(|first| self.next_best(first, &told));
        let spare = next.map(|next| Spare {
            request: Request::from_parts(parts.clone(), Body::from(bytes)),
            to: Some(next).filter(|next| *next != self.now.me),
        });
        let named = route
            .map_or_else(Named::default, |route| names_changed(&parts.method, &route, path, told));
        Ok(Way { request: Request::from_parts(parts, sent), to, named, spare })
    }

    /// Has it done, and by whom. A member that cannot be reached was asked nothing: the next one makes a new volume.
    async fn done(&self, way: Way, next: Next) -> Result<(Response, MemberId), Problem> {
        let Way { request, to, named, spare } = way;
        let first = self.done_on(to, request, &named, next.clone()).await;
        match (first, spare) {
            (Err(first), Some(Spare { request, to })) if first.code == Code::NotReached => {
                let second = self.done_on(to, request, &named, next).await;
                second.map_err(|second| placing::both_failed(&first, second))
            }
            (first, _) => first,
        }
    }

    /// Has it done by this one member.
    async fn done_on(
        &self,
        to: Option<MemberId>,
        request: Request,
        named: &Named,
        next: Next,
    ) -> Result<(Response, MemberId), Problem> {
        let on = to.unwrap_or(self.now.me);
        let outcome = match to {
            None => Ok(next.run(request).await),
            Some(to) => send(self.app, to, &self.caller, request).await,
        };
        match &outcome {
            Ok(response) if response.status().is_success() => {
                self.app.whereabouts.learn(named.clone(), on);
            }
            Ok(_) => {}
            Err(problem) => self.learn_of_failure(named, on, problem),
        }
        outcome.map(|response| (response, on))
    }

    /// What a member may have made whose answer was lost is looked for there, and made there if it is asked for again.
    fn learn_of_failure(&self, named: &Named, on: MemberId, problem: &Problem) {
        if problem.code != Code::Unavailable {
            return;
        }
        let mut made = named.made.clone();
        made.retain(|(kind, name)| self.having(*kind, name).is_empty());
        self.app.whereabouts.learn(Named { made, gone: Vec::new() }, on);
    }

    /// The member that a request names, which is to be in a pool if that names one, too.
    fn named(&self, name: &str, pool: Option<&str>) -> Result<MemberId, Problem> {
        // Whatever the case of its letters: no two differ in that alone.
        let mut members = self.now.roll.members.iter();
        let found = members.find(|(_, record)| record.name.eq_ignore_ascii_case(name));
        let member = match found {
            _ if name == HERE => self.now.me,
            Some((member, _)) => *member,
            None => {
                let error = MembershipError::NoSuchMember(name.to_owned());
                return Err(self.app.problem(&RequestError::Group(GroupError::from(error))));
            }
        };
        self.check_there(member, None)?;
        placing::check_pool(&self.now.roll, member, pool)?;
        Ok(member)
    }

    /// The member that a request is for, which names none; `None` for this one.
    async fn whose(
        &self,
        whose: Whose,
        path: &HashMap<String, String>,
        told: &Told,
        parts: &mut Parts,
    ) -> Result<Option<MemberId>, Problem> {
        // Of a snapshot the path names the volume and the snapshot.
        let named = path.get("volume").or_else(|| path.get("name"));
        match (whose, named) {
            (Whose::Here | Whose::Followed | Whose::Group, _) => Ok(None),
            (Whose::Merged, _) => {
                self.mean_all(parts);
                Ok(None)
            }
            (Whose::SnapshotsAsked, _) => match volume_in(&parts.uri) {
                Some(volume) => self.of(Kind::Volume, &volume).await,
                None => {
                    self.mean_all(parts);
                    Ok(None)
                }
            },
            (Whose::Placed, _) => self.placed(told),
            (Whose::Volume | Whose::VolumeAndNew, Some(name)) => self.of(Kind::Volume, name).await,
            (Whose::Schedule, Some(name)) => self.of(Kind::Schedule, name).await,
            (Whose::ChangedSchedule, Some(name)) => {
                let on = self.of(Kind::Schedule, name).await?;
                self.of_all(on, told).await
            }
            (Whose::Volumes, _) => self.of_each(told, parts).await,
            (Whose::NewSchedule, _) => self.new_schedule(told).await,
            // What does not read is refused here.
            (_, None) => Ok(None),
        }
    }

    /// The list of a request is one of all members that may be asked for it.
    fn mean_all(&self, parts: &mut Parts) {
        if self.is_alone {
            return;
        }
        parts.extensions.insert(Meant::Group(self.now.clone(), self.caller.clone()));
    }

    /// The member that is to have a new volume. One whose name a member has goes there, which says so, or answers what
    /// it answered before to the same request.
    fn placed(&self, told: &Told) -> Result<Option<MemberId>, Problem> {
        let (Some(name), Some(size_bytes)) = (&told.name, told.size_bytes) else { return Ok(None) };
        if let Some(on) = self.having(Kind::Volume, name).first() {
            self.check_there(*on, Some((Kind::Volume, name.as_str())))?;
            return Ok(Some(*on));
        }
        if self.is_alone {
            placing::check_pool(&self.now.roll, self.now.me, told.pool.as_deref())?;
            return Ok(Some(self.now.me));
        }
        if self.now.store_fault.is_some() {
            // No name can be promised, which this one says: whom it could ask is not known for certain either.
            return Ok(Some(self.now.me));
        }
        placing::member_for(&self.now, size_bytes, told).map(Some)
    }

    /// The member that is to have a new volume if the first one cannot be reached. One whose name a member has goes to
    /// that one alone.
    fn next_best(&self, first: MemberId, told: &Told) -> Option<MemberId> {
        let (name, size_bytes) = (told.name.as_ref()?, told.size_bytes?);
        let is_new = self.having(Kind::Volume, name).is_empty();
        is_new.then(|| placing::next_best(&self.now, first, size_bytes, told)).flatten()
    }

    /// The member that has a thing, which must be there; `None` where nobody knows of it.
    async fn of(&self, kind: Kind, name: &str) -> Result<Option<MemberId>, Problem> {
        let Some(on) = self.look_for(kind, name).await? else { return Ok(None) };
        self.check_there(on, Some((kind, name)))?;
        Ok(Some(on))
    }

    /// The one member that has all volumes in the body, and is this one if one is given.
    async fn of_all(&self, on: Option<MemberId>, told: &Told) -> Result<Option<MemberId>, Problem> {
        let Some(volumes) = &told.volumes else { return Ok(on) };
        let found = self.members_of(volumes).await?;
        self.one_of_all(on, volumes, &found)
    }

    /// The one member of these volumes, of which it was looked which has which.
    fn one_of_all(
        &self,
        on: Option<MemberId>,
        volumes: &[String],
        found: &[Option<MemberId>],
    ) -> Result<Option<MemberId>, Problem> {
        let mut by_member = BTreeMap::<MemberId, &str>::new();
        for (volume, found) in volumes.iter().zip(found) {
            if let Some(member) = found {
                by_member.entry(*member).or_insert(volume);
            }
        }
        if let Some(problem) = self.apart(on, &by_member) {
            return Err(problem);
        }
        let Some((member, volume)) = by_member.first_key_value() else { return Ok(on) };
        self.check_there(*member, Some((Kind::Volume, *volume)))?;
        Ok(Some(*member))
    }

    /// Why what is asked for volumes of these members cannot be.
    fn apart(
        &self,
        schedule_on: Option<MemberId>,
        by_member: &BTreeMap<MemberId, &str>,
    ) -> Option<Problem> {
        let is_other = |member: MemberId| schedule_on.is_some_and(|on| on != member);
        let other = by_member.iter().find(|(member, _)| is_other(**member));
        let sentence = match (other, schedule_on) {
            (Some((member, volume)), Some(on)) => format!(
                "no schedule takes snapshots of volumes of another member yet: the schedule is on '{}', '{volume}' \
                 on '{}'",
                self.name(on),
                self.name(*member)
            ),
            _ if by_member.len() > 1 => {
                let named = |(member, volume): (&MemberId, &&str)| {
                    format!("'{volume}' is on '{}'", self.name(*member))
                };
                let all: Vec<String> = by_member.iter().map(named).collect();
                let (what, all) = ("no schedule takes snapshots of", all.join(", "));
                format!("{what} volumes of several members yet: {all}")
            }
            _ => return None,
        };
        Some(Problem::new(Code::SeveralMembers, sentence))
    }

    /// The member that is to have a new schedule: that of its volumes. Its name is to be that of no other member's.
    async fn new_schedule(&self, told: &Told) -> Result<Option<MemberId>, Problem> {
        let on = self.of_all(None, told).await?;
        let Some(name) = &told.name else { return Ok(on) };
        let here = on.unwrap_or(self.now.me);
        for other in self.having(Kind::Schedule, name) {
            if other == here {
                continue;
            }
            // What a member has told may be of before; of one that cannot be asked it is what counts.
            let can_be_asked = !self.is_alone && may_answer(&self.now, other);
            let look = if can_be_asked {
                self.look(other, Kind::Schedule, name).await.1
            } else {
                Look::Has
            };
            if look == Look::Silent {
                return Err(self.not_known(other, Kind::Schedule, name));
            }
            if look == Look::Has {
                let other = self.name(other);
                let sentence = format!(
                    "member '{other}' has a schedule '{name}' already: choose another name, as it means one schedule \
                     in the group"
                );
                return Err(Problem::new(Code::NameTaken, sentence));
            }
        }
        Ok(on)
    }

    /// The members that have a thing, as far as is known here: this one first, then those that have told so. Where it
    /// was made a moment ago counts for more than what others have told before.
    fn having(&self, kind: Kind, name: &str) -> Vec<MemberId> {
        let roll = &self.now.roll;
        let lists = |member: &MemberId| {
            roll.inventories.get(member).is_some_and(|inventory| kind.is_listed(inventory, name))
        };
        let me = self.now.me;
        let own = Some(me).filter(lists);
        let lately = self.app.whereabouts.find(kind, name);
        let lately = lately.filter(|member| roll.members.contains_key(member));
        // What this one lists is of this moment.
        if let Some(member) = lately.filter(|member| own.is_none() || *member == me) {
            return vec![member];
        }
        let others = roll.members.keys().copied().filter(|member| *member != me && lists(member));
        let all: Vec<MemberId> = own.into_iter().chain(others).collect();
        match kind {
            Kind::Volume => one_of_a_move(roll, name, all),
            Kind::Schedule => all,
        }
    }

    /// The member that has a thing. Where none has told of it, all are asked: it may have been made just now.
    async fn look_for(&self, kind: Kind, name: &str) -> Result<Option<MemberId>, Problem> {
        match self.having(kind, name).as_slice() {
            // What is here comes first, and no other is asked.
            known if self.is_alone => Ok(known.first().copied()),
            [one] => Ok(Some(*one)),
            [one, other, ..] => {
                let (word, one, other) = (kind.word(), self.name(*one), self.name(*other));
                let sentence = format!(
                    "{word} '{name}' is on two members, '{one}' and '{other}': say which with --on MEMBER (the header \
                     Drystone-Member)"
                );
                Err(Problem::new(Code::SeveralMembers, sentence))
            }
            [] => Ok(self.search(kind, name).await),
        }
    }

    /// The other member that says first that it has a thing. Where none does and one says nothing, nobody knows whether
    /// it is there.
    async fn search(&self, kind: Kind, name: &str) -> Option<MemberId> {
        let others = self.now.roll.members.keys().copied();
        let others = others.filter(|it| *it != self.now.me && may_answer(&self.now, *it));
        let others: Vec<MemberId> = others.collect();
        let mut looks: FuturesUnordered<_> =
            others.iter().map(|member| self.look(*member, kind, name)).collect();
        let mut silent = None;
        while let Some((member, look)) = looks.next().await {
            match look {
                Look::Has => return Some(member),
                Look::HasNot => {}
                Look::Silent => silent = Some(member),
            }
        }
        if let Some(member) = silent {
            self.unsure.get_or_init(|| self.not_known(member, kind, name));
        }
        None
    }

    /// A member, and what it says of a thing.
    async fn look(&self, member: MemberId, kind: Kind, name: &str) -> (MemberId, Look) {
        (member, look(self.app, member, &self.caller, (kind, name)).await)
    }

    /// Why nobody knows whether a thing is there.
    fn not_known(&self, member: MemberId, kind: Kind, name: &str) -> Problem {
        let sentence = format!(
            "no member that could be asked has {} '{name}', and member '{}' cannot be asked whether it has it",
            kind.word(),
            self.name(member)
        );
        Problem::new(Code::NotReached, sentence)
    }

    /// Refuses to ask a member that is away, or one at all for who may ask none.
    fn check_there(&self, member: MemberId, what: Option<(Kind, &str)>) -> Result<(), Problem> {
        if member == self.now.me {
            return Ok(());
        }
        if self.is_alone {
            return Err(keeps_to_its_own());
        }
        if may_answer(&self.now, member) {
            return Ok(());
        }
        let on = self.name(member);
        let sentence = match what {
            Some((kind, name)) => format!(
                "{} '{name}' is on member '{on}', which is away: it is there again when that member is",
                kind.word()
            ),
            None => format!("member '{on}' is away: it can be asked when it is there again"),
        };
        Err(Problem::new(Code::NotReached, sentence))
    }

    fn name(&self, member: MemberId) -> &str {
        self.now.roll.members.get(&member).map_or("", |record| record.name.as_str())
    }
}

/// Of members that list one volume, as its serial number says, that which serves it: it has moved, and not all have told so
/// yet. Volumes of one name that are not the same stay apart.
fn one_of_a_move(roll: &Roll, name: &str, all: Vec<MemberId>) -> Vec<MemberId> {
    let listed = |member: &MemberId| {
        let inventory = roll.inventories.get(member)?;
        inventory.volumes.iter().find(|volume| volume.name == name)
    };
    let volumes: Vec<_> = all.iter().map(listed).collect();
    let Some(Some(first)) = volumes.first() else { return all };
    let is_it =
        |volume: &Option<&ListedVolume>| volume.is_some_and(|volume| volume.serial == first.serial);
    if first.serial.is_empty() || !volumes.iter().all(is_it) {
        return all;
    }
    let serves = |member: &&MemberId| listed(member).is_some_and(|volume| volume.is_online);
    let one = all.iter().find(serves).or_else(|| all.first());
    one.copied().into_iter().collect()
}

/// Why nothing is asked of others for who has logged in here.
fn keeps_to_its_own() -> Problem {
    let sentence = "this member keeps to accounts of its own, which mean nothing to other members: ask that member \
                    itself, or see 'drystone status'";
    Problem::new(Code::Forbidden, sentence)
}

/// What a body tells of where it goes.
fn told_by(bytes: &Bytes) -> Told {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// The words of the path, by what the route calls them.
async fn words_of(parts: &mut Parts) -> HashMap<String, String> {
    let path = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await;
    path.map(|Path(words)| words).unwrap_or_default()
}

/// The volume in the query.
pub(super) fn volume_in(uri: &Uri) -> Option<String> {
    #[derive(Deserialize)]
    struct Words {
        volume: Option<String>,
    }
    Query::<Words>::try_from_uri(uri).ok().and_then(|Query(words)| words.volume)
}

/// What a request changes about names when it is done.
fn names_changed(
    method: &Method,
    route: &str,
    mut path: HashMap<String, String>,
    told: Told,
) -> Named {
    let one = |kind: Kind, name: Option<String>| -> Vec<(Kind, String)> {
        name.map(|name| (kind, name)).into_iter().collect()
    };
    let volume = |name: Option<String>| one(Kind::Volume, name);
    let schedule = |name: Option<String>| one(Kind::Schedule, name);
    let (mut made, mut gone) = (Vec::new(), Vec::new());
    match (method.as_str(), route) {
        ("POST", "/v1/volumes") => made = volume(told.name),
        ("POST", "/v1/snapshots/{volume}/{name}/clone") => made = volume(told.to),
        ("PATCH", "/v1/volumes/{name}") if told.name.is_some() => {
            (made, gone) = (volume(told.name), volume(path.remove("name")));
        }
        ("POST", "/v1/volumes/{name}/purge") => gone = volume(path.remove("name")),
        ("POST", "/v1/schedules") => made = schedule(told.name),
        ("DELETE", "/v1/schedules/{name}") => gone = schedule(path.remove("name")),
        _ => {}
    }
    Named { made, gone }
}

mod spread;
#[cfg(test)]
mod tests;
