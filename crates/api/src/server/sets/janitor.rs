//! What is left of sets whose driver was cut off: each member looks what was decided, again and again until it is done.

use std::sync::Arc;
use std::time::Duration;

use group::settings::SetIntent;
use member::SetRequest;
use tokio::sync::watch;
use tokio::time::sleep;

use super::here;
use crate::server::app::App;
use crate::server::connections::has_ended;
use crate::types::{List, Nothing};

/// How often it is looked.
const PAUSE: Duration = Duration::from_secs(5);

/// Looks between which what the store has of sets is looked through: that is a few keys, and mostly none.
const LOOKS: u32 = 60;

/// Looks after what is left of sets, until the end.
pub(in crate::server) async fn look_after(app: Arc<App>, mut ending: watch::Receiver<bool>) {
    let looking = async {
        // What a life before has stored, also in a group that it has left. Without a group nothing comes to that.
        let (mut was_in_group, mut is_some_left) = (false, true);
        for looks in (0..LOOKS).cycle() {
            let is_in_group = app.roll.now().is_some();
            if is_in_group || was_in_group || is_some_left {
                is_some_left = look(&app).await;
            }
            if looks == 0 && is_in_group {
                drop(here::<Nothing>(&app, SetRequest::Sweep).await);
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

/// Looks once at what is stored, also in a group that the member has left, and says whether something was there.
async fn look(app: &Arc<App>) -> bool {
    // While they cannot be read nothing is known of them.
    let Ok(List(sets)) = here::<List<SetIntent>>(app, SetRequest::List).await else { return true };
    let is_some_left = !sets.is_empty();
    for SetIntent { id, .. } in sets {
        if app.sets.has(&id) {
            continue;
        }
        let settled = here::<bool>(app, SetRequest::Settle { id, is_told: false }).await;
        if let Err(problem) = settled {
            tracing::debug!("what becomes of a set of snapshots is not known yet: {problem}");
        }
    }
    is_some_left
}
