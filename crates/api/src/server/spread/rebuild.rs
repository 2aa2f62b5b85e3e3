//! A home that has lost what it had stored of a volume: by an operator's word it asks all members for what they have stored
//! of their slices, and the volume is made anew of that. So does one that they take for an older one, and goes on.

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
use crate::mutants::{self, Mutant};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::types::Volume;

/// How long members have to tell, which is a matter of moments: somebody waits for it.
const TELL_TIME: Duration = Duration::from_secs(20);

/// Makes the volume anew that this slice is of, at this member, its home, or has it go on `despite_later` homes that members
/// have seen.
pub(in crate::server) async fn rebuild(
    app: &Arc<App>,
    slice: &str,
    despite_later: bool,
) -> Result<Volume, Problem> {
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
    let request = SpreadRequest::Rebuild { records, despite_later };
    let rebuilt = here::<SpreadShown>(app, request).await;
    let shown = rebuilt.map_err(|problem| {
        let rules = now.iter().fold(problem.detail, |text, now| with_names(app, now, &text));
        // Who has not told may be why, or know more.
        let why = std::iter::once(rules).chain(silent).collect::<Vec<_>>();
        Problem { detail: why.join("; "), ..problem }
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
    let unavailable =
        |what: &str| Problem::new(Code::Unavailable, format!("{} {what}", name_of(app, member)));
    let telling = timeout(TELL_TIME, remote::record(app, member, slice)).await;
    let record = telling.map_err(|_| unavailable("has not answered"))??;
    match record {
        // For nobody but itself.
        Some(record) if record.me != member && !mutants::is(Mutant::TellForOthers) => {
            Err(unavailable("has told of what another member has"))
        }
        record => Ok(record),
    }
}
