//! First starts, starts that are cut off, and starts after something was lost.

use crate::common::drystone;
use crate::common::member::{Home, text};
use crate::host::Host;
use crate::{block, log_in, read, start_refused, write};
use array::DiskId;
use array::label::{self, ArrayId, ChangeId, Label, Layout, MemberKind, MemberRecord, MemberState};
use block::{BlockDevice, FileDisk, FileOptions, WriteFlags};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const DISKS: usize = 4;
const DISK: &str = "128M";
const DISK_BYTES: u64 = 128 << 20;

fn disk(path: &Path) -> FileDisk {
    let options = FileOptions {
        block_bytes: 512,
        read_only: false,
        size_bytes: Some(DISK_BYTES),
        write_through: false,
        direct: false,
    };
    FileDisk::open_file(path, &options).expect("the disk is free")
}

/// The label of an array that is being made of `DISKS` disks.
fn first_label() -> Label {
    let member = |number| MemberRecord {
        disk: DiskId(number as u16),
        uuid: [number as u8; 16],
        size_bytes: DISK_BYTES,
        state: MemberState::Active,
        kind: MemberKind::Data,
        name: format!("disk-{number}"),
    };
    Label {
        array: ArrayId([7; 16]),
        generation: 0,
        change: ChangeId(7),
        ancestors: Vec::new(),
        disk: DiskId(0),
        layout: Layout::choose(&[DISK_BYTES; DISKS], None).expect("they are large enough"),
        members: (0..DISKS).map(member).collect(),
        holders: vec![DiskId(0), DiskId(1), DiskId(2)],
        journal: vec![DiskId(0), DiskId(1), DiskId(2)],
        went_out: Vec::new(),
    }
}

/// As a creation leaves the disks that is cut off after this many labels.
fn label_some(home: &Home, count: usize) {
    for number in 0..count {
        let disk = disk(&home.path(&format!("disk-{number}")));
        let own = first_label().for_disk(DiskId(number as u16));
        ring::block_on(&ring::CoreConfig::default(), async move {
            label::write(&disk, &own).await.expect("the disk takes it");
            // The first checkpoint comes next.
            let mut begun = ring::Buf::zeroed(4096).expect("there is memory");
            begun.fill(0x5a);
            disk.write(label::LABEL_BYTES, begun.freeze(), WriteFlags::DURABLE)
                .await
                .expect("the disk takes it");
        })
        .expect("io_uring is there");
    }
}

fn is_blank(path: &Path) -> bool {
    let file = fs::File::open(path).expect("it is there");
    let mut head = vec![1; 256 << 10];
    let mut tail = vec![1; 64 << 10];
    file.read_exact_at(&mut head, 0).expect("it can be read");
    file.read_exact_at(&mut tail, DISK_BYTES - (64 << 10)).expect("it can be read");
    head.iter().chain(&tail).all(|byte| *byte == 0)
}

#[test]
fn a_creation_that_is_killed_is_made_anew_by_the_same_command() {
    for round in 0..24 {
        let home = Home::files(DISKS, DISK);
        home.start_and_kill(&[], Duration::from_millis(2 + 3 * round));
        let member = home.start(&[]);
        member.run(&["volume", "create", "a", "64M"]);
        assert!(member.lines[0].contains(" disks=4 online=4 "), "{:?}", member.lines);
        member.stop();
    }
}

#[test]
fn what_a_creation_that_was_cut_off_left_is_not_in_the_way() {
    for labelled in 1..=DISKS {
        let home = Home::files(DISKS, DISK);
        label_some(&home, labelled);
        // The last file was made, and had no size yet.
        if labelled < DISKS {
            fs::write(home.path("disk-3"), b"").unwrap();
        }
        let member = home.start(&[]);
        assert!(member.log().contains("it holds no data, and is made anew"), "{}", member.log());
        assert!(member.lines[0].contains(" disks=4 online=4 "), "{:?}", member.lines);
        member.stop();
    }
}

#[test]
fn a_first_label_that_is_torn_is_made_anew_only_where_one_was_being_made() {
    let home = Home::files(DISKS, DISK);
    label_some(&home, DISKS);
    let torn = home.path("disk-1");
    let file = fs::OpenOptions::new().write(true).open(&torn).unwrap();
    file.write_all_at(&[0; 4096], 100).unwrap();
    file.write_all_at(&[0; 64 << 10], DISK_BYTES - (64 << 10)).unwrap();
    let said = start_refused(&home, &[]);
    let way = format!("drystone disk wipe {}", text(&torn));
    assert!(said.contains(&way), "{said}");

    let lines: String =
        (0..DISKS).map(|n| format!("file:{}\n", text(&home.path(&format!("disk-{n}"))))).collect();
    fs::write(home.path("data/disks"), format!("making\n{lines}")).unwrap();
    home.start(&[]).stop();
}

#[test]
fn what_is_refused_leaves_no_files_and_no_labels() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = format!("--portal={}", taken.local_addr().unwrap());
    let home = Home::files(DISKS, DISK);
    fs::File::create(home.path("disk-0")).unwrap().set_len(DISK_BYTES).unwrap();
    let unmade = |home: &Home| {
        assert!(is_blank(&home.path("disk-0")), "nothing was written to the disk that was there");
        (1..DISKS).for_each(|n| assert!(!fs::exists(home.path(&format!("disk-{n}"))).unwrap()));
        assert!(!fs::exists(home.path("data/disk-0")).unwrap());
    };
    let said = start_refused(&home, &[&portal]);
    assert!(said.contains("is in use by another program"), "{said}");
    unmade(&home);
    let extra = format!("--disk={}", text(&home.path("missing")));
    let said = start_refused(&home, &[&extra]);
    assert!(said.contains("there is no '") && said.contains("missing:100G"), "{said}");
    unmade(&home);

    // A directory that takes no more than its name.
    fs::create_dir_all(home.path("data/disks.new")).unwrap();
    let said = start_refused(&home, &[]);
    assert!(said.contains("cannot write"), "{said}");
    unmade(&home);
    fs::remove_dir(home.path("data/disks.new")).unwrap();

    let mut few = Home::files(2, DISK);
    let said = start_refused(&few, &["--raid", "raid5"]);
    assert!(said.contains("raid5 needs 3 disks"), "{said}");
    (0..2).for_each(|n| assert!(!fs::exists(few.path(&format!("disk-{n}"))).unwrap()));
    few.forget();
    let member = few.start(&[]);
    assert!(member.lines[0].contains(" disks=6 "), "nothing of it was remembered");
    member.stop();
    home.start(&[]).stop();
}

#[test]
fn a_directory_that_was_used_before_gets_no_new_array() {
    let mut home = Home::files(DISKS, DISK);
    home.start(&[]).stop();
    home.forget();
    for number in 0..DISKS {
        let name = format!("disk-{number}");
        fs::rename(home.path(&name), home.path(&format!("away-{number}"))).unwrap();
    }
    let said = start_refused(&home, &[]);
    assert!(said.contains("no disk of the array that") && said.contains("disk-3"), "{said}");
    assert!(!fs::exists(home.path("data/disk-0")).unwrap());
    let blank = format!("--disk={}:{DISK}", text(&home.path("blank")));
    let said = start_refused(&home, &[&blank]);
    assert!(said.contains("no disk of the array that"), "{said}");
    assert!(!fs::exists(home.path("blank")).unwrap());

    // The list is lost, and there was a reservation.
    fs::remove_file(home.path("data/disks")).unwrap();
    fs::create_dir_all(home.path("data/reservations")).unwrap();
    fs::write(home.path("data/reservations/x"), b"x").unwrap();
    let said = start_refused(&home, &[]);
    assert!(said.contains("its list of disks is lost"), "{said}");

    // Moved disks are found again when they are named, and the old paths are forgotten.
    let moved: Vec<String> =
        (0..DISKS).map(|n| format!("--disk={}", text(&home.path(&format!("away-{n}"))))).collect();
    home.start(&moved.iter().map(String::as_str).collect::<Vec<_>>()).stop();
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" disks=4 online=4 "), "{:?}", member.lines);
    assert!(!member.log().contains("WARN"), "{}", member.log());
    member.stop();
}

#[test]
fn files_of_a_lost_list_are_found_and_not_made_anew() {
    let home = Home::bare();
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 5, &block(3));
    member.stop();
    fs::remove_file(home.path("data/disks")).unwrap();
    fs::rename(home.path("data/disk-2"), home.path("away")).unwrap();
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" disks=6 online=5 "), "{:?}", member.lines);
    assert!(!fs::exists(home.path("data/disk-2")).unwrap());
    assert!(read(&mut log_in(&member, "a"), 5) == block(3));
    member.stop();
}

#[test]
fn one_directory_remembers_several_arrays_and_keeps_them_apart() {
    let mut home = Home::files(2, DISK);
    let member = home.start(&[]);
    let first = member.lines[0].clone();
    member.stop();
    let named = |home: &Home, name: &str, size: &str| {
        [0, 1].map(|n| format!("--disk={}{size}", text(&home.path(&format!("{name}-{n}")))))
    };
    home.forget();
    // Made elsewhere, then served from this directory too.
    let other = Home::bare();
    let [a, b] = named(&home, "other", ":128M");
    other.start(&[&a, &b]).stop();
    let [a, b] = named(&home, "other", "");
    let member = home.start(&[&a, &b]);
    assert_ne!(member.lines[0], first);
    let second = member.lines[0].clone();
    member.stop();
    let member = home.start(&[]);
    assert_eq!(member.lines[0], second, "the last one");
    member.stop();
    let [a, _] = named(&home, "disk", "");
    let member = home.start(&[&a]);
    assert_eq!(member.lines[0], first, "one disk is enough to name the array");
    member.stop();
}

#[test]
fn disks_that_join_are_remembered_before_they_are_relied_on() {
    let mut home = Home::files(3, DISK);
    let member = home.start(&[]);
    let new = text(&home.path("new"));
    member.run(&["disk", "replace", "disk-1", &format!("{new}:{DISK}"), "--no-wait"]);
    member.crash();
    home.forget();
    let member = home.start(&[]);
    let listed = member.json(&["disk", "list"]);
    let is_there = |name: &str| listed.as_array().unwrap().iter().any(|d| d["name"] == name);
    assert!(is_there(&new), "{listed}");

    // A disk that is not taken leaves no trace.
    let foreign = text(&home.path("foreign"));
    let mut bytes = vec![0; 1 << 20];
    bytes[..8].fill(7);
    fs::write(&foreign, bytes).unwrap();
    member.refused(&["disk", "add", &foreign]);
    let small = text(&home.path("small"));
    member.refused(&["disk", "add", &format!("{small}:1M")]);
    assert!(!fs::exists(&small).unwrap(), "the file was made for nothing");
    let list = fs::read_to_string(home.path("data/disks")).unwrap();
    assert!(list.contains(&new) && !list.contains("foreign") && !list.contains("small"), "{list}");
    // What cannot be remembered is not taken.
    fs::create_dir(home.path("data/disks.new")).unwrap();
    let more = text(&home.path("more"));
    let said = member.refused(&["disk", "add", &format!("{more}:{DISK}")]);
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(!fs::exists(&more).unwrap());
    fs::remove_dir(home.path("data/disks.new")).unwrap();
    member.stop();
}

#[test]
fn a_list_of_disks_that_does_not_read_in_part_keeps_no_member_from_starting() {
    let mut home = Home::files(DISKS, DISK);
    home.start(&[]).stop();
    home.forget();
    let path = home.path("data/disks");
    let list = fs::read(&path).unwrap();
    // A path that is damaged, and one whose end fell into the next line.
    let damaged: Vec<u8> = list
        .split_inclusive(|byte| *byte == b'\n')
        .enumerate()
        .flat_map(|(number, line)| match number {
            1 => b"file:/srv/\xff\xfe\n".to_vec(),
            2 => [b"disk-1x\n", line].concat(),
            _ => line.to_vec(),
        })
        .collect();
    fs::write(&path, &damaged).unwrap();
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" disks=4 online=3 "), "{:?}", member.lines);
    let said = "has 2 lines that do not read: what else it names is used, and the file as it was is kept as '";
    assert!(member.log().contains(said), "{}", member.log());
    let (code, status, _) = home.ask(&["status"]);
    assert!(code == 1 && status.contains(said), "{status}");
    let events = member.run(&["events"]);
    assert!(events.contains("disk_list_damaged") || events.contains(said), "{events}");
    // The disk whose line was lost is told of, and taken back by who knows that it is no copy's original.
    let place = text(&home.path("disk-0"));
    assert!(member.log().contains(&format!("'drystone disk add {place}'")), "{}", member.log());
    member.run(&["disk", "add", &place]);
    member.stop();
    assert_eq!(fs::read(home.path("data/disks.damaged")).unwrap(), damaged);
    assert_eq!(fs::read(&path).unwrap(), list, "it is whole again");
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" disks=4 online=4 "), "{:?}", member.lines);
    assert!(!member.log().contains("WARN"), "{}", member.log());
    member.stop();
}

#[test]
fn a_disk_whose_name_the_list_cannot_keep_is_refused() {
    let home = Home::files(2, DISK);
    let member = home.start(&[]);
    let list = || fs::read(home.path("data/disks")).unwrap();
    let before = list();
    for name in ["new\nline", "a\rb", "\u{1b}[2J"] {
        let path = text(&home.path(name));
        for command in [&["disk", "add"][..], &["disk", "replace", "disk-1"]] {
            let (code, _, said) = home.ask(&[command, &[&format!("{path}:{DISK}")]].concat());
            assert!(code == 2 && said.contains("' has control characters in its name"), "{said}");
        }
        assert!(!fs::exists(&path).unwrap());
    }
    assert_eq!(list(), before);
    member.stop();
    let (code, _, said) = home.ask(&["up", &format!("--disk={}:{DISK}", text(&home.path("a\nb")))]);
    assert!(code == 2 && said.contains("control characters in its name"), "{said}");
}

#[test]
fn a_disk_that_has_left_is_not_looked_for_any_more() {
    let mut home = Home::files(5, DISK);
    let member = home.start(&[]);
    member.run(&["disk", "retire", "disk-4", "--yes"]);
    let path = home.path("data/disks");
    let is_listed = || fs::read_to_string(&path).unwrap().contains("disk-4");
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while is_listed() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!is_listed());
    member.stop();
    fs::remove_file(home.path("disk-4")).unwrap();
    home.forget();
    let member = home.start(&[]);
    assert!(!member.log().contains("missing"), "{}", member.log());
    member.stop();
}

#[test]
fn an_array_opens_without_disks_that_are_lost_when_that_is_accepted() {
    let mut home = Home::files(4, DISK);
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 0, &block(1));
    member.stop();
    home.forget();
    (1..4).for_each(|n| fs::remove_file(home.path(&format!("disk-{n}"))).unwrap());
    let said = start_refused(&home, &[]);
    for name in ["--accept-missing", "disk-1", "disk-2", "disk-3"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let member = home.start(&["--accept-missing"]);
    assert!(member.lines[0].contains(" disks=4 online=1 "), "{:?}", member.lines);
    assert_eq!(member.json(&["volume", "show", "a"])["state"], "lost");
    member.stop();
}

/// "No such target" would make many hosts give it up for good.
#[test]
fn hosts_of_a_snapshot_are_told_to_come_back_while_its_volume_is_lost() {
    let mut home = Home::files(4, DISK);
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "a", "64M"]);
    write(&mut log_in(&member, "a"), 0, &block(1));
    member.run(&["snapshot", "create", "a", "monday"]);
    member.run(&["snapshot", "create", "a", "tuesday"]);
    let online = member.json(&["snapshot", "online", "a", "monday"]);
    let monday = online["iqn"].as_str().unwrap().to_owned();
    Host::log_in(member.portal(), &monday, 1, &[0]).unwrap();
    member.stop();
    home.forget();
    (1..4).for_each(|n| fs::remove_file(home.path(&format!("disk-{n}"))).unwrap());
    let member = home.start(&["--accept-missing"]);
    assert_eq!(member.json(&["volume", "show", "a"])["state"], "lost");
    let said = |iqn: &str| Host::log_in(member.portal(), iqn, 1, &[]).err().unwrap().to_string();
    assert!(said(&monday).contains("service unavailable"), "{}", said(&monday));
    assert!(said(&member.iqn("a")).contains("service unavailable"));
    let tuesday = monday.replace("monday", "tuesday");
    // It was not online; but the settings are lost too, and with them how names of targets begin.
    assert!(said(&tuesday).contains("service unavailable"), "{}", said(&tuesday));
    member.stop();
}

#[test]
fn a_named_disk_that_is_missing_does_not_keep_the_others_from_serving() {
    let home = Home::files(4, DISK);
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    member.stop();
    fs::rename(home.path("disk-2"), home.path("away")).unwrap();
    let member = home.start(&[]);
    assert!(member.lines[0].contains(" disks=4 online=3 "), "{:?}", member.lines);
    assert!(!fs::exists(home.path("disk-2")).unwrap(), "no file is made in its place");
    member.stop();
    fs::rename(home.path("away"), home.path("disk-2")).unwrap();
    let member = home.start(&[]);
    member.run(&["array", "rebuild-status", "--wait"]);
    member.stop();
}

#[test]
fn a_label_is_taken_off_when_nobody_uses_the_disk() {
    let home = Home::files(3, DISK);
    let member = home.start(&["--raid", "raid5"]);
    let first = text(&home.path("disk-0"));
    let used = member.refused(&["disk", "wipe", &first, "--yes"]);
    assert!(used.contains(&format!("another drystone (pid {})", member.pid())), "{used}");
    member.stop();
    let (code, _, asked) = home.ask(&["disk", "wipe", &first]);
    assert!(code == 1 && asked.contains("as disk 0 of array"), "{asked}");
    for number in 0..3 {
        let path = text(&home.path(&format!("disk-{number}")));
        assert!(!is_blank(Path::new(&path)));
        let (code, out, err) = home.ask(&["disk", "wipe", &path, "--yes"]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(is_blank(Path::new(&path)));
    }
    let (_, out, _) = home.ask(&["disk", "wipe", &first]);
    assert!(out.contains("is blank already"), "{out}");

    let foreign = text(&home.path("foreign"));
    let mut bytes = vec![0; DISK_BYTES as usize];
    bytes[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    fs::write(&foreign, bytes).unwrap();
    let (code, _, err) = home.ask(&["disk", "wipe", &foreign, "--yes"]);
    assert!(code == 1 && err.contains("ext4") && err.contains("--foreign"), "{err}");
    let (code, _, err) = home.ask(&["disk", "wipe", &foreign, "--yes", "--foreign"]);
    assert!(code == 0 && is_blank(Path::new(&foreign)), "{err}");
    let (code, _, err) = home.ask(&["disk", "wipe", &text(&home.path("none"))]);
    assert!(code == 1 && err.contains("none"), "{err}");
}

/// Names of devices change hands: where a disk was there may be one of another array at the next start.
#[test]
fn a_remembered_name_behind_which_another_array_lies_is_passed_over() {
    let (mut home, other) = (Home::files(3, DISK), Home::files(3, DISK));
    other.start(&["--raid", "raid5"]).stop();
    let member = home.start(&["--raid", "raid5"]);
    member.run(&["volume", "create", "v", "16M"]);
    member.stop();
    home.forget();
    let (old, new) = (home.path("disk-0"), home.path("moved"));
    fs::rename(&old, &new).unwrap();
    fs::copy(other.path("disk-1"), &old).unwrap();
    // Without it, and with it under its new name.
    for words in [&[][..], &["--disk", &text(&new)]] {
        let member = home.start(words);
        assert!(member.run(&["volume", "list"]).contains('v'));
        assert!(member.log().contains("what is there is of array"), "{}", member.log());
        let missing = member.run(&["disk", "list"]).matches("missing").count();
        assert_eq!(missing, usize::from(words.is_empty()), "{}", member.run(&["disk", "list"]));
        member.stop();
    }
    // Whoever names it means it.
    let said = start_refused(&home, &["--disk", &text(&new), "--disk", &text(&old)]);
    assert!(said.contains("array"), "{said}");
}

#[test]
fn a_second_name_of_another_member_counts_as_missing() {
    let mut home = Home::files(4, DISK);
    let member = home.start(&["--raid", "raid6"]);
    member.run(&["volume", "create", "v", "16M"]);
    member.stop();
    home.forget();
    fs::rename(home.path("disk-1"), home.path("away")).unwrap();
    fs::hard_link(home.path("disk-2"), home.path("disk-1")).unwrap();
    let member = home.start(&[]);
    assert!(member.log().contains("under another name"), "{}", member.log());
    let list = member.run(&["disk", "list"]);
    assert_eq!(list.matches("missing").count(), 1, "{list}");
    member.stop();
}

/// A blank disk came in the slot of one that is dead, so both have one name.
#[test]
fn of_two_disks_with_one_name_the_number_says_which_is_meant() {
    let home = Home::files(4, DISK);
    home.start(&["--raid", "raid5"]).stop();
    let path = home.path("disk-0");
    fs::rename(&path, home.path("dead")).unwrap();
    fs::File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
    let member = home.start(&[]);
    member.run(&["disk", "add", &text(&path)]);
    let state_of = |number: u64| {
        let disks = member.json(&["disk", "list"]);
        let all = disks.as_array().unwrap().iter();
        let found = all.filter(|disk| disk["id"] == number).map(|disk| disk["state"].clone());
        found.collect::<Vec<_>>()
    };
    let said = member.refused(&["disk", "fail", &text(&path), "--yes"]);
    assert!(said.contains("several disks"), "{said}");
    member.run(&["disk", "fail", "0", "--yes"]);
    assert_eq!(state_of(4), ["online"], "{}", member.run(&["disk", "list"]));
    member.stop();
}

/// Whoever cannot be managed serves all the same.
#[test]
fn a_member_whose_control_socket_cannot_be_made_serves_hosts() {
    let home = Home::files(DISKS, DISK);
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let iqn = member.iqn("a");
    write(&mut log_in(&member, "a"), 0, &block(1));
    member.stop();
    fs::write(home.path("file"), b"").unwrap();
    let in_a_file = text(&home.path("file/control.sock"));
    let too_long = text(&home.path(&format!("{}/control.sock", "x".repeat(120))));
    for socket in [in_a_file, too_long] {
        let line = home
            .command_line(&[])
            .into_iter()
            .map(|word| if word.ends_with("run/control.sock") { socket.clone() } else { word });
        let line: Vec<String> = line.collect();
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let member = home.start_by(drystone(&words));
        assert_eq!(member.lines.last().unwrap(), "socket path=none", "{:?}", member.lines);
        let log = member.logged("control socket");
        let said: Vec<&str> = log.lines().filter(|line| line.contains("control socket")).collect();
        assert_eq!(said.len(), 1, "{log}");
        assert!(said[0].contains("hosts are served") && said[0].contains("--socket"), "{log}");
        let mut host = Host::log_in(member.portal(), &iqn, 1, &[0]).expect("it is served");
        assert!(read(&mut host, 0) == block(1));
        member.stop();
    }
}
