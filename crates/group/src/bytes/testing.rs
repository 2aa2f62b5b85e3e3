//! A device in memory that keeps a log of what was done to it, and can be cut off at any step of it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Bytes;

const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Step {
    Write { offset: usize, data: Vec<u8> },
    Sync,
}

#[derive(Debug, Default)]
struct State {
    before: Vec<u8>,
    now: Vec<u8>,
    log: Vec<Step>,
}

/// A device in memory; its clones are the same device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

/// What a loss of power leaves of what was not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unsynced {
    Lost,
    Kept,
    /// Each sector of each write by itself, by this seed.
    Torn(u64),
}

impl Disk {
    pub(crate) fn new(size_bytes: usize) -> Self {
        Self::with(vec![0; size_bytes])
    }

    /// With these contents, all of them synced.
    pub(crate) fn with(image: Vec<u8>) -> Self {
        let state = State { before: image.clone(), now: image, log: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn shared(&self) -> Arc<dyn Bytes> {
        Arc::new(self.clone())
    }

    /// How many writes and syncs there were.
    pub(crate) fn steps(&self) -> usize {
        self.state().log.len()
    }

    /// The same device without its syncs, which is one that lies about them.
    pub(crate) fn without_syncs(&self) -> Self {
        let state = self.state();
        let log = state.log.iter().map(|step| match step {
            Step::Write { .. } => step.clone(),
            Step::Sync => Step::Write { offset: 0, data: Vec::new() },
        });
        let (before, now, log) = (state.before.clone(), state.now.clone(), log.collect());
        Self(Arc::new(Mutex::new(State { before, now, log })))
    }

    /// What is there after the power was lost when `steps` steps had been asked for: those up to the last
    /// sync among them, and of the others what `unsynced` says.
    pub(crate) fn cut(&self, steps: usize, unsynced: Unsynced) -> Vec<u8> {
        let state = self.state();
        let log = &state.log[..steps];
        let synced = log.iter().rposition(|step| matches!(step, Step::Sync)).unwrap_or(0);
        let mut image = state.before.clone();
        let mut random = fastrand::Rng::with_seed(match unsynced {
            Unsynced::Torn(seed) => seed,
            Unsynced::Lost | Unsynced::Kept => 0,
        });
        for (at, step) in log.iter().enumerate() {
            let Step::Write { offset, data } = step else { continue };
            for (place, sector) in sectors(*offset, data) {
                let is_kept = at < synced
                    || match unsynced {
                        Unsynced::Lost => false,
                        Unsynced::Kept => true,
                        Unsynced::Torn(_) => random.bool(),
                    };
                if is_kept {
                    image[place..place + sector.len()].copy_from_slice(sector);
                }
            }
        }
        image
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of `data` by the sectors of the device that they lie in.
fn sectors(mut offset: usize, mut data: &[u8]) -> Vec<(usize, &[u8])> {
    let mut parts = Vec::new();
    while !data.is_empty() {
        let (part, rest) = data.split_at(data.len().min(SECTOR - offset % SECTOR));
        parts.push((offset, part));
        offset += part.len();
        data = rest;
    }
    parts
}

fn place(offset: u64, len: usize, size: usize) -> io::Result<usize> {
    let offset = usize::try_from(offset).map_err(io::Error::other)?;
    if offset + len > size { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(offset) }
}

impl Bytes for Disk {
    fn len_bytes(&self) -> u64 {
        self.state().now.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let offset = place(offset, out.len(), state.now.len())?;
        out.copy_from_slice(&state.now[offset..offset + out.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let offset = place(offset, data.len(), state.now.len())?;
        state.now[offset..offset + data.len()].copy_from_slice(data);
        state.log.push(Step::Write { offset, data: data.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.state().log.push(Step::Sync);
        Ok(())
    }
}

#[test]
fn a_cut_keeps_what_was_synced_and_tears_by_sectors() {
    let disk = Disk::new(4 * SECTOR);
    disk.write_at(0, &[1; 2 * SECTOR]).unwrap();
    disk.sync().unwrap();
    disk.write_at(100, &[2; 2 * SECTOR]).unwrap();
    let lost = disk.cut(3, Unsynced::Lost);
    assert_eq!(lost[..2 * SECTOR], [1; 2 * SECTOR]);
    assert_eq!(lost[2 * SECTOR..], [0; 2 * SECTOR]);
    assert_eq!(disk.cut(1, Unsynced::Lost), vec![0; 4 * SECTOR]);
    assert_eq!(disk.cut(3, Unsynced::Kept)[100..100 + 2 * SECTOR], [2; 2 * SECTOR]);
    let torn: std::collections::BTreeSet<_> = (0..64)
        .map(|seed| {
            let image = disk.cut(3, Unsynced::Torn(seed));
            [image[100], image[SECTOR], image[2 * SECTOR]]
        })
        .collect();
    assert_eq!(torn.len(), 8, "each sector is kept or lost by itself: {torn:?}");
}
