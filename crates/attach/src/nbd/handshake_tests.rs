use super::*;
use proptest::prelude::*;

fn export(read_only: bool) -> Export {
    let disk = Geometry { read_only, ..Geometry::new(512, 2048) };
    Export::new("iqn.2026-11.com.example:a", &disk)
}

fn new(export: &Export) -> Handshake<'_> {
    Handshake::new(export, 3).unwrap()
}

/// Number, kind and data of each answer.
fn answers(mut out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !out.is_empty() {
        assert_eq!(super::super::wire::take_u64(&mut out), Some(OPTION_REPLY_MAGIC));
        let (number, kind) = (take_u32(&mut out).unwrap(), take_u32(&mut out).unwrap());
        let len = take_u32(&mut out).unwrap() as usize;
        let (data, rest) = out.split_at(len);
        found.push((number, kind, data.to_vec()));
        out = rest;
    }
    found
}

fn ask(handshake: &mut Handshake<'_>, number: u32, data: &[u8]) -> (Next, Vec<(u32, Vec<u8>)>) {
    let mut out = Vec::new();
    let next = handshake.option(number, data, &mut out);
    let answers = answers(&out);
    assert!(answers.iter().all(|(of, ..)| *of == number));
    (next, answers.into_iter().map(|(_, kind, data)| (kind, data)).collect())
}

fn kinds(answers: &[(u32, Vec<u8>)]) -> Vec<u32> {
    answers.iter().map(|(kind, _)| *kind).collect()
}

/// The data of INFO and GO.
fn info_data(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((asked.len() as u16).to_be_bytes());
    data.extend(asked.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

#[test]
fn the_greeting_is_drawn_to_the_byte() {
    assert_eq!(&greeting(), b"NBDMAGICIHAVEOPT\x00\x03");
    assert!(Handshake::new(&export(false), 4).is_none());
}

#[test]
fn go_tells_size_flags_and_block_sizes() {
    let export = export(false);
    let mut handshake = new(&export);
    let (next, said) = ask(&mut handshake, option::GO, &info_data("", &[info::NAME]));
    assert_eq!(next, Next::Transmission);
    assert_eq!(kinds(&said), [reply::INFO, reply::INFO, reply::INFO, reply::ACK]);
    let without_df = can::HAS_FLAGS
        | can::FLUSH
        | can::FUA
        | can::MULTI_CONN
        | can::TRIM
        | can::WRITE_ZEROES
        | can::FAST_ZERO;
    let wanted = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &without_df.to_be_bytes()].concat();
    assert_eq!(said[0].1, wanted);
    assert_eq!(said[1].1, [&[0, 1][..], b"iqn.2026-11.com.example:a"].concat());
    assert_eq!(said[2].1, [0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    assert_eq!(handshake.agreed(), Agreed::default());
}

#[test]
fn a_read_only_disk_offers_no_change() {
    let flags = export(true).flags;
    assert_eq!(flags & can::READ_ONLY, can::READ_ONLY);
    assert_eq!(flags & (can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO), 0);
}

#[test]
fn info_goes_on_and_names_are_checked() {
    let export = export(false);
    let mut handshake = new(&export);
    let own = info_data("iqn.2026-11.com.example:a", &[]);
    assert_eq!(ask(&mut handshake, option::INFO, &own).0, Next::Option);
    let (next, said) = ask(&mut handshake, option::GO, &info_data("other", &[]));
    assert_eq!((next, kinds(&said)), (Next::Option, vec![reply::ERR_UNKNOWN]));
    for bad in [&b""[..], &[0, 0, 0, 9], &[&own[..], &[0]].concat()] {
        let (next, said) = ask(&mut handshake, option::GO, bad);
        assert_eq!((next, kinds(&said)), (Next::Option, vec![reply::ERR_INVALID]));
    }
}

#[test]
fn the_oldest_way_begins_or_hangs_up() {
    let export = export(false);
    let mut out = Vec::new();
    assert_eq!(new(&export).option(option::EXPORT_NAME, b"", &mut out), Next::Transmission);
    assert_eq!(out.len(), 10);
    out.clear();
    let mut with_zeroes = Handshake::new(&export, 1).unwrap();
    assert_eq!(with_zeroes.option(option::EXPORT_NAME, b"", &mut out), Next::Transmission);
    assert_eq!(out.len(), 134);
    for name in [&b"other"[..], b"\xff"] {
        out.clear();
        assert_eq!(new(&export).option(option::EXPORT_NAME, name, &mut out), Next::Close);
        assert!(out.is_empty());
    }
}

#[test]
fn list_abort_and_unknown_options() {
    let export = export(false);
    let mut handshake = new(&export);
    let (_, said) = ask(&mut handshake, option::LIST, b"");
    assert_eq!(said[0], (reply::SERVER, string("iqn.2026-11.com.example:a")));
    assert_eq!(kinds(&said), [reply::SERVER, reply::ACK]);
    assert_eq!(kinds(&ask(&mut handshake, option::LIST, b"x").1), [reply::ERR_INVALID]);
    for number in [0, 4, 5, 11, 99, u32::MAX] {
        let (next, said) = ask(&mut handshake, number, b"anything");
        assert_eq!((next, kinds(&said)), (Next::Option, vec![reply::ERR_UNSUP]));
    }
    let (next, said) = ask(&mut handshake, option::ABORT, b"");
    assert_eq!((next, kinds(&said)), (Next::Close, vec![reply::ACK]));
}

#[test]
fn block_status_needs_structured_replies_and_the_same_name() {
    let export = export(false);
    let wanted = context_data("", &["base:allocation", "qemu:dirty-bitmap:x"]);
    let mut handshake = new(&export);
    let (_, said) = ask(&mut handshake, option::SET_META_CONTEXT, &wanted);
    assert_eq!(kinds(&said), [reply::ERR_INVALID]);
    assert_eq!(kinds(&ask(&mut handshake, option::STRUCTURED_REPLY, b"").1), [reply::ACK]);
    let (_, said) = ask(&mut handshake, option::SET_META_CONTEXT, &wanted);
    assert_eq!(said[0].1, b"\0\0\0\x01base:allocation");
    assert_eq!(kinds(&said), [reply::META_CONTEXT, reply::ACK]);
    ask(&mut handshake, option::GO, &info_data("", &[]));
    assert_eq!(handshake.agreed(), Agreed { structured: true, allocation: true });
    // Another name for the same disk is another export: the choice does not hold for it.
    ask(&mut handshake, option::GO, &info_data("iqn.2026-11.com.example:a", &[]));
    assert_eq!(handshake.agreed(), Agreed { structured: true, allocation: false });
    // A later choice of nothing takes the earlier one back.
    ask(&mut handshake, option::GO, &info_data("", &[]));
    ask(&mut handshake, option::SET_META_CONTEXT, &context_data("", &[]));
    assert!(!handshake.agreed().allocation);
}

#[test]
fn contexts_are_listed_by_prefix_too() {
    let export = export(false);
    let mut handshake = new(&export);
    ask(&mut handshake, option::STRUCTURED_REPLY, b"");
    for (queries, found) in
        [(&[][..], 2), (&["base:"], 2), (&["base:allocation"], 2), (&["qemu:"], 1), (&["bas"], 1)]
    {
        let (_, said) = ask(&mut handshake, option::LIST_META_CONTEXT, &context_data("", queries));
        assert_eq!(said.len(), found, "{queries:?}");
    }
    assert!(!handshake.agreed().allocation, "a list chooses nothing");
    // A count that promises more than there is costs no memory.
    let lie = [&string("")[..], &u32::MAX.to_be_bytes()].concat();
    let (_, said) = ask(&mut handshake, option::LIST_META_CONTEXT, &lie);
    assert_eq!(kinds(&said), [reply::ERR_INVALID]);
}

proptest! {
    #[test]
    fn any_bytes_get_answers_that_read(
        options in prop::collection::vec((0_u32..13, prop::collection::vec(any::<u8>(), 0..80)), 1..9),
    ) {
        let export = export(false);
        let mut handshake = new(&export);
        for (number, data) in options {
            let mut out = Vec::new();
            let next = handshake.option(number, &data, &mut out);
            if number != option::EXPORT_NAME {
                prop_assert!(!answers(&out).is_empty());
            }
            if next != Next::Option {
                break;
            }
        }
    }
}
