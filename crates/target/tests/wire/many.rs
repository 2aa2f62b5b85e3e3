//! Many hosts on one core, each with as much under way as it may have: all of it is done, and nobody is
//! told BUSY or TASK SET FULL. `DRYSTONE_MANY_HOSTS` sets how many.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use iscsi::pdu::{Opcode, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse, TaskAttribute};

use crate::common::{Connection, Got, Login, Rig, config, ram, read10, write10};

const HOSTS: u16 = 100;
const DEPTH: usize = 32;
/// Each host's: some come when others have ended.
const COMMANDS: usize = DEPTH + 8;
const BYTES: u32 = 1 << 20;
const BLOCKS: u16 = (BYTES / 512) as u16;
const WRITTEN: u8 = 7;
/// With a thousand hosts one may wait for all others to be served before it is.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command with this number.
fn issue(host: &mut Connection, number: usize, is_write: bool) {
    let lba = (number % 8) as u32 * u32::from(BLOCKS);
    let command = ScsiCommand {
        is_immediate: false,
        is_final: true,
        is_read: !is_write,
        is_write,
        attribute: TaskAttribute::SIMPLE,
        total_ahs_words: 0,
        data_segment_len_bytes: 0,
        lun: 0,
        itt: host.new_itt(),
        expected_data_transfer_len_bytes: BYTES,
        cmd_sn: host.take_cmd_sn(),
        exp_stat_sn: host.exp_stat_sn,
        cdb: if is_write { write10(lba, BLOCKS) } else { read10(lba, BLOCKS) },
    };
    host.send(&command.to_bhs(), &[]);
}

/// Runs all commands of one host, `DEPTH` at once as far as its window lets it. Every other host
/// writes: one of these that did both would have to read while it sends.
fn run(portal: SocketAddr, number: u16, data: &[u8]) {
    let [high, low] = number.to_be_bytes();
    let from = Some(Ipv4Addr::new(127, 2, high, low));
    let login = Login { from, ..Login::new(&format!("many{number}")) };
    let mut host = login.connect(portal).unwrap();
    host.take_attentions(0);
    let (mut begun, mut ended) = (0, 0);
    while ended < COMMANDS {
        let may_send =
            |host: &Connection| host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 >= 0;
        while begun < COMMANDS && begun - ended < DEPTH && may_send(&host) {
            issue(&mut host, begun, number.is_multiple_of(2));
            begun += 1;
        }
        let Got::Pdu(pdu) = host.try_receive(PATIENCE) else {
            panic!("host {number} hears nothing, with {ended} of {begun} commands answered");
        };
        match pdu.opcode() {
            Opcode::R2T => {
                let r2t = R2t::parse(&pdu.bhs).unwrap();
                let from = r2t.buffer_offset_bytes as usize;
                let len = r2t.desired_data_transfer_len_bytes as usize;
                host.send_burst(r2t.itt, r2t.ttt, 0, from, &data[from..from + len]);
            }
            Opcode::SCSI_RESPONSE => {
                let response = ScsiResponse::parse(&pdu.bhs).unwrap();
                assert_eq!(response.status, 0, "host {number}, command {ended}");
                ended += 1;
            }
            Opcode::DATA_IN => {
                // Nobody has written it, or one of those who all write the same.
                let is_right = pdu.data.iter().all(|&byte| byte == 0 || byte == WRITTEN);
                assert!(is_right, "host {number} reads what nobody wrote");
                // With the status of its command, or not (RFC 7143 11.7.3).
                ended += usize::from(pdu.bhs.bytes()[1] & 1);
            }
            Opcode::NOP_IN if pdu.bhs.ttt() != RESERVED_TAG => host.pong(&pdu),
            _ => {}
        }
    }
}

#[test]
fn all_hosts_get_all_they_ask_for_however_many_they_are() {
    let hosts = std::env::var("DRYSTONE_MANY_HOSTS").ok();
    let hosts = hosts.map_or(HOSTS, |text| text.parse().expect("a number of hosts"));
    let rig = Rig::start(config([ram()]));
    let (portal, data) = (rig.portal(), vec![WRITTEN; BYTES as usize]);
    std::thread::scope(|scope| {
        for number in 0..hosts {
            let data = &data;
            scope.spawn(move || run(portal, number, data));
        }
    });
}
