//! Text requests in full feature phase: asking the target for its portals (RFC 7143 appendix C).

use std::rc::Rc;

use iscsi::discovery::{InitiatorText, InitiatorTextStep, PortalAddress, TextPdu, parse_records};
use iscsi::pdu::{Bhs, TextRequest, TextResponse};
use iscsi::text::TextWriter;
use ring::wait::Answer;

use super::connection::Connection;
use super::{Inner, Session};
use crate::discovery::DiscoveryError;

/// The answer to a Text Request and its data, or that there will be none.
pub(super) type TextAnswer = Answer<Option<(TextResponse, Vec<u8>)>>;

impl Session {
    /// The portals of the target as it tells them now, without a discovery session. Empty if it
    /// names none. Some targets that do not like to be asked here end the session.
    ///
    /// # Errors
    /// A [`DiscoveryError`].
    pub async fn portals(&self) -> Result<Vec<PortalAddress>, DiscoveryError> {
        let inner = self.inner();
        let conn = inner.first_usable().ok_or(DiscoveryError::NotConnected)?;
        let itt = inner.other_tag();
        let exchange = exchange(inner, &conn, itt);
        let told = ring::timeout(inner.options.login_timeout, exchange).await;
        inner.texts.borrow_mut().remove(&itt);
        let records = parse_records(&told.unwrap_or(Err(DiscoveryError::TimedOut))?)?;
        let own = records.into_iter().filter(|target| target.name == inner.target);
        Ok(own.flat_map(|target| target.addresses).collect())
    }
}

/// One request and its whole answer. At most one at a time is allowed on a connection (RFC 7143
/// 11.10.4): who keeps a disk's sessions asks one after the other.
async fn exchange(inner: &Inner, conn: &Connection, itt: u32) -> Result<Vec<u8>, DiscoveryError> {
    let mut request = TextWriter::new();
    request.push("SendTargets", "");
    let segment_max = conn.params.max_recv_data_segment_peer_bytes;
    let mut text = InitiatorText::new(request.into_bytes(), segment_max);
    let mut next = text.start();
    loop {
        let answer = Rc::new(TextAnswer::default());
        inner.texts.borrow_mut().insert(itt, answer.clone());
        ask(conn, itt, &next);
        let (response, data) = answer.wait().await.ok_or(DiscoveryError::NotConnected)?;
        match text.on_response(&response, &data)? {
            InitiatorTextStep::Send(more) => next = more,
            InitiatorTextStep::Done(answer) => return Ok(answer),
        }
    }
}

fn ask(conn: &Connection, itt: u32, pdu: &TextPdu) {
    let request = TextRequest {
        is_immediate: true,
        is_final: pdu.is_final,
        is_continued: pdu.is_continued,
        data_segment_len_bytes: u32::try_from(pdu.data.len()).expect("a segment is short"),
        lun: pdu.lun,
        itt,
        ttt: pdu.ttt,
        cmd_sn: conn.session.cmd_sn.get(),
        exp_stat_sn: conn.exp_stat_sn.get(),
    };
    conn.mover.send_control(request.to_bhs().bytes(), &pdu.data);
}

impl Inner {
    /// A Text Response has come. One that nobody waits for any more is thrown away.
    pub(super) fn text_arrived(&self, bhs: &Bhs, data: &[u8]) {
        let Ok(pdu) = TextResponse::parse(bhs) else { return };
        if let Some(waiting) = self.texts.borrow_mut().remove(&pdu.itt) {
            waiting.set(Some((pdu, data.to_vec())));
        }
    }

    /// No answer will come: the connection has ended, or the target refuses such questions.
    pub(super) fn end_texts(&self) {
        for (_, waiting) in self.texts.take() {
            waiting.set(None);
        }
    }
}
