//! Volumes that are for nobody, whatever an operator has set: they move, or it does not read whether they do.

use group::settings::{Arrival, Departure, Stage};

use super::MemberSettings;

/// Why a volume is for nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// It leaves, or has left, for another member.
    Leaves(Departure),
    /// It has come from another member, and is not yet this one's.
    Arrives(Arrival),
    /// What is stored of a move of it cannot be used, for this reason.
    Unreadable(String),
}

impl MemberSettings {
    /// Whether volumes leave or arrive, or may.
    pub(crate) fn has_moves(&self) -> bool {
        let state = self.state.borrow();
        !(state.departures.is_empty() && state.arrivals.is_empty())
    }

    /// The departure of a volume, or why what is stored of it cannot be used.
    pub(crate) fn departing(&self, volume: u32) -> Option<Result<Departure, String>> {
        let state = self.state.borrow();
        let departure = state.departures.get(&volume)?.as_ref();
        Some(departure.cloned().map_err(ToString::to_string))
    }

    /// Whether a volume is another member's, and only its data is here yet.
    pub(crate) fn has_left(&self, volume: u32) -> bool {
        let departure = self.departure(volume);
        departure.is_some_and(|departure| departure.stage == Stage::Gone)
    }

    /// Why a volume is for nobody, if it is.
    pub(crate) fn withheld(&self, volume: u32) -> Option<Withheld> {
        match self.departing(volume) {
            Some(Ok(departure)) => return Some(Withheld::Leaves(departure)),
            Some(Err(why)) => return Some(Withheld::Unreadable(why)),
            None => {}
        }
        let state = self.state.borrow();
        let mut arrivals = state.arrivals.values().flatten();
        if let Some(arrival) = arrivals.find(|arrival| arrival.volume == volume) {
            return Some(Withheld::Arrives(arrival.clone()));
        }
        // Hosts know it by what is not known here: by another name it would be another disk.
        let error = state.adopted.get(&volume)?.as_ref().err()?;
        Some(Withheld::Unreadable(error.to_string()))
    }

    /// Whether it reads what hosts know all those volumes by that were made elsewhere.
    pub(crate) fn all_adopted_read(&self) -> bool {
        self.state.borrow().adopted.values().all(Result::is_ok)
    }
}

#[cfg(test)]
impl MemberSettings {
    /// What hosts know a volume by does not read, until settings are read again.
    pub(crate) fn spoil_adopted(&self, volume: u32) {
        use std::sync::Arc;

        use group::record::SettingError;
        use group::settings::State;

        let mut state = State::clone(&self.state.borrow());
        let later = SettingError::Later { what: "what hosts know a volume by", found: 2, known: 1 };
        state.adopted.insert(volume, Err(later));
        self.state.replace(Arc::new(state));
        self.note_change();
    }
}
