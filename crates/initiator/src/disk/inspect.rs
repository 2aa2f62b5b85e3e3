//! Asking a logical unit, over one session, what it is.

use std::cell::Cell;
use std::time::Duration;

use ring::Data;
use scsi::Status;
use scsi::alua::AccessState;
use scsi::referrals::SegmentRule;

use super::AttachError;
use super::cdb::{self, Cdb, SETUP_TIMEOUT};
use super::facts::{Answers, BlockLimits, Capacity, Facts, access_of, port_group, write_cache};
use super::judge::judge;
use super::news::News;
use crate::paths::Verdict;
use crate::session::{Reply, Request, Session, Transfer};

/// A unit has several unit attentions to tell after a login, and may be busy for a while.
const TRIES_MAX: u32 = 40;
const PAGE_BYTES: u16 = 255;

/// How a unit is reached on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) access: AccessState,
    /// The target port group.
    pub(super) group: Option<u16>,
}

/// One session's way to one unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspection<'a> {
    pub(super) session: &'a Session,
    pub(super) lun: u64,
    /// What the unit tells besides its answers: a unit attention is told once.
    pub(super) news: &'a Cell<News>,
}

impl Inspection<'_> {
    /// Runs a command until it has its answer.
    async fn ask(&self, cdb: Cdb, len: u16) -> Result<Reply, AttachError> {
        for _ in 0..TRIES_MAX {
            let transfer = if len == 0 { Transfer::None } else { Transfer::In(len.into()) };
            let request = Request { lun: self.lun, cdb, transfer, timeout: SETUP_TIMEOUT };
            let result = self.session.execute(request).await;
            let judgement = judge(&result);
            self.news.set(self.news.get().with(judgement.news));
            match judgement.verdict {
                Verdict::Done => return result.map_err(AttachError::Command),
                Verdict::Later { pause } | Verdict::NotReady { pause } => ring::sleep(pause).await,
                Verdict::Again | Verdict::Repeat => {}
                // Asking is allowed in every ALUA state; a path that cannot even be asked is none.
                _ => {
                    return Err(
                        result.map_or_else(AttachError::Command, |_| AttachError::Inaccessible)
                    );
                }
            }
        }
        Err(AttachError::NotReady)
    }

    /// The data of a command that may be refused.
    async fn try_read(&self, cdb: Cdb, len: u16) -> Result<Option<Vec<u8>>, AttachError> {
        let reply = self.ask(cdb, len).await?;
        Ok(reply.is_good().then(|| bytes_of(&reply.data)))
    }

    async fn read(&self, cdb: Cdb, len: u16, what: &'static str) -> Result<Vec<u8>, AttachError> {
        let reply = self.ask(cdb, len).await?;
        match reply.status {
            _ if reply.is_good() => Ok(bytes_of(&reply.data)),
            Status::ReservationConflict => Err(AttachError::Reserved),
            _ => Err(AttachError::Refused { what, sense: reply.sense }),
        }
    }

    /// A page, if the unit lists it. Asking old targets for pages they do not have upsets some.
    async fn page(&self, code: u8, listed: &[u8]) -> Result<Vec<u8>, AttachError> {
        if !listed.contains(&code) {
            return Ok(Vec::new());
        }
        let page = self.try_read(cdb::inquiry(Some(code), PAGE_BYTES), PAGE_BYTES).await?;
        Ok(page.filter(|page| page.get(1) == Some(&code)).unwrap_or_default())
    }

    /// Waits until the unit is ready, and takes its attentions.
    pub(super) async fn is_ready(&self) -> Result<(), AttachError> {
        self.ask(cdb::TEST_UNIT_READY, 0).await.map(drop)
    }

    /// What the unit is, and how it is reached on this path.
    pub(super) async fn facts(&self) -> Result<(Facts, Reach), AttachError> {
        const TYPE_MASK: u8 = 0xff;
        const TPGS_MASK: u8 = 0x30;
        let standard = self.read(cdb::inquiry(None, 96), 96, "INQUIRY").await?;
        if standard.first().map(|byte| byte & TYPE_MASK) != Some(0) {
            return Err(AttachError::NoDisk);
        }
        self.is_ready().await?;
        let list = self.try_read(cdb::inquiry(Some(0), PAGE_BYTES), PAGE_BYTES).await?;
        let list = list.unwrap_or_default();
        let listed = list.get(4..).unwrap_or_default();
        let mut answers = Answers {
            capacity: self.capacity().await?,
            limits: BlockLimits::parse(&self.page(0xb0, listed).await?),
            identification: self.page(0x83, listed).await?,
            serial: self.page(0x80, listed).await?.get(4..).unwrap_or_default().to_vec(),
            has_alua: standard.get(5).is_some_and(|byte| byte & TPGS_MASK != 0),
            standard,
            ..Answers::default()
        };
        if let [_, _, _, _, high, low, ..] = self.page(0xb1, listed).await?[..] {
            answers.rotation_rate = u16::from_be_bytes([high, low]);
        }
        answers.provisioning = self.page(0xb2, listed).await?.get(5).copied().unwrap_or(0);
        // The caching page, for its header; all pages where there is none.
        for page in [0x08, 0x3f] {
            if let Some(header) = self.try_read(cdb::mode_sense(page, 192), 192).await? {
                let flags = header.get(2).copied().unwrap_or(0);
                answers.is_write_protected = flags & 0x80 != 0;
                answers.has_fua = flags & 0x10 != 0;
                answers.write_cache = write_cache(&header);
                break;
            }
        }
        const R_SUP: u8 = 0x10;
        if self.page(0x86, listed).await?.get(8).is_some_and(|byte| byte & R_SUP != 0) {
            answers.referrals = SegmentRule::parse(&self.page(0xb3, listed).await?);
        }
        let access = self.access_by(&answers).await?;
        let reach = Reach { access, group: port_group(&answers.identification) };
        Ok((Facts::new(&answers)?, reach))
    }

    /// REPORT REFERRALS data of a unit: as many of the segments from block `lba` on as one answer
    /// holds.
    pub(super) async fn referrals(&self, lba: u64) -> Result<Vec<u8>, AttachError> {
        const REPORT_BYTES: u16 = u16::MAX;
        let cdb = cdb::report_referrals(lba, REPORT_BYTES.into());
        self.read(cdb, REPORT_BYTES, "REPORT REFERRALS").await
    }

    async fn capacity(&self) -> Result<Option<Capacity>, AttachError> {
        if let Some(data) = self.try_read(cdb::read_capacity_16(32), 32).await? {
            return Ok(Capacity::parse_16(&data));
        }
        let data = self.read(cdb::read_capacity_10(), 8, "READ CAPACITY").await?;
        Ok(Capacity::parse_10(&data))
    }

    /// The ALUA state of this path now.
    pub(super) async fn access(&self) -> Result<AccessState, AttachError> {
        let identification = self.page(0x83, &[0x83]).await?;
        self.access_by(&Answers { identification, has_alua: true, ..Answers::default() }).await
    }

    /// A unit that has no ALUA states, or does not tell them, is there for everyone.
    async fn access_by(&self, answers: &Answers) -> Result<AccessState, AttachError> {
        const REPORT_BYTES: u16 = 4096;
        let group = port_group(&answers.identification).filter(|_| answers.has_alua);
        let Some(group) = group else { return Ok(AccessState::ActiveOptimized) };
        let cdb = cdb::report_target_port_groups(REPORT_BYTES.into());
        let report = self.try_read(cdb, REPORT_BYTES).await?;
        Ok(report.and_then(|data| access_of(&data, group)).unwrap_or(AccessState::ActiveOptimized))
    }
}

fn bytes_of(data: &Data) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(0, &mut bytes);
    bytes
}

/// How long a path that is not in the best state waits before it is asked again.
pub(super) const ACCESS_LOOK: Duration = Duration::from_secs(5);
