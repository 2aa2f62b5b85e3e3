//! Logging in, step by step as RFC 7143 §6.3 has it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use iscsi::chap::InitiatorChap;
use iscsi::login::{
    InitiatorConfig, InitiatorError, InitiatorLogin, InitiatorOutcome, InitiatorStep,
};
use iscsi::params::{ConnectionParams, DigestPolicy, LocalLimits};
use iscsi::pdu::{Isid, LoginStatus};
use iscsi::text::IscsiName;
use rustix::net::{self, AddressFamily, SocketType};

use super::{Connection, Got, IQN, PATIENCE};

/// What to log in with.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) initiator: String,
    /// `None` is a discovery session.
    pub(crate) target: Option<String>,
    pub(crate) isid: Isid,
    pub(crate) tsih: u16,
    pub(crate) cid: u16,
    pub(crate) limits: LocalLimits,
    pub(crate) chap: Option<InitiatorChap>,
    /// Where it comes from; the system chooses if it does not say.
    pub(crate) from: Option<Ipv4Addr>,
    /// CmdSN of the session; shared by its connections.
    pub(crate) cmd_sn: Arc<AtomicU32>,
}

/// Why there is no connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoLogin {
    Refused(LoginStatus),
    Moved {
        address: String,
        is_temporary: bool,
    },
    /// The target's side of the exchange is not right.
    Wrong(InitiatorError),
    Closed,
}

impl Login {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            initiator: format!("iqn.2026-11.example:{name}"),
            target: Some(IQN.to_owned()),
            isid: [0x80, 0, 0, 1, 0, 0],
            tsih: 0,
            cid: 0,
            limits: LocalLimits::default(),
            chap: None,
            from: None,
            cmd_sn: Arc::new(AtomicU32::new(1)),
        }
    }

    pub(crate) fn discovery() -> Self {
        Self { target: None, ..Self::new("finder") }
    }

    pub(crate) fn with_digests(mut self) -> Self {
        self.limits.header_digest = DigestPolicy::Require;
        self.limits.data_digest = DigestPolicy::Require;
        self
    }

    /// From another address of the loopback, as another host would.
    pub(crate) fn from(self, last_byte: u8) -> Self {
        Self { from: Some(Ipv4Addr::new(127, 0, 0, last_byte)), ..self }
    }

    /// A connection that says nothing yet.
    pub(crate) fn reach(&self, portal: SocketAddr) -> TcpStream {
        let Some(from) = self.from else {
            return TcpStream::connect_timeout(&portal, PATIENCE).unwrap();
        };
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
        net::connect(&socket, &portal).unwrap();
        socket.into()
    }

    /// One more connection of the session that `first` began.
    pub(crate) fn joining(&self, first: &Connection, cid: u16) -> Self {
        Self { tsih: first.tsih, cid, cmd_sn: first.cmd_sn.clone(), ..self.clone() }
    }

    pub(crate) fn connect(&self, portal: SocketAddr) -> Result<Connection, NoLogin> {
        let mut connection = Connection::over(self.reach(portal), self.cmd_sn.clone());
        let outcome = self.run(&mut connection)?;
        connection.enter_full_feature(&outcome, self.cid);
        Ok(connection)
    }

    fn run(&self, connection: &mut Connection) -> Result<InitiatorOutcome, NoLogin> {
        let name = |text: &String| IscsiName::parse(text).unwrap();
        let mut machine = InitiatorLogin::new(InitiatorConfig {
            initiator_name: name(&self.initiator),
            initiator_alias: None,
            target_name: self.target.as_ref().map(name),
            isid: self.isid,
            tsih: self.tsih,
            cid: self.cid,
            itt: 0x1061,
            cmd_sn: connection.next_cmd_sn(),
            limits: self.limits,
            chap: self.chap.clone(),
        });
        let mut seed = 7_u8;
        let mut random = |bytes: &mut [u8]| {
            bytes.fill_with(|| {
                seed = seed.wrapping_mul(29).wrapping_add(101);
                seed
            });
        };
        let mut request = machine.start();
        loop {
            connection.send_raw(&request.bhs, &[], &request.data);
            let Got::Pdu(response) = connection.try_receive(PATIENCE) else {
                return Err(NoLogin::Closed);
            };
            match machine.on_response(&response.bhs, &response.data, &mut random) {
                Ok(InitiatorStep::Send(next)) => request = next,
                Ok(InitiatorStep::Done(outcome)) => return Ok(*outcome),
                Ok(InitiatorStep::Redirect { address, is_temporary }) => {
                    return Err(NoLogin::Moved { address, is_temporary });
                }
                Err(InitiatorError::Refused(status)) => return Err(NoLogin::Refused(status)),
                Err(error) => return Err(NoLogin::Wrong(error)),
            }
        }
    }
}

/// What holds before anything was negotiated.
pub(super) fn before_login() -> ConnectionParams {
    ConnectionParams::default()
}
