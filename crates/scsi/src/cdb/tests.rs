use super::*;
use proptest::prelude::*;

fn command(cdb: &[u8]) -> Command {
    decode(cdb).unwrap_or_else(|sense| panic!("{cdb:02x?}: {sense:?}")).1
}

fn refusal(cdb: &[u8]) -> Sense {
    decode(cdb).expect_err("must be refused")
}

#[test]
fn rows_are_sorted_and_unique() {
    let keys: Vec<_> = commands().iter().map(|row| (row.opcode, row.service_action)).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
}

#[test]
fn cdb_length_follows_the_group_code() {
    for row in commands() {
        let expected = match row.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            group => panic!("{}: no length for group {group}", row.name),
        };
        assert_eq!(row.cdb_bytes, expected, "{}", row.name);
    }
}

#[test]
fn range_layouts_of_reads() {
    let read =
        |lba, blocks, dpo, fua| Command::Read { range: BlockRange { lba, blocks }, dpo, fua };
    assert_eq!(command(&[8, 0x1f, 0xff, 0xfe, 0, 0]), read(0x1f_fffe, 256, false, false));
    assert_eq!(command(&[8, 0, 0, 1, 7, 0]), read(1, 7, false, false));
    assert_eq!(
        command(&[0x28, 0x10, 1, 2, 3, 4, 0, 5, 6, 0]),
        read(0x0102_0304, 0x0506, true, false)
    );
    assert_eq!(
        command(&[0xa8, 0x08, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]),
        read(0x0102_0304, 0x0506_0708, false, true)
    );
    assert_eq!(
        command(&[0x88, 0x18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]),
        read(0x0102_0304_0506_0708, 0x090a_0b0c, true, true)
    );
}

#[test]
fn copies_are_asked_about_by_short_and_long_identifiers() {
    let results = |action| {
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&[0x84, action]);
        cdb[10..14].copy_from_slice(&[0, 0, 1, 0]);
        cdb
    };
    let allocation_bytes = 256;
    let mut short = results(0x00);
    short[2] = 7;
    assert_eq!(command(&short), Command::ReceiveCopyStatus { list_id: 7, allocation_bytes });
    let mut long = results(0x05);
    long[2..6].copy_from_slice(&[1, 2, 3, 4]);
    let list_id = 0x0102_0304;
    assert_eq!(command(&long), Command::ReceiveCopyStatusLid4 { list_id, allocation_bytes });
    long[1] = 0x07;
    let information = Command::ReceiveRodTokenInformation { list_id, allocation_bytes };
    assert_eq!(command(&long), information);
}

#[test]
fn padding_after_a_short_cdb_is_not_looked_at() {
    let mut cdb = [0xee; 16];
    cdb[..6].fill(0);
    assert_eq!(command(&cdb), Command::TestUnitReady);
}

#[test]
fn refusals_point_at_the_field() {
    // Unknown operation code, empty CDB, unknown service action.
    assert_eq!(refusal(&[0xff; 16]), Sense::invalid_opcode());
    assert_eq!(refusal(&[]), Sense::invalid_opcode());
    let mut unknown_action = [0; 16];
    unknown_action[..2].copy_from_slice(&[0x9e, 0x1f]);
    assert_eq!(refusal(&unknown_action), Sense::invalid_field_in_cdb(1, Some(4)));
    // NACA, a reserved bit, RDPROTECT as one field, a reserved BYTCHK.
    assert_eq!(refusal(&[0, 0, 0, 0, 0, 4]), Sense::invalid_field_in_cdb(5, Some(2)));
    assert_eq!(refusal(&[0, 0, 0x20, 0, 0, 0]), Sense::invalid_field_in_cdb(2, Some(5)));
    let read = [0x28, 0x20, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(refusal(&read), Sense::invalid_field_in_cdb(1, Some(7)));
    let verify = [0x2f, 0x04, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(refusal(&verify), Sense::invalid_field_in_cdb(1, Some(2)));
    let write_verify = [0x2e, 0x06, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(refusal(&write_verify), Sense::invalid_field_in_cdb(1, Some(2)));
    // A page code without EVPD, ANCHOR without UNMAP, a CDB cut short.
    assert_eq!(refusal(&[0x12, 0, 0x80, 0, 96, 0]), Sense::invalid_field_in_cdb(2, None));
    let same = [0x41, 0x10, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(refusal(&same), Sense::invalid_field_in_cdb(1, Some(4)));
    assert_eq!(refusal(&[0x28, 0, 0, 0]), Sense::invalid_field_in_cdb(4, None));
}

#[test]
fn eject_and_power_conditions_but_active_are_refused() {
    let active = [0x1b, 1, 0, 0, 0x12, 0];
    let start = Command::StartStopUnit { immediate: true, no_flush: false, start: true };
    assert_eq!(command(&active), start);

    assert_eq!(refusal(&[0x1b, 0, 0, 0, 0x02, 0]), Sense::invalid_field_in_cdb(4, Some(1)));
    assert_eq!(refusal(&[0x1b, 0, 0, 0, 0x21, 0]), Sense::invalid_field_in_cdb(4, Some(7)));
}

#[test]
fn a_group_number_is_ignored() {
    let cdb = [0x34, 0, 0, 0, 0, 0, 3, 0, 1, 0];
    let range = BlockRange { lba: 0, blocks: 1 };
    assert_eq!(command(&cdb), Command::PreFetch { range, immediate: false });
}

#[test]
fn announced_data_out() {
    let at = |cdb: &[u8]| command(cdb).data_out_bytes(512);
    let mut caw = [0; 16];
    (caw[0], caw[13]) = (0x89, 2);
    assert_eq!(at(&caw), 2048);
    assert_eq!(at(&[0x2f, 0x02, 0, 0, 0, 0, 0, 0, 3, 0]), 3 * 512);
    assert_eq!(at(&[0x2f, 0x06, 0, 0, 0, 0, 0, 0, 3, 0]), 512);
    assert_eq!(at(&[0x2f, 0x06, 0, 0, 0, 0, 0, 0, 0, 0]), 0);
    assert_eq!(at(&[0x2f, 0x00, 0, 0, 0, 0, 0, 0, 3, 0]), 0);
    assert_eq!(at(&[0x41, 0, 0, 0, 0, 0, 0, 0, 9, 0]), 512);
    assert_eq!(at(&[0x15, 0x10, 0, 0, 24, 0]), 24);
    assert_eq!(command(&[0x28, 0, 0, 0, 0, 0, 0, 0, 3, 0]).data_in_bytes_max(4096), 12288);
}

#[test]
fn access_depends_on_fields_where_the_standard_says_so() {
    let access = |cdb: &[u8]| {
        let (spec, command) = decode(cdb).unwrap();
        command.access(spec.access)
    };
    assert_eq!(access(&[0x1b, 0, 0, 0, 1, 0]), AccessClass::AlwaysPersistent);
    assert_eq!(access(&[0x1b, 0, 0, 0, 0, 0]), AccessClass::Write);
    assert_eq!(access(&[0x1e, 0, 0, 0, 0, 0]), AccessClass::Always);
    assert_eq!(access(&[0x1e, 0, 0, 0, 1, 0]), AccessClass::Write);
    assert_eq!(access(&[0x2f, 0, 0, 0, 0, 0, 0, 0, 1, 0]), AccessClass::Read);
}

fn request(options: u8, opcode: u8, service_action: u16, timeouts: bool) -> ReportSupportedOpcodes {
    ReportSupportedOpcodes { timeouts, options, opcode, service_action, allocation_bytes: 4096 }
}

fn report(request: &ReportSupportedOpcodes) -> Result<Vec<u8>, Sense> {
    supported::report_opcodes(request, |_| true)
}

#[test]
fn what_a_unit_lacks_is_not_reported() {
    let without_unmap = |request| {
        supported::report_opcodes(&request, |row: &CommandSpec| row.opcode != 0x42).unwrap()
    };
    assert_eq!(without_unmap(request(1, 0x42, 0, false)), [0, 1, 0, 0]);
    let all = without_unmap(request(0, 0, 0, false));
    assert_eq!(all.len(), 4 + (commands().len() - 1) * 8);
}

#[test]
fn all_commands_list_every_row_with_its_length() {
    for timeouts in [false, true] {
        let data = report(&request(0, 0, 0, timeouts)).unwrap();
        let descriptor_bytes = if timeouts { 20 } else { 8 };
        assert_eq!(data.len(), 4 + commands().len() * descriptor_bytes);
        assert_eq!(data[..4], ((data.len() - 4) as u32).to_be_bytes());
        for (row, descriptor) in commands().iter().zip(data[4..].chunks(descriptor_bytes)) {
            assert_eq!(descriptor[0], row.opcode);
            assert_eq!(descriptor[5] & 1 != 0, row.service_action.is_some());
            assert_eq!(descriptor[5] & 2 != 0, timeouts);
            assert_eq!(descriptor[7], row.cdb_bytes);
        }
    }
}

#[test]
fn one_command_report_gives_the_usage_bitmap() {
    let data = report(&request(1, 0x28, 0, false)).unwrap();
    assert_eq!(data, [0, 3, 0, 10, 0x28, 0x18, 255, 255, 255, 255, 0, 255, 255, 0]);
    let data = report(&request(2, 0x9e, 0x10, true)).unwrap();
    assert_eq!(data[..6], [0, 0x83, 0, 16, 0x9e, 0x10]);
    assert_eq!(data[20..22], [0, 10]);
    let unsupported = [0, 1, 0, 0];
    assert_eq!(report(&request(1, 0xc0, 0, true)).unwrap(), unsupported);
    assert_eq!(report(&request(3, 0x28, 1, false)).unwrap(), unsupported);
    assert_eq!(report(&request(2, 0x48, 3, false)).unwrap(), unsupported);
    let wrong = Err(Sense::invalid_field_in_cdb(2, Some(2)));
    assert_eq!(report(&request(1, 0x9e, 0, false)), wrong);
    assert_eq!(report(&request(2, 0x28, 0, false)), wrong);
    assert_eq!(report(&request(4, 0x28, 0, false)), wrong);
}

#[test]
fn markdown_has_one_line_per_command() {
    let table = table_markdown();
    assert_eq!(table.lines().count(), commands().len() + 2);
    assert!(table.contains("| 9Eh/10h | READ CAPACITY(16) | 16 | in | logical unit | always |"));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(cdb in proptest::collection::vec(any::<u8>(), 0..20)) {
        if let Ok((spec, _)) = decode(&cdb) {
            prop_assert_eq!(spec.opcode, cdb[0]);
        }
    }

    /// Starts from a CDB inside a row's usage bitmap, then sets one bit outside it: the refusal
    /// must name that bit. So the bitmap that is reported is the bitmap that is enforced.
    #[test]
    fn the_reported_bitmap_is_the_enforced_one(
        row in 0..commands().len(),
        noise in any::<[u8; 16]>(),
        byte in 1usize..16,
        bit in 0u8..8,
    ) {
        let spec = &commands()[row];
        let opcode = spec.opcode;
        let action = u16::from(spec.service_action.unwrap_or(0));
        let data = report(&request(3, opcode, action, false)).unwrap();
        let usage = &data[4..];
        prop_assert_eq!(usage.len(), usize::from(spec.cdb_bytes));
        let mut cdb: Vec<u8> = usage.iter().zip(noise).map(|(mask, noise)| mask & noise).collect();
        cdb[0] = opcode;
        if spec.service_action.is_some() {
            cdb[1] = cdb[1] & !0x1f | usage[1] & 0x1f;
        }
        if let Err(sense) = decode(&cdb) {
            // Inside the bitmap only a value can be wrong, never a reserved bit.
            prop_assert_eq!(sense.additional, crate::AdditionalSense::INVALID_FIELD_IN_CDB);
            let at = sense.field.unwrap();
            prop_assert!(usage[usize::from(at.byte)] != 0);
        } else {
            prop_assert_eq!(decode(&cdb).unwrap().0.name, spec.name);
        }
        let byte = byte % cdb.len();
        let group_number = spec.ignored.to_be_bytes()[byte] & 1 << bit != 0;
        if group_number {
            let before = decode(&cdb);
            cdb[byte] |= 1 << bit;
            prop_assert_eq!(before.map(|found| found.1), decode(&cdb).map(|found| found.1));
            return Ok(());
        }
        let is_action = spec.service_action.is_some() && byte == 1 && bit < 5;
        if byte > 0 && usage[byte] & 1 << bit == 0 && !is_action {
            cdb[byte] |= 1 << bit;
            let at = decode(&cdb).unwrap_err().field.unwrap();
            prop_assert_eq!(usize::from(at.byte), byte);
            prop_assert!(at.bit == Some(bit) || byte == 1 && bit >= 5 && at.bit == Some(7));
        }
    }
}
