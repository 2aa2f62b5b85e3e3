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
}

impl Theme {
    pub(crate) const ALL: [Self; 5] =
        [Self::Plain, Self::Faults, Self::Disks, Self::Full, Self::Snapshots];
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Faults => "faults",
            Self::Disks => "disks",
            Self::Full => "full",
            Self::Snapshots => "snapshots",
        })
    }
}

/// One history in outline.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) theme: Theme,
    pub(crate) shape: Shape,
    pub(crate) disk_bytes: Vec<u64>,
    /// Levels of its volumes.
    pub(crate) levels: Vec<Level>,
    /// How often the machine starts.
    pub(crate) boots: u32,
    /// A boot that does not end by itself is cut after at most so many steps.
    pub(crate) steps_max: u64,
    pub(crate) clients: u32,
    /// Requests of each client in a boot.
    pub(crate) requests: u32,
    /// Requests of the operator in a boot.
    pub(crate) orders: u32,
}

const MIB: u64 = 1 << 20;

impl Scenario {
    /// Draws one.
    pub(crate) fn draw(theme: Theme, random: &Random) -> Self {
        let disks = *random.pick(match theme {
            Theme::Plain | Theme::Snapshots => &[1, 2, 3, 4, 6, 8, 12][..],
            Theme::Full => &[1, 2, 3, 4, 6],
            Theme::Faults | Theme::Disks => &[2, 3, 4, 5, 6, 8, 12],
        });
        let redundant = matches!(theme, Theme::Faults | Theme::Disks);
        let fits =
            |level: &Level| level.disks_min() <= disks && (!redundant || level.losses_max() > 0);
        let levels: Vec<Level> = Level::ALL.into_iter().filter(fits).collect();
        let level = *random.pick(&levels);
        let mixed = random.one_in(4);
        let sizes = if theme == Theme::Full { [16, 16, 24] } else { [24, 32, 64] };
        let same = *random.pick(&sizes);
        let odd = random.one_in(3);
        let size = || if odd { *random.pick(&sizes) * MIB } else { same * MIB };
        Self {
            theme,
            shape: Shape { level, chunk_bytes: MIB },
            disk_bytes: (0..disks).map(|_| size()).collect(),
            levels: if mixed { levels } else { vec![level] },
            boots: random.between(2, 5) as u32,
            steps_max: *random.pick(&[500, 3_000, 10_000]),
            clients: random.between(1, 4) as u32,
            requests: random.between(5, 25) as u32,
            orders: random.between(0, if theme == Theme::Snapshots { 16 } else { 6 }) as u32,
        }
    }

    /// Whether the loss of any one disk must go unnoticed by hosts.
    pub(crate) fn redundant(&self) -> bool {
        self.levels.iter().all(|level| level.losses_max() > 0)
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
        for _ in 0..100 {
            assert!(Scenario::draw(Theme::Faults, &random).redundant());
            assert!(Scenario::draw(Theme::Disks, &random).redundant());
        }
    }
}
