//! Lists of the whole group: what the members that can be asked have of one kind, as one list.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::future::join_all;
use group::ownership::MemberId;
use member::{Request, RollNow};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{Budget, fetch};
use crate::client::encoded;
use crate::headers::MEMBERS_MISSING;
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::App;
use crate::server::pages::Item;
use crate::types::{Connection, Job, List, OfAnswer, Schedule, Slice, Snapshot, Transit, Volume};

/// How long another member may take for its part of a list: whoever looks at the group is not kept waiting by one of
/// which nobody knows yet that it is away.
pub(super) const PART_TIME: Duration = Duration::from_secs(5);

/// How long it may take to count what snapshots of another member hold, those of one page in all.
const COUNT_TIME: Duration = Duration::from_secs(30);

/// What a list is asked of: the layer before the handlers has decided.
#[derive(Debug, Clone, Default)]
pub(in crate::server) enum Meant {
    /// The member that has the request, alone.
    #[default]
    Member,
    /// All members of its group, for this caller.
    Group(Arc<RollNow>, Caller),
}

impl Meant {
    /// Whether what has this member is on this one.
    pub(in crate::server) fn is_here(&self, member: Option<&str>) -> bool {
        match self {
            Self::Member => true,
            Self::Group(now, _) => member == Some(now.name.as_str()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Meant {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// What can be on any member of a group.
pub(in crate::server) trait OfMember: Item + Sized + Send + 'static {
    /// The name of the member that it is on.
    fn member(&mut self) -> &mut Option<String>;

    /// Its place in a list of several members.
    fn order(&self, other: &Self) -> Ordering;

    /// It is on this member.
    fn on(mut self, member: Option<&str>) -> Self {
        *self.member() = member.map(str::to_owned);
        self
    }
}

/// Declares what can be on any member: by what it is found in a list comes first in its order.
macro_rules! of_member {
    ($($thing:ident: |$it:ident| $place:expr;)+) => {
        $(impl OfMember for $thing {
            fn member(&mut self) -> &mut Option<String> {
                &mut self.member
            }

            fn order(&self, other: &Self) -> Ordering {
                fn place($it: &$thing) -> impl Ord + '_ {
                    $place
                }
                place(self).cmp(&place(other))
            }
        })+
    };
}

of_member! {
    Volume: |it| (&it.name, &it.member, it.id);
    Snapshot: |it| (&it.volume, &it.member, it.id);
    Schedule: |it| (&it.name, &it.member);
    Job: |it| (&it.subject, &it.member, it.kind.word());
    Transit: |it| (&it.volume, &it.member, &it.id);
    Slice: |it| (&it.volume, &it.on, &it.member, &it.id);
    Connection: |it| (
        (&it.volume, &it.snapshot, &it.iqn, &it.host, &it.member),
        (it.session, it.connection),
    );
}

/// A list of the members that could be asked.
#[derive(Debug)]
pub(in crate::server) struct Gathered<T> {
    pub(in crate::server) all: Vec<T>,
    /// The names of the others, of which nothing is in it.
    pub(in crate::server) missing: BTreeSet<String>,
}

impl<T> Gathered<T> {
    /// An answer made of it, with who is missing.
    pub(in crate::server) fn tell(&self, mut response: Response) -> Response {
        let names: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        // Names of members are letters, digits, '-', '.' and '_'.
        if !names.is_empty()
            && let Ok(value) = HeaderValue::try_from(names.join(", "))
        {
            response.headers_mut().insert(MEMBERS_MISSING, value);
        }
        response
    }
}

/// What this member has, by `own`, and what the others have, by `path`, if they are meant: the same request there.
pub(in crate::server) async fn gather<T>(
    app: &Arc<App>,
    meant: &Meant,
    path: &str,
    own: Request,
) -> Result<Gathered<T>, Problem>
where
    T: OfMember + DeserializeOwned,
    List<T>: OfAnswer,
{
    let own = async {
        let List(own) = app.ask::<List<T>>(own).await?;
        Ok(own)
    };
    gather_with(app, meant, path, own).await
}

/// The same, where `own` finds what this member has.
pub(in crate::server) async fn gather_with<T: OfMember + DeserializeOwned>(
    app: &Arc<App>,
    meant: &Meant,
    path: &str,
    own: impl Future<Output = Result<Vec<T>, Problem>>,
) -> Result<Gathered<T>, Problem> {
    let Meant::Group(now, caller) = meant else {
        return Ok(Gathered { all: here(app, own.await?), missing: BTreeSet::new() });
    };
    let _place = app.gathers(caller.owner()).await?;
    let budget = Budget::default();
    let others = now.roll.members.keys().copied().filter(|member| *member != now.me);
    let asked = Part { app, now, caller, budget: &budget };
    let parts = join_all(others.map(|member| asked.of::<T>(member, path)));
    let (own, parts) = tokio::join!(own, parts);
    let mut all: Vec<T> = own?.into_iter().map(|item| item.on(Some(&now.name))).collect();
    let mut missing = BTreeSet::new();
    for (name, part) in parts {
        match part {
            Some(part) => all.extend(part.into_iter().map(|item| item.on(Some(name)))),
            None => {
                missing.insert(name.to_owned());
            }
        }
    }
    all.sort_by(T::order);
    Ok(Gathered { all, missing })
}

/// What this member alone has, with its name if it is in a group.
pub(in crate::server) fn here<T: OfMember>(app: &App, items: Vec<T>) -> Vec<T> {
    let Some(now) = app.roll.now() else { return items };
    items.into_iter().map(|item| item.on(Some(&now.name))).collect()
}

/// The same of one thing.
pub(in crate::server) fn one_here<T: OfMember>(app: &App, item: T) -> T {
    match app.roll.now() {
        Some(now) => item.on(Some(&now.name)),
        None => item,
    }
}

/// What each part of a list of the group is asked with.
struct Part<'a> {
    app: &'a Arc<App>,
    now: &'a RollNow,
    caller: &'a Caller,
    budget: &'a Budget,
}

impl<'a> Part<'a> {
    /// The name of another member, and its part of a list if it says that.
    async fn of<T: DeserializeOwned>(
        &self,
        member: MemberId,
        path: &str,
    ) -> (&'a str, Option<Vec<T>>) {
        let name = self.now.roll.members.get(&member).map_or("", |record| record.name.as_str());
        if !may_answer(self.now, member) {
            return (name, None);
        }
        let why = match timeout(PART_TIME, self.whole::<T>(member, path)).await {
            Ok(Ok(part)) => return (name, Some(part)),
            Ok(Err(problem)) => problem.detail,
            Err(_) => took_more_than(PART_TIME),
        };
        tracing::debug!("member '{name}' is missing in a list of the group ({path}): {why}");
        (name, None)
    }

    /// All pages of a member's part. A list that changes too much meanwhile is begun again, for as long as there is
    /// time.
    async fn whole<T: DeserializeOwned>(
        &self,
        member: MemberId,
        path: &str,
    ) -> Result<Vec<T>, Problem> {
        loop {
            match fetch::<T>(self.app, member, self.caller, path, self.budget).await {
                Err(problem) if problem.code == Code::PageGone => {}
                outcome => return outcome,
            }
        }
    }

    /// The name of another member, and what the snapshots of some of its volumes hold if it counts that in time.
    async fn counted(
        &self,
        member: &'a str,
        volumes: &BTreeSet<String>,
    ) -> (&'a str, Option<Vec<Snapshot>>) {
        let Some((to, _)) = self.now.roll.find(member) else { return (member, None) };
        let why = match timeout(COUNT_TIME, self.count(to, volumes)).await {
            Ok(Ok(counted)) => return (member, Some(counted)),
            Ok(Err(problem)) => problem.detail,
            Err(_) => took_more_than(COUNT_TIME),
        };
        tracing::debug!("member '{member}' did not count snapshots: {why}");
        (member, None)
    }

    /// One volume after the other: each caller has one such question at a time there.
    async fn count(
        &self,
        to: MemberId,
        volumes: &BTreeSet<String>,
    ) -> Result<Vec<Snapshot>, Problem> {
        let mut counted = Vec::new();
        for volume in volumes {
            let path = format!("/v1/snapshots?volume={}&space=true", encoded(volume));
            let more = fetch::<Snapshot>(self.app, to, self.caller, &path, self.budget).await?;
            counted.extend(more);
        }
        Ok(counted)
    }
}

fn took_more_than(time: Duration) -> String {
    format!("it took more than {} seconds", time.as_secs())
}

/// Whether it is worth asking a member. While the store does not answer, nobody knows who is there.
pub(super) fn may_answer(now: &RollNow, member: MemberId) -> bool {
    now.store_fault.is_some() || now.roll.is_present(member)
}

/// Has those counted that are on other members, each of which counts what all snapshots of a volume hold. Who does not
/// is missing.
pub(in crate::server) async fn count_elsewhere(
    app: &Arc<App>,
    meant: &Meant,
    shown: &mut [Snapshot],
    missing: &mut BTreeSet<String>,
) {
    let Meant::Group(now, caller) = meant else { return };
    let mut wanted = BTreeMap::<String, BTreeSet<String>>::new();
    for snapshot in shown.iter() {
        if let Some(member) = &snapshot.member {
            wanted.entry(member.clone()).or_default().insert(snapshot.volume.clone());
        }
    }
    wanted.remove(&now.name);
    // By the names that were given to what they have.
    let budget = Budget::default();
    let asked = Part { app, now, caller, budget: &budget };
    let counting = wanted.iter().map(|(on, volumes)| asked.counted(on, volumes));
    for (member, counted) in join_all(counting).await {
        let Some(counted) = counted else {
            missing.insert(member.to_owned());
            continue;
        };
        for snapshot in shown.iter_mut().filter(|it| it.member.as_deref() == Some(member)) {
            let same = |it: &&Snapshot| it.volume == snapshot.volume && it.id == snapshot.id;
            snapshot.space = counted.iter().find(same).and_then(|it| it.space);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;
    use crate::types::JobKind;

    fn job(subject: &str, member: &str) -> Job {
        let (kind, subject) = (JobKind::Rebuild, subject.to_owned());
        let member = Some(member.to_owned());
        Job { kind, subject, done_bytes: 0, total_bytes: 1, rate_bytes: 0, member }
    }

    #[test]
    fn lists_are_in_the_order_of_names_and_then_of_members() {
        let mut all = [job("b", "left"), job("a", "right"), job("a", "left")];
        all.sort_by(Job::order);
        let order = all.map(|job| format!("{} {}", job.subject, job.member.unwrap_or_default()));
        assert_eq!(order, ["a left", "a right", "b left"]);
    }

    #[test]
    fn what_is_on_two_members_has_two_keys() {
        assert_ne!(job("a", "left").key(), job("a", "right").key());
        assert_eq!(job("a", "left").on(None).key(), "rebuild a", "as in no group");
    }

    #[test]
    fn who_is_missing_is_told_and_nobody_else() {
        let told = |names: &[&str]| {
            let missing = names.iter().map(|name| (*name).to_owned()).collect();
            let response = Gathered::<Job> { all: Vec::new(), missing }.tell(().into_response());
            let header = response.headers().get(MEMBERS_MISSING)?;
            Some(header.to_str().expect("plain text").to_owned())
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["right", "left.example"]).as_deref(), Some("left.example, right"));
    }
}
