//! A home that has lost what it had stored of a volume: by an operator's word it asks all members for what they have stored
//! of their slices, and the volume is made anew of that.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use group::membership::SliceId;
use group::ownership::MemberId;
use group::spread::SliceRecord;
use member::{SpreadRequest, SpreadShown};
use tokio::time::timeout;

use super::placing::with_names;
use super::{here, name_of, remote, show};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::types::Volume;

/// How long members have to tell, which is a matter of moments: somebody waits for it.
const TELL_TIME: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });

/// Makes the volume anew that this slice is of, at this member, its home.
pub(in crate::server) async fn rebuild(app: &Arc<App>, slice: &str) -> Result<Volume, Problem> {
    app.check_not_ending()?;
    let slice: SliceId = slice.parse().map_err(|_| {
        let sentence = "that is no number of a slice: see 'drystone volume slices'";
        Problem::new(Code::NoSuchSlice, sentence)
    })?;
    let now = app.roll.now();
    let others = now.iter().flat_map(|now| {
        let members = now.roll.members.keys().copied();
        members.filter(move |member| *member != now.me)
    });
    let (mut records, mut silent) = (Vec::new(), Vec::new());
    for told in join_all(others.map(|member| told(app, member, &slice))).await {
        match told {
            Ok(record) => records.extend(record),
            Err(problem) => silent.push(problem.detail),
        }
    }
    let rebuilt = here::<SpreadShown>(app, SpreadRequest::Rebuild { records }).await;
    let shown = rebuilt.map_err(|problem| {
        let rules = now.iter().fold(problem.detail, |text, now| with_names(app, now, &text));
        // Who has not told may be why.
        let why = std::iter::once(rules).chain(silent).collect::<Vec<_>>();
        let detail =
            if problem.code == Code::Unavailable { why.join("; ") } else { why[0].clone() };
        Problem { detail, ..problem }
    })?;
    app.spreads.made.notify_one();
    show(app, shown.record.name).await
}

/// What a member has stored of it.
async fn told(
    app: &Arc<App>,
    member: MemberId,
    slice: &SliceId,
) -> Result<Option<SliceRecord>, Problem> {
    let telling = timeout(TELL_TIME, remote::record(app, member, slice)).await;
    telling.unwrap_or_else(|_| {
        let sentence = format!("{} has not answered", name_of(app, member));
        Err(Problem::new(Code::Unavailable, sentence))
    })
}
