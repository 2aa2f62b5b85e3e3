//! Commands that the SCSI model answers from its own state, and what their effects ask of us.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use iscsi::chap::Credentials;
use scsi::cdb::Command;
use scsi::reservation::{OWNER_BYTES_MAX, Registrar};
use scsi::unit::{ControlContext, Effect, Outcome as Done, execute_absent};
use scsi::{Sense, Status};

use crate::audit::Happened;
use crate::mutants::{self, Mutant};
use crate::outcome::{Doing, Outcome, failed};
use crate::session::{Answer, Scope, Task, abort_everywhere};
use crate::share::network;
use crate::unit::{self, Unit};

pub(super) async fn run(task: &Rc<Task>) -> Outcome {
    let unit = &task.place.unit;
    let done = match task.command {
        Command::PersistentReserveOut { .. } => match change_reservations(task).await {
            Some(done) => done,
            None => return Outcome::Aborted,
        },
        _ => execute(task).await,
    };
    let moved = task.command.data_out_bytes(unit.block_bytes);
    let Done { status, sense, data_in, effects } = done;
    for effect in effects {
        if let Err(outcome) = carry_out(task, unit, effect).await {
            return outcome;
        }
    }
    match (status, sense) {
        (Status::Good, _) if data_in.is_empty() => Outcome::Good { moved },
        (Status::Good, _) => Outcome::Parameters(data_in),
        (Status::CheckCondition, Some(sense)) => Outcome::Check(sense),
        (status, _) => Outcome::Status(status),
    }
}

/// PERSISTENT RESERVE OUT; `None` if the core ends before it is made.
async fn change_reservations(task: &Rc<Task>) -> Option<Done> {
    let list = task.take_data().as_deref().unwrap_or_default().to_vec();
    let (nexus, conn) = (task.place.nexus.key().clone(), task.conn());
    let owner = match mutants::is(Mutant::OwnName) {
        true => nexus.initiator.clone(),
        false => owner(conn.proved.as_deref(), conn.peer.ip()),
    };
    let by = Registrar { nexus, owner };
    unit::change_reservations(&task.place.unit, by, task.command, list).await
}

/// Whom registrations are counted for: a name is a claim, and costs nothing.
fn owner(proved: Option<&Credentials>, from: IpAddr) -> Arc<str> {
    let mut owner = match proved {
        Some(credentials) => format!("CHAP user {}", credentials.user()),
        None => format!("address {}", network(from)),
    };
    owner.truncate(owner.floor_char_boundary(OWNER_BYTES_MAX));
    owner.into()
}

async fn execute(task: &Rc<Task>) -> Done {
    let unit = &task.place.unit;
    // A change of persistent reservations that is being saved would not know of it.
    let _turn = match task.command {
        Command::Reserve => Some(unit.reserving.turn().await),
        _ => None,
    };
    let data = task.take_data();
    let luns = task.conn().session.target().luns();
    let context = ControlContext { luns: &luns };
    let parameters = data.as_deref().unwrap_or_default();
    unit.logical.execute(&task.place.nexus, &task.command, parameters, &context)
}

/// Does what must be done before the command is answered.
async fn carry_out(task: &Rc<Task>, unit: &Arc<Unit>, effect: Effect) -> Result<(), Outcome> {
    match effect {
        Effect::AbortTasks { .. } if mutants::is(Mutant::LateFence) => Ok(()),
        Effect::AbortTasks { of } => {
            let session = &task.conn().session;
            let copies = session.shared.copies.preempt(&session.target().units, unit, &of);
            let scope = Scope::UnitOfNexus(unit.clone(), of);
            let by = session.nexus_key();
            abort_everywhere(&session.shared, &scope, &by, Some(task)).await;
            copies.wait().await;
            Ok(())
        }
        Effect::SynchronizeCache => {
            let flushed = unit.device.flush().await;
            flushed.map_err(|error| failed(unit, error, Doing::Writing))
        }
        Effect::Sanitize { method, immediate, unrestricted_exit } => {
            let blocks = unit.logical.medium().blocks.get();
            unit.tokens.changed(0, blocks);
            let noted = match mutants::is(Mutant::ForgetSanitize) {
                false => unit.note_sanitize(unrestricted_exit).await,
                true => Ok(()),
            };
            if let Err(error) = noted {
                tracing::error!("{}: cannot note that it is being sanitized: {error}", unit.name);
                unit.logical.sanitize_end(false);
                return Err(Outcome::Check(Sense::internal_failure()));
            }
            super::sanitize::sanitize(task, method, immediate).await
        }
        Effect::WriteProtection { on } => {
            let conn = task.conn();
            let happened =
                || Happened::WriteProtection { who: conn.who(), unit: unit.name.clone(), on };
            conn.session.shared.feed.push(happened);
            Ok(())
        }
        Effect::ForgetSanitize => unit.forget_sanitize().await.map_err(|error| {
            tracing::error!("{}: cannot note that it can be used: {error}", unit.name);
            Outcome::Check(Sense::internal_failure())
        }),
    }
}

/// What a LUN without a unit answers (SPC-5 §6.7.2).
pub(crate) fn absent_unit(answer: &Answer, cdb: &[u8]) -> Outcome {
    let luns = answer.conn.session.target().luns();
    let Done { status, sense, data_in, .. } = execute_absent(cdb, &ControlContext { luns: &luns });
    match (status, sense) {
        (Status::Good, _) => Outcome::Parameters(data_in),
        (_, Some(sense)) => Outcome::Check(sense),
        (status, None) => Outcome::Status(status),
    }
}
