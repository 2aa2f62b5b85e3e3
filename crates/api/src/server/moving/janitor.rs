//! What is left of moves whose driver was cut off: each side puts right what it has, again and again until it is done.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use group::handover::SourceSays;
use group::membership::MoveId;
use group::settings::{Arrival, Departure, Stage};
use member::events::Severity;
use member::{ArrivalStep, MoveRequest};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::known::Coming;
use super::{adopt, here, name_of, remote, tell_given_up, tell_moved, waiting};
use crate::server::app::App;
use crate::server::connections::has_ended;
use crate::types::{List, Nothing};

/// How often it is looked.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks after what is left of moves, until the end.
pub(in crate::server) async fn look_after(app: Arc<App>, mut ending: watch::Receiver<bool>) {
    let looking = async {
        // What a life before has stored, also in a group that it has left. Without a group nothing comes to that.
        let (mut was_in_group, mut is_some_left) = (false, true);
        loop {
            let is_in_group = app.roll.now().is_some();
            if is_in_group || was_in_group || is_some_left {
                let ((), left) = tokio::join!(look(&app), waiting::tell(&app));
                is_some_left = left;
            }
            was_in_group = is_in_group;
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = looking => {}
        () = has_ended(&mut ending) => {}
    }
}

/// Looks once. One that cannot be asked, or a disk that does not answer, keeps nobody else waiting for long: what takes
/// longer goes on by itself, and is not begun again meanwhile.
pub(super) async fn look(app: &Arc<App>) {
    if app.roll.now().is_none() {
        return;
    }
    // While these cannot be read, nothing is known of them.
    let arrivals = here::<List<Arrival>>(app, MoveRequest::Arrivals).await;
    let departures = here::<List<Departure>>(app, MoveRequest::Departures).await;
    let arrivals = arrivals.map_or_else(|_| Vec::new(), |List(all)| all);
    let departures = departures.map_or_else(|_| Vec::new(), |List(all)| all);
    let silent = app.moves.silent();
    tokio::join!(
        join_all(arrivals.into_iter().map(|it| {
            let (app, id) = (app.clone(), it.id.clone());
            by_itself(app.clone(), id, async move { prepared(&app, &it).await })
        })),
        join_all(departures.into_iter().map(|it| {
            let (app, id) = (app.clone(), it.id.clone());
            by_itself(app.clone(), id, async move { departed(&app, &it).await })
        })),
        join_all(silent.into_iter().map(|(id, coming)| {
            let (app, of) = (app.clone(), id.clone());
            by_itself(app.clone(), of, async move { cut_off(&app, &id, &coming).await })
        })),
    );
}

/// Has something done about a move, unless it is being done already, and waits for it as long as for the next look.
async fn by_itself(app: Arc<App>, id: MoveId, work: impl Future<Output = ()> + Send + 'static) {
    if !app.moves.begin_work(&id) {
        return;
    }
    let working = tokio::spawn(async move {
        work.await;
        app.moves.end_work(&id);
    });
    drop(timeout(PAUSE, working).await);
}

/// A volume has come here as a whole: it is served here if it is this member's.
async fn prepared(app: &Arc<App>, Arrival { id, from, serial, .. }: &Arrival) {
    let found = match adopt(app, id, (None, None)).await {
        Ok(ArrivalStep::AskSource) => match remote::source_says(app, *from, (id, serial)).await {
            Ok(says) => adopt(app, id, (Some(says), None)).await,
            Err(error) => Err(error.into()),
        },
        found => found,
    };
    if let Err(problem) = found {
        tracing::debug!("what becomes of a volume that has come here is not known yet: {problem}");
    }
}

/// A volume has left, or was about to.
async fn departed(app: &Arc<App>, departure: &Departure) {
    let Departure { id, name, to, serial, stage, .. } = departure;
    let to_name = name_of(app, *to);
    match stage {
        Stage::Gone => {
            tell_moved(app, id, name, &format!("volume '{name}' has moved to {to_name}"));
            app.whereabouts.moved(name, *to);
            // Anything else than these says nothing of who has it.
            let looked = remote::look(app, *to, (id, serial)).await;
            if let Ok(found @ (ArrivalStep::Adopted | ArrivalStep::Unknown)) = looked {
                drop(here::<Nothing>(app, MoveRequest::Gone { id: id.clone(), found }).await);
            }
        }
        Stage::Leaving => {
            let given_up = here::<Nothing>(app, MoveRequest::GiveUp { id: id.clone() }).await;
            let says = here(app, MoveRequest::Says { id: id.clone(), serial: None }).await;
            if let (Ok(Nothing), Ok(SourceSays::GivenUp)) = (given_up, says) {
                let text = format!(
                    "volume '{name}' stays here, its move to {to_name} was given up: it was cut off before the group \
                     gave it away"
                );
                tell_given_up(app, id, name, (&text, Severity::Warning));
            }
        }
    }
}

/// Nothing was heard for long of a volume that is coming here.
async fn cut_off(app: &Arc<App>, id: &MoveId, Coming { from, name, .. }: &Coming) {
    let is_member = app.roll.now().is_none_or(|now| now.roll.members.contains_key(from));
    if is_member {
        match remote::source_says(app, *from, (id, "")).await {
            Ok(SourceSays::UnderWay) => {
                app.moves.hear(id);
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
    if here::<Nothing>(app, MoveRequest::Discard { id: id.clone() }).await.is_ok() {
        app.moves.end(id);
        let from = name_of(app, *from);
        let text = format!(
            "volume '{name}' does not come here from {from}: its move was cut off, and what had come is deleted"
        );
        tell_given_up(app, id, name, (&text, Severity::Warning));
    }
}
