//! Tests of the adapters that need no target.

use super::*;

fn site(directory: &Path) -> Site {
    Site { port: 13_777, directory: directory.to_owned(), disk_bytes: 16 << 20, core: 0 }
}

#[test]
fn external_targets_are_read_from_text() {
    let one: External =
        "spdk=iscsi://127.0.0.1:3270/iqn.2016-06.io.spdk:d/0,pid=1".parse().unwrap();
    assert_eq!(one.name(), "spdk");
    assert_eq!(Running::pid(&one), 1);
    let Service::Iscsi(url) = one.service() else { panic!("not iSCSI") };
    assert_eq!((url.port, url.lun), (3270, 0));
    for text in [
        "",
        "spdk",
        "spdk=iscsi://h/i/0",
        "=iscsi://h/i/0,pid=1",
        "a b=iscsi://h/i/0,pid=1",
        "x=iscsi://h/i/0,pid=x",
        "x=tcp://h,pid=1",
    ] {
        assert!(text.parse::<External>().is_err(), "{text}");
    }
}

#[test]
fn an_external_target_that_is_gone_is_missing() {
    let gone: External = format!("x=iscsi://h/i/0,pid={}", u32::MAX).parse().unwrap();
    assert!(gone.missing().unwrap().contains("gone"));
    let here: External = format!("x=iscsi://h/i/0,pid={}", std::process::id()).parse().unwrap();
    assert_eq!(here.missing(), None);
}

#[test]
fn a_binary_that_is_not_built_is_skipped_with_advice() {
    for ours in Ours::all(Path::new("/no/such/drystone")) {
        assert!(ours.missing().unwrap().contains("cargo build"));
        assert!(ours.name().starts_with("ours-"));
    }
}

#[test]
fn a_target_that_ends_at_once_is_an_error_and_not_a_wait() {
    let directory = std::env::temp_dir().join(format!("drystone-bench-ad-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let started = std::time::Instant::now();
    let stop = AtomicBool::new(false);
    for ours in Ours::all(Path::new("/bin/false")) {
        let Err(error) = ours.start(&site(&directory), &stop) else { panic!("it started") };
        assert!(error.to_string().contains("ended at once"), "{error}");
    }
    assert!(started.elapsed() < START_MAX);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn waiting_ends_with_a_signal() {
    let error = wait_for("it", &AtomicBool::new(true), || Ok(false)).unwrap_err();
    assert!(error.to_string().contains("signal"));
    wait_for("it", &AtomicBool::new(true), || Ok(true)).unwrap();
}

#[test]
fn disks_have_their_size() {
    let directory = std::env::temp_dir().join(format!("drystone-bench-di-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let disk = site(&directory).make_disk().unwrap();
    assert_eq!(std::fs::metadata(disk).unwrap().len(), 16 << 20);
    std::fs::remove_dir_all(&directory).unwrap();
}
