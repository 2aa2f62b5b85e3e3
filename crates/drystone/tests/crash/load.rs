//! What hosts do until the target is gone, and what they check when it is back.

use super::host::Host;
use super::ledger::{BLOCK_BYTES, Ledger};
use scsi::{SenseKey, Status};
use std::collections::HashMap;
use std::io;
use std::ops::{AddAssign, Range};
use std::thread;
use std::time::Duration;

/// Logical blocks of 512 bytes in a block of the ledger.
const LBAS: usize = BLOCK_BYTES / 512;
/// Writes under way.
const DEPTH: usize = 16;
/// Longest write, in blocks of the ledger.
const WRITE_BLOCKS_MAX: usize = 8;
/// Blocks of the ledger for one READ.
const READ_BLOCKS: usize = 64;

/// READ(16) or WRITE(16), or another command of that form.
fn cdb16(opcode: u8, lba: usize, blocks: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&(lba as u64).to_be_bytes());
    cdb[10..14].copy_from_slice(&(blocks as u32).to_be_bytes());
    cdb
}

/// Writes all over the ledger's blocks until the target is gone; returns how many it acknowledged.
pub(crate) fn write(mut host: Host, lun: u8, ledger: &mut Ledger) -> usize {
    let mut random = fastrand::Rng::new();
    let mut under_way: HashMap<u32, Range<usize>> = HashMap::new();
    let mut acknowledged = 0;
    let mut turn = || -> io::Result<()> {
        while under_way.len() < DEPTH {
            let first = random.usize(..ledger.blocks());
            let end = (first + random.usize(1..=WRITE_BLOCKS_MAX)).min(ledger.blocks());
            if !ledger.is_idle(first..end) {
                continue;
            }
            let data = ledger.begin(first..end);
            let cdb = cdb16(0x8a, first * LBAS, (end - first) * LBAS);
            under_way.insert(host.start(lun, &cdb, 0, &data)?, first..end);
        }
        let answer = host.finish()?;
        assert!(answer.is_good(), "a write failed: {answer:?}");
        ledger.acknowledge(under_way.remove(&answer.itt).expect("a write of ours"));
        acknowledged += 1;
        Ok(())
    };
    while turn().is_ok() {}
    acknowledged
}

/// What is wrong when a target goes away that nobody has killed.
fn gone(error: &io::Error) -> String {
    format!("the target went away: {error}")
}

/// Reads every block of the ledger.
pub(crate) fn verify(host: &mut Host, lun: u8, ledger: &mut Ledger) -> Result<(), String> {
    for first in (0..ledger.blocks()).step_by(READ_BLOCKS) {
        let blocks = READ_BLOCKS.min(ledger.blocks() - first);
        let cdb = cdb16(0x88, first * LBAS, blocks * LBAS);
        let read = host.run(lun, &cdb, (blocks * BLOCK_BYTES) as u32, &[]);
        let read = read.map_err(|error| gone(&error))?;
        assert!(read.is_good(), "a read failed: {read:?}");
        for (at, bytes) in read.data.chunks(BLOCK_BYTES).enumerate() {
            ledger.judge(first + at, bytes).map_err(|what| format!("LUN {lun}: {what}"))?;
        }
    }
    Ok(())
}

/// Increments: those acknowledged, and those that may have been made besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Increments {
    pub(crate) acknowledged: u64,
    pub(crate) under_way: u64,
}

impl AddAssign for Increments {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.under_way += other.under_way;
    }
}

fn counter(value: u64) -> Vec<u8> {
    value.to_be_bytes().repeat(512 / 8)
}

/// The counter at `lba`; an error if it is torn.
fn read_counter(host: &mut Host, lun: u8, lba: usize) -> io::Result<u64> {
    let read = host.run(lun, &cdb16(0x88, lba, 1), 512, &[])?;
    assert!(read.is_good(), "a read failed: {read:?}");
    let (first, _) = read.data.split_first_chunk().expect("a block was read");
    let value = u64::from_be_bytes(*first);
    assert_eq!(read.data, counter(value), "the counter of LUN {lun} is torn");
    Ok(value)
}

/// No acknowledged increment is missing, and none was made twice.
pub(crate) fn verify_counter(
    host: &mut Host,
    lun: u8,
    lba: usize,
    known: &mut Increments,
) -> Result<(), String> {
    let value = read_counter(host, lun, lba).map_err(|error| gone(&error))?;
    let Increments { acknowledged, under_way } = *known;
    if !(acknowledged..=acknowledged + under_way).contains(&value) {
        return Err(format!("the counter of LUN {lun} is at {value}, but known is {known:?}"));
    }
    *known = Increments { acknowledged: value, under_way: 0 };
    Ok(())
}

/// Increments the counter at `lba` by COMPARE AND WRITE, in competition with others, until the
/// target is gone.
pub(crate) fn count(mut host: Host, lun: u8, lba: usize) -> Increments {
    let mut made = Increments::default();
    let mut turn = || -> io::Result<()> {
        let value = read_counter(&mut host, lun, lba)?;
        let data = [counter(value), counter(value + 1)].concat();
        let mut cdb = cdb16(0x89, lba, 0);
        cdb[13] = 1;
        made.under_way = 1;
        let answer = host.run(lun, &cdb, 0, &data)?;
        made.under_way = 0;
        match answer.status {
            Status::Good => made.acknowledged += 1,
            _ => assert_eq!(answer.key(), Some(SenseKey::Miscompare), "{answer:?}"),
        }
        Ok(())
    };
    while turn().is_ok() {}
    made
}

/// The key that a host has registered, and the one that it was about to change it to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Registered {
    pub(crate) acknowledged: u64,
    pub(crate) under_way: Option<u64>,
}

/// PERSISTENT RESERVE OUT with the basic parameter list (SPC-4 6.16).
fn reserve_out(
    host: &mut Host,
    lun: u8,
    (action, kind): (u8, u8),
    (key, action_key): (u64, u64),
) -> io::Result<()> {
    let mut list = [key.to_be_bytes(), action_key.to_be_bytes(), [0; 8]].concat();
    list[20] = 1; // APTPL
    let answer = host.run(lun, &[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], 0, &list)?;
    assert!(answer.is_good(), "PERSISTENT RESERVE OUT failed: {answer:?}");
    Ok(())
}

/// Changes its key over and over, as the holder of a Write Exclusive reservation that survives a
/// loss of power, until the target is gone; with a pause behind each change.
pub(crate) fn register(mut host: Host, lun: u8, known: &mut Registered, pause: Duration) {
    const REGISTER_AND_IGNORE: u8 = 6;
    const RESERVE: u8 = 1;
    const WRITE_EXCLUSIVE: u8 = 1;
    let mut turn = |known: &mut Registered| -> io::Result<()> {
        let next = known.acknowledged + 1;
        known.under_way = Some(next);
        reserve_out(&mut host, lun, (REGISTER_AND_IGNORE, 0), (0, next))?;
        *known = Registered { acknowledged: next, under_way: None };
        thread::sleep(pause);
        reserve_out(&mut host, lun, (RESERVE, WRITE_EXCLUSIVE), (next, 0))
    };
    while turn(known).is_ok() {}
}

/// Exactly the registration that was acknowledged or under way is there, and it holds others off
/// if the reservation was acknowledged, as it was before the second key.
pub(crate) fn verify_registered(
    host: &mut Host,
    lun: u8,
    known: &mut Registered,
) -> Result<(), String> {
    let mut read_in = |action| {
        let answer = host.run(lun, &[0x5e, action, 0, 0, 0, 0, 0, 0, 64, 0], 64, &[]);
        answer.map(|answer| answer.data).map_err(|error| gone(&error))
    };
    let (keys, reservation) = (read_in(0)?, read_in(1)?);
    let key = keys.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |key| u64::from_be_bytes(*key));
    let is_known = key == known.acknowledged || Some(key) == known.under_way;
    if !is_known || keys.len() > 16 {
        return Err(format!("READ KEYS says {keys:x?}, but known is {known:?}"));
    }
    if known.acknowledged >= 2 {
        let other =
            host.run(lun, &cdb16(0x8a, 0, 1), 0, &[0; 512]).map_err(|error| gone(&error))?;
        let is_held = reservation.get(8..16) == Some(&key.to_be_bytes()[..]);
        if !is_held || other.status != Status::ReservationConflict {
            return Err(format!(
                "the reservation of {known:?} is gone: {reservation:x?}, {other:?}"
            ));
        }
    }
    *known = Registered { acknowledged: key, under_way: None };
    Ok(())
}
