//! Batches and records as bytes.

use proptest::prelude::*;

use super::super::batch::{Batch, HEAD_BYTES, Head};
use super::*;
use crate::journal::Changed;
use crate::wire::put;
use crate::{CLUSTER_BLOCKS, Epoch, Level, Place, SetId, crc32c};

pub(super) fn any_record() -> impl Strategy<Value = Record> {
    let placed =
        (any::<u32>(), any::<u64>(), 1_u32.., any::<u32>(), any::<[u32; CLUSTER_BLOCKS]>());
    let placed = placed.prop_map(|(volume, cluster, set, slot, crcs)| Placed {
        volume: VersionId(volume),
        cluster,
        place: Place::new(SetId(set), slot),
        crcs,
    });
    let taken = (any::<u32>(), any::<u32>(), "[a-z]{0,63}").prop_map(|(volume, snapshot, name)| {
        Taken { volume: VersionId(volume), snapshot: VersionId(snapshot), name }
    });
    let level = proptest::option::of(proptest::sample::select(&Level::ALL[..]));
    prop_oneof![
        (any::<u32>(), any::<u64>(), 1_u16..20).prop_map(|(v, block, blocks)| Record::Data {
            volume: VersionId(v),
            block,
            blocks
        }),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(v, block, blocks)| Record::Zero {
            volume: VersionId(v),
            block,
            blocks
        }),
        proptest::collection::vec(placed, 0..60).prop_map(|clusters| Record::Map { clusters }),
        (any::<u32>(), any::<u64>(), proptest::collection::vec(taken, 0..20)).prop_map(
            |(epoch, unix_seconds, taken)| Record::Snapshot {
                epoch: Epoch(epoch),
                unix_seconds,
                taken
            }
        ),
        (any::<u32>(), level, proptest::collection::vec((any::<u16>(), any::<u32>()), 0..10))
            .prop_map(|(id, level, members)| Record::NewSet {
                id: SetId(id),
                level,
                members: members.into_iter().map(|(disk, chunk)| (DiskId(disk), chunk)).collect(),
            }),
        (
            any::<u64>(),
            proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u16>()), 0..99),
            proptest::collection::vec((any::<u8>(), any::<u32>()), 0..16)
        )
            .prop_map(|(checkpoint, stripes, crcs)| Record::Written {
                checkpoint,
                changed: stripes
                    .iter()
                    .map(|(set, stripe, mask)| Changed {
                        set: SetId(*set),
                        stripe: *stripe,
                        column: *mask as u8,
                        crcs: crcs.clone(),
                    })
                    .collect(),
                stripes: stripes.into_iter().map(|(set, s, mask)| (SetId(set), s, mask)).collect(),
            }),
    ]
}

/// A whole batch at `start`.
fn image(start: u64, records: &[Record]) -> Vec<u8> {
    let mut batch = Batch::new(9, Mark { position: start, sequence: 7 });
    let mut body = Vec::new();
    for record in records {
        let bytes = vec![0x3c; (record.payload_blocks() * BLOCK) as usize];
        batch.payload.update(&bytes);
        batch.payload_blocks += record.payload_blocks();
        batch.encoded.extend(record.encode());
        batch.records += 1;
        body.extend(bytes);
    }
    let (first, behind) = batch.encode(ARRAY, 0);
    [first, body, behind].concat()
}

fn parse(bytes: &[u8]) -> Option<(Head, Vec<Record>)> {
    let head = Head::decode(bytes.get(..BLOCK_BYTES)?, ARRAY)?;
    let bytes = bytes.get(..(head.blocks * BLOCK) as usize)?;
    let mut records = Vec::new();
    let sound =
        head.is_whole(bytes) && head.each_record(0, bytes, &mut |record, _| records.push(record));
    sound.then_some((head, records))
}

#[test]
fn no_flipped_bit_passes() {
    let mut bytes = image(
        8192,
        &[
            data(3, 2),
            zero(8),
            Record::Written {
                checkpoint: 1,
                stripes: (0..2000).map(|stripe| (SetId(1), stripe, 3)).collect(),
                changed: vec![Changed { set: SetId(1), stripe: 7, column: 1, crcs: vec![(3, 4)] }],
            },
        ],
    );
    assert!(parse(&bytes).is_some());
    let bits = bytes.len() * 8;
    for bit in (0..4096 * 8).chain((4096 * 8..bits).step_by(61)).chain(bits - 8..bits) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&bytes).is_none(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_batch_is_of_one_array() {
    let bytes = image(8192, &[zero(8)]);
    assert!(Head::decode(&bytes, ArrayId([6; 16])).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_survive_the_trip(records in proptest::collection::vec(any_record(), 1..6)) {
        let bytes = image(40960, &records);
        let (head, found) = parse(&bytes).unwrap();
        prop_assert_eq!((head.start, head.sequence, head.previous), (40960, 9, 7));
        prop_assert_eq!(head.end().position, 40960 + bytes.len() as u64);
        prop_assert_eq!(found, records);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        fields in proptest::collection::vec(any::<u8>(), 56),
        small in proptest::array::uniform5(0_u8..4),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        // A head with right checksums over fields and records that nobody wrote.
        let mut bytes = image(0, &[zero(1)]);
        bytes.resize(BATCH_BLOCKS_MAX as usize * BLOCK_BYTES, 7);
        put(&mut bytes, 24, &fields);
        for (field, value) in small.iter().enumerate() {
            put(&mut bytes, 56 + field * 4, &u32::from(*value).to_le_bytes());
        }
        put(&mut bytes, 64, &(body.len() as u32).to_le_bytes());
        put(&mut bytes, HEAD_BYTES, &body);
        let records = crc32c(&bytes[HEAD_BYTES..BLOCK_BYTES]);
        put(&mut bytes, 80, &records.to_le_bytes());
        let payload = usize::from(small[1]) * BLOCK_BYTES;
        let crc = crc32c(&bytes[BLOCK_BYTES..BLOCK_BYTES + payload]);
        put(&mut bytes, 76, &crc.to_le_bytes());
        let crc = crc32c(&bytes[..92]);
        put(&mut bytes, 92, &crc.to_le_bytes());
        let _ = parse(&bytes);
        let _ = Record::decode(&body);
    }
}
