//! The NBD server under the tools that people use.

mod common;

use attach::nbd::Address;
use block::{BlockDevice, FileDisk, FileOptions};
use common::{Serving, ram, tool};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SIZE_BYTES: usize = 64 << 20;

/// Served on a Unix socket in `dir`, with its URI.
fn serve(dir: &Path, device: Arc<dyn BlockDevice>) -> (Serving, String) {
    let path = dir.join("nbd.sock");
    let uri = format!("nbd+unix:///?socket={}", path.display());
    (Serving::start(device, Some(Address::Unix(path))), uri)
}

fn random(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    let (serving, uri) = serve(dir.path(), ram(4096, SIZE_BYTES as u64));
    let info = tool("nbdinfo", &[&uri]);
    for line in [
        "export-size: 67108864",
        "can_cache: false",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "is_read_only: false",
        "base:allocation",
        "block_size_minimum: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(line), "no '{line}' in:\n{info}");
    }
    let list = tool("nbdinfo", &["--list", &uri]);
    assert!(list.contains("export=\"volume\""), "{list}");
    serving.stop();
}

#[test]
fn nbdcopy_brings_an_image_in_and_out_on_several_connections() {
    let dir = tempfile::tempdir().unwrap();
    let (serving, uri) = serve(dir.path(), ram(512, SIZE_BYTES as u64));
    let mut image = random(SIZE_BYTES);
    image[1 << 20..9 << 20].fill(0);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, &image).unwrap();
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    tool("nbdcopy", &["--connections=4", "--flush", from, &uri]);
    let map = tool("nbdinfo", &["--map", &uri]);
    assert!(map.lines().any(|line| line.contains("hole,zero")), "{map}");
    tool("nbdcopy", &["--connections=4", &uri, to]);
    assert!(fs::read(to).unwrap() == image);
    serving.stop();
}

#[test]
fn qemu_converts_compares_and_verifies_patterns() {
    let dir = tempfile::tempdir().unwrap();
    let (serving, _) = serve(dir.path(), ram(512, SIZE_BYTES as u64));
    let nbd = format!("nbd:unix:{}", dir.path().join("nbd.sock").display());
    let image = dir.path().join("image.raw");
    let mut bytes = random(SIZE_BYTES);
    bytes[10 << 20..40 << 20].fill(0);
    fs::write(&image, &bytes).unwrap();
    let image = image.to_str().unwrap();
    tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", image, &nbd]);
    let same = tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &nbd]);
    assert!(same.contains("identical"), "{same}");
    let said = tool(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write -P 0x5a 4k 64k",
            "-c",
            "write -z -u 8k 4k",
            "-c",
            "discard 32k 4k",
            "-c",
            "flush",
            "-c",
            "read -P 0x5a 4k 4k",
            "-c",
            "read -P 0 8k 4k",
            "-c",
            "write -f -P 0x11 12k 512",
            "-c",
            "read -P 0x11 12k 512",
            &nbd,
        ],
    );
    assert!(!said.contains("failed"), "{said}");
    serving.stop();
}

#[test]
fn a_file_written_through_nbd_holds_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk.img");
    let options = FileOptions {
        block_bytes: 4096,
        read_only: false,
        size_bytes: Some(SIZE_BYTES as u64),
        write_through: false,
        direct: false,
    };
    let device = Arc::new(FileDisk::open_file(&file, &options).unwrap());
    let (serving, uri) = serve(dir.path(), device);
    let image = random(SIZE_BYTES);
    let from = dir.path().join("from");
    fs::write(&from, &image).unwrap();
    tool("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
    serving.stop();
    assert!(fs::read(file).unwrap() == image);
}

#[test]
fn fio_verifies_what_it_wrote_in_random_order() {
    let dir = tempfile::tempdir().unwrap();
    let (serving, uri) = serve(dir.path(), ram(512, SIZE_BYTES as u64));
    let uri = format!("--uri={}", uri.replace("nbd+unix:///?", "nbd+unix:///volume?"));
    let said = tool(
        "fio",
        &[
            "--name=job",
            "--ioengine=nbd",
            &uri,
            "--rw=randrw",
            "--bsrange=512-128k",
            "--iodepth=32",
            "--size=48M",
            "--io_size=64M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--randrepeat=0",
            "--output-format=terse",
        ],
    );
    let error = said.lines().find_map(|line| line.strip_prefix("3;")?.split(';').nth(3));
    assert_eq!(error, Some("0"), "{said}");
    serving.stop();
}
