//! Random histories of two hosts on a core that has next to no memory, of which some is refused even so,
//! with a disk that hangs and fails: whatever becomes of a command, no answer is wrong, nobody waits for
//! ever, and both hosts go on when all is well again. `DRYSTONE_SCARCITY_SEEDS` runs more of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::BlockError;
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{LogoutReason, RESERVED_TAG, TaskFunction};

use crate::common::{Command, Connection, Done, Login, PATIENCE, Rig, config, faulty, pattern};

const SEEDS: u64 = 40;
const ROUNDS: u32 = 20;
/// Each host has blocks of its own, in parts that are written and read as a whole.
const PARTS: u32 = 6;
const PART_BLOCKS: u32 = 16;
const PART_BYTES: usize = PART_BLOCKS as usize * 512;
const BUSY: u8 = 0x08;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % end
    }
}

/// What a part may hold: versions, of which 0 is none. More than one only while a write is in doubt,
/// and then any block may have either.
struct Part(Vec<u32>);

fn bytes_of(version: u32) -> Vec<u8> {
    if version == 0 { vec![0; PART_BYTES] } else { pattern(PART_BYTES, version) }
}

impl Part {
    /// A read has told what it holds.
    fn check(&mut self, read: &[u8], what: &str) {
        let all: Vec<_> = self.0.iter().map(|&version| bytes_of(version)).collect();
        for (block, read) in read.chunks(512).enumerate() {
            let is_one = |bytes: &Vec<u8>| bytes[block * 512..][..512] == *read;
            assert!(all.iter().any(is_one), "{what}: block {block} holds none of {:?}", self.0);
        }
        let whole = all.iter().position(|bytes| bytes == read);
        if let Some(whole) = whole {
            self.0 = vec![self.0[whole]];
        }
    }

    fn wrote(&mut self, version: u32, status: u8, is_attention: bool) {
        match status {
            0 => self.0 = vec![version],
            BUSY | TASK_SET_FULL => {}
            _ if is_attention => {}
            _ => self.0.push(version),
        }
    }
}

struct Host {
    name: String,
    portal: SocketAddr,
    first_lba: u32,
    random: Random,
    connection: Connection,
    parts: Vec<Part>,
    versions: u32,
}

fn is_attention(done: &Done) -> bool {
    done.status == 2 && done.check().0 == 6
}

/// Logs in, which may need several tries while memory is short.
fn log_in(portal: SocketAddr, name: &str) -> Connection {
    let begun = Instant::now();
    loop {
        match Login::new(name).connect(portal) {
            Ok(connection) => return connection,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{name} cannot log in: {why:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Host {
    fn new(portal: SocketAddr, number: u32, seed: u64) -> Self {
        let name = format!("host{number}");
        Self {
            connection: log_in(portal, &name),
            name,
            portal,
            first_lba: number * 4096,
            random: Random::new(seed * 2 + u64::from(number)),
            parts: (0..PARTS).map(|_| Part(vec![0])).collect(),
            versions: number << 24,
        }
    }

    fn write(&mut self, part: u32) -> (Command, u32) {
        self.versions += 1;
        let data = pattern(PART_BYTES, self.versions);
        let write = Command::write(self.first_lba + part * PART_BLOCKS, &data);
        (write, self.versions)
    }

    /// Sends a write in one of the ways that there are.
    fn begin_write(&mut self, part: u32) -> (u32, u32) {
        let (write, version) = self.write(part);
        let way = self.random.below(4);
        let host = &mut self.connection;
        let itt = match way {
            0 => host.issue(&write.immediate_data()),
            1 => {
                let data = write.writes.clone().unwrap();
                let itt = host.issue(&Command { more_follows: true, ..write });
                host.send_burst(itt, RESERVED_TAG, 0, 0, &data);
                itt
            }
            2 => host.issue(&Command { immediate_data: 512, ..write }),
            _ => host.issue(&write),
        };
        (itt, version)
    }

    /// Some commands at once, each on another part.
    fn round(&mut self) {
        let first = self.random.below(PARTS);
        let count = 1 + self.random.below(PARTS);
        let begun: Vec<_> = (0..count)
            .map(|index| {
                let part = (first + index) % PARTS;
                if self.random.below(2) == 0 {
                    let lba = self.first_lba + part * PART_BLOCKS;
                    let read = Command::read(lba, PART_BLOCKS as u16);
                    (part, self.connection.issue(&read), None)
                } else {
                    let (itt, version) = self.begin_write(part);
                    (part, itt, Some(version))
                }
            })
            .collect();
        if self.random.below(12) == 0 {
            return self.vanish(begun.into_iter().map(|(part, _, version)| (part, version)));
        }
        for (part, itt, version) in begun {
            let done = self.connection.finish(itt);
            let part = &mut self.parts[part as usize];
            match version {
                Some(version) => part.wrote(version, done.status, is_attention(&done)),
                None if done.status == 0 => part.check(&done.data, &self.name),
                None => assert!([2, BUSY, TASK_SET_FULL, TASK_ABORTED].contains(&done.status)),
            }
        }
        self.mischief();
    }

    /// Goes away with commands under way, perhaps in the middle of a PDU, and comes again: nothing of
    /// before comes after that.
    fn vanish(&mut self, begun: impl Iterator<Item = (u32, Option<u32>)>) {
        for (part, version) in begun {
            self.parts[part as usize].0.extend(version);
        }
        if self.random.below(2) == 0 {
            let (write, version) = self.write(0);
            self.parts[0].0.push(version);
            let host = &mut self.connection;
            let itt = host.new_itt();
            let (bhs, data) = write.immediate_data().to_pdu(itt, host.take_cmd_sn(), 0);
            let mut bytes = bhs.bytes().to_vec();
            bytes.extend_from_slice(&data[..PART_BYTES / 2]);
            // The target may have ended the connection.
            drop(host.try_send_bytes(&bytes));
        }
        if self.random.below(2) == 0 {
            self.connection.close();
        }
        self.connection = log_in(self.portal, &self.name);
    }

    fn mischief(&mut self) {
        match self.random.below(16) {
            0 => _ = self.connection.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0),
            1 => _ = self.connection.manage_unit(TaskFunction::ABORT_TASK_SET, 0),
            2 => {
                self.connection.logout(LogoutReason::CLOSE_SESSION, 0);
                self.connection = log_in(self.portal, &self.name);
            }
            _ => {}
        }
    }

    /// All is well again: what it holds is right, and it can be written and read.
    fn recover(&mut self) {
        let begun = Instant::now();
        let persist = |host: &mut Connection, command: &Command| loop {
            let done = host.run(command);
            if done.status == 0 {
                return done.data;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not get on: {done:?}");
        };
        for part in 0..PARTS {
            let lba = self.first_lba + part * PART_BLOCKS;
            let read = Command::read(lba, PART_BLOCKS as u16);
            let data = persist(&mut self.connection, &read);
            self.parts[part as usize].check(&data, &self.name);
            let (write, version) = self.write(part);
            persist(&mut self.connection, &write);
            self.parts[part as usize].0 = vec![version];
            let data = persist(&mut self.connection, &read);
            self.parts[part as usize].check(&data, &self.name);
        }
    }
}

/// A disk that hangs, fails and runs short until it `is_over`.
fn trouble(disk: &FaultyDisk, seed: u64, is_over: &AtomicBool) {
    let mut random = Random::new(!seed);
    while !is_over.load(Ordering::Relaxed) {
        let operation = [Operation::Read, Operation::Write][random.below(2) as usize];
        let fault = match random.below(4) {
            0 => Fault::Fail(BlockError::NoMemory),
            1 => Fault::Fail(BlockError::Busy),
            2 => Fault::Fail(BlockError::Medium { at: 0 }),
            _ => Fault::Hang,
        };
        disk.inject(Rule::always(operation, fault).times(1 + random.below(3)));
        std::thread::sleep(Duration::from_millis(u64::from(random.below(6))));
        if random.below(2) == 0 {
            disk.release_newest();
        } else {
            disk.release();
        }
    }
    disk.heal();
    disk.release();
}

fn history(seed: u64) {
    let mut random = Random::new(seed + 1000);
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.cores = 1 + random.below(2) as u16;
    config.core.buf_budget_bytes = 64 << 10;
    config.core.buf_refuse_one_in = [0, 2, 3, 8][random.below(4) as usize];
    let rig = Rig::start(config);
    let (portal, is_over) = (rig.portal(), AtomicBool::new(false));
    let mut hosts = std::thread::scope(|scope| {
        scope.spawn(|| trouble(&disk, seed, &is_over));
        let run = |number| {
            scope.spawn(move || {
                let mut host = Host::new(portal, number, seed);
                (0..ROUNDS).for_each(|_| host.round());
                host
            })
        };
        let threads = [run(1), run(2)];
        let hosts = threads.map(std::thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::Relaxed);
        hosts.map(|host| host.unwrap_or_else(|_| panic!("seed {seed}")))
    });
    hosts.iter_mut().for_each(Host::recover);
    drop(hosts);
    let (result, _state) = rig.stop(Duration::ZERO);
    result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn histories_of_two_hosts_without_memory_and_with_a_bad_disk_are_right() {
    let more = std::env::var("DRYSTONE_SCARCITY_SEEDS").ok();
    let seeds = more.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    (0..seeds).for_each(history);
}
