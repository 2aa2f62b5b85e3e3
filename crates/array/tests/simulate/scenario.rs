//! What a seed is about: the machine, and what happens to it.

use std::fmt;

use array::Level;

use crate::random::Random;
use crate::subject::Shape;

/// What a group of seeds looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Hosts, and the end of processes and of power.
    Plain,
    /// And drives that err.
    Faults,
    /// And drives that go, come back and are replaced.
    Disks,
    /// And no space left.
    Full,
    /// Mostly snapshots, clones, rollbacks and deletions.
    Snapshots,
    /// Drives that are not there when the machine starts, and are the next time, or soon.
    Starts,
    /// Faults that pass, of any drives, also of more than any level bears.
    Passing,
    /// More drives than any level bears are out at once, for so long that volumes are set aside, beside
    /// hosts that fill the journal.
    Beyond,
    /// Faults of many drives that last for moments only, starts that lack more drives than any level
    /// bears, and ends of the process in the middle of all that.
    Moments,
    /// Memory that runs out: some buffers or all are refused, for moments or seconds.
    Scarcity,
    /// Rot that nobody has read yet, also in free space, while an operator adds, replaces and retires.
    Rot,
    /// Two drives hurt at the same time.
    Pairs,
    /// Several operators at once, also of disks.
    Crowd,
    /// Drives that do not answer for minutes, or never.
    Silence,
    /// Walks over maps of many leaves beside hosts, in half of the histories with drives that go and
    /// come.
    Walks,
    /// Drives that are put back as they were before, as images of them, when the machine is off.
    Images,
}

impl Theme {
    pub(crate) const ALL: [Self; 16] = [
        Self::Plain,
        Self::Faults,
        Self::Disks,
        Self::Full,
        Self::Snapshots,
        Self::Starts,
        Self::Passing,
        Self::Beyond,
        Self::Moments,
        Self::Scarcity,
        Self::Rot,
        Self::Pairs,
        Self::Crowd,
        Self::Silence,
        Self::Walks,
        Self::Images,
    ];

    /// Whether it hurts drives, so that its levels must bear that.
    fn hurts(self) -> bool {
        !matches!(self, Self::Plain | Self::Full | Self::Snapshots | Self::Scarcity)
    }

    /// Whether drives err as often as they like, since nothing is gone for good.
    pub(crate) fn passes(self) -> bool {
        matches!(self, Self::Passing | Self::Beyond | Self::Moments)
    }

    /// Whether drives lose or change what was written to them.
    pub(crate) fn damages(self) -> bool {
        matches!(self, Self::Faults | Self::Rot | Self::Pairs | Self::Crowd)
    }
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Faults => "faults",
            Self::Disks => "disks",
            Self::Full => "full",
            Self::Snapshots => "snapshots",
            Self::Starts => "starts",
            Self::Passing => "passing",
            Self::Beyond => "beyond",
            Self::Moments => "moments",
            Self::Scarcity => "scarcity",
            Self::Rot => "rot",
            Self::Pairs => "pairs",
            Self::Crowd => "crowd",
            Self::Silence => "silence",
            Self::Walks => "walks",
            Self::Images => "images",
        })
    }
}

/// One history in outline.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) theme: Theme,
    pub(crate) shape: Shape,
    pub(crate) disk_bytes: Vec<u64>,
    /// Drives on the shelf.
    pub(crate) spares: usize,
    /// Levels of its volumes.
    pub(crate) levels: Vec<Level>,
    /// How often the machine starts.
    pub(crate) boots: u32,
    /// A boot that does not end by itself is cut after at most so many steps.
    pub(crate) steps_max: u64,
    pub(crate) clients: u32,
    /// Requests of each client in a boot.
    pub(crate) requests: u32,
    pub(crate) operators: u32,
    /// Requests of each operator in a boot.
    pub(crate) orders: u32,
}

const MIB: u64 = 1 << 20;

impl Scenario {
    /// Draws one.
    pub(crate) fn draw(theme: Theme, random: &Random) -> Self {
        let disks = *random.pick(match theme {
            Theme::Plain | Theme::Snapshots | Theme::Scarcity => &[1, 2, 3, 4, 6, 8, 12][..],
            Theme::Full => &[1, 2, 3, 4, 6],
            Theme::Starts | Theme::Passing => &[3, 3, 4, 4, 5, 6, 8],
            Theme::Beyond | Theme::Moments => &[4, 5, 6, 8],
            Theme::Pairs => &[4, 5, 6, 8, 12],
            Theme::Rot | Theme::Crowd | Theme::Silence | Theme::Walks => &[3, 4, 5, 6, 8],
            Theme::Faults | Theme::Disks | Theme::Images => &[2, 3, 4, 5, 6, 8, 12],
        });
        let losses = if theme == Theme::Pairs { 2 } else { usize::from(theme.hurts()) };
        // What a disk missed in a moment is hardest to make good where parity covers it.
        let has_parity = |level: &Level| theme != Theme::Moments || level.parity() > 0;
        let fits = |level: &Level| {
            level.disks_min() <= disks && level.losses_max() >= losses && has_parity(level)
        };
        let levels: Vec<Level> = Level::ALL.into_iter().filter(fits).collect();
        let level = *random.pick(&levels);
        let mixed = random.one_in(4);
        let sizes = match theme {
            Theme::Full => [16, 16, 24],
            // Room for maps of many leaves.
            Theme::Walks => [64, 96, 128],
            _ => [24, 32, 64],
        };
        let same = *random.pick(&sizes);
        let odd = random.one_in(3);
        let size = || if odd { *random.pick(&sizes) * MIB } else { same * MIB };
        let journal_disks = match theme {
            Theme::Passing | Theme::Starts | Theme::Images => *random.pick(&[0, 0, 1, 2]),
            _ => 0,
        };
        let crowd = theme == Theme::Crowd;
        let orders_max = if matches!(theme, Theme::Snapshots | Theme::Walks) { 16 } else { 6 };
        let is_long = matches!(theme, Theme::Beyond | Theme::Moments);
        Self {
            theme,
            shape: Shape { level, chunk_bytes: MIB, journal_disks },
            disk_bytes: (0..disks).map(|_| size()).collect(),
            spares: if matches!(theme, Theme::Crowd | Theme::Rot) { 2 } else { 1 },
            levels: if mixed { levels } else { vec![level] },
            boots: random.between(2, 5) as u32
                + u32::from(matches!(theme, Theme::Moments | Theme::Images)),
            steps_max: match theme {
                Theme::Moments => 40_000,
                _ => *random.pick(&[500, 3_000, 10_000]),
            },
            clients: random.between(1, 4) as u32,
            requests: random.between(5, 25) as u32 * if is_long { 4 } else { 1 },
            operators: if crowd { random.between(2, 4) as u32 } else { 1 },
            orders: random.between(0, orders_max) as u32,
        }
    }

    /// How many disks may be lost without any host noticing.
    pub(crate) fn losses(&self) -> usize {
        self.levels.iter().map(|level| level.losses_max()).min().unwrap_or(0)
    }

    /// Drives in the machine at its first start.
    pub(crate) fn installed(&self) -> usize {
        self.disk_bytes.len() + self.shape.journal_disks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_and_many_machines_come_up() {
        let random = Random::new(1);
        let all: Vec<_> = (0..300).map(|_| Scenario::draw(Theme::Plain, &random)).collect();
        for level in Level::ALL {
            assert!(all.iter().any(|one| one.shape.level == level), "{level}");
        }
        assert!(all.iter().any(|one| one.disk_bytes.len() == 1));
        assert!(all.iter().any(|one| one.levels.len() > 1));
        assert!(all.iter().any(|one| one.disk_bytes.iter().any(|size| *size != one.disk_bytes[0])));
    }

    #[test]
    fn themes_that_hurt_disks_are_about_redundant_levels() {
        let random = Random::new(2);
        for theme in Theme::ALL.into_iter().filter(|theme| theme.hurts()) {
            for _ in 0..50 {
                let losses = Scenario::draw(theme, &random).losses();
                assert!(losses >= if theme == Theme::Pairs { 2 } else { 1 }, "{theme}");
            }
        }
    }
}
