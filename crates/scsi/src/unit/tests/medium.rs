//! Ranges, limits, and what a thick medium lacks.

use super::*;

#[test]
fn ranges_and_limits() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let send = |cdb: &[u8]| bench.send(&one, cdb);
    let ten = |opcode, flags, lba: u32, blocks: u16| {
        let [a, b, c, d] = lba.to_be_bytes();
        let [e, f] = blocks.to_be_bytes();
        [opcode, flags, a, b, c, d, 0, e, f, 0]
    };
    let sixteen = |opcode, flags, lba: u64, blocks: u32| {
        let mut cdb = vec![opcode, flags];
        cdb.extend(lba.to_be_bytes());
        cdb.extend(blocks.to_be_bytes());
        cdb.extend([0, 0]);
        cdb
    };
    let beyond = |lba| Outcome::check(Sense::lba_out_of_range(lba));
    let field = |byte, bit| Outcome::check(Sense::invalid_field_in_cdb(byte, bit));
    let good = Outcome::good();

    assert_eq!(send(&ten(0x28, 0, 999, 1)), good);
    assert_eq!(send(&ten(0x28, 0, 999, 2)), beyond(1000));
    assert_eq!(send(&ten(0x28, 0, 1000, 0)), good, "nothing at the very end");
    assert_eq!(send(&ten(0x28, 0, 1001, 0)), beyond(1001));
    assert_eq!(send(&sixteen(0x88, 0, u64::MAX, 1)), beyond(u64::MAX));
    // Zero is "to the end" here, and there must be a block to begin with.
    for opcode in [0x34, 0x35] {
        assert_eq!(send(&ten(opcode, 0, 999, 0)), good);
        assert_eq!(send(&ten(opcode, 0, 1000, 0)), beyond(1000));
    }
    // Not so in WRITE SAME: WSNZ = 1.
    assert_eq!(send(&ten(0x41, 0, 0, 0)), field(7, None));
    assert_eq!(send(&sixteen(0x93, 0, 0, 0)), field(10, None));
    assert_eq!(send(&ten(0x41, 0, 1000, 1)), beyond(1000));
    let range = crate::cdb::BlockRange { lba: 10, blocks: 0 };
    assert_eq!(bench.unit.blocks_to_end(range), Ok(990));

    let mut config = config();
    config.medium.limits = Limits {
        transfer_blocks_max: 8,
        write_same_blocks_max: 16,
        compare_blocks_max: 4,
        or_write_blocks_max: 3,
        atomic_blocks_max: 2,
        ..config.medium.limits
    };
    let bench = Bench::with(config);
    let one = bench.host(1, 1);
    let send = |cdb: &[u8]| bench.send(&one, cdb);
    assert_eq!(send(&ten(0x28, 0, 0, 8)), good);
    assert_eq!(send(&ten(0x28, 0, 0, 9)), field(7, None));
    assert_eq!(send(&[0x08, 0, 0, 0, 0, 0]), field(4, None), "256 blocks");
    assert_eq!(send(&[0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0]), field(6, None));
    assert_eq!(send(&sixteen(0x8f, 0, 0, 9)), field(10, None));
    assert_eq!(send(&sixteen(0x93, 0, 0, 17)), field(10, None));
    assert_eq!(send(&ten(0x41, 0, 0, 17)), field(7, None));
    assert_eq!(send(&sixteen(0x89, 0, 0, 5)), field(13, None));
    assert_eq!(send(&sixteen(0x8b, 0, 0, 4)), field(10, None), "ORWRITE is one atomic step");
    assert_eq!(send(&sixteen(0x8b, 0, 0, 3)), good);
    assert_eq!(send(&sixteen(0x9c, 0, 0, 3)), field(12, None));
    assert_eq!(send(&sixteen(0x9c, 0, 0, 2)), good);
    assert_eq!(send(&ten(0x41, 0x18, 0, 1)), field(1, Some(4)), "anchors are not supported");
    assert_eq!(send(&[0x42, 1, 0, 0, 0, 0, 0, 0, 0, 0]), field(1, Some(0)));
    let mut status = sixteen(0x9e, 0x12, 1000, 24);
    assert_eq!(send(&status), beyond(1000));
    status[9] -= 1;
    assert_eq!(send(&status), good);
}

#[test]
fn some_commands_take_exactly_their_data() {
    let bench = Bench::new();
    let cases = [
        // opcode, where the number of blocks ends, data blocks per block or in all, field
        (0x89, 13, 4, 13),
        (0x9c, 13, 2, 12),
        (0x8b, 13, 2, 10),
        (0x93, 13, 1, 10),
        (0x41, 8, 1, 7),
    ];
    for (opcode, count_at, data_blocks, field) in cases {
        let mut cdb = [0; 16];
        (cdb[0], cdb[count_at]) = (opcode, 2);
        let (spec, command) = crate::cdb::decode(&cdb).unwrap();
        let admit = |bytes| bench.unit.admit_data_out(spec, &command, bytes);
        let wrong = Err(Sense::invalid_field_in_cdb(field, None));
        assert_eq!(admit(data_blocks * 512), Ok(()), "{opcode:02x}");
        for bytes in [0, data_blocks * 512 - 1, (data_blocks + 1) * 512] {
            assert_eq!(admit(bytes), wrong, "{opcode:02x} with {bytes}");
        }
    }
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    let (spec, command) = crate::cdb::decode(&write).unwrap();
    assert_eq!(bench.unit.admit_data_out(spec, &command, 512), Ok(()), "a residual");
}

#[test]
fn a_thick_medium_has_no_provisioning_commands() {
    let mut config = config();
    config.medium.thin = false;
    config.medium.limits.atomic_blocks_max = 0;
    let bench = Bench::with(config);
    let one = bench.host(1, 1);
    let mut lba_status = [0; 16];
    (lba_status[0], lba_status[1]) = (0x9e, 0x12);
    let mut atomic = [0; 16];
    atomic[0] = 0x9c;
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let no_opcode = Outcome::check(Sense::invalid_opcode());
    let no_action = Outcome::check(Sense::invalid_field_in_cdb(1, Some(4)));
    assert_eq!(bench.send(&one, &unmap), no_opcode);
    assert_eq!(bench.send(&one, &atomic), no_opcode);
    assert_eq!(bench.send(&one, &lba_status), no_action);
    assert_eq!(bench.send(&one, &ERASE), no_action);
    let same = [0x41, 0x08, 0, 0, 0, 0, 0, 0, 1, 0];
    let refused = Outcome::check(Sense::invalid_field_in_cdb(1, Some(3)));
    assert_eq!(bench.send(&one, &same), refused);
    for (opcode, action) in [(0x42, 0), (0x9c, 0), (0x9e, 0x12), (0x48, 0x02)] {
        let report = [0xa3, 0x0c, 3, opcode, 0, action, 0, 0, 0, 255, 0, 0];
        assert_eq!(bench.send(&one, &report).data_in, [0, 1, 0, 0], "{opcode:02x}");
    }
}

#[test]
fn a_new_capacity_holds_at_once_and_every_nexus_is_told() {
    let bench = Bench::new();
    let (one, other) = (bench.host(1, 1), bench.host(2, 2));
    let last_lba = |nexus: &Arc<Nexus>| {
        let data = bench.send(nexus, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]).data_in;
        u32::from_be_bytes(data[..4].try_into().unwrap())
    };
    let read = |lba: u16| {
        let [a, b] = lba.to_be_bytes();
        bench.send(&one, &[0x28, 0, 0, 0, a, b, 0, 0, 1, 0])
    };
    assert_eq!(read(1000), Outcome::check(Sense::lba_out_of_range(1000)));

    bench.unit.resize(2000);
    for nexus in [&one, &other] {
        assert_eq!(attention(&bench.send(nexus, &[0; 6])), Some((0x2a, 0x09)));
        assert_eq!(last_lba(nexus), 1999);
    }
    assert_eq!(read(1999), Outcome::good());

    bench.unit.resize(2000);
    assert_eq!(read(1999), Outcome::good(), "nothing has changed, nobody is told");

    bench.unit.resize(1500);
    assert_eq!(attention(&read(1500)), Some((0x2a, 0x09)));
    assert_eq!(read(1500), Outcome::check(Sense::lba_out_of_range(1500)));
    let range = crate::cdb::BlockRange { lba: 1600, blocks: 0 };
    assert_eq!(bench.unit.blocks_to_end(range), Err(Sense::lba_out_of_range(1600)));
}
