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
use tokio::time::sleep;

use super::known::Coming;
use super::{adopt, here, name_of, remote, tell_given_up, tell_moved};
use crate::server::app::App;
use crate::server::connections::has_ended;
use crate::types::{List, Nothing};

/// How often it is looked.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks after what is left of moves, until the end.
pub(in crate::server) async fn look_after(app: Arc<App>, mut ending: watch::Receiver<bool>) {
    let looking = async {
        loop {
            look(&app).await;
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = looking => {}
        () = has_ended(&mut ending) => {}
    }
}

/// Looks once. One that cannot be asked keeps nobody else waiting for long.
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
        join_all(arrivals.iter().map(|arrival| prepared(app, arrival))),
        join_all(departures.iter().map(|departure| departed(app, departure))),
        join_all(silent.iter().map(|(id, coming)| cut_off(app, id, coming))),
    );
}

/// A volume has come here as a whole: it is served here if it is this member's.
async fn prepared(app: &Arc<App>, Arrival { id, from, .. }: &Arrival) {
    let found = match adopt(app, id, None).await {
        Ok(ArrivalStep::AskSource) => match remote::source_says(app, *from, id).await {
            Ok(says) => adopt(app, id, Some(says)).await,
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
    let Departure { id, name, to, stage, .. } = departure;
    let to_name = name_of(app, *to);
    match stage {
        Stage::Gone => {
            tell_moved(app, id, name, &format!("volume '{name}' has moved to {to_name}"));
            app.whereabouts.moved(name, *to);
            // Anything else than these says nothing of who has it.
            let looked = remote::look(app, *to, id).await;
            if let Ok(ArrivalStep::Adopted | ArrivalStep::Unknown) = looked {
                drop(here::<Nothing>(app, MoveRequest::Gone { id: id.clone() }).await);
            }
        }
        Stage::Leaving => {
            let given_up = here::<Nothing>(app, MoveRequest::GiveUp { id: id.clone() }).await;
            let says = here(app, MoveRequest::Says { id: id.clone() }).await;
            if let (Ok(Nothing), Ok(SourceSays::GivenUp)) = (given_up, says) {
                let text = format!(
                    "volume '{name}' stays here, its move to {to_name} was given up: it was cut off before the group \
                     was asked for it"
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
        match remote::source_says(app, *from, id).await {
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
