//! The classes of drives that can be modelled, in one table. docs/disks.md names the documents that
//! the figures come from.

/// A class of drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveClass {
    /// 15,000 rpm, SAS.
    Sas15k,
    /// 10,000 rpm, SAS.
    Sas10k,
    /// 7,200 rpm, SAS, for capacity (nearline).
    NlSas,
    /// Flash behind SATA, for servers: it keeps its write buffer over a loss of power.
    SataSsd,
    /// Flash behind PCI Express, for servers: the same.
    Nvme,
}

impl DriveClass {
    /// All of them, from the oldest kind to the newest.
    pub const ALL: [Self; 5] = [Self::Sas15k, Self::Sas10k, Self::NlSas, Self::SataSsd, Self::Nvme];

    /// The word for it on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sas15k => "sas15k",
            Self::Sas10k => "sas10k",
            Self::NlSas => "nl-sas",
            Self::SataSsd => "sata-ssd",
            Self::Nvme => "nvme",
        }
    }

    /// The class of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// A usual capacity, in whole MiB: what its figures were published for.
    pub fn usual_bytes(self) -> u64 {
        let bytes: u64 = match self {
            Self::Sas15k | Self::Sas10k => 300_000_000_000,
            Self::NlSas => 4_000_000_000_000,
            Self::SataSsd => 200_000_000_000,
            Self::Nvme => 1_000_000_000_000,
        };
        bytes >> 20 << 20
    }

    pub(crate) fn parameters(self) -> &'static Parameters {
        match self {
            Self::Sas15k => &SAS_15K,
            Self::Sas10k => &SAS_10K,
            Self::NlSas => &NL_SAS,
            Self::SataSsd => &SATA_SSD,
            Self::Nvme => &NVME,
        }
    }

    /// Whether it has moving heads.
    pub(crate) fn is_rotational(self) -> bool {
        matches!(self.parameters(), Parameters::Spinning(_))
    }
}

/// What a class is made of.
#[derive(Debug)]
pub(crate) enum Parameters {
    Spinning(Spinning),
    Flash(Flash),
}

/// A drive with platters and heads.
#[derive(Debug)]
pub(crate) struct Spinning {
    pub(crate) revolution_us: u32,
    /// Sustained, at the first byte of the disk.
    pub(crate) outer_mb_per_s: f64,
    /// Sustained, at the last byte.
    pub(crate) inner_mb_per_s: f64,
    /// Moving the heads for a read, with settling: to the next track, between two places picked at
    /// random, from one end to the other.
    pub(crate) seek_single_us: f64,
    pub(crate) seek_average_us: f64,
    pub(crate) seek_full_us: f64,
    /// What a write needs to settle beyond that.
    pub(crate) write_settle_us: f64,
    /// From the receipt of a command until the heads may move for it.
    pub(crate) overhead_us: u32,
    pub(crate) link_mb_per_s: f64,
    /// Commands among which it chooses the next one.
    pub(crate) queue_depth: usize,
    /// Volatile writes that it holds before they are on the platters.
    pub(crate) cache_bytes: u64,
    /// How far it reads on behind a read while nobody wants the heads.
    pub(crate) read_ahead_bytes: u64,
    /// Pieces read ahead that it remembers.
    pub(crate) segments: usize,
}

/// A drive of flash chips. Its unit of work is a page of 4 KiB.
#[derive(Debug)]
pub(crate) struct Flash {
    /// Chips (dies) that work beside each other.
    pub(crate) units: usize,
    /// Reading one page from a chip.
    pub(crate) read_us: f64,
    /// Writing one page to a chip, as part of a long run.
    pub(crate) program_us: f64,
    /// How many such writes a page costs that comes alone, with what it makes the drive move.
    pub(crate) scattered_writes: f64,
    /// How long a read waits at most for a write to its chip that has begun.
    pub(crate) suspend_us: u32,
    /// Between two commands: one over this are its commands per second.
    pub(crate) command_us: f64,
    /// Fixed part of every answer.
    pub(crate) overhead_us: f64,
    /// A write into the buffer.
    pub(crate) write_us: f64,
    pub(crate) flush_us: f64,
    pub(crate) link_mb_per_s: f64,
    pub(crate) queue_depth: usize,
    /// Work for the chips that the write buffer holds before writers have to wait.
    pub(crate) buffer_us: u32,
}

static SAS_15K: Parameters = Parameters::Spinning(Spinning {
    revolution_us: 4_000,
    outer_mb_per_s: 204.0,
    inner_mb_per_s: 122.0,
    seek_single_us: 200.0,
    seek_average_us: 3_100.0,
    seek_full_us: 6_300.0,
    write_settle_us: 500.0,
    overhead_us: 200,
    link_mb_per_s: 600.0,
    queue_depth: 32,
    cache_bytes: 16 << 20,
    read_ahead_bytes: 2 << 20,
    segments: 8,
});

static SAS_10K: Parameters = Parameters::Spinning(Spinning {
    revolution_us: 6_000,
    outer_mb_per_s: 124.0,
    inner_mb_per_s: 67.0,
    seek_single_us: 200.0,
    seek_average_us: 4_000.0,
    seek_full_us: 8_100.0,
    write_settle_us: 400.0,
    overhead_us: 200,
    link_mb_per_s: 600.0,
    queue_depth: 32,
    cache_bytes: 16 << 20,
    read_ahead_bytes: 2 << 20,
    segments: 8,
});

static NL_SAS: Parameters = Parameters::Spinning(Spinning {
    revolution_us: 8_333,
    outer_mb_per_s: 175.0,
    inner_mb_per_s: 83.0,
    seek_single_us: 800.0,
    seek_average_us: 8_200.0,
    seek_full_us: 16_500.0,
    write_settle_us: 0.0,
    overhead_us: 200,
    link_mb_per_s: 600.0,
    queue_depth: 32,
    cache_bytes: 16 << 20,
    read_ahead_bytes: 2 << 20,
    segments: 8,
});

static SATA_SSD: Parameters = Parameters::Flash(Flash {
    units: 32,
    read_us: 80.0,
    program_us: 285.0,
    scattered_writes: 3.12,
    suspend_us: 100,
    command_us: 13.3,
    overhead_us: 22.0,
    write_us: 35.0,
    flush_us: 50.0,
    link_mb_per_s: 500.0,
    queue_depth: 32,
    buffer_us: 10_000,
});

static NVME: Parameters = Parameters::Flash(Flash {
    units: 128,
    read_us: 75.0,
    program_us: 874.0,
    scattered_writes: 4.8,
    suspend_us: 100,
    command_us: 3.58,
    overhead_us: 8.0,
    write_us: 10.0,
    flush_us: 20.0,
    link_mb_per_s: 3_200.0,
    queue_depth: 1024,
    buffer_us: 10_000,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_by_its_name() {
        for class in DriveClass::ALL {
            assert_eq!(DriveClass::from_name(class.name()), Some(class));
        }
        assert_eq!(DriveClass::from_name("floppy"), None);
        assert_eq!(DriveClass::from_name("SAS15K"), None);
    }

    #[test]
    fn the_table_makes_sense() {
        for class in DriveClass::ALL {
            match class.parameters() {
                Parameters::Spinning(p) => {
                    assert!(class.is_rotational());
                    assert!(p.inner_mb_per_s < p.outer_mb_per_s);
                    assert!(p.outer_mb_per_s < p.link_mb_per_s);
                    assert!(p.seek_single_us < p.seek_average_us);
                    assert!(p.seek_average_us < p.seek_full_us);
                    assert!(p.read_ahead_bytes < p.cache_bytes);
                }
                Parameters::Flash(p) => {
                    assert!(!class.is_rotational());
                    assert!(p.scattered_writes > 1.0);
                    assert!(p.queue_depth >= 32 && p.units >= 8);
                }
            }
        }
    }
}
