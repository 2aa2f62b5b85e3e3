//! Whether the medium can be used: stopped, being sanitized, or left by a failed sanitize.

use super::gate::Gate;
use super::outcome::{Effect, Reply, SanitizeMethod};
use super::{LogicalUnit, State};
use crate::Sense;
use crate::cdb::SanitizeAction;
use crate::param::Overwrite;
use std::sync::atomic::Ordering;

/// State of the medium as commands see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// SANITIZE is under way; `unrestricted` is its AUSE bit.
    Sanitizing {
        unrestricted: bool,
    },
    /// SANITIZE failed; with `unrestricted`, EXIT FAILURE MODE may give the medium free.
    SanitizeFailed {
        unrestricted: bool,
    },
}

impl Readiness {
    pub(super) fn gate(self) -> Gate {
        Gate(match self {
            Self::Ready => 0,
            Self::Sanitizing { .. } => Gate::SANITIZING,
            Self::SanitizeFailed { .. } => Gate::SANITIZE_FAILED,
        })
    }
}

/// The fields of a SANITIZE command.
#[derive(Debug, Clone, Copy)]
pub(super) struct SanitizeRequest<'a> {
    pub(super) action: SanitizeAction,
    pub(super) immediate: bool,
    pub(super) unrestricted_exit: bool,
    pub(super) list: &'a [u8],
}

impl LogicalUnit {
    /// SANITIZE (SBC-4 5.26). From the answer on until [`LogicalUnit::sanitize_end`] the unit is
    /// not ready.
    pub(super) fn sanitize(
        &self,
        state: &mut State,
        request: SanitizeRequest<'_>,
    ) -> Result<Reply, Sense> {
        let method = match request.action {
            SanitizeAction::Overwrite => {
                let block_bytes = self.medium().block_bytes;
                SanitizeMethod::Overwrite(Overwrite::parse(request.list, block_bytes)?)
            }
            _ if !request.list.is_empty() => return Err(Sense::invalid_field_in_cdb(7, None)),
            SanitizeAction::BlockErase => SanitizeMethod::BlockErase,
            SanitizeAction::ExitFailureMode => {
                return self.exit_failure_mode(state);
            }
        };
        self.sanitize_progress.store(0, Ordering::Relaxed);
        state.readiness = Readiness::Sanitizing { unrestricted: request.unrestricted_exit };
        self.refresh(state);
        Ok(Reply::effects(vec![Effect::Sanitize {
            method,
            immediate: request.immediate,
            unrestricted_exit: request.unrestricted_exit,
        }]))
    }

    fn exit_failure_mode(&self, state: &mut State) -> Result<Reply, Sense> {
        match state.readiness {
            Readiness::SanitizeFailed { unrestricted: true } => {
                state.readiness = Readiness::Ready;
                self.refresh(state);
                Ok(Reply::effects(vec![Effect::ForgetSanitize]))
            }
            // Only another, successful SANITIZE leads out.
            Readiness::SanitizeFailed { unrestricted: false } => {
                Err(Sense::invalid_field_in_cdb(1, Some(4)))
            }
            _ => Ok(Reply::default()),
        }
    }

    /// Why the medium cannot be used, if it cannot.
    pub(super) fn unready(&self, state: &State) -> Option<Sense> {
        match state.readiness {
            Readiness::Ready => None,
            Readiness::Sanitizing { .. } => {
                let progress = self.sanitize_progress.load(Ordering::Relaxed);
                Some(Sense::not_ready_sanitizing(progress))
            }
            Readiness::SanitizeFailed { .. } => Some(Sense::sanitize_failed()),
        }
    }

    /// How far the sanitize operation is, in 65536ths: what REQUEST SENSE and every refused
    /// command are told.
    pub fn sanitize_progress(&self, progress: u16) {
        self.sanitize_progress.store(progress, Ordering::Relaxed);
    }

    /// At power on: a sanitize operation had not ended well before, by a loss of power or by itself. It
    /// is not resumed, so it has failed: nobody takes the medium for wiped, and nobody reads what is
    /// left (SBC-4 4.11.4).
    pub fn sanitize_was_cut_off(&self, unrestricted_exit: bool) {
        let mut state = self.state();
        state.readiness = Readiness::SanitizeFailed { unrestricted: unrestricted_exit };
        self.refresh(&state);
    }

    /// The sanitize operation has ended. After a failure the medium stays closed until another
    /// SANITIZE succeeds or EXIT FAILURE MODE is allowed and sent (SBC-4 4.11.4).
    pub fn sanitize_end(&self, succeeded: bool) {
        let mut state = self.state();
        if let Readiness::Sanitizing { unrestricted } = state.readiness {
            state.readiness = if succeeded {
                Readiness::Ready
            } else {
                Readiness::SanitizeFailed { unrestricted }
            };
            self.refresh(&state);
        }
    }
}
