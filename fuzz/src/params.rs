//! Parameter lists, and images of reservations: each parser against any bytes.

use super::cdb::{refusal, round_trip};
use super::input::Input;
use iscsi::digest::digest;
use scsi::alua::{AccessState, PortGroup, PortGroups};
use scsi::cdb::{ModeHeader, ModeSense, ProutAction};
use scsi::copy::{
    CopyTarget, Designator, ExtendedCopy, PopulateToken, RodToken, SEGMENTS_MAX, TOKEN_RANGES_MAX,
    TokenContents, TokenRange, TokenRegistry, TokenSource, WriteUsingToken,
};
use scsi::mode::ModePages;
use scsi::nexus::NexusKey;
use scsi::param::{Overwrite, parse_unmap};
use scsi::reservation::{PersistentOut, Ports, Reservations, TransportId};
use scsi::unit::MediumInfo;
use scsi::{Sense, decode};
use std::time::Duration;

const BLOCK_BYTES: u32 = 512;
const BLOCKS: u64 = 1000;

/// Which parser, then its bytes.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    match input.byte() % 12 {
        0 => unmap(input.rest()),
        1 => overwrite(input.rest()),
        2 => extended_copy(input.rest()),
        3 => populate_token(input.rest()),
        4 => write_using_token(input.rest()),
        5 => mode_select(input),
        6 => port_groups(input),
        7 => transport_id(input.rest()),
        8 => image(input.rest()),
        9 => sealed_image(input.rest()),
        10 => persistent_out(input),
        _ => sense(input.rest()),
    }
}

fn medium() -> MediumInfo {
    MediumInfo::new(BLOCK_BYTES, BLOCKS)
}

fn unmap(list: &[u8]) {
    match parse_unmap(list, &medium()) {
        Ok(ranges) => {
            assert!(ranges.len() <= medium().limits.unmap_descriptors_max as usize);
            assert!(ranges.iter().all(|range| medium().check_range(*range).is_ok()));
            assert!(ranges.iter().all(|range| range.blocks > 0));
        }
        Err(sense) => round_trip(&sense),
    }
}

fn overwrite(list: &[u8]) {
    match Overwrite::parse(list, BLOCK_BYTES) {
        Ok(Overwrite { pattern, passes, .. }) => {
            assert!((1..=31).contains(&passes));
            assert!((1..=BLOCK_BYTES as usize).contains(&pattern.len()));
        }
        Err(sense) => round_trip(&sense),
    }
}

fn extended_copy(list: &[u8]) {
    match ExtendedCopy::parse(list) {
        Ok(copy) => {
            assert!(copy.segments.len() <= SEGMENTS_MAX);
            for (index, segment) in copy.segments.iter().enumerate() {
                let block_bytes = |target| match target {
                    CopyTarget::ThisUnit => BLOCK_BYTES,
                    CopyTarget::Named(cscd) => cscd.block_bytes.max(BLOCK_BYTES),
                };
                let (from, to) = (block_bytes(segment.source), block_bytes(segment.destination));
                if let Err(sense) = segment.length_bytes(index, from, to) {
                    round_trip(&sense);
                }
            }
        }
        Err(sense) => round_trip(&sense),
    }
}

/// Ranges that were taken lie on the medium, do not overlap, and are not too many.
fn check_ranges(ranges: &[TokenRange], blocks: u64) {
    assert!(ranges.len() <= TOKEN_RANGES_MAX);
    assert_eq!(ranges.iter().map(|range| u64::from(range.blocks)).sum::<u64>(), blocks);
    let mut ranges: Vec<_> = ranges.iter().filter(|range| range.blocks > 0).collect();
    ranges.sort_by_key(|range| range.lba);
    let mut end = 0;
    for range in ranges {
        assert!(range.lba >= end, "no block twice");
        end = range.lba + u64::from(range.blocks);
    }
    assert!(end <= BLOCKS);
}

fn source() -> TokenSource<'static> {
    let unit = Designator::naa(&[0x60; 16]);
    TokenSource { unit, target_name: "iqn.2026-11.dev.drystone:export", block_bytes: BLOCK_BYTES }
}

fn populate_token(list: &[u8]) {
    let request = match PopulateToken::parse(list, BLOCK_BYTES, BLOCKS) {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(sense) => return round_trip(&sense),
    };
    check_ranges(&request.ranges, request.blocks());
    let mut registry = TokenRegistry::new();
    let token = registry.create((1, ()), &source(), &request, Duration::ZERO, &[7; 256]);
    let token = token.expect("the first of many");
    let found = registry.resolve(token.bytes(), Duration::ZERO);
    let ranges = &request.ranges[..];
    let expected = TokenContents { block_bytes: BLOCK_BYTES, ranges };
    assert!(found.is_err() || found == Ok(expected));
}

/// Only a token that we made names blocks.
fn write_using_token(list: &[u8]) {
    let request = match WriteUsingToken::parse(list, BLOCK_BYTES, BLOCKS) {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(sense) => return round_trip(&sense),
    };
    check_ranges(&request.ranges, request.blocks());
    let mut registry = TokenRegistry::new();
    let ranges = vec![TokenRange { lba: 0, blocks: 8 }];
    let made = PopulateToken { immediate: false, inactivity_timeout_s: 30, ranges };
    let token = registry.create((1, ()), &source(), &made, Duration::ZERO, &[7; 256]);
    let token = token.expect("the first of many");
    if let Err(sense) = RodToken::kind_of(&request.token) {
        round_trip(&sense);
    }
    match registry.resolve(&request.token, Duration::from_secs(1)) {
        Ok(_) => assert_eq!(token.bytes(), &*request.token),
        Err(sense) => round_trip(&sense),
    }
    registry.delete(&request.token);
}

/// A list is applied as a whole or not at all; what MODE SENSE says can be selected.
fn mode_select(mut input: Input<'_>) {
    let header = if input.byte() & 1 == 0 { ModeHeader::Long } else { ModeHeader::Short };
    let mut pages = ModePages::new(true);
    while !input.is_empty() {
        let before = pages.clone();
        match pages.select(header, input.byte() & 1 == 0, input.chunk(), &medium()) {
            Ok(changed) => assert_eq!(changed, pages != before),
            Err(sense) => {
                assert_eq!(pages, before);
                round_trip(&sense);
            }
        }
    }
    let all = ModeSense {
        header,
        disable_block_descriptors: false,
        long_lba_accepted: false,
        page_control: 0,
        page: 0x3f,
        subpage: 0,
        allocation_bytes: 4096,
    };
    let mut said = pages.sense(&all, &medium()).expect("all pages can be shown");
    // MODE DATA LENGTH is reserved in MODE SELECT, and so is the device-specific parameter.
    match header {
        ModeHeader::Short => said[..3].fill(0),
        ModeHeader::Long => said[..4].fill(0),
    }
    assert_eq!(pages.select(header, true, &said, &medium()), Ok(false));
}

fn port_groups(mut input: Input<'_>) {
    let explicit = input.byte() & 1 == 0;
    let group = |id, port| PortGroup::new(id, AccessState::ActiveOptimized, vec![port]);
    let groups = PortGroups::new(vec![group(1, 1), group(2, 2)], explicit, 0);
    let mut groups = groups.expect("each port is in one group");
    while !input.is_empty() {
        let before = groups.clone();
        match groups.set_explicit(input.chunk()) {
            Ok(changed) => {
                assert!(explicit);
                assert_eq!(changed.groups.is_empty(), groups == before);
            }
            Err(sense) => {
                assert_eq!(groups, before, "a refusal changes nothing");
                round_trip(&sense);
            }
        }
    }
    let report = groups.report(true);
    assert_eq!(report[..4], (report.len() as u32 - 4).to_be_bytes());
}

fn transport_id(bytes: &[u8]) {
    match TransportId::parse(bytes) {
        Ok((id, len_bytes)) => {
            assert!(len_bytes <= bytes.len());
            let mut emitted = Vec::new();
            id.emit(&mut emitted);
            assert_eq!(TransportId::parse(&emitted), Ok((id, emitted.len())));
        }
        Err(bad) => assert!(bad.byte <= bytes.len()),
    }
}

fn image(image: &[u8]) {
    if let Ok(mut known) = Reservations::from_bytes(image) {
        let again = Reservations::from_bytes(&known.to_bytes());
        assert_eq!(again.as_ref(), Ok(&known));
        known.power_on();
        assert!(Reservations::from_bytes(&known.to_bytes()).is_ok());
    }
}

/// As a disk that lies consistently would have it: the checksum is right.
fn sealed_image(body: &[u8]) {
    let mut sealed = body.to_vec();
    let [a, b, c, d] = digest(body);
    sealed.extend([d, c, b, a]);
    image(&sealed);
}

/// Any PERSISTENT RESERVE OUT from three nexuses, by its CDB.
fn persistent_out(mut input: Input<'_>) {
    let nexus = |n: u8| NexusKey::new("iqn.x:host", [0x80, 0, 0, 0, 0, n], 1 + u16::from(n & 1));
    let known = [nexus(0), nexus(1), nexus(2)];
    let ports = Ports { target_ports: &[1, 2], nexuses: &known };
    let mut state = Reservations::new();
    while !input.is_empty() {
        let flags = input.byte();
        let (action, kind) = (flags & 7, input.byte());
        let parameters = input.chunk();
        let Some(action) = action_of(action) else { continue };
        let list_bytes = parameters.len() as u32;
        let out =
            PersistentOut { action, scope: kind >> 4, kind: kind & 15, list_bytes, parameters };
        let before = state.clone();
        match state.persistent_out(&known[usize::from(flags >> 3) % 3], &out, &ports) {
            Ok(effects) => assert!(effects.changed || state == before),
            Err(refused) => {
                assert!(state == before, "a refusal changes nothing");
                refusal(refused);
            }
        }
        image(&state.to_bytes());
        if flags & 0xc0 == 0xc0 {
            state.power_on();
        }
    }
}

/// As the decoder names the service actions.
fn action_of(code: u8) -> Option<ProutAction> {
    let cdb = [0x5f, code, 0, 0, 0, 0, 0, 0, 24, 0];
    match decode(&cdb) {
        Ok((_, scsi::Command::PersistentReserveOut { action, .. })) => Some(action),
        _ => None,
    }
}

fn sense(bytes: &[u8]) {
    if let Ok(sense) = Sense::parse(bytes) {
        let again = Sense::parse(&sense.to_bytes(true)).expect("sense data of our own");
        assert_eq!((again.key, again.additional), (sense.key, sense.additional));
        assert_eq!(again.information, sense.information);
    }
}
