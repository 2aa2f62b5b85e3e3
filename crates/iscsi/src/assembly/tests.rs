//! However a stream is cut, the same PDUs come out, and a bit that flips is never taken for data.

use proptest::prelude::*;

use super::*;
use crate::digest::digest;

const LIMITS: FrameLimits =
    FrameLimits { header_digest: true, data_digest: true, data_segment_len_bytes_max: 9000 };

#[derive(Debug, Default)]
struct Place(Vec<u8>);

impl Sink for Place {
    fn take(&mut self, offset: usize, part: &[u8]) {
        assert_eq!(offset, self.0.len(), "parts follow each other");
        self.0.extend_from_slice(part);
    }
}

/// One PDU as it came out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Out {
    bhs: Bhs,
    ahs: Vec<u8>,
    data: Vec<u8>,
    is_intact: bool,
}

fn wire(limits: &FrameLimits, tag: u8, ahs: &[u8], data: &[u8]) -> Vec<u8> {
    assert_eq!(ahs.len() % 4, 0);
    let mut pdu = vec![0; BHS_LEN_BYTES];
    pdu[4] = (ahs.len() / 4) as u8;
    pdu[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    pdu[19] = tag;
    pdu.extend_from_slice(ahs);
    if limits.header_digest {
        pdu.extend(digest(&pdu));
    }
    let mut payload = data.to_vec();
    payload.resize(data.len().next_multiple_of(4), 0);
    if limits.data_digest && !data.is_empty() {
        payload.extend(digest(&payload));
    }
    pdu.extend(payload);
    pdu
}

/// Takes `chunk`. Of each header there is no room for its data at the first `refusals` times of asking;
/// where a `direct` part is missing it is put into its place past the assembler.
fn feed(
    assembler: &mut Assembler<Place>,
    limits: &FrameLimits,
    mut chunk: &[u8],
    (may_lend, refusals, direct): (bool, usize, bool),
) -> Result<Vec<Out>, FrameError> {
    let mut all = Vec::new();
    let mut refused = 0;
    loop {
        match assembler.step(&mut chunk, limits, |_, _| may_lend)? {
            Step::Idle => return Ok(all),
            Step::Whole(Whole { bhs, ahs, data, is_intact }) => {
                all.push(Out { bhs: *bhs, ahs: ahs.to_vec(), data: data.to_vec(), is_intact });
            }
            Step::Head(_) if refused < refusals => refused += 1,
            Step::Head(_) => {
                refused = 0;
                assembler.open(Place::default());
                let (missing, _) = assembler.missing().expect("it has just been opened");
                if direct {
                    let (part, rest) = chunk.split_at(missing.len().min(chunk.len()));
                    assembler.came(part).0.extend_from_slice(part);
                    chunk = rest;
                }
            }
            Step::Done { bhs, sink, is_intact } => {
                let ahs = assembler.ahs().to_vec();
                all.push(Out { bhs, ahs, data: sink.0, is_intact });
            }
        }
    }
}

#[test]
fn a_header_is_given_before_its_data_and_again_until_there_is_room() {
    let pdu = wire(&LIMITS, 7, &[], &[9; 100]);
    let mut assembler = Assembler::<Place>::new();
    let (head, mut rest) = pdu.split_at(BHS_LEN_BYTES + DIGEST_LEN_BYTES);
    let mut bytes = head;
    for _ in 0..3 {
        let step = assembler.step(&mut bytes, &LIMITS, |_, _| true).unwrap();
        assert!(matches!(step, Step::Head(bhs) if bhs.itt() == 7), "{step:?}");
        assert!(bytes.is_empty());
    }
    assert_eq!(assembler.current(), Some(0));
    assembler.open(Place::default());
    assert_eq!(assembler.missing().unwrap().0, 0..100);
    let step = assembler.step(&mut rest, &LIMITS, |_, _| true).unwrap();
    assert!(
        matches!(step, Step::Done { is_intact: true, sink: Place(data), .. } if data == [9; 100])
    );
    assert_eq!(assembler.current(), None);
}

#[test]
fn an_opened_pdu_without_data_is_complete() {
    let pdu = wire(&LIMITS, 1, &[], &[]);
    let mut assembler = Assembler::<Place>::new();
    let mut bytes = &pdu[..];
    let step = assembler.step(&mut bytes, &LIMITS, |_, _| false).unwrap();
    assert!(matches!(step, Step::Head(_)));
    assert!(!assembler.is_complete());
    assembler.open(Place::default());
    assert!(assembler.is_complete());
    assert!(matches!(assembler.step(&mut bytes, &LIMITS, |_, _| true), Ok(Step::Done { .. })));
}

fn limits() -> impl Strategy<Value = FrameLimits> {
    (any::<bool>(), any::<bool>()).prop_map(|(header_digest, data_digest)| FrameLimits {
        header_digest,
        data_digest,
        ..LIMITS
    })
}

fn pdus() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let len = prop_oneof![Just(0_usize), 1..9_usize, 500..520_usize, 4000..9000_usize];
    let data = len.prop_flat_map(|len| proptest::collection::vec(any::<u8>(), len));
    proptest::collection::vec((0..=AHS_LEN_BYTES_MAX / 4, data), 1..6)
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        limits in limits(),
        pdus in pdus(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ways in proptest::collection::vec((any::<bool>(), 0..3_usize, any::<bool>()), 13),
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (tag, (words, data)) in pdus.iter().enumerate() {
            let ahs: Vec<u8> = (0..words * 4).map(|byte| byte as u8).collect();
            let pdu = wire(&limits, tag as u8, &ahs, data);
            let bhs = *Bhs::from_prefix(&pdu).unwrap();
            expected.push(Out { bhs, ahs, data: data.clone(), is_intact: true });
            stream.extend(pdu);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([stream.len()]);
        let mut assembler = Assembler::new();
        let (mut at, mut out) = (0, Vec::new());
        for (end, way) in ends.zip(ways) {
            out.extend(feed(&mut assembler, &limits, &stream[at..end], way).unwrap());
            prop_assert!(!assembler.is_complete());
            at = end;
        }
        prop_assert_eq!(out, expected);
        prop_assert_eq!(assembler.current(), None);
    }

    #[test]
    fn a_bit_that_flips_is_noticed(data in proptest::collection::vec(any::<u8>(), 1..600), bit: u32, may_lend: bool) {
        let mut pdu = wire(&LIMITS, 3, &[], &data);
        let right = pdu.clone();
        let bit = bit as usize % (pdu.len() * 8);
        pdu[bit / 8] ^= 1 << (bit % 8);
        match feed(&mut Assembler::new(), &LIMITS, &pdu, (may_lend, 0, false)) {
            // What a damaged length leaves open is taken for nothing.
            Err(_) => prop_assert!(bit / 8 < BHS_LEN_BYTES + DIGEST_LEN_BYTES),
            Ok(out) if out.is_empty() => prop_assert!(bit / 8 < 8, "bit {}", bit),
            Ok(out) => {
                prop_assert!(!out[0].is_intact);
                prop_assert_eq!(&out[0].bhs.bytes()[..], &right[..BHS_LEN_BYTES]);
            }
        }
    }

    #[test]
    fn any_bytes_give_pdus_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..4000), limits in limits()) {
        let whole = feed(&mut Assembler::new(), &limits, &bytes, (true, 0, false));
        let mut assembler = Assembler::new();
        let mut out = Vec::new();
        let mut end = None;
        for byte in bytes.chunks(1) {
            match feed(&mut assembler, &limits, byte, (false, 1, false)) {
                Ok(more) => out.extend(more),
                Err(error) => { end = Some(error); break }
            }
        }
        match whole {
            Ok(whole) => prop_assert_eq!((whole, None), (out, end)),
            Err(error) => prop_assert_eq!(Some(error), end),
        }
    }
}
