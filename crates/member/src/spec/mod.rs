//! SPEC: one disk as written on the command line, `KIND:WHAT[,OPTION]...`.

pub mod disk;
mod error;
pub mod open;
pub mod size;
#[cfg(test)]
mod tests;

use block::DriveClass;
use size::SizeError;
use std::path::PathBuf;
use thiserror::Error;

pub use block::OpenError;
pub use error::DiskError;

/// The longest serial number that `target` carries in its VPD pages (SPC-5 7.7.15).
const SERIAL_LEN_MAX: usize = 32;

/// One disk to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Where its blocks are kept.
    pub medium: Medium,
    /// Logical block size, 512 or 4096; `None`: the medium's own (512 unless it is a disk).
    pub block_bytes: Option<u32>,
    /// When a write is answered.
    pub cache: Cache,
    /// Refuse every write.
    pub read_only: bool,
    /// The serial number a host sees; `None`: one made from what does not change.
    pub serial: Option<String>,
    /// The SPEC without its options, for messages and the lines that tell what is served.
    pub name: String,
}

/// Where the blocks of a disk are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// In memory; gone when the process ends.
    Ram {
        /// Capacity.
        size_bytes: u64,
    },
    /// Nowhere: writes are dropped, reads give zeroes.
    Null {
        /// Capacity.
        size_bytes: u64,
    },
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// Capacity; `None`: the file exists and has the length it has.
        size_bytes: Option<u64>,
    },
    /// On a block device.
    Disk {
        /// Its device node.
        path: PathBuf,
    },
    /// In memory or in a file, as slow as a drive.
    Sim {
        /// Which kind of drive.
        class: DriveClass,
        /// Capacity.
        size_bytes: u64,
        /// The file; `None`: in memory.
        path: Option<PathBuf>,
    },
    /// In a file, which gets what was flushed, and not all else before the process is killed.
    Volatile {
        /// Capacity.
        size_bytes: u64,
        /// The file.
        path: PathBuf,
    },
}

/// When a write is answered GOOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// When it survives the loss of power.
    Durable,
    /// When the operating system has it; durable at SYNCHRONIZE CACHE or FUA.
    Volatile,
}

impl Cache {
    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Volatile => "volatile",
        }
    }
}

/// Why a SPEC was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    /// No known kind in front of a colon.
    #[error(
        "'{0}' is not a disk to export: write ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], such as ram:1G"
    )]
    Kind(String),
    /// `ram:` with nothing behind it.
    #[error("'{kind}:' needs a size: write {kind}:1G")]
    NoSize {
        /// `ram` or `null`.
        kind: &'static str,
    },
    /// `sim:` with a drive that there is not.
    #[error(
        "'{0}' is not a drive to simulate: write sim:sas15k, sim:sas10k, sim:nl-sas, sim:sata-ssd or sim:nvme, with a size behind it as in sim:sas15k:300G"
    )]
    Drive(String),
    /// `file:` or `disk:` with nothing behind it.
    #[error("'{kind}:' needs a path: write {kind}:{example}")]
    NoPath {
        /// `file`, `disk` or `sim`.
        kind: &'static str,
        /// A path that would do.
        example: &'static str,
    },
    /// A size that does not read as one.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// An option that there is not.
    #[error(
        "'{0}' is not an option of a disk: write ro, block=512, block=4096, cache=durable, cache=volatile or serial=TEXT"
    )]
    Option(String),
    /// The same option again.
    #[error("option '{0}' is given twice: write it once")]
    Twice(&'static str),
    /// A block size that hosts do not know.
    #[error("'block={0}' is not a block size: write block=512 or block=4096")]
    Block(String),
    /// A cache that there is not.
    #[error("'cache={0}' is not a cache: write cache=durable or cache=volatile")]
    Cache(String),
    /// A serial number that INQUIRY data cannot carry.
    #[error(
        "'serial={0}' is not a serial number: write 1 to {SERIAL_LEN_MAX} letters, digits or any of . _ : -"
    )]
    Serial(String),
    /// A capacity that does not divide into blocks.
    #[error(
        "{size_bytes} bytes are not a multiple of the block size of {block_bytes}: write {lower_bytes} or {upper_bytes}"
    )]
    Ragged {
        /// The size as asked for.
        size_bytes: u64,
        /// The block size.
        block_bytes: u32,
        /// The next smaller size that would do, or the block size itself.
        lower_bytes: u64,
        /// The next larger one.
        upper_bytes: u64,
    },
}

impl Spec {
    /// Reads one SPEC.
    ///
    /// # Errors
    /// What does not read.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut parts = split_at_commas(text).into_iter();
        let name = parts.next().unwrap_or_default();
        let mut spec = Self {
            medium: parse_medium(&name)?,
            block_bytes: None,
            cache: Cache::Durable,
            read_only: false,
            serial: None,
            name,
        };
        let mut seen = Vec::new();
        for option in parts {
            let key = spec.apply(&option)?;
            if seen.contains(&key) {
                return Err(SpecError::Twice(key));
            }
            seen.push(key);
        }
        spec.check_blocks()?;
        Ok(spec)
    }

    /// Takes one option and gives its name back.
    fn apply(&mut self, option: &str) -> Result<&'static str, SpecError> {
        match option.split_once('=') {
            None if option == "ro" => {
                self.read_only = true;
                Ok("ro")
            }
            Some(("block", value)) => {
                self.block_bytes = Some(match value {
                    "512" => 512,
                    "4096" => 4096,
                    _ => return Err(SpecError::Block(value.to_owned())),
                });
                Ok("block")
            }
            Some(("cache", value)) => {
                self.cache = match value {
                    "durable" => Cache::Durable,
                    "volatile" => Cache::Volatile,
                    _ => return Err(SpecError::Cache(value.to_owned())),
                };
                Ok("cache")
            }
            Some(("serial", value)) => {
                if !is_serial(value) {
                    return Err(SpecError::Serial(value.to_owned()));
                }
                self.serial = Some(value.to_owned());
                Ok("serial")
            }
            _ => Err(SpecError::Option(option.to_owned())),
        }
    }

    /// Refuses a written size that does not divide into blocks; a disk's is known only later.
    fn check_blocks(&self) -> Result<(), SpecError> {
        let block_bytes = self.block_bytes.unwrap_or(512);
        match &self.medium {
            Medium::Ram { size_bytes }
            | Medium::Null { size_bytes }
            | Medium::Sim { size_bytes, .. }
            | Medium::Volatile { size_bytes, .. } => check_multiple(*size_bytes, block_bytes),
            Medium::File { size_bytes: Some(size_bytes), .. } => {
                check_multiple(*size_bytes, block_bytes)
            }
            Medium::File { size_bytes: None, .. } | Medium::Disk { .. } => Ok(()),
        }
    }

    /// The file or device node behind the disk, if there is one.
    pub fn path(&self) -> Option<&std::path::Path> {
        match &self.medium {
            Medium::File { path, .. } | Medium::Disk { path } | Medium::Volatile { path, .. } => {
                Some(path)
            }
            Medium::Sim { path, .. } => path.as_deref(),
            Medium::Ram { .. } | Medium::Null { .. } => None,
        }
    }
}

/// Refuses a size that leaves part of a block over.
fn check_multiple(size_bytes: u64, block_bytes: u32) -> Result<(), SpecError> {
    let block = u64::from(block_bytes);
    if size_bytes.is_multiple_of(block) {
        return Ok(());
    }
    let lower_bytes = (size_bytes / block * block).max(block);
    // Sizes end at i64::MAX, so the next block still fits in a u64.
    let upper_bytes = lower_bytes + block;
    Err(SpecError::Ragged { size_bytes, block_bytes, lower_bytes, upper_bytes })
}

/// Reads the part in front of the options.
fn parse_medium(text: &str) -> Result<Medium, SpecError> {
    let (kind, what) = text.split_once(':').ok_or_else(|| SpecError::Kind(text.to_owned()))?;
    match kind {
        "ram" if what.is_empty() => Err(SpecError::NoSize { kind: "ram" }),
        "ram" => Ok(Medium::Ram { size_bytes: size::parse(what)? }),
        "null" if what.is_empty() => Err(SpecError::NoSize { kind: "null" }),
        "null" => Ok(Medium::Null { size_bytes: size::parse(what)? }),
        "file" => parse_file(what),
        "disk" if what.is_empty() => Err(SpecError::NoPath { kind: "disk", example: "/dev/sdb" }),
        "disk" => Ok(Medium::Disk { path: what.into() }),
        "sim" => parse_sim(what),
        "volatile" => match what.split_once(':') {
            Some((size, path)) if !path.is_empty() => {
                Ok(Medium::Volatile { size_bytes: size::parse(size)?, path: path.into() })
            }
            _ => Err(SpecError::NoPath { kind: "volatile", example: "1G:/tmp/disk" }),
        },
        _ => Err(SpecError::Kind(text.to_owned())),
    }
}

/// Reads `PATH[:SIZE]`. Only what looks like a size behind the last colon is one, so a path may
/// hold colons; one that ends in `:1G` needs its size written out, `PATH:1G:1G`.
fn parse_file(what: &str) -> Result<Medium, SpecError> {
    let (path, size_bytes) = match what.rsplit_once(':') {
        Some((path, tail)) if size::looks_like_size(tail) => (path, Some(size::parse(tail)?)),
        _ => (what, None),
    };
    if path.is_empty() {
        return Err(SpecError::NoPath { kind: "file", example: "/srv/disk.img:10G" });
    }
    Ok(Medium::File { path: path.into(), size_bytes })
}

/// Reads `DRIVE[:SIZE[:PATH]]`; without a size it has a usual one of its kind.
fn parse_sim(what: &str) -> Result<Medium, SpecError> {
    let mut parts = what.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let class = DriveClass::from_name(name).ok_or_else(|| SpecError::Drive(name.to_owned()))?;
    let size_bytes = parts.next().map_or(Ok(class.usual_bytes()), size::parse)?;
    let path = match parts.next() {
        Some("") => {
            return Err(SpecError::NoPath { kind: "sim", example: "sas15k:300G:/srv/disk.img" });
        }
        path => path.map(PathBuf::from),
    };
    Ok(Medium::Sim { class, size_bytes, path })
}

/// Splits at commas; two in a row stand for one that belongs to the text, as in QEMU.
fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == ',' && chars.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

/// Whether `text` can stand in the serial number of VPD page 80h (SPC-5 7.7.15) and in a
/// multipath configuration without quoting.
fn is_serial(text: &str) -> bool {
    (1..=SERIAL_LEN_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}
