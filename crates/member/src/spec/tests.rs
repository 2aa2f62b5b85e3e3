use super::*;
use proptest::prelude::*;

fn plain(medium: Medium, name: &str) -> Spec {
    Spec {
        medium,
        block_bytes: None,
        cache: Cache::Durable,
        read_only: false,
        serial: None,
        name: name.to_owned(),
    }
}

fn file(path: &str, size_bytes: Option<u64>) -> Medium {
    Medium::File { path: path.into(), size_bytes }
}

#[test]
fn each_kind_of_disk_reads_as_written() {
    let cases = [
        ("ram:512M", Medium::Ram { size_bytes: 512 << 20 }),
        ("null:1T", Medium::Null { size_bytes: 1 << 40 }),
        ("file:/srv/a.img", file("/srv/a.img", None)),
        ("file:/srv/a.img:10G", file("/srv/a.img", Some(10 << 30))),
        ("file:a:b.img:1M", file("a:b.img", Some(1 << 20))),
        ("file:/backup-12:30:45.img", file("/backup-12:30:45.img", None)),
        ("file:/odd:1G:1G", file("/odd:1G", Some(1 << 30))),
        ("disk:/dev/sdb", Medium::Disk { path: "/dev/sdb".into() }),
        (
            "disk:/dev/disk/by-path/pci-0000:00:1f.2-ata-1",
            Medium::Disk { path: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1".into() },
        ),
        (
            "sim:sas15k:300G",
            Medium::Sim { class: DriveClass::Sas15k, size_bytes: 300 << 30, path: None },
        ),
        (
            "sim:nl-sas:4T:/srv/a:b.img",
            Medium::Sim {
                class: DriveClass::NlSas,
                size_bytes: 4 << 40,
                path: Some("/srv/a:b.img".into()),
            },
        ),
        (
            "sim:sas10k",
            Medium::Sim {
                class: DriveClass::Sas10k,
                size_bytes: DriveClass::Sas10k.usual_bytes(),
                path: None,
            },
        ),
    ];
    for (text, medium) in cases {
        assert_eq!(Spec::parse(text), Ok(plain(medium, text)), "{text}");
    }
}

#[test]
fn every_drive_that_there_is_can_be_written() {
    for class in DriveClass::ALL {
        let spec = Spec::parse(&format!("sim:{},block=4096", class.name())).unwrap();
        assert!(matches!(spec.medium, Medium::Sim { class: found, .. } if found == class));
        let refusal = SpecError::Drive(String::new()).to_string();
        assert!(refusal.contains(&format!("sim:{}", class.name())), "{refusal}");
    }
}

#[test]
fn options_are_taken_in_any_order() {
    let wanted = Spec {
        block_bytes: Some(4096),
        cache: Cache::Volatile,
        read_only: true,
        serial: Some("DS-0001".to_owned()),
        ..plain(Medium::Ram { size_bytes: 1 << 30 }, "ram:1G")
    };
    for text in [
        "ram:1G,ro,block=4096,cache=volatile,serial=DS-0001",
        "ram:1G,serial=DS-0001,cache=volatile,block=4096,ro",
    ] {
        assert_eq!(Spec::parse(text), Ok(wanted.clone()), "{text}");
    }
}

#[test]
fn a_comma_in_a_path_is_written_twice() {
    let spec = Spec::parse("file:/srv/a,,b,,,,c.img:1M,ro").unwrap();
    assert_eq!(spec.path(), Some("/srv/a,b,,c.img".as_ref()));
    assert!(spec.read_only);
}

#[test]
fn each_refusal_says_what_to_write_instead() {
    let kinds = "write ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], such as ram:1G";
    let options = "write ro, block=512, block=4096, cache=durable, cache=volatile or serial=TEXT";
    let serials = "write 1 to 32 letters, digits or any of . _ : -";
    let drives = "write sim:sas15k, sim:sas10k, sim:nl-sas, sim:sata-ssd or sim:nvme, with a size behind it as in sim:sas15k:300G";
    let long = "x".repeat(33);
    let cases = [
        ("", format!("'' is not a disk to export: {kinds}")),
        ("1G", format!("'1G' is not a disk to export: {kinds}")),
        ("/srv/a.img", format!("'/srv/a.img' is not a disk to export: {kinds}")),
        ("mem:1G", format!("'mem:1G' is not a disk to export: {kinds}")),
        ("RAM:1G", format!("'RAM:1G' is not a disk to export: {kinds}")),
        ("ram:", "'ram:' needs a size: write ram:1G".to_owned()),
        ("null:,ro", "'null:' needs a size: write null:1G".to_owned()),
        ("file:", "'file:' needs a path: write file:/srv/disk.img:10G".to_owned()),
        ("file::1G", "'file:' needs a path: write file:/srv/disk.img:10G".to_owned()),
        ("disk:", "'disk:' needs a path: write disk:/dev/sdb".to_owned()),
        ("sim:", format!("'' is not a drive to simulate: {drives}")),
        ("sim:floppy:1M", format!("'floppy' is not a drive to simulate: {drives}")),
        ("sim:nvme:1T:", "'sim:' needs a path: write sim:sas15k:300G:/srv/disk.img".to_owned()),
        (
            "sim:nvme:lots",
            "'lots' is not a size: write a whole number with K, M, G or T after it, such as 512M"
                .to_owned(),
        ),
        (
            "file:/srv/a.img:10GB",
            "'10GB' could mean two sizes: write 10G or 10GiB, which count in 1024s".to_owned(),
        ),
        (
            "ram:lots",
            "'lots' is not a size: write a whole number with K, M, G or T after it, such as 512M"
                .to_owned(),
        ),
        ("ram:1G,rw", format!("'rw' is not an option of a disk: {options}")),
        ("ram:1G,", format!("'' is not an option of a disk: {options}")),
        ("ram:1G,ro=yes", format!("'ro=yes' is not an option of a disk: {options}")),
        ("ram:1G,ro,ro", "option 'ro' is given twice: write it once".to_owned()),
        ("ram:1G,block=512,block=512", "option 'block' is given twice: write it once".to_owned()),
        (
            "ram:1G,block=4K",
            "'block=4K' is not a block size: write block=512 or block=4096".to_owned(),
        ),
        (
            "ram:1G,cache=none",
            "'cache=none' is not a cache: write cache=durable or cache=volatile".to_owned(),
        ),
        ("ram:1G,serial=", format!("'serial=' is not a serial number: {serials}")),
        ("ram:1G,serial=a b", format!("'serial=a b' is not a serial number: {serials}")),
        (
            &format!("ram:1G,serial={long}"),
            format!("'serial={long}' is not a serial number: {serials}"),
        ),
        (
            "ram:1000",
            "1000 bytes are not a multiple of the block size of 512: write 512 or 1024".to_owned(),
        ),
        (
            "null:100",
            "100 bytes are not a multiple of the block size of 512: write 512 or 1024".to_owned(),
        ),
        (
            "file:/srv/a.img:5K,block=4096",
            "5120 bytes are not a multiple of the block size of 4096: write 4096 or 8192"
                .to_owned(),
        ),
    ];
    for (text, sentence) in cases {
        assert_eq!(Spec::parse(text).unwrap_err().to_string(), sentence, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(ram:|null:|file:|disk:|sim:|sim:nvme:)?.{0,40}") {
        let _ = Spec::parse(&text);
    }

    #[test]
    fn any_path_can_be_written(path in "/[ -~]{1,40}") {
        let text = format!("file:{}:1M,ro", path.replace(',', ",,"));
        let spec = Spec::parse(&text).unwrap();
        prop_assert_eq!(spec.path(), Some(path.as_ref()));
        prop_assert!(spec.read_only);
    }

    #[test]
    fn an_accepted_size_is_whole_blocks(size in 1u64..1 << 20, big in any::<bool>()) {
        let block = if big { 4096 } else { 512 };
        let accepted = Spec::parse(&format!("ram:{size},block={block}")).is_ok();
        prop_assert_eq!(accepted, size.is_multiple_of(block));
    }
}
