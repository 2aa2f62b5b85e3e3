//! Requests and their answers.

use iscsi::pdu::{
    Bhs, DataIn, DataOut, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopOut,
    Opcode, R2t, RESERVED_TAG, Reject, RejectReason, ScsiCommand, ScsiResponse, TaskAttribute,
    TaskFunction, TaskRequest, TaskResponse, TaskResult, TextRequest, split_sense_segment,
};

use super::{Cdb, Connection, Pdu, inquiry, read10, test_unit_ready, write10};

/// A SCSI command to send.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) cdb: Cdb,
    pub(crate) lun: u64,
    pub(crate) attribute: TaskAttribute,
    /// Expected data transfer length of a read.
    pub(crate) reads: Option<u32>,
    /// The data of a write; its length is the expected data transfer length.
    pub(crate) writes: Option<Vec<u8>>,
    /// How much of it goes with the command.
    pub(crate) immediate_data: usize,
    /// Unsolicited Data-Out PDUs follow.
    pub(crate) more_follows: bool,
    /// Answers R2Ts by itself.
    pub answers_r2t: bool,
    pub(crate) is_immediate: bool,
    /// Another CmdSN than the next.
    pub(crate) cmd_sn: Option<u32>,
}

impl Command {
    pub(crate) fn new(cdb: Cdb) -> Self {
        Self {
            cdb,
            lun: 0,
            attribute: TaskAttribute::SIMPLE,
            reads: None,
            writes: None,
            immediate_data: 0,
            more_follows: false,
            answers_r2t: true,
            is_immediate: false,
            cmd_sn: None,
        }
    }

    pub(crate) fn read(lba: u32, blocks: u16) -> Self {
        Self::new(read10(lba, blocks)).reading(u32::from(blocks) * 512)
    }

    /// A write of whole blocks of 512 bytes, all data by R2T.
    pub(crate) fn write(lba: u32, data: &[u8]) -> Self {
        let blocks = u16::try_from(data.len() / 512).unwrap();
        Self::new(write10(lba, blocks)).writing(data)
    }

    /// A write that announces its data and never sends any.
    pub(crate) fn unsent_write(lba: u32, blocks: u16) -> Self {
        Self { answers_r2t: false, ..Self::write(lba, &vec![0; usize::from(blocks) * 512]) }
    }

    pub(crate) fn reading(self, len: u32) -> Self {
        Self { reads: Some(len), ..self }
    }

    pub(crate) fn writing(self, data: &[u8]) -> Self {
        Self { writes: Some(data.to_vec()), ..self }
    }

    pub(crate) fn on(self, lun: u64) -> Self {
        Self { lun: lun << 48, ..self }
    }

    pub(crate) fn with(self, attribute: TaskAttribute) -> Self {
        Self { attribute, ..self }
    }

    /// All data goes with the command.
    pub(crate) fn immediate_data(self) -> Self {
        let immediate_data = self.writes.as_ref().map_or(0, Vec::len);
        Self { immediate_data, ..self }
    }

    pub(crate) fn numbered(self, cmd_sn: u32) -> Self {
        Self { cmd_sn: Some(cmd_sn), ..self }
    }

    /// The PDU and its data segment.
    pub(crate) fn to_pdu(&self, itt: u32, cmd_sn: u32, exp_stat_sn: u32) -> (Bhs, Vec<u8>) {
        let data = self.writes.as_deref().unwrap_or_default();
        let segment = data[..self.immediate_data].to_vec();
        let pdu = ScsiCommand {
            is_immediate: self.is_immediate,
            is_final: !self.more_follows,
            is_read: self.reads.is_some(),
            is_write: self.writes.is_some(),
            attribute: self.attribute,
            total_ahs_words: 0,
            data_segment_len_bytes: segment.len() as u32,
            lun: self.lun,
            itt,
            expected_data_transfer_len_bytes: self.reads.unwrap_or(data.len() as u32),
            cmd_sn,
            exp_stat_sn,
            cdb: self.cdb,
        };
        (pdu.to_bhs(), segment)
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Above 0: the target had more (overflow); below: less (underflow).
    pub(crate) residual: i64,
}

impl Done {
    #[track_caller]
    pub(crate) fn good(self) -> Vec<u8> {
        assert_eq!(self.status, 0, "sense {:02x?}", self.sense);
        self.data
    }

    /// Sense key, ASC and ASCQ of a CHECK CONDITION.
    #[track_caller]
    pub(crate) fn check(&self) -> (u8, u8, u8) {
        assert_eq!(self.status, 2, "CHECK CONDITION, {self:?}");
        match self.sense[0] & 0x7f {
            0x70 => (self.sense[2] & 0xf, self.sense[12], self.sense[13]),
            0x72 => (self.sense[1] & 0xf, self.sense[2], self.sense[3]),
            other => panic!("sense format {other:#x}"),
        }
    }
}

impl Connection {
    /// Sends a command and returns its tag.
    pub(crate) fn issue(&mut self, command: &Command) -> u32 {
        let itt = self.new_itt();
        self.issue_as(command, itt);
        itt
    }

    pub(crate) fn issue_as(&mut self, command: &Command, itt: u32) {
        let cmd_sn = match command.cmd_sn {
            Some(cmd_sn) => cmd_sn,
            None if command.is_immediate => self.next_cmd_sn(),
            None => self.take_cmd_sn(),
        };
        let (bhs, segment) = command.to_pdu(itt, cmd_sn, self.exp_stat_sn);
        if let Some(data) = command.writes.as_ref().filter(|_| command.answers_r2t) {
            self.outgoing.insert(itt, data.clone());
        }
        self.send(&bhs, &segment);
    }

    #[track_caller]
    pub(crate) fn run(&mut self, command: &Command) -> Done {
        let itt = self.issue(command);
        self.finish(itt)
    }

    /// Runs a command to its end: answers R2Ts, collects data, checks every number on the way.
    #[track_caller]
    pub(crate) fn finish(&mut self, itt: u32) -> Done {
        let mut data = Vec::new();
        let mut data_sn = 0;
        loop {
            let pdu = self.receive_where(|pdu| {
                pdu.bhs.itt() == itt || matches!(pdu.opcode(), Opcode::NOP_IN | Opcode::REJECT)
            });
            match pdu.opcode() {
                Opcode::NOP_IN => self.answer_ping(&pdu),
                Opcode::R2T => self.answer_r2t(&R2t::parse(&pdu.bhs).unwrap()),
                Opcode::DATA_IN => {
                    let header = DataIn::parse(&pdu.bhs).unwrap();
                    assert_eq!(header.data_sn, data_sn);
                    assert_eq!(header.buffer_offset_bytes as usize, data.len());
                    data_sn += 1;
                    data.extend_from_slice(&pdu.data);
                    let burst = self.session.max_burst_len_bytes as usize;
                    let at_burst_end = data.len().is_multiple_of(burst);
                    assert!(header.is_final || !at_burst_end, "F at the end of a burst");
                    if header.has_status {
                        self.outgoing.remove(&itt);
                        return Done {
                            status: header.status,
                            sense: Vec::new(),
                            data,
                            residual: residual(
                                header.is_overflow,
                                header.is_underflow,
                                header.residual_bytes,
                            ),
                        };
                    }
                }
                Opcode::SCSI_RESPONSE => {
                    self.outgoing.remove(&itt);
                    return done(&pdu, data);
                }
                _ => panic!("in the course of a command: {pdu:?}"),
            }
        }
    }

    /// Sends what an R2T asks for, in segments as long as the target takes.
    pub(crate) fn answer_r2t(&mut self, r2t: &R2t) {
        let from = r2t.buffer_offset_bytes as usize;
        let to = from + r2t.desired_data_transfer_len_bytes as usize;
        assert!(to - from <= self.session.max_burst_len_bytes as usize);
        let Some(data) = self.outgoing.get(&r2t.itt) else { return };
        let burst = data[from..to].to_vec();
        self.send_burst(r2t.itt, r2t.ttt, r2t.lun, from, &burst);
    }

    /// Sends `burst` as Data-Out PDUs; the last has the F bit.
    pub(crate) fn send_burst(&mut self, itt: u32, ttt: u32, lun: u64, offset: usize, burst: &[u8]) {
        let segment = self.max_data_out();
        let parts = burst.len().div_ceil(segment);
        for (index, part) in burst.chunks(segment).enumerate() {
            let header = DataOut {
                is_final: index + 1 == parts,
                data_segment_len_bytes: part.len() as u32,
                lun,
                itt,
                ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn: index as u32,
                buffer_offset_bytes: (offset + index * segment) as u32,
            };
            self.send(&header.to_bhs(), part);
        }
    }

    /// The longest data segment that the target takes.
    pub(crate) fn max_data_out(&self) -> usize {
        self.params.max_recv_data_segment_peer_bytes as usize
    }

    /// Waits for the next R2T of a command that does not answer by itself.
    #[track_caller]
    pub(crate) fn receive_r2t(&mut self, itt: u32) -> R2t {
        let wanted = |pdu: &Pdu| pdu.opcode() == Opcode::R2T && pdu.bhs.itt() == itt;
        R2t::parse(&self.receive_where(wanted).bhs).unwrap()
    }

    #[track_caller]
    pub(crate) fn receive_reject(&mut self) -> RejectReason {
        let pdu = self.receive_kind(Opcode::REJECT);
        assert_eq!(pdu.data.len(), 48, "the refused header comes back");
        Reject::parse(&pdu.bhs).unwrap().reason
    }

    fn answer_ping(&mut self, pdu: &Pdu) {
        if pdu.bhs.ttt() != RESERVED_TAG {
            self.pong(pdu);
        }
    }

    /// Answers a NOP-In.
    pub(crate) fn pong(&mut self, ping: &Pdu) {
        let nop = NopOut {
            is_immediate: true,
            data_segment_len_bytes: 0,
            lun: ping.bhs.lun_raw(),
            itt: RESERVED_TAG,
            ttt: ping.bhs.ttt(),
            cmd_sn: self.next_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(&nop.to_bhs(), &[]);
    }

    /// Sends a NOP-Out and returns what comes back.
    #[track_caller]
    pub(crate) fn ping(&mut self, data: &[u8]) -> Vec<u8> {
        let itt = self.send_ping(data);
        self.receive_where(|pdu| pdu.opcode() == Opcode::NOP_IN && pdu.bhs.itt() == itt).data
    }

    /// Does not wait for the answer.
    pub(crate) fn send_ping(&mut self, data: &[u8]) -> u32 {
        let itt = self.new_itt();
        let nop = NopOut {
            is_immediate: true,
            data_segment_len_bytes: data.len() as u32,
            lun: 0,
            itt,
            ttt: RESERVED_TAG,
            cmd_sn: self.next_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(&nop.to_bhs(), data);
        itt
    }

    /// Takes the unit attentions of a unit.
    #[track_caller]
    pub(crate) fn take_attentions(&mut self, lun: u64) -> Vec<(u8, u8)> {
        let mut taken = Vec::new();
        loop {
            let done = self.run(&Command::new(test_unit_ready()).on(lun));
            if done.status == 0 {
                return taken;
            }
            let (key, asc, ascq) = done.check();
            assert_eq!(key, 6, "UNIT ATTENTION");
            taken.push((asc, ascq));
            assert!(taken.len() < 10, "unit attentions without end: {taken:x?}");
        }
    }

    /// The connection is served.
    #[track_caller]
    pub(crate) fn expect_alive(&mut self) {
        self.run(&Command::new(inquiry(36)).reading(36)).good();
    }

    /// Sends a task management function, immediate, and returns its tag.
    pub(crate) fn manage(
        &mut self,
        function: TaskFunction,
        lun: u64,
        task: u32,
        task_cmd_sn: u32,
    ) -> u32 {
        let itt = self.new_itt();
        let request = TaskRequest {
            is_immediate: true,
            function,
            lun: lun << 48,
            itt,
            referenced_task_tag: task,
            cmd_sn: self.next_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn: task_cmd_sn,
            exp_data_sn: 0,
        };
        self.send(&request.to_bhs(), &[]);
        itt
    }

    #[track_caller]
    pub(crate) fn managed(&mut self, itt: u32) -> TaskResult {
        let wanted = |pdu: &Pdu| pdu.opcode() == Opcode::TASK_RESPONSE && pdu.bhs.itt() == itt;
        TaskResponse::parse(&self.receive_where(wanted).bhs).unwrap().response
    }

    #[track_caller]
    pub(crate) fn manage_unit(&mut self, function: TaskFunction, lun: u64) -> TaskResult {
        let itt = self.manage(function, lun, RESERVED_TAG, 0);
        self.managed(itt)
    }

    #[track_caller]
    pub(crate) fn logout(&mut self, reason: LogoutReason, cid: u16) -> LogoutResult {
        let itt = self.new_itt();
        let request = LogoutRequest {
            is_immediate: true,
            reason,
            itt,
            cid,
            cmd_sn: self.next_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(&request.to_bhs(), &[]);
        let reply = self.receive_kind(Opcode::LOGOUT_RESPONSE);
        assert_eq!(reply.bhs.itt(), itt);
        LogoutResponse::parse(&reply.bhs).unwrap().response
    }

    /// Sends a whole text, and returns the whole answer as pairs.
    #[track_caller]
    pub(crate) fn text(&mut self, text: &str) -> Vec<(String, String)> {
        let mut exchange = iscsi::discovery::InitiatorText::new(
            format!("{text}\0").into_bytes(),
            self.params.max_recv_data_segment_peer_bytes,
        );
        let mut next = exchange.start();
        let itt = self.new_itt();
        let answer = loop {
            let request = TextRequest {
                is_immediate: false,
                is_final: next.is_final,
                is_continued: next.is_continued,
                data_segment_len_bytes: next.data.len() as u32,
                lun: next.lun,
                itt,
                ttt: next.ttt,
                cmd_sn: self.take_cmd_sn(),
                exp_stat_sn: self.exp_stat_sn,
            };
            self.send(&request.to_bhs(), &next.data);
            let reply = self.receive_kind(Opcode::TEXT_RESPONSE);
            let header = iscsi::pdu::TextResponse::parse(&reply.bhs).unwrap();
            match exchange.on_response(&header, &reply.data).unwrap() {
                iscsi::discovery::InitiatorTextStep::Send(pdu) => next = pdu,
                iscsi::discovery::InitiatorTextStep::Done(answer) => break answer,
            }
        };
        let pairs = answer.split(|&byte| byte == 0).filter(|pair| !pair.is_empty());
        let split = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).unwrap();
            let (key, value) = text.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        pairs.map(split).collect()
    }
}

fn done(pdu: &Pdu, data: Vec<u8>) -> Done {
    let response = ScsiResponse::parse(&pdu.bhs).unwrap();
    let (sense, _) = split_sense_segment(&pdu.data).unwrap();
    let (over, under) = (response.is_overflow, response.is_underflow);
    Done {
        status: response.status,
        sense: sense.to_vec(),
        data,
        residual: residual(over, under, response.residual_bytes),
    }
}

fn residual(over: bool, under: bool, bytes: u32) -> i64 {
    assert!(!(over && under), "overflow and underflow at once");
    assert!(over || under || bytes == 0, "a residual of no kind");
    if over { i64::from(bytes) } else { -i64::from(bytes) }
}
