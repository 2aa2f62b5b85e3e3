use super::*;
use block::{NullDisk, RamDisk};
use ring::{Buf, CoreConfig, block_on};
use std::sync::Arc;

const BOTH: Agreed = Agreed { structured: true, allocation: true };
const SIZE_BYTES: u64 = 1 << 40;

fn null() -> Disk {
    Disk::new(Arc::new(NullDisk::new(512, SIZE_BYTES / 512)))
}

fn request(command: Command, flags: u16, at: u64, len: u32) -> Request {
    Request { flags, command, cookie: 1, at, len }
}

#[test]
fn ranges_are_refused_with_the_number_that_the_protocol_names() {
    let disk = null();
    let check = |command, at, len| check(&request(command, 0, at, len), BOTH, &disk);
    let (last, end) = (SIZE_BYTES - 512, SIZE_BYTES);
    for command in [Command::Read, Command::Write, Command::Trim, Command::WriteZeroes] {
        assert_eq!(check(command, last, 512), Ok(()), "{command:?}");
    }
    for (command, errno) in [
        (Command::Read, Errno::Invalid),
        (Command::Write, Errno::NoSpace),
        (Command::Trim, Errno::Invalid),
        (Command::WriteZeroes, Errno::NoSpace),
        (Command::BlockStatus, Errno::Invalid),
    ] {
        for (at, len) in [(last, 513), (end, 1), (u64::MAX, 1), (u64::MAX - 100, 4096)] {
            assert_eq!(check(command, at, len), Err(errno), "{command:?} {at} {len}");
        }
    }
    assert_eq!(check(Command::Read, 0, 0), Err(Errno::Invalid));
    assert_eq!(check(Command::BlockStatus, 0, 0), Err(Errno::Invalid));
    assert_eq!(check(Command::Read, 0, PAYLOAD_BYTES_MAX), Ok(()));
    assert_eq!(check(Command::Read, 0, PAYLOAD_BYTES_MAX + 1), Err(Errno::Invalid));
    assert_eq!(check(Command::Write, 0, PAYLOAD_BYTES_MAX + 1), Err(Errno::Invalid));
    assert_eq!(check(Command::Trim, 0, u32::MAX), Ok(()), "no payload, no limit");
    assert_eq!(check(Command::WriteZeroes, 0, u32::MAX), Ok(()));
    assert_eq!(check(Command::Flush, u64::MAX, u32::MAX), Ok(()), "a flush has no range");
    assert_eq!(check(Command::Other(8), 0, 512), Err(Errno::Invalid));
}

#[test]
fn flags_belong_to_their_commands() {
    let disk = null();
    let all = [flag::FUA, flag::NO_HOLE, flag::DF, flag::REQ_ONE, flag::FAST_ZERO, 1 << 5, 1 << 15];
    for (command, allowed) in [
        (Command::Read, vec![flag::FUA, flag::DF]),
        (Command::Write, vec![flag::FUA]),
        (Command::Flush, vec![flag::FUA]),
        (Command::Trim, vec![flag::FUA]),
        (Command::WriteZeroes, vec![flag::FUA, flag::NO_HOLE, flag::FAST_ZERO]),
        (Command::BlockStatus, vec![flag::FUA, flag::REQ_ONE]),
    ] {
        for flag in all {
            let result = check(&request(command, flag, 0, 512), BOTH, &disk);
            assert_eq!(result.is_ok(), allowed.contains(&flag), "{command:?} {flag}");
        }
    }
    let simple = Agreed::default();
    assert!(check(&request(Command::Read, flag::DF, 0, 512), simple, &disk).is_err());
    assert!(check(&request(Command::BlockStatus, 0, 0, 512), simple, &disk).is_err());
}

#[test]
fn a_read_only_disk_refuses_changes_first() {
    let disk = Disk::new(Arc::new(NullDisk::new_read_only(512, 8)));
    for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
        let result = check(&request(command, 0, 1 << 30, 512), BOTH, &disk);
        assert_eq!(result, Err(Errno::Permission), "{command:?}");
    }
    assert_eq!(check(&request(Command::Read, 0, 0, 512), BOTH, &disk), Ok(()));
    assert_eq!(check(&request(Command::Flush, 0, 0, 0), BOTH, &disk), Ok(()));
}

#[test]
fn device_errors_keep_their_meaning() {
    let of = |error: BlockError| Fault::from(error);
    let at = |errno, at| Fault { errno, at };
    assert_eq!(of(BlockError::Medium { at: 4096 }), at(Errno::Io, Some(4096)));
    assert_eq!(of(BlockError::LostWrites), at(Errno::Io, None));
    assert_eq!(of(BlockError::Unreachable), at(Errno::Io, None));
    assert_eq!(of(BlockError::InDoubt), at(Errno::Io, None));
    assert_eq!(of(BlockError::Reserved), at(Errno::Io, None));
    assert_eq!(of(BlockError::Os { errno: 0 }), at(Errno::Io, None));
    assert_eq!(of(BlockError::NoSpace), at(Errno::NoSpace, None));
    assert_eq!(of(BlockError::ReadOnly), at(Errno::Permission, None));
    assert_eq!(of(BlockError::NoMemory), at(Errno::NoMemory, None));
    assert_eq!(of(BlockError::Unsupported), at(Errno::NotSupported, None));
    assert_eq!(of(BlockError::PayloadMismatch), at(Errno::Invalid, None));
}

#[test]
fn block_status_tells_holes_from_data() {
    block_on(&CoreConfig::default(), async {
        let disk = Disk::new(Arc::new(RamDisk::new(512, 2048).unwrap()));
        let user = disk.user();
        let ones = Buf::zeroed(8192).unwrap().freeze();
        disk.write(4096, ones, block::WriteFlags::VOLATILE).await.unwrap();
        let ask = |flags| {
            let request = request(Command::BlockStatus, flags, 0, 1 << 20);
            perform(request, Vec::new(), (&disk, &user))
        };
        let Ok(Answer::Status(ranges)) = ask(0).await else { panic!("no status") };
        assert_eq!(ranges, [(4096, 3), (8192, 0), ((1 << 20) - 12288, 3)]);
        let Ok(Answer::Status(ranges)) = ask(flag::REQ_ONE).await else { panic!("no status") };
        assert_eq!(ranges, [(4096, 3)]);
    })
    .unwrap();
}
