//! Whether most of a limit is taken: said when it comes to be, and when it is over.

/// Of a hundred, above which most of it is taken.
const HIGH_PERCENT: u64 = 90;

/// Of a hundred, below which it is over: hosts that come and go by the line are not told of again and again.
const EASED_PERCENT: u64 = 80;

/// What has become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// More than nine in ten are taken.
    High,
    /// Fewer than eight in ten are, after more than nine were.
    Eased,
}

/// How a limit stood at the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Crowding {
    /// Nobody has looked yet. Where much is taken then, that was told before: by the life of the member before this one, or
    /// by another member.
    #[default]
    Unknown,
    /// Not most of it was taken.
    Low,
    /// Most of it was.
    High,
}

impl Crowding {
    /// Looks how many of them are taken, and says what has become of it since the last look; nothing at the first one.
    /// Where there is no limit any more, it has eased.
    pub fn look(&mut self, taken: u64, limit: Option<u32>) -> Option<Turn> {
        let limit = limit.map_or(u64::MAX / 100, u64::from);
        let parts = taken.saturating_mul(100);
        let is_above = parts > limit.saturating_mul(HIGH_PERCENT);
        let is_below = parts < limit.saturating_mul(EASED_PERCENT);
        let (next, turn) = match self {
            Self::Unknown if is_below => (Self::Low, None),
            Self::Unknown => (Self::High, None),
            Self::Low if is_above => (Self::High, Some(Turn::High)),
            Self::High if is_below => (Self::Low, Some(Turn::Eased)),
            Self::Low | Self::High => return None,
        };
        *self = next;
        turn
    }
}
