//! A whole target over a real socket: any PDUs after a sound login, or from the first byte.
//!
//! Checked for each input: the target answers the next login, also while its disk hangs, and it lets go
//! of each connection when its host has nothing more to say and the disk is well again. A panic on the
//! target's core is found as any other.

use super::input::Input;
use super::login::{TARGET, initiator, random};
use block::RamDisk;
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::digest::digest;
use iscsi::login::{InitiatorLogin, InitiatorOutcome, InitiatorStep};
use iscsi::params::DigestPolicy;
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, Opcode, TaskFunction, TaskRequest, padded_len_bytes};
use iscsi::text::IscsiName;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use target::{Access, Config, FileStore, Limits, Server, TargetSpec, UnitSpec};

/// How long the target may take for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Small, so that what is read of it is little.
const DISK_BLOCKS: u64 = 2048;
/// A host that has read this much goes away in the middle of the rest.
const READ_BYTES_MAX: usize = 4 << 20;
/// PDUs of one input.
const PDUS_MAX: usize = 64;

/// Bits of the first byte of an input; of the others [`Host::log_in`] knows.
const IS_NOISE: u8 = 1;
const IS_POOR: u8 = 16;
const TWO_HOSTS: u8 = 32;
const DISK_HANGS: u8 = 64;

/// How many operations of each kind hang.
const HUNG: u32 = 3;

/// Settings of the connections and of the target, then PDUs, each behind the number of its host if there
/// are two.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    let target = target(flags & IS_POOR != 0);
    if flags & IS_NOISE != 0 {
        let mut host = Host::connect(target);
        host.write(input.rest());
        return host.leave();
    }
    let log_in = |number| {
        let mut host = Host::connect(target);
        host.log_in(number, flags);
        host.reset_unit();
        host
    };
    let is_shared = flags & TWO_HOSTS != 0;
    let mut hosts: Vec<_> = (0..if is_shared { 2 } else { 1 }).map(log_in).collect();
    if flags & DISK_HANGS != 0 {
        for operation in [Operation::Read, Operation::Write, Operation::Flush] {
            target.disk.inject(Rule::always(operation, Fault::Hang).times(HUNG));
        }
    }
    for _ in 0..PDUS_MAX {
        if input.is_empty() {
            break;
        }
        let number = if hosts.len() > 1 { usize::from(input.byte() & 1) } else { 0 };
        hosts[number].send(&mut input);
    }
    if flags & DISK_HANGS != 0 {
        // Whatever waits for it, one more gets in.
        let mut other = Host::connect(target);
        other.log_in(2, 0);
        other.leave();
        target.disk.heal();
        target.disk.release();
    }
    hosts.iter().for_each(Host::end);
    hosts.into_iter().for_each(Host::leave);
}

/// One of the targets for all inputs: what one input leaves behind is there for the next.
struct Served {
    disk: FaultyDisk,
    portal: SocketAddr,
    /// It runs as long as this is there.
    _server: Mutex<Server>,
}

/// A poor one has next to no memory, and is refused some of that.
fn target(is_poor: bool) -> &'static Served {
    static SERVED: [OnceLock<Served>; 2] = [const { OnceLock::new() }; 2];
    SERVED[usize::from(is_poor)].get_or_init(|| {
        let disk = RamDisk::new(512, DISK_BLOCKS).expect("a megabyte of memory");
        let disk = FaultyDisk::new(Arc::new(disk));
        let unit = UnitSpec {
            device: Arc::new(disk.clone()),
            referrals: None,
            serial: "fuzz".to_owned(),
            write_cache: true,
            read_only: false,
            name: "ram".to_owned(),
        };
        let name = format!("drystone-fuzz-{}-{is_poor}", std::process::id());
        let state_dir = std::env::temp_dir().join(name);
        let store = FileStore::new(state_dir).expect("a directory for temporary files");
        let iqn = TARGET.to_owned();
        let target = TargetSpec { iqn, alias: None, units: vec![unit], access: None };
        let config = Config {
            targets: vec![target],
            portals: vec![([127, 0, 0, 1], 0).into()],
            access: Access::everyone(),
            cores: 1,
            core: match is_poor {
                true => ring::CoreConfig {
                    buf_budget_bytes: 64 << 10,
                    buf_refuse_one_in: 4,
                    ..ring::CoreConfig::default()
                },
                false => ring::CoreConfig::default(),
            },
            congestion: None,
            store: Arc::new(store),
            limits: Limits::default(),
            port_group: 1,
            discovery: None,
            redirect: None,
            listener: None,
        };
        let server = Server::start(config).expect("a target on a free port");
        Served { disk, portal: server.portals()[0], _server: Mutex::new(server) }
    })
}

/// The other end of one connection.
struct Host {
    socket: TcpStream,
    cmd_sn: u32,
    /// Acknowledges all that the target may have answered: nothing is told a second time.
    heard_stat_sn: u32,
    header_digest: bool,
    data_digest: bool,
}

impl Host {
    fn connect(target: &Served) -> Self {
        let socket = TcpStream::connect(target.portal).expect("the target listens");
        socket.set_nodelay(true).expect("a TCP socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout above zero");
        socket.set_write_timeout(Some(PATIENCE)).expect("a timeout above zero");
        Self { socket, cmd_sn: 1, heard_stat_sn: 0, header_digest: false, data_digest: false }
    }

    /// As a sound host of this number does it; bits 1 to 3 choose digests and the kind of session.
    fn log_in(&mut self, number: u32, flags: u8) {
        let digest = |bit: u8| {
            if flags & bit == 0 { DigestPolicy::Refuse } else { DigestPolicy::Require }
        };
        let mut config = initiator(if flags & 8 == 0 { 0 } else { 4 });
        if number > 0 {
            let name = format!("{}-{number}", config.initiator_name.as_str());
            config.initiator_name = IscsiName::parse(&name).expect("a sound name");
        }
        (config.limits.header_digest, config.limits.data_digest) = (digest(2), digest(4));
        let mut login = InitiatorLogin::new(config);
        let mut pdu = login.start();
        let outcome = loop {
            self.write(&pdu.bhs);
            self.write(&padded(&pdu.data));
            let (bhs, data) = self.receive();
            match login.on_response(&bhs, &data, &mut random) {
                Ok(InitiatorStep::Send(next)) => pdu = next,
                Ok(InitiatorStep::Done(outcome)) => break outcome,
                other => panic!("a sound login was not accepted: {other:?}"),
            }
        };
        let InitiatorOutcome { connection, exp_cmd_sn, exp_stat_sn, .. } = *outcome;
        self.cmd_sn = exp_cmd_sn;
        self.heard_stat_sn = exp_stat_sn.wrapping_add(1 << 16);
        (self.header_digest, self.data_digest) = (connection.header_digest, connection.data_digest);
    }

    /// Undoes what an earlier input did to the unit, as far as a reset does.
    fn reset_unit(&mut self) {
        let reset = TaskRequest {
            is_immediate: true,
            function: TaskFunction::LOGICAL_UNIT_RESET,
            lun: 0,
            itt: 0x4000_0000,
            referenced_task_tag: u32::MAX,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: 0,
            ref_cmd_sn: 0,
            exp_data_sn: 0,
        };
        self.write_pdu(reset.to_bhs().bytes(), &[], true);
    }

    /// One PDU. The bits of its first byte leave more and more of the header to the input.
    fn send(&mut self, input: &mut Input<'_>) {
        let flags = input.byte();
        let mut bhs: [u8; BHS_LEN_BYTES] = input.bytes();
        let data = input.chunk();
        if flags & 1 == 0 {
            bhs[4] = 0;
            bhs[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        }
        if flags & 2 == 0 {
            bhs[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
            let counts = bhs[0] & 0x40 == 0 && Opcode(bhs[0] & 0x3f) != Opcode::DATA_OUT;
            self.cmd_sn = self.cmd_sn.wrapping_add(u32::from(counts));
        }
        if flags & 4 == 0 {
            bhs[8..16].fill(0);
        }
        if flags & 8 == 0 {
            bhs[16..19].fill(0);
        }
        if flags & 16 == 0 {
            bhs[0] &= 0x5f;
        }
        if flags & 64 == 0 {
            bhs[28..32].copy_from_slice(&self.heard_stat_sn.to_be_bytes());
        }
        self.write_pdu(&bhs, data, flags & 32 == 0);
    }

    fn write_pdu(&mut self, bhs: &[u8; BHS_LEN_BYTES], data: &[u8], good_digests: bool) {
        let spoil = u8::from(!good_digests);
        let seal = |bytes: &[u8]| digest(bytes).map(|byte| byte ^ spoil);
        self.write(bhs);
        if self.header_digest {
            self.write(&seal(bhs));
        }
        let data = padded(data);
        self.write(&data);
        if self.data_digest && !data.is_empty() {
            self.write(&seal(&data));
        }
    }

    /// A target that has had enough closes the connection: then nobody reads this.
    fn write(&mut self, bytes: &[u8]) {
        match self.socket.write_all(bytes) {
            Err(error) if is_stall(&error) => panic!("the target does not read: {error}"),
            Ok(()) | Err(_) => {}
        }
    }

    fn receive(&mut self) -> (Bhs, Vec<u8>) {
        let mut header = [0; BHS_LEN_BYTES];
        self.socket.read_exact(&mut header).expect("the target answers a sound login");
        let bhs = Bhs::new(header);
        let mut data = vec![0; padded_len_bytes(bhs.data_segment_len_bytes())];
        self.socket.read_exact(&mut data).expect("the target sends what it announced");
        data.truncate(bhs.data_segment_len_bytes());
        (bhs, data)
    }

    /// Has nothing more to say.
    fn end(&self) {
        // An error: the target has closed the connection already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Has nothing more to say, and waits until the target has not either.
    fn leave(mut self) {
        self.end();
        let mut buffer = vec![0; 64 << 10];
        let mut received_bytes = 0;
        while received_bytes < READ_BYTES_MAX {
            match self.socket.read(&mut buffer) {
                Ok(0) => return,
                Ok(len_bytes) => received_bytes += len_bytes,
                Err(error) if is_stall(&error) => panic!("the target holds on: {error}"),
                Err(_) => return,
            }
        }
    }
}

fn is_stall(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(padded_len_bytes(data.len()), 0);
    data
}
