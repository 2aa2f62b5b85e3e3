//! What can be asked of a member about volumes that lie on several members (docs/decisions/0052), and what it answers.
//!
//! One member is the home of such a volume; the others that have slices of it do what the home asks for. Whoever drives a
//! change asks the home what is next, carries its letters to members, and says what these have answered.

use std::fmt::Debug;

use array::Level;
use array::api::VolumeSpec;
use futures_util::future::BoxFuture;
use group::membership::{GroupId, SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{
    Answer, HomeSays, Letter, Opening, Openings, Order, Pattern, Question, Seat, SliceRecord,
    SpreadRecord,
};
use serde::{Deserialize, Serialize};

use crate::slices::{self, AskError};

/// About volumes that lie on several members. What each is answered with stands behind the arrow, nothing where there is
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum SpreadRequest {
    /// To the home: claim the name of a new volume, and store that it is made → [`SpreadShown`].
    Make { plan: Box<SpreadPlan> },
    /// To the home: do what is next here, until members are to be asked or nothing is left → [`SpreadStep`].
    Step { id: SpreadId },
    /// To the home: what a member has answered about its slice. Nothing is said of a member that is silent.
    Heard { id: SpreadId, slice: u8, order: Order, answer: Answer },
    /// To the home: nobody waits for the change any more, or a member refuses, or one is silent for long.
    GiveUp { id: SpreadId },
    /// To the home: store that a volume becomes larger → [`SpreadShown`].
    Grow { name: String, size_bytes: u64 },
    /// To the home: store that a volume goes for good, which is offline → [`SpreadShown`].
    Delete { name: String },
    /// To the home, by an operator: give a slice up, of a volume that goes, whose member is none any more.
    ForgetSeat { id: SpreadId, slice: u8 },
    /// To the home, by an operator: make a volume anew of what its other slices have stored, or, `despite_later` homes that
    /// they have seen, go on with what this one has → [`SpreadShown`].
    Rebuild { records: Vec<SliceRecord>, despite_later: bool },
    /// → [`SpreadShown`]s of those whose home the member is.
    List,
    /// To a member that has a slice, or is to have one: an order of its home. `from` has proved itself where it came from. A
    /// refusal says that it is not done; what is asked for again is done once.
    Letter { from: MemberId, letter: Box<SliceLetter> },
    /// To a member that has a slice: its home has stored that it begins an opening, and so does the member → [`Begun`].
    Begin { from: MemberId, slice: SliceId, openings: Openings },
    /// To it: open it for its home, which has stored that this was begun → [`crate::slices::Opening`].
    Open { from: MemberId, slice: SliceId, asked: OpeningAsked },
    /// To a home: what is it with this slice? → [`HomeSays`].
    Says { from: MemberId, question: Question },
    /// To a member that may have a slice, by the home of its volume: what is stored of that which has the volume of this
    /// slice → nothing, or one [`SliceRecord`].
    Tell { from: MemberId, slice: SliceId },
    /// To a member that has slices → [`SliceShown`]s.
    Slices,
    /// To it: what the home of a slice has said; `None` of one that is silent.
    SliceHeard { slice: SliceId, heard: Option<(MemberId, HomeSays)> },
    /// To it, by an operator: delete a slice that is left over.
    Discard { slice: SliceId },
    /// What is stored of spread volumes and slices and is damaged → [`DamagedRecord`](crate::DamagedRecord)s.
    Damaged,
    /// By an operator: throw away what is stored under this number and is damaged.
    DiscardDamaged { id: String },
}

impl SpreadRequest {
    /// The volumes that it names, as hosts know them.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::Make { plan } => vec![&plan.spec.name],
            Self::Grow { name, .. } | Self::Delete { name } => vec![name],
            _ => Vec::new(),
        }
    }
}

/// A volume that is to be made. Later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadPlan {
    /// The volume, or this attempt to make it.
    pub id: SpreadId,
    /// The group whose members have it.
    pub group: GroupId,
    /// What it is to be: thin, and durable.
    pub spec: VolumeSpec,
    /// How its pages are dealt to slices.
    pub pattern: Pattern,
    /// Who has which slice. The first is the home's own.
    pub seats: Vec<Seat>,
    /// Hosts may use it as soon as it is whole: not where it is to be set first who may.
    pub online: bool,
}

/// An order of a home, with what a slice is made as. Later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceLetter {
    /// The order.
    pub letter: Letter,
    /// The logical block of the volume.
    pub block_bytes: u32,
    /// Its RAID level; `None` takes that of the array of the member.
    pub level: Option<Level>,
}

/// What is next about a volume, after all is done that its home does by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpreadStep {
    /// Members are to be asked: the number of each slice, who has it, and what it is to be asked.
    Ask {
        /// One for each slice that has not answered.
        letters: Vec<(u8, MemberId, SliceLetter)>,
    },
    /// Nothing: the change is done, or was given up.
    Rest,
    /// The volume is gone, and nothing is left of it.
    Forgotten,
}

/// A volume that lies on several members, as its home knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadShown {
    /// All that is stored of it.
    pub record: SpreadRecord,
    /// Whether it is of this member as it is now: of another one nothing is served, and nobody is asked.
    pub is_of: bool,
    /// Its slices by number.
    pub slices: Vec<SeatShown>,
}

/// A slice of a volume, as its home knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatShown {
    /// Who has it.
    pub seat: Seat,
    /// How many pages of the volume lie there.
    pub pages: u64,
    /// For how many seconds it cannot be reached, and why, as far as that is known.
    pub trouble: Option<(u64, String)>,
}

/// A slice of a volume of another home, as its member knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceShown {
    /// All that is stored of it.
    pub record: SliceRecord,
    /// What becomes of it.
    pub fate: SliceFate,
    /// What it takes on the disks of the member.
    pub used_bytes: u64,
    /// Why it is not served to its home, although it is there.
    pub not_served: Option<String>,
}

/// What becomes of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceFate {
    /// It is needed, or nothing is known.
    Kept,
    /// It stays until an operator decides: why.
    LeftOver(String),
    /// It is being deleted.
    Going,
}

/// What a home says of itself when it asks for an opening. Later versions may add fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningAsked {
    /// What tells this life of the home from others, drawn at its start.
    pub life: u64,
    /// The opening, which the home has stored as begun by the member.
    pub opening: Opening,
}

/// What came of the beginning of an opening. Later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// It is stored.
    Stored,
    /// The home is not what it was: nothing of the volume is to be served by it.
    OldHome {
        /// A sentence.
        why: String,
    },
}

/// How a home reaches slices that other members have. The interface gives it to a member once it runs.
pub trait SliceOpeners: Debug + Send + Sync {
    /// Asks this member once to store that an opening of a slice is begun.
    fn begin(
        &self,
        to: MemberId,
        slice: &SliceId,
        openings: Openings,
    ) -> BoxFuture<'static, Result<Begun, AskError>>;

    /// Asks this member once to open a slice for its home. An answer must be one to this question.
    fn open(
        &self,
        to: MemberId,
        slice: &SliceId,
        asked: OpeningAsked,
    ) -> BoxFuture<'static, Result<slices::Opening, AskError>>;
}
