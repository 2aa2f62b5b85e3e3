//! What becomes of a slice that nobody asks for: its member asks the home, from time to time and after each start.

use std::fmt::{self, Display, Formatter};

use super::{SliceRecord, SpreadRecords, SpreadStage};
use crate::membership::{GroupId, SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;

/// Who a member is in which group.
pub type Who<'a> = (&'a GroupId, MemberId);

/// "What of slice S of volume X?"
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Question {
    /// The group in which the slice was made.
    pub group: GroupId,
    /// The home of the volume there: who is asked has to be this one still.
    pub home: MemberId,
    /// The array that the home had: what lies on another one says nothing of this volume.
    pub home_array: String,
    /// The volume.
    pub spread: SpreadId,
    /// The slice.
    pub slice: SliceId,
}

impl Question {
    /// What the member that has a slice asks its home.
    #[must_use]
    pub fn of(record: &SliceRecord) -> Self {
        Self {
            group: record.group.clone(),
            home: record.home,
            home_array: record.home_array.clone(),
            spread: record.spread.clone(),
            slice: record.id.clone(),
        }
    }
}

/// What a home says of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeSays {
    /// It has the volume, and the slice is one of it.
    Have(SpreadStage),
    /// There is no such volume, by records all of which it could read: the slice is nobody's.
    Gone,
    /// What it has stored cannot be read, or does not tell.
    Unread,
    /// It is in another group, is another member of it than it was, or has another array.
    OtherGroup,
}

/// What the home says that is asked, from what it has stored; `None` where that cannot be read. It says which array it has,
/// and whether that has the home's own slice of the volume: that goes before the record does, so a record that is missing
/// beside it was lost, as where settings were given up.
#[must_use]
pub fn home_says(
    question: &Question,
    who: Option<Who<'_>>,
    spreads: Option<&SpreadRecords>,
    (array, has_own_slice): (&str, bool),
) -> HomeSays {
    let is_home = who == Some((&question.group, question.home));
    if !is_home && !mutants::is(Mutant::GoneOfOthers) {
        return HomeSays::OtherGroup;
    }
    if array != question.home_array && !mutants::is(Mutant::GoneOtherArray) {
        return HomeSays::OtherGroup;
    }
    let unread = match mutants::is(Mutant::GoneUnread) {
        true => HomeSays::Gone,
        false => HomeSays::Unread,
    };
    let Some(spreads) = spreads else { return unread };
    match spreads.get(&question.spread) {
        Some(Err(_)) => unread,
        Some(Ok(record)) => {
            let is_its = record.seats.iter().any(|seat| seat.slice == question.slice);
            // Its slices were stored before any was asked for, and are no others since.
            if is_its && record.is_of(who) { HomeSays::Have(record.stage) } else { unread }
        }
        None if has_own_slice && !mutants::is(Mutant::GoneRecordLost) => HomeSays::Unread,
        None => HomeSays::Gone,
    }
}

/// Why a slice stays of which its home does not say that it has it. It is shown, and an operator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhyLeft {
    /// This server is another member now than the one that the slice was given to.
    OtherMember,
    /// The home was removed from the group.
    HomeRemoved(MemberId),
    /// The home says that it is not the member any more that it was.
    HomeElsewhere(MemberId),
    /// The home cannot read what it has stored.
    HomeUnread(MemberId),
    /// The home has no such volume, although it has used this slice: what it had stored is lost.
    HomeForgot(MemberId),
}

impl Display for WhyLeft {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        const DECIDE: &str = "its data stay as long as nobody says that they are not needed";
        match self {
            Self::OtherMember => write!(
                out,
                "it was given to this server as another member of a group than it is now: {DECIDE}"
            ),
            Self::HomeRemoved(home) => write!(
                out,
                "its volume was at {home}, which is no member of the group any more: {DECIDE}"
            ),
            Self::HomeElsewhere(home) => write!(
                out,
                "its volume was at {home}, which is another member now or has other disks: {DECIDE}"
            ),
            Self::HomeUnread(home) => write!(
                out,
                "its volume is at {home}, which cannot read what it has stored of it: mend the settings there, or make \
                 the volume there anew of its slices ('drystone volume rebuild')"
            ),
            Self::HomeForgot(home) => write!(
                out,
                "its volume was at {home}, which has used it and knows nothing of it any more, as where the disks there \
                 were put back from an image: put the newer ones back; {DECIDE}"
            ),
        }
    }
}

/// What becomes of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SliceFate {
    /// It is needed, or nothing is known.
    Keep,
    /// It stays, and an operator is told why.
    LeftOver(WhyLeft),
    /// It is nobody's, and nobody has ever used it: store that it goes.
    Go,
}

/// What follows for a slice from who this member is, from whether its home is a member, and from what was heard last, and
/// of whom: `None` for silence.
#[must_use]
pub fn decide_slice(
    record: &SliceRecord,
    who: Option<Who<'_>>,
    is_home_there: bool,
    heard: Option<(MemberId, HomeSays)>,
) -> SliceFate {
    let home = record.home;
    if !record.is_of(who) {
        return SliceFate::LeftOver(WhyLeft::OtherMember);
    }
    if !is_home_there {
        return match mutants::is(Mutant::GoWithHome) {
            true => SliceFate::Go,
            false => SliceFate::LeftOver(WhyLeft::HomeRemoved(home)),
        };
    }
    match heard {
        Some((from, _)) if from != home && !mutants::is(Mutant::GoneOfOthers) => SliceFate::Keep,
        // Of one that was used an order tells that it goes, and not that nothing is known of it.
        Some((_, HomeSays::Gone)) if record.was_used() && !mutants::is(Mutant::GoneOpened) => {
            SliceFate::LeftOver(WhyLeft::HomeForgot(home))
        }
        Some((_, HomeSays::Gone)) => SliceFate::Go,
        Some((_, HomeSays::Have(_))) => SliceFate::Keep,
        Some((_, HomeSays::Unread)) => SliceFate::LeftOver(WhyLeft::HomeUnread(home)),
        Some((_, HomeSays::OtherGroup)) => SliceFate::LeftOver(WhyLeft::HomeElsewhere(home)),
        None if mutants::is(Mutant::GoOnSilence) => SliceFate::Go,
        None => SliceFate::Keep,
    }
}
