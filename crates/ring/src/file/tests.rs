use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::*;
use crate::{CoreConfig, block_on};

/// A path that is removed at the end, on a real file system or on tmpfs.
struct Temp(PathBuf);

impl Temp {
    fn new(dir: &Path, name: &str) -> Temp {
        Temp(dir.join(format!("drystone-ring-{}-{name}", std::process::id())))
    }

    fn on_disk(name: &str) -> Temp {
        Temp::new(&std::env::temp_dir(), name)
    }

    fn open(&self, options: OpenOptions) -> io::Result<File> {
        File::open(&self.0, options)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const CREATE: OpenOptions =
    OpenOptions { write: true, create: true, direct: false, durable: false, claim_device: false };

fn filled(len: usize, seed: u8) -> Buf {
    let mut buf = Buf::alloc(len).unwrap();
    for (i, byte) in buf.iter_mut().enumerate() {
        *byte = (i as u8).wrapping_mul(13).wrapping_add(seed);
    }
    buf
}

fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    block_on(&CoreConfig::default(), main).unwrap()
}

async fn round_trip(file: &File) {
    let (buf, n) = file.write_at(filled(65_536, 1), 0..65_536, 8_192, true).await;
    assert_eq!(n.unwrap(), 65_536);
    let mut data = Data::from(buf);
    assert_eq!(file.write_data_at(data.slice(4_096..8_192), 0, false).await.unwrap(), 4_096);
    file.fdatasync().await.unwrap();
    assert_eq!(file.len_bytes().unwrap(), 8_192 + 65_536);
    let (back, n) = file.read_at(Buf::zeroed(16_384).unwrap(), 4_096..16_384, 0).await;
    assert_eq!(n.unwrap(), 12_288);
    assert!(back[..4_096].iter().all(|&b| b == 0), "outside of the range nothing changes");
    assert_eq!(&back[4_096..8_192], data.slice(4_096..8_192).as_slice().unwrap());
    assert_eq!(&back[8_192..12_288], &[0; 4_096], "a hole reads as zeroes");
    data = data.into_slice(0..4_096);
    assert_eq!(&back[12_288..], data.as_slice().unwrap());
    let (_, n) = file.read_at(back, 0..4_096, 1 << 30).await;
    assert_eq!(n.unwrap(), 0, "past the end");
}

#[test]
fn buffered_files_read_what_was_written() {
    run(async {
        for dir in [std::env::temp_dir(), "/dev/shm".into()] {
            let temp = Temp::new(&dir, "buffered");
            round_trip(&temp.open(CREATE).unwrap()).await;
        }
    });
}

#[test]
fn direct_files_read_what_was_written_where_the_file_system_allows() {
    run(async {
        let temp = Temp::on_disk("direct");
        match temp.open(OpenOptions { direct: true, ..CREATE }) {
            Ok(file) => {
                round_trip(&file).await;
                let (_, n) = file.write_at(filled(4096, 0), 0..100, 0, false).await;
                assert_eq!(n.unwrap_err().raw_os_error(), Some(libc::EINVAL), "not aligned");
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        }
    });
}

#[test]
fn a_batch_is_written_part_by_part() {
    run(async {
        let temp = Temp::on_disk("batch");
        let file = temp.open(CREATE).unwrap();
        let mut batch = SendBatch::new();
        batch.push_bytes(b"head");
        batch.push_data(Data::from(&b"middle"[..]));
        batch.push_bytes(b"tail");
        assert_eq!(file.write_batch_at(batch, 3, true).await.unwrap(), 14);
        assert_eq!(std::fs::read(&temp.0).unwrap(), b"\0\0\0headmiddletail");
    });
}

#[test]
fn now_calls_serve_the_page_cache_and_never_lie() {
    run(async {
        let temp = Temp::on_disk("now");
        let file = temp.open(CREATE).unwrap();
        let (buf, n) = file.write_at(filled(8_192, 3), 0..8_192, 0, false).await;
        n.unwrap();
        let mut to = [0; 100];
        match file.try_read_now(4_000, &mut to).unwrap() {
            Some(n) => assert_eq!((n, &to[..]), (100, &buf[4_000..4_100])),
            None => assert!(to.iter().all(|&b| b == 0)),
        }
        if let Some(n) = file.try_write_now(10, b"hello").unwrap() {
            assert_eq!(n, 5);
            let (back, n) = file.read_at(Buf::zeroed(16).unwrap(), 0..16, 8).await;
            assert_eq!((n.unwrap(), &back[2..7]), (16, &b"hello"[..]));
        }
        let read_only = temp.open(OpenOptions::default()).unwrap();
        assert_eq!(read_only.try_write_now(0, b"x").unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(
            file.try_read_now(u64::MAX, &mut to).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn memory_is_served_at_once_and_direct_files_never() {
    run(async {
        let temp = Temp::new("/dev/shm".as_ref(), "memory");
        let file = temp.open(CREATE).unwrap();
        assert!(file.is_in_memory());
        assert_eq!(file.try_write_now(4_000, &[7; 200]).unwrap(), Some(200));
        let mut to = [0; 4_096];
        assert_eq!(file.try_read_now(0, &mut to).unwrap(), Some(4_096));
        assert_eq!((to[3_999], to[4_000], to[4_095]), (0, 7, 7));
        assert_eq!(file.try_read_now(4_200, &mut to).unwrap(), Some(0), "the end");

        let temp = Temp::on_disk("never");
        temp.open(CREATE).unwrap().set_len_bytes(8_192).unwrap();
        if let Ok(file) = temp.open(OpenOptions { direct: true, ..OpenOptions::default() })
            && !file.is_in_memory()
        {
            let mut buf = Buf::zeroed(4_096).unwrap();
            assert_eq!(file.try_read_now(0, &mut buf).unwrap(), None);
        }
    });
}

#[test]
fn holes_are_punched_found_and_filled() {
    run(async {
        for dir in [std::env::temp_dir(), "/dev/shm".into()] {
            let temp = Temp::new(&dir, "holes");
            let file = temp.open(CREATE).unwrap();
            file.set_len_bytes(1 << 20).unwrap();
            assert_eq!(file.next_data(0).unwrap(), None, "sparse");
            assert_eq!(file.next_hole(0).unwrap(), Some(0));
            assert_eq!(file.next_hole(1 << 20).unwrap(), None, "the end");
            let (_, n) = file.write_at(filled(65_536, 5), 0..65_536, 65_536, true).await;
            n.unwrap();
            assert_eq!(file.next_data(0).unwrap(), Some(65_536));
            assert_eq!(file.next_hole(65_536).unwrap(), Some(131_072));
            file.fallocate(FallocateMode::PunchHole, 69_632, 8_192).await.unwrap();
            assert_eq!(file.next_hole(65_536).unwrap(), Some(69_632));
            assert_eq!(file.next_data(69_632).unwrap(), Some(77_824));
            let (back, n) = file.read_at(Buf::alloc(8_192).unwrap(), 0..8_192, 69_632).await;
            assert_eq!(n.unwrap(), 8_192);
            assert!(back.iter().all(|&b| b == 0));
            match file.fallocate(FallocateMode::ZeroRange, 65_536, 4_096).await {
                Ok(()) => {
                    let (back, _) = file.read_at(back, 0..4_096, 65_536).await;
                    assert!(back[..4_096].iter().all(|&b| b == 0));
                }
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
            }
            file.fallocate(FallocateMode::Allocate, 2 << 20, 4_096).await.unwrap();
            assert_eq!(file.len_bytes().unwrap(), 1 << 20, "the length stays");
        }
    });
}

#[test]
fn dropped_operations_end_soundly_and_return_their_buffers() {
    run(async {
        let temp = Temp::on_disk("dropped");
        let file = temp.open(CREATE).unwrap();
        let used = crate::pool_usage().used_bytes;
        for i in 0..200 {
            drop(file.write_at(filled(65_536, 9), 0..65_536, i * 65_536, true));
            if i % 50 == 0 {
                crate::turn_end().await;
            }
        }
        drop(file); // the operations keep the descriptor
        let start = std::time::Instant::now();
        while crate::pool_usage().used_bytes > used {
            assert!(start.elapsed().as_secs() < 2, "buffers of cancelled writes come back");
            crate::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn one_opening_holds_the_lock() {
    let temp = Temp::on_disk("lock");
    let first = temp.open(CREATE).unwrap();
    first.lock_exclusive().unwrap();
    let second = temp.open(OpenOptions::default()).unwrap();
    assert_eq!(second.lock_exclusive().unwrap_err().kind(), ErrorKind::WouldBlock);
    let clone = first.clone();
    drop(first);
    assert!(second.lock_exclusive().is_err(), "a clone still holds it");
    drop(clone);
    second.lock_exclusive().unwrap();
}

#[test]
fn only_files_and_block_devices_open() {
    let error = File::open(&std::env::temp_dir(), OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let missing = Temp::on_disk("missing");
    assert_eq!(missing.open(OpenOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
    let file = Temp::on_disk("plain");
    let file = file.open(CREATE).unwrap();
    assert!(!file.is_block_device());
    assert_eq!(file.block_limits().unwrap(), None);
}

#[test]
fn a_block_device_tells_its_sizes() {
    // Present on the machines that run this as root; elsewhere there is nothing to open.
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for disk in disks.filter(|disk| !disk.file_name().to_string_lossy().starts_with("loop")) {
        let Ok(file) =
            File::open(&Path::new("/dev").join(disk.file_name()), OpenOptions::default())
        else {
            continue;
        };
        let sectors = std::fs::read_to_string(disk.path().join("size")).unwrap();
        let sectors: u64 = sectors.trim().parse().unwrap();
        assert_eq!(file.len_bytes().unwrap(), sectors * 512);
        let limits = file.block_limits().unwrap().unwrap();
        assert!(limits.logical_block_bytes >= 512);
        assert!(limits.physical_block_bytes >= limits.logical_block_bytes);
    }
}

#[test]
fn a_file_is_replaced_whole_whatever_a_crash_left_beside_it() {
    let dir = std::env::temp_dir().join(format!("drystone-ring-{}-whole", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (path, beside) = (dir.join("unit.state"), dir.join("unit.state.new"));
    remove_file(&path).unwrap();
    std::fs::write(&beside, "half of something that was much longer").unwrap();
    for contents in ["one", "", "three"] {
        replace_file(&path, contents.as_bytes()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), contents);
        assert!(!beside.exists());
    }
    remove_file(&path).unwrap();
    assert!(!path.exists());
    std::fs::remove_dir(&dir).unwrap();
    assert_eq!(replace_file(&path, b"x").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(sync_parent(&path).unwrap_err().kind(), ErrorKind::NotFound);
    sync_parent(Path::new("without-a-directory")).unwrap();
}
