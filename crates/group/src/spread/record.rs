//! What is stored of a spread volume: at its home one record of all of it, at each other member one of its slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Dealt, Opening, Openings, Pattern, Placed, SliceSet, Who};
use crate::membership::{GroupId, SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::{Setting, SettingError};

/// How the names of the volumes of an array begin that are slices. The number of their spread volume follows: a member
/// has one slice of it at most.
const HIDDEN: &str = ".slice-";

/// The name that the slices of a spread volume have on the arrays of their members.
#[must_use]
pub fn hidden_name(spread: &SpreadId) -> String {
    format!("{HIDDEN}{spread}")
}

/// Whether this is the name of a slice: whatever an operator has named otherwise is his.
#[must_use]
pub fn is_hidden_name(name: &str) -> bool {
    let spread = name.strip_prefix(HIDDEN).map(str::parse::<SpreadId>);
    spread.is_some_and(|spread| spread.is_ok())
}

/// Who has which slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The slice.
    pub slice: SliceId,
    /// The member that has it. One that was removed and joins again has another number, and is not meant.
    pub member: MemberId,
}

/// How far a spread volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SpreadStage {
    /// Its slices are being made: it is served to nobody.
    Making,
    /// All of it is there.
    Whole,
    /// All of it is there, and its slices are being made larger.
    Growing {
        /// The size that it is to have.
        to_bytes: u64,
    },
    /// It is being deleted: it is served to nobody, and never again.
    Going {
        /// The slices that have said that they have gone, and those that an operator has given up.
        gone: SliceSet,
    },
}

/// What of a spread volume changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpreadStanding {
    /// Its size, as hosts see it.
    pub size_bytes: u64,
    /// How far it is.
    pub stage: SpreadStage,
}

impl SpreadStanding {
    /// Whether this may be stored after what is stored. What goes does not come back, and nothing becomes smaller.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use SpreadStage::{Going, Growing, Making, Whole};
        let keeps_size = next.size_bytes == self.size_bytes;
        match (self.stage, next.stage) {
            (Making, Whole) | (_, Going { .. }) if !keeps_size => false,
            (Going { gone }, Going { gone: next }) => next.has_all(gone),
            (Making | Whole | Growing { .. }, Going { .. }) | (Making, Whole) => true,
            (Whole, Growing { to_bytes }) => keeps_size && to_bytes > self.size_bytes,
            (Growing { to_bytes }, Whole) => keeps_size || next.size_bytes == to_bytes,
            (Going { .. }, _) => mutants::is(Mutant::GoneComesBack),
            (_, Making)
            | (Making, Growing { .. })
            | (Whole, Whole)
            | (Growing { .. }, Growing { .. }) => false,
        }
    }
}

/// All that the home of a spread volume has stored of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadRecord {
    /// The volume, or this attempt to make it.
    pub id: SpreadId,
    /// The group whose members have it: numbers of members say nothing in another one.
    pub group: GroupId,
    /// The array of the home, which has its own slice: with another one the home is not what it was.
    pub home_array: String,
    /// Its name, as hosts know it.
    pub name: String,
    /// Its size, as hosts see it. Slices may be larger.
    pub size_bytes: u64,
    /// What is dealt to slices.
    pub page_bytes: u64,
    /// How.
    pub pattern: Pattern,
    /// Who has which slice, by the number of the slice. The first is the home's own.
    pub seats: Vec<Seat>,
    /// The openings of its slices, by number. The home's own has none.
    pub openings: Vec<Openings>,
    /// How far it is.
    pub stage: SpreadStage,
}

impl Setting for SpreadRecord {
    const WHAT: &'static str = "a volume that is spread over several members";

    fn check_sound(&self) -> Result<(), String> {
        if mutants::is(Mutant::UnsoundRecord) {
            return Ok(());
        }
        let seats = self.seats.len();
        self.dealt().check_sound()?;
        if self.size_bytes == 0 || self.home_array.is_empty() {
            let size = self.size_bytes;
            return Err(format!("it has {size} bytes, at a home with array '{}'", self.home_array));
        }
        if self.openings.len() != seats || !self.openings.iter().all(|it| it.are_sound()) {
            return Err(format!("its {seats} slices have openings that cannot be"));
        }
        match self.stage {
            SpreadStage::Growing { to_bytes } if to_bytes <= self.size_bytes => {
                Err(format!("it is to grow from {} bytes to {to_bytes}", self.size_bytes))
            }
            SpreadStage::Going { gone } if !SliceSet::first(seats).has_all(gone) => {
                Err(format!("slices have gone that it never had: {gone:?} of {seats}"))
            }
            _ => Ok(()),
        }
    }
}

impl SpreadRecord {
    /// A volume that is to be made where it was placed, with new identities.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn draw(
        (group, home_array): (&GroupId, &str),
        name: &str,
        (size_bytes, page_bytes): (u64, u64),
        Placed { members, pattern, .. }: &Placed,
    ) -> Result<Self, getrandom::Error> {
        let seat = |member: &MemberId| Ok(Seat { slice: SliceId::draw()?, member: *member });
        let record = Self {
            id: SpreadId::draw()?,
            group: group.clone(),
            home_array: home_array.to_owned(),
            name: name.to_owned(),
            size_bytes,
            page_bytes,
            pattern: pattern.clone(),
            seats: members.iter().map(seat).collect::<Result<_, getrandom::Error>>()?,
            openings: vec![Openings::default(); members.len()],
            stage: SpreadStage::Making,
        };
        debug_assert_eq!(record.check_sound(), Ok(()));
        Ok(record)
    }

    /// The member that hosts reach it at, as it was numbered when the volume was made.
    #[must_use]
    pub fn home(&self) -> MemberId {
        self.seats[0].member
    }

    /// Whether it is this member that serves it. What another life of its home has stored, or a member of another group,
    /// is served by nobody and asked of nobody: an operator decides.
    #[must_use]
    pub fn is_of(&self, who: Option<Who<'_>>) -> bool {
        who == Some((&self.group, self.home()))
    }

    /// How its pages are dealt, and to whom.
    #[must_use]
    pub fn dealt(&self) -> Dealt {
        Dealt {
            page_bytes: self.page_bytes,
            pattern: self.pattern.clone(),
            seats: self.seats.clone(),
        }
    }

    /// Whether none of its slices is left.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let all = SliceSet::first(self.seats.len());
        matches!(self.stage, SpreadStage::Going { gone } if gone.has_all(all))
    }

    /// What of it changes.
    #[must_use]
    pub const fn standing(&self) -> SpreadStanding {
        SpreadStanding { size_bytes: self.size_bytes, stage: self.stage }
    }

    /// The same volume, further.
    #[must_use]
    pub fn with(&self, standing: SpreadStanding) -> Self {
        let SpreadStanding { size_bytes, stage } = standing;
        Self { size_bytes, stage, ..self.clone() }
    }
}

/// How far a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceStage {
    /// The volume of the array that it is to be may be there, or not.
    Making,
    /// It is there.
    Here,
    /// It is being deleted.
    Going,
}

/// What of a slice changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceStanding {
    /// The size that it has, or is being given.
    pub size_bytes: u64,
    /// How far it is.
    pub stage: SliceStage,
}

impl SliceStanding {
    /// Whether this may be stored after what is stored.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use SliceStage::{Going, Here, Making};
        let (keeps_size, grows) =
            (next.size_bytes == self.size_bytes, next.size_bytes > self.size_bytes);
        match (self.stage, next.stage) {
            (Making, Here) | (Making | Here, Going) => keeps_size,
            (Here, Here) => grows,
            (_, Making) => false,
            (Going, _) => mutants::is(Mutant::GoneComesBack),
        }
    }
}

/// All that a member has stored of a slice of a volume whose home is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceRecord {
    /// The slice.
    pub id: SliceId,
    /// Of which volume.
    pub spread: SpreadId,
    /// The group whose members have it.
    pub group: GroupId,
    /// Who this member is there.
    pub me: MemberId,
    /// The home of the volume.
    pub home: MemberId,
    /// The array that the home had then.
    pub home_array: String,
    /// How the pages of the volume are dealt: the volume can be made of its slices again.
    pub dealt: Dealt,
    /// The name of the volume when the slice was made, for operators.
    pub name: String,
    /// The volume of the array that it is.
    pub volume: String,
    /// The size that it has, or is being given.
    pub size_bytes: u64,
    /// The last opening that was begun here.
    pub begun: Opening,
    /// The last one that its home has heard of, stored before it was let in: from the first one on it may have data.
    pub opened: Opening,
    /// How far it is.
    pub stage: SliceStage,
}

impl Setting for SliceRecord {
    const WHAT: &'static str = "a slice of a volume whose home is another member";

    fn check_sound(&self) -> Result<(), String> {
        if mutants::is(Mutant::UnsoundRecord) {
            return Ok(());
        }
        self.dealt.check_seat((&self.id, self.me), self.home)?;
        // It is deleted with the slice: never what an operator has made, nor the slice of another volume.
        if self.volume != hidden_name(&self.spread) && !mutants::is(Mutant::VolumeOfOther) {
            let (volume, spread) = (&self.volume, &self.spread);
            return Err(format!("'{volume}' is not the volume of a slice of {spread}"));
        }
        if self.home_array.is_empty() {
            return Err("it does not say which array its home has".to_owned());
        }
        if self.opened > self.begun {
            return Err("it was opened before that was begun".to_owned());
        }
        match self.size_bytes {
            0 => Err("it has no size".to_owned()),
            _ => Ok(()),
        }
    }
}

impl SliceRecord {
    /// Whether this member is the one that the slice was given to.
    #[must_use]
    pub fn is_of(&self, who: Option<Who<'_>>) -> bool {
        who == Some((&self.group, self.me))
    }

    /// Whether its home has ever begun to open it, so that it may have data: then it goes by an order of the home that it is to go,
    /// or by an operator's word, and by nothing else.
    #[must_use]
    pub fn was_used(&self) -> bool {
        self.begun != Opening::NEVER
    }

    /// What of it changes.
    #[must_use]
    pub const fn standing(&self) -> SliceStanding {
        SliceStanding { size_bytes: self.size_bytes, stage: self.stage }
    }

    /// The same slice, further.
    #[must_use]
    pub fn with(&self, standing: SliceStanding) -> Self {
        let SliceStanding { size_bytes, stage } = standing;
        Self { size_bytes, stage, ..self.clone() }
    }
}

/// What a home has stored, by volume. Of what cannot be read nothing is done.
pub type SpreadRecords = BTreeMap<SpreadId, Result<SpreadRecord, SettingError>>;

/// What a member has stored of slices of others' volumes. Of what cannot be read nothing is done.
pub type SliceRecords = BTreeMap<SliceId, Result<SliceRecord, SettingError>>;
