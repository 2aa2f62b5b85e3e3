//! Login PDU by PDU, for what no well-behaved initiator does.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use iscsi::pdu::{LoginRequest, LoginResponse, LoginStatus, Stage};

use super::Connection;

pub(crate) const WHO: &str = "InitiatorName=iqn.2026-11.example:host";
pub(crate) const WHERE: &str = "TargetName=iqn.2026-11.dev.drystone:test";

/// One login PDU by hand.
pub(crate) struct ByHand {
    pub(crate) connection: Connection,
    pub(crate) request: LoginRequest,
}

impl ByHand {
    pub(crate) fn new(portal: SocketAddr) -> Self {
        let stream = TcpStream::connect(portal).unwrap();
        let request = LoginRequest {
            is_immediate: true,
            is_transit: true,
            is_continued: false,
            stage: Stage::OPERATIONAL,
            next_stage: Stage::FULL_FEATURE,
            version_max: 0,
            version_min: 0,
            total_ahs_words: 0,
            data_segment_len_bytes: 0,
            isid: [0x80, 0, 0, 9, 0, 9],
            tsih: 0,
            itt: 3,
            cid: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
        };
        Self { connection: Connection::over(stream, Arc::default()), request }
    }

    pub(crate) fn in_security(portal: SocketAddr) -> Self {
        let mut by_hand = Self::new(portal);
        by_hand.request.stage = Stage::SECURITY;
        by_hand.request.next_stage = Stage::OPERATIONAL;
        by_hand.request.is_transit = false;
        by_hand
    }

    pub(crate) fn say(&mut self, pairs: &[&str]) -> (LoginResponse, String) {
        let text = pairs.iter().map(|pair| format!("{pair}\0")).collect::<String>();
        self.connection.send(&self.request.to_bhs(), text.as_bytes());
        let reply = self.connection.receive();
        let text = String::from_utf8(reply.data).unwrap();
        (LoginResponse::parse(&reply.bhs).unwrap(), text)
    }

    pub(crate) fn status(&mut self, pairs: &[&str]) -> LoginStatus {
        self.say(pairs).0.status
    }
}
