//! Which commands a unit takes through a port in each state (SPC-4 5.16.2.4).

use super::AccessState;
use crate::cdb::Command;
use crate::sense::{AdditionalSense, Sense, SenseKey};

/// LOGICAL UNIT NOT READY, OFFLINE.
const OFFLINE: AdditionalSense = AdditionalSense { asc: 0x04, ascq: 0x12 };

/// Refuses `command` with NOT READY if the state of the port it came through does not admit it.
/// To be asked on every command: with an active port it is one comparison.
#[inline]
pub fn admits(state: AccessState, command: &Command) -> Result<(), Sense> {
    match state {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => Ok(()),
        _ => admits_inactive(state, command),
    }
}

#[cold]
fn admits_inactive(state: AccessState, command: &Command) -> Result<(), Sense> {
    use AdditionalSense as Code;
    use Command::*;
    // What tells a host about the unit and its paths goes through whatever the state.
    let always = matches!(
        command,
        Inquiry { .. } | ReportLuns { .. } | RequestSense { .. } | ReportTargetPortGroups { .. }
    );
    // A standby port also takes what prepares a takeover.
    let in_standby = matches!(
        command,
        LogSense(_)
            | ModeSense(_)
            | ModeSelect { .. }
            | SendDiagnostic { .. }
            | PersistentReserveIn { .. }
            | PersistentReserveOut { .. }
            | ReportSupportedOpcodes(_)
            | ReportSupportedTaskManagement { .. }
    );
    // In a transition another change has to wait for the end of the first.
    let may_set = matches!(command, SetTargetPortGroups { .. });
    let (admitted, code) = match state {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => return Ok(()),
        AccessState::Standby => (
            always || may_set || in_standby,
            Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE,
        ),
        AccessState::Unavailable => {
            (always || may_set, Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE)
        }
        AccessState::Offline => (always || may_set, OFFLINE),
        AccessState::Transitioning => {
            (always, Code::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION)
        }
    };
    if admitted { Ok(()) } else { Err(Sense::new(SenseKey::NotReady, code)) }
}
