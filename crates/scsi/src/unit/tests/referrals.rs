//! A unit that lies on several members tells which port groups lead best to which blocks.

use super::*;
use crate::referrals::{GroupAccess, ReferralMap, Segment, parse_report};

fn map(owners: &[u16]) -> Arc<ReferralMap> {
    let segment = |(n, &owner): (usize, &u16)| Segment {
        first_lba: n as u64 * 100,
        last_lba: n as u64 * 100 + 99,
        groups: vec![GroupAccess::new(owner, AccessState::ActiveOptimized)],
    };
    Arc::new(ReferralMap::new(owners.iter().enumerate().map(segment).collect()).unwrap())
}

fn report(lba: u8, flags: u8) -> [u8; 16] {
    [0x9e, 0x13, 0, 0, 0, 0, 0, 0, 0, lba, 0, 0, 4, 0, flags, 0]
}

#[test]
fn a_unit_without_referrals_knows_nothing_of_them() {
    let bench = Bench::new();
    let host = bench.host(1, 1);
    let refused = Outcome::check(Sense::invalid_field_in_cdb(1, Some(4)));
    assert_eq!(bench.send(&host, &report(0, 0)), refused);
    assert_eq!(bench.send(&host, &[0x12, 1, 0xb3, 0, 64, 0]).status, Status::CheckCondition);
    assert_eq!(bench.send(&host, &[0x12, 1, 0x86, 0, 64, 0]).data_in[8], 0);
}

#[test]
fn a_change_of_the_map_is_told_to_every_nexus_once() {
    let bench = Bench::with(UnitConfig { referrals: Some(map(&[1, 2])), ..config() });
    let (one, two) = (bench.host(1, 1), bench.host(2, 2));
    assert_eq!(bench.send(&one, &[0x12, 1, 0xb3, 0, 64, 0]).data_in[..4], [0, 0xb3, 0, 12]);
    assert_eq!(bench.send(&one, &[0x12, 1, 0x86, 0, 64, 0]).data_in[8], 0x10);
    let owners = |outcome: Outcome| -> Vec<u16> {
        parse_report(&outcome.data_in).iter().map(|it| it.groups[0].group).collect()
    };
    assert_eq!(owners(bench.send(&one, &report(0, 0))), [1, 2]);
    assert_eq!(owners(bench.send(&one, &report(150, 1))), [2]);
    bench.unit.set_referrals(map(&[1, 2]));
    assert_eq!(attention(&bench.send(&one, &READ)), None, "nothing has changed");
    bench.unit.set_referrals(map(&[2, 2, 1]));
    for host in [&one, &two] {
        assert_eq!(attention(&bench.send(host, &READ)), Some((0x2a, 0x06)));
        assert_eq!(owners(bench.send(host, &report(0, 0))), [2, 2, 1]);
    }
    let past = bench.send(&one, &[0x9e, 0x13, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(past, Outcome::check(Sense::lba_out_of_range(1024)));
}
