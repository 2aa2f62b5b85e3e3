//! The operator of disks, who acts at any time: beside hosts, other operators, and damage that nobody
//! has noticed.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::DiskState;
use futures_util::future::{Either, select};

use super::Saboteur;
use crate::disk::Drive;
use crate::machine::Machine;
use crate::scenario::Theme;
use crate::subject::Subject;
use crate::verify;

/// Gives orders about disks, one after the other.
pub(crate) async fn disk_operator<S: Subject>(machine: Rc<Machine<S>>, orders: u32) {
    let saboteur = Saboteur(&machine);
    for _ in 0..orders {
        machine.pause(60_000).await;
        if machine.gave_up.get() {
            return;
        }
        saboteur.tidy();
        match machine.random.below(8) {
            0 => saboteur.add_all().await,
            1 | 2 => {
                if let Some(drive) = saboteur.member() {
                    saboteur.replace(&drive).await;
                }
            }
            3 => {
                if let Some(disk) = saboteur.member().and_then(|drive| machine.disk(&drive)) {
                    saboteur.retire(&disk.name).await;
                }
            }
            4 => saboteur.fail_one().await,
            5 => verify::look(&machine).await,
            6 => saboteur.rebalance().await,
            _ => {
                let scrubbed = machine.answer("scrub", machine.array.scrub()).await;
                machine.may("scrub", scrubbed);
            }
        }
    }
}

impl<S: Subject> Saboteur<'_, S> {
    /// One of the members in use, hurt or not.
    fn member(&self) -> Option<Drive> {
        let drives = self.0.drives();
        let is_online = |drive: &&Drive| self.0.state(drive) == Some(DiskState::Online);
        let all: Vec<_> = drives.iter().filter(is_online).collect();
        (!all.is_empty()).then(|| (*self.0.random.pick(&all)).clone())
    }

    /// Drives that have left go to the shelf.
    fn tidy(&self) {
        for drive in self.0.drives() {
            if self.0.state(&drive).is_none() && !self.0.coming.borrow().contains(&drive.number()) {
                drive.set_installed(false);
            }
        }
    }

    /// Everything on the shelf comes in at the same instant.
    async fn add_all(&self) {
        let shelf = self.0.shelf();
        let adds = shelf.iter().map(|drive| {
            drive.set_installed(true);
            self.swap(drive)
        });
        futures_util::future::join_all(adds).await;
    }

    /// Data moves to where there is most room, for a while; and a disk is forgiven, whatever is on it.
    async fn rebalance(&self) {
        let machine = self.0;
        let patience = Duration::from_millis(machine.random.below(20_000));
        let moving = pin!(machine.array.rebalance());
        if let Either::Left((moved, _)) = select(moving, machine.env.sleep(patience)).await {
            machine.may("rebalance", moved);
        }
        if machine.closing.get() {
            return;
        }
        let cancelled = machine.answer("cancel", machine.array.cancel_rebalance()).await;
        machine.may("cancel", cancelled);
        if let Some(disk) = self.member().and_then(|drive| machine.disk(&drive)) {
            // Another operator may have taken it out.
            if let Err(refusal) =
                machine.answer("clear", machine.array.clear_disk(&disk.name)).await
            {
                machine.env.note(refusal.to_string());
            }
        }
    }

    /// A disk is declared failed, if the level bears that beside all that is hurt.
    async fn fail_one(&self) {
        let Some(drive) = self.member().filter(|drive| self.0.may_hurt(drive)) else { return };
        let Some(disk) = self.0.disk(&drive) else { return };
        self.0.hurts(&drive);
        self.0.orders.set(self.0.orders.get() + 1);
        // It may be needed still: nobody else has its data before a rebuild has ended.
        if let Err(refusal) = self.0.answer("fail", self.0.array.fail_disk(&disk.name)).await {
            self.0.env.note(refusal.to_string());
        }
        self.0.orders.set(self.0.orders.get() - 1);
        if self.0.scenario.theme == Theme::Crowd {
            self.0.pause(5_000).await;
        }
    }
}
