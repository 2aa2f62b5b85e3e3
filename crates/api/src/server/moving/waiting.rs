//! What is told of volumes that have no hosts while their moves wait, and of those that only an operator gives back to
//! them.

use std::time::Duration;

use member::MoveRequest;
use member::events::{Event, Kind, ObjectKind};

use super::here;
use crate::server::app::App;
use crate::types::{List, Transit, TransitState, TransitWay};

/// After how long it is told that one waits: what goes on by itself takes moments.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Looks at what is stored of moves here, and tells once what it finds: also of a member that is in no group any more.
/// Says whether there may be something.
pub(super) async fn tell(app: &App) -> bool {
    // While these cannot be read, nothing is known of them.
    let Ok(List(all)) = here::<List<Transit>>(app, MoveRequest::Transits).await else {
        return true;
    };
    for transit in app.moves.that_wait(&all) {
        let text = text_of(&transit);
        let event = Event::about(Kind::VolumeNotServed, ObjectKind::Volume, &transit.volume, text);
        app.logs.events.tell(event);
    }
    !all.is_empty()
}

fn text_of(transit: &Transit) -> String {
    let Transit { volume, way, other, .. } = transit;
    let why = transit.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let move_of = match way {
        TransitWay::Leaves => format!("its move to '{other}'"),
        TransitWay::Arrives => format!("its move from '{other}'"),
    };
    match transit.state {
        TransitState::Undecided => format!(
            "volume '{volume}' is served to nobody here, as {move_of} is decided by no group any more, so that an operator has \
             to settle it{why}"
        ),
        _ => format!(
            "volume '{volume}' is served to nobody here, as {move_of} waits for the store of the group or for that member{why}"
        ),
    }
}
