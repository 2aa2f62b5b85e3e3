//! A host: reads and writes volumes and compares every answer with the model.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::{BLOCK_BYTES, CLUSTER_BYTES, Env};
use block::{BlockDevice, BlockError, Compared, WriteFlags};
use ring::{Buf, Data, Region};

use crate::content::{BLOCK_SECTORS, Content, SECTOR_BYTES, ZERO, fill};
use crate::machine::Machine;
use crate::memory::enough;
use crate::model::{Change, Outcome};
use crate::scenario::Theme;
use crate::subject::Subject;

const KIB: u64 = 1 << 10;
/// More writes of one block at the same time would only slow the model down.
const CROWD_MAX: usize = 3;

/// What a host wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    /// Reads in a row, from the start, which the array fetches ahead.
    Stream,
    Write,
    Unmap,
    Zeroes,
    Compare,
    Flush,
}

/// Nobody writes for so long: by then the array has brought everything into its place.
const IDLE: Duration = Duration::from_secs(12);

/// One request to one volume.
struct Request<'a, S> {
    machine: &'a Machine<S>,
    volume: String,
    device: Arc<dyn BlockDevice>,
    /// Sectors.
    range: Range<u64>,
}

/// Sends requests, one after the other.
pub(crate) async fn host<S: Subject>(machine: Rc<Machine<S>>, requests: u32) {
    for _ in 0..requests {
        match machine.random.below(24) {
            0..6 => machine.pause(3_000).await,
            // Long enough for a checkpoint.
            6 => machine.env.sleep(IDLE).await,
            7..9 if machine.scenario.theme == Theme::Moments => machine.env.sleep(IDLE).await,
            _ => {}
        }
        let Some(volume) = choose(&machine) else {
            machine.pause(10_000).await;
            continue;
        };
        let device = machine.array.device(&volume);
        let Some(device) = machine.may(&format!("device of {volume}"), device) else {
            machine.pause(10_000).await;
            continue;
        };
        machine.model.borrow_mut().volume(&volume).users += 1;
        let what = format!("a request to {volume}");
        machine.answer(&what, one(&machine, volume.clone(), device)).await;
        machine.model.borrow_mut().volume(&volume).users -= 1;
    }
}

fn choose<S: Subject>(machine: &Machine<S>) -> Option<String> {
    let model = machine.model.borrow();
    let usable: Vec<_> =
        model.disks().filter(|(_, volume)| volume.usable()).map(|(name, _)| name).collect();
    let written: Vec<_> = usable.iter().filter(|name| name.contains('@')).copied().collect();
    // Snapshots that can be written to are few, and do not stay so for long.
    let some = if written.is_empty() || machine.random.one_in(2) { &usable } else { &written };
    (!some.is_empty()).then(|| (*machine.random.pick(some)).clone())
}

async fn one<S: Subject>(machine: &Machine<S>, volume: String, device: Arc<dyn BlockDevice>) {
    let wish = match machine.random.below(32) {
        0..8 => Wish::Read,
        8..10 => Wish::Stream,
        10..23 => Wish::Write,
        23..26 => Wish::Unmap,
        26..28 => Wish::Zeroes,
        28..30 => Wish::Compare,
        _ => Wish::Flush,
    };
    let range = range(machine, &*device, wish);
    let crowd = machine.model.borrow_mut().volume(&volume).contents.crowd(&range);
    let wish = if crowd < CROWD_MAX { wish } else { Wish::Read };
    let (at, end) = (range.start, range.end);
    machine.env.note(format!("{wish:?} {volume} sectors {at} to {end}"));
    let request = Request { machine, volume, device, range };
    match wish {
        Wish::Read => request.read().await,
        Wish::Stream => request.stream().await,
        Wish::Write => request.write().await,
        Wish::Unmap => request.unmap().await,
        Wish::Zeroes => request.zeroes().await,
        Wish::Compare => request.compare().await,
        Wish::Flush => request.flush().await,
    }
}

/// Sectors inside the volume: mostly a few, sometimes whole clusters or whole stripes, often
/// where others are.
fn range<S: Subject>(machine: &Machine<S>, device: &dyn BlockDevice, wish: Wish) -> Range<u64> {
    let random = &machine.random;
    let geometry = device.geometry();
    let (block, cluster) = (u64::from(geometry.block_bytes), CLUSTER_BYTES as u64);
    let size_bytes = geometry.size_bytes();
    let (unit, most) = match random.below(8) {
        _ if wish == Wish::Compare => (block, 4 * KIB),
        0..3 => (block, 16 * KIB),
        3 => (BLOCK_BYTES as u64, 64 * KIB),
        4 => (block, 256 * KIB),
        5 => (cluster, cluster),
        _ => (cluster, 16 * cluster),
    };
    // A volume may be smaller than that.
    let unit = if size_bytes < unit { block } else { unit };
    let units = size_bytes / unit;
    let len = random.between(1, (most / unit).min(units));
    let last = units - len;
    let first = match random.below(8) {
        0 => last,
        1..5 => random.below((last + 1).min(8 * cluster / unit)),
        _ => random.below(last + 1),
    };
    let sectors = unit / SECTOR_BYTES as u64;
    first * sectors..(first + len) * sectors
}

impl<S: Subject> Request<'_, S> {
    fn at(&self) -> u64 {
        self.range.start * SECTOR_BYTES as u64
    }

    fn len(&self) -> u64 {
        (self.range.end - self.range.start) * SECTOR_BYTES as u64
    }

    fn fail(&self, what: impl std::fmt::Display) -> ! {
        let Range { start, end } = self.range;
        self.machine.fail(format_args!("{} sectors {start} to {end}: {what}", self.volume))
    }

    fn flags(&self) -> WriteFlags {
        let random = &self.machine.random;
        let small = self.len() <= u64::from(self.device.geometry().atomic_bytes_max);
        WriteFlags { durable: random.one_in(3), atomic: small && random.one_in(16) }
    }

    /// A write of what is given, or of data of its own.
    fn begin(&self, content: Option<Content>) -> Change {
        self.machine.model.borrow_mut().begin(&self.volume, self.range.clone(), content)
    }

    /// Now and then a copy of something that lies on a disk of the array.
    fn copied(&self) -> Option<Content> {
        let machine = self.machine;
        let copied = || machine.random.pick(&machine.drives()).peek();
        machine.random.one_in(12).then(copied).flatten()
    }

    fn end(&self, change: &Change, outcome: Outcome) {
        let Range { start, end } = self.range;
        self.machine.env.note(format!("{} sectors {start} to {end}: {outcome:?}", self.volume));
        self.machine.model.borrow_mut().end(&self.volume, change, outcome);
    }

    /// What the answer to a change says; `durable` if it was asked for.
    fn outcome(&self, answer: Result<(), BlockError>, durable: bool) -> Outcome {
        let failed = if durable { Outcome::FailedDurable } else { Outcome::Failed };
        match answer {
            Ok(()) if durable => Outcome::DoneDurable,
            Ok(()) => Outcome::Done,
            Err(BlockError::NoSpace) => {
                self.machine.out_of_space(&self.volume, "a write", 0);
                failed
            }
            Err(_) if self.machine.is_overtaxed() => failed,
            Err(error) => self.fail(error),
        }
    }

    fn durable(&self, flags: WriteFlags) -> bool {
        flags.durable || self.machine.model.borrow_mut().volume(&self.volume).durable()
    }

    async fn read(self) {
        let watch = {
            let mut model = self.machine.model.borrow_mut();
            model.volume(&self.volume).contents.watch(&self.range)
        };
        let answer = self.device.read(self.at(), self.len() as usize).await;
        let mut model = self.machine.model.borrow_mut();
        let contents = &mut model.volume(&self.volume).contents;
        let watch = contents.unwatch(watch);
        let data = match answer {
            Err(_) if self.machine.is_overtaxed() => return,
            answer => answer.unwrap_or_else(|error| self.fail(error)),
        };
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        assert_eq!(bytes.len() as u64, self.len(), "a read gives all that was asked for");
        let checked = contents.check_read(&watch, self.range.start, &bytes);
        checked.unwrap_or_else(|problem| self.fail(problem));
    }

    async fn stream(self) {
        let geometry = self.device.geometry();
        let unit = *self.machine.random.pick(&[BLOCK_BYTES as u64, 16 * KIB, CLUSTER_BYTES as u64]);
        let end = (self.machine.random.between(4, 20) * unit).min(geometry.size_bytes());
        for at in (0..end / unit).map(|piece| piece * unit / SECTOR_BYTES as u64) {
            let range = at..at + unit / SECTOR_BYTES as u64;
            Request {
                range,
                volume: self.volume.clone(),
                device: Arc::clone(&self.device),
                ..self
            }
            .read()
            .await;
        }
    }

    async fn write(self) {
        let flags = self.flags();
        let change = self.begin(self.copied());
        let data = self.data(&change.content);
        let now = match data.as_slice() {
            Some(bytes) if self.machine.random.one_in(2) => {
                self.device.write_now(self.at(), bytes, flags)
            }
            _ => None,
        };
        let number = self.machine.write_begins();
        let answer = match now {
            Some(answer) => answer,
            None => self.device.write(self.at(), data, flags).await,
        };
        self.machine.write_ends(number);
        self.end(&change, self.outcome(answer, self.durable(flags)));
    }

    /// The data of a write; sometimes in memory that cannot be borrowed.
    fn data(&self, content: &Content) -> Data {
        let mut buf = enough(|| Buf::alloc(self.len() as usize)).expect("a test has memory");
        fill(content, self.range.start, &mut buf);
        if self.machine.random.one_in(8) {
            let region = Region::new(buf.len()).expect("a test has memory for its requests");
            region.write(0, &buf);
            return region.slice(0, buf.len());
        }
        buf.freeze()
    }

    async fn unmap(self) {
        let change = self.begin(Some(ZERO));
        let answer = self.device.unmap(self.at(), self.len()).await;
        self.end(&change, self.outcome(answer, false));
    }

    async fn zeroes(self) {
        let flags = WriteFlags { atomic: false, ..self.flags() };
        let may_unmap = self.machine.random.one_in(2);
        let change = self.begin(Some(ZERO));
        let answer = self.device.write_zeroes(self.at(), self.len(), may_unmap, flags).await;
        self.end(&change, self.outcome(answer, self.durable(flags)));
    }

    /// Compares with what is there, or with what is not, and writes if it is.
    async fn compare(self) {
        let flags = WriteFlags { atomic: false, ..self.flags() };
        let there = self.contents();
        let change = self.begin(self.copied());
        let mut compare = there.clone().unwrap_or_else(|| vec![0; self.len() as usize]);
        let spoiled = self.machine.random.one_in(3).then(|| {
            let at = self.machine.random.index(compare.len());
            compare[at] ^= 0x10;
            at
        });
        let watch = {
            let mut model = self.machine.model.borrow_mut();
            model.volume(&self.volume).contents.watch(&self.range)
        };
        let mut expected = enough(|| Buf::alloc(compare.len())).expect("a test has memory");
        expected.copy_from_slice(&compare);
        let write = self.data(&change.content);
        let answer =
            self.device.compare_and_write(self.at(), expected.freeze(), write, flags).await;
        let watch = self.machine.model.borrow_mut().volume(&self.volume).contents.unwatch(watch);
        // Beside other writes either answer can be right.
        let sure = there.is_some() && watch.undisturbed();
        match answer {
            Ok(Compared::Equal) => {
                if sure && let Some(at) = spoiled {
                    self.fail(format_args!("found equal what differs at byte {at}"));
                }
                self.end(&change, self.outcome(Ok(()), self.durable(flags)));
            }
            Ok(Compared::Miscompare { offset_bytes }) => {
                if sure && spoiled != Some(offset_bytes) {
                    self.fail(format_args!("differs at {offset_bytes}, should at {spoiled:?}"));
                }
                self.end(&change, Outcome::Refused);
            }
            Err(error) => self.end(&change, self.outcome(Err(error), false)),
        }
    }

    /// What the range holds, if there is no doubt.
    fn contents(&self) -> Option<Vec<u8>> {
        let mut model = self.machine.model.borrow_mut();
        let blocks = model.volume(&self.volume).contents.blocks();
        let mut bytes = vec![0; self.len() as usize];
        for (sector, bytes) in self.range.clone().zip(bytes.chunks_mut(SECTOR_BYTES)) {
            let content = blocks[sector as usize / BLOCK_SECTORS].sure()?;
            fill(&content, sector, bytes);
        }
        Some(bytes)
    }

    async fn flush(self) {
        let begun = self.machine.model.borrow_mut().volume(&self.volume).contents.flush_begins();
        match self.device.flush().await {
            Err(_) if self.machine.is_overtaxed() => return,
            answer => answer.unwrap_or_else(|error| self.fail(error)),
        }
        self.machine.env.note(format!("{} is flushed", self.volume));
        self.machine.model.borrow_mut().volume(&self.volume).contents.flushed(begun);
    }
}
