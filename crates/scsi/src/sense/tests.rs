use super::additional::KNOWN;
use super::*;
use proptest::prelude::*;

#[test]
fn fixed_format_places_every_field() {
    let sense = Sense::invalid_field_in_cdb(0x0102, Some(5)).with_information(0xdead_beef);
    let bytes = sense.to_bytes(false);
    assert_eq!(
        bytes[..],
        [0xf0, 0, 5, 0xde, 0xad, 0xbe, 0xef, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcd, 0x01, 0x02]
    );
}

#[test]
fn descriptor_format_places_every_field() {
    let sense = Sense::invalid_field_in_parameter_list(7, None)
        .with_information(0x1_0000_0000)
        .with_command_specific(9);
    let bytes = sense.to_bytes(true);
    assert_eq!(bytes[..8], [0x72, 5, 0x26, 0, 0, 0, 0, 32]);
    assert_eq!(bytes[8..20], [0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(bytes[20..32], [1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(bytes[32..], [2, 6, 0, 0, 0x80, 0, 7, 0]);
}

#[test]
fn information_beyond_32_bits_leaves_fixed_format_invalid() {
    let bytes = Sense::medium_error_read(1 << 32).to_bytes(false);
    assert_eq!(bytes[0], 0x70);
    assert_eq!(bytes[3..7], [0; 4]);
    let bytes = Sense::medium_error_read((1 << 32) - 1).to_bytes(false);
    assert_eq!(bytes[0], 0xf0);
}

#[test]
fn progress_is_told_in_both_formats() {
    let sense = Sense::not_ready_sanitizing(0x8000);
    assert_eq!(sense.to_bytes(false)[15..18], [0x80, 0x80, 0]);
    assert_eq!(sense.to_bytes(true)[8..], [2, 6, 0, 0, 0x80, 0x80, 0, 0]);
}

#[test]
fn what_is_not_sense_data_is_refused() {
    assert_eq!(Sense::parse(&[]), Err(ParseError::Truncated(0)));
    assert_eq!(Sense::parse(&[0x7f; 20]), Err(ParseError::ResponseCode(0x7f)));
    assert_eq!(Sense::parse(&[0x72, 5, 0]), Err(ParseError::Truncated(3)));
    assert_eq!(Sense::parse(&[0x70, 0]), Err(ParseError::Truncated(2)));
}

#[test]
fn every_known_code_has_one_name() {
    let mut names: Vec<_> = KNOWN.iter().map(|code| code.name().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(AdditionalSense { asc: 0xff, ascq: 0xff }.name(), None);
}

fn any_sense() -> impl Strategy<Value = Sense> {
    let specific = prop_oneof![
        Just((None, None)),
        (any::<bool>(), any::<u16>(), proptest::option::of(0u8..8))
            .prop_map(|(in_cdb, byte, bit)| (Some(FieldPointer { in_cdb, byte, bit }), None)),
        any::<u16>().prop_map(|progress| (None, Some(progress))),
    ];
    (
        any::<u8>(),
        any::<(u8, u8)>(),
        proptest::option::of(any::<u64>()),
        proptest::option::of(1..u64::MAX),
        specific,
        any::<bool>(),
    )
        .prop_map(
            |(key, (asc, ascq), information, command_specific, (field, progress), deferred)| {
                // The key decides how the sense key specific bytes are read.
                let key = match (field, progress) {
                    (Some(_), _) => SenseKey::IllegalRequest,
                    (_, Some(_)) => SenseKey::NotReady,
                    _ => SenseKey::from_code(key),
                };
                let additional = AdditionalSense { asc, ascq };
                Sense { key, additional, information, command_specific, field, progress, deferred }
            },
        )
}

proptest! {
    #[test]
    fn descriptor_format_round_trips(sense in any_sense()) {
        prop_assert_eq!(Sense::parse(&sense.to_bytes(true)), Ok(sense));
    }

    #[test]
    fn fixed_format_round_trips_what_fits(mut sense in any_sense()) {
        let parsed = Sense::parse(&sense.to_bytes(false));
        sense.information = sense.information.filter(|&v| v <= u64::from(u32::MAX));
        sense.command_specific = sense.command_specific.filter(|&v| v <= u64::from(u32::MAX));
        prop_assert_eq!(parsed, Ok(sense));
    }

    #[test]
    fn parsing_takes_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Sense::parse(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = 0x70 | (*first & 0x83);
            let _ = Sense::parse(&bytes);
        }
    }
}
