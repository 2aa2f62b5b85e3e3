//! `drystone volume reservations` and `drystone snapshot reservations`.

use super::{Desk, confirm::confirm};
use crate::cli::manage::Confirm;
use crate::cli::reservations::{ReservationsCommand, SnapshotReservationsCommand};
use crate::cli::snapshot::Which;
use crate::print::table::Column::Text;
use crate::print::table::table;
use crate::print::units;
use api::types::{Registration, ReservationType, Reservations};

/// Does what the command line says.
pub(super) fn carry_out(desk: &Desk, command: ReservationsCommand) -> anyhow::Result<()> {
    let reservations = match command {
        ReservationsCommand::Show { volume } => desk.ask(|member| member.reservations(&volume))?,
        ReservationsCommand::Clear { volume, confirm: asked } => {
            ask_first(&asked, &desk.ask(|member| member.reservations(&volume))?)?;
            desk.ask(|member| member.clear_reservations(&volume))?
        }
    };
    desk.show(&reservations, |reservations| Ok(shown(reservations)))
}

/// The same of a snapshot.
pub(super) fn of_snapshot(desk: &Desk, command: SnapshotReservationsCommand) -> anyhow::Result<()> {
    let ask = |Which { volume, name }: &Which| {
        desk.ask(|member| member.snapshot_reservations(volume, name))
    };
    let reservations = match command {
        SnapshotReservationsCommand::Show { which } => ask(&which)?,
        SnapshotReservationsCommand::Clear { which, confirm: asked } => {
            ask_first(&asked, &ask(&which)?)?;
            desk.ask(|member| member.clear_snapshot_reservations(&which.volume, &which.name))?
        }
    };
    desk.show(&reservations, |reservations| Ok(shown(reservations)))
}

/// Before what is `there` is ended.
fn ask_first(args: &Confirm, there: &Reservations) -> anyhow::Result<()> {
    let is_reserved = there.count > 0 || there.reserved_by.is_some();
    if is_reserved { confirm(args, &question(there)) } else { Ok(()) }
}

/// Of what they are.
fn subject(of: &Reservations) -> String {
    match &of.snapshot {
        None => format!("'{}'", of.volume),
        Some(name) => format!("snapshot '{name}' of '{}'", of.volume),
    }
}

fn question(of: &Reservations) -> String {
    let registrations = units::count(of.count, "registration");
    format!(
        "End all reservations of {} ({registrations})? Hosts that they keep out may write then: a cluster that relies \
         on them must be stopped.",
        subject(of)
    )
}

fn shown(of: &Reservations) -> String {
    let Reservations { reservation, persistent, reserved_by, count, count_max, .. } = of;
    let subject = subject(of);
    let held = match (reservation, reserved_by) {
        (None, None) => "no host has reserved it".to_owned(),
        (None, Some(host)) => {
            format!("{host} has reserved it until its session ends (RESERVE of SPC-2)")
        }
        (Some(kind), _) => format!("it is reserved: {}", words(*kind)),
    };
    if *count == 0 {
        return format!("{subject}: {held}, and none is registered\n");
    }
    let kept = if *persistent { ", kept over restarts" } else { "" };
    let row = |one: &Registration| {
        let holds = if one.holds { "yes" } else { "no" };
        let key = one.key.trim_start_matches('0');
        let port = one.isid.clone();
        [one.host.clone(), port, format!("0x{key}"), holds.to_owned(), one.counted_for.clone()]
    };
    let columns = [Text("HOST"), Text("PORT"), Text("KEY"), Text("HOLDS"), Text("COUNTED FOR")];
    let rows = table(columns, of.registrations.iter().map(row));
    format!("{rows}{subject}: {held}; {count} of {count_max} registrations{kept}\n")
}

/// What a reservation is called, and whom it lets in.
fn words(kind: ReservationType) -> &'static str {
    match kind {
        ReservationType::WriteExclusive => "write exclusive (only its holder writes)",
        ReservationType::ExclusiveAccess => "exclusive access (only its holder reads and writes)",
        ReservationType::WriteExclusiveRegistrantsOnly => {
            "write exclusive, registrants only (only those below write)"
        }
        ReservationType::ExclusiveAccessRegistrantsOnly => {
            "exclusive access, registrants only (only those below read and write)"
        }
        ReservationType::WriteExclusiveAllRegistrants => {
            "write exclusive, all registrants (only those below write)"
        }
        ReservationType::ExclusiveAccessAllRegistrants => {
            "exclusive access, all registrants (only those below read and write)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_who_holds_a_volume_and_who_is_registered() {
        let mut of = Reservations {
            volume: "vm".to_owned(),
            snapshot: None,
            reservation: None,
            persistent: true,
            reserved_by: None,
            count: 0,
            count_max: 512,
            registrations: Vec::new(),
        };
        assert_eq!(shown(&of), "'vm': no host has reserved it, and none is registered\n");
        let (host, isid, key) = ("iqn.a".to_owned(), "80".to_owned(), "0666".to_owned());
        let counted_for = "CHAP user bob".to_owned();
        of.registrations = vec![Registration { host, isid, key, counted_for, holds: true }];
        (of.count, of.reservation) = (1, Some(ReservationType::ExclusiveAccess));
        let wanted = "HOST   PORT  KEY    HOLDS  COUNTED FOR\niqn.a  80    0x666  yes    CHAP user bob\n'vm': it is reserved: exclusive access (only its \
                      holder reads and writes); 1 of 512 registrations, kept over restarts\n";
        assert_eq!(shown(&of), wanted);
        assert!(question(&of).starts_with("End all reservations of 'vm' (1 registration)?"));
        of.snapshot = Some("s".to_owned());
        assert!(shown(&of).contains("\nsnapshot 's' of 'vm': it is reserved: "), "{}", shown(&of));
        assert!(question(&of).starts_with("End all reservations of snapshot 's' of 'vm' (1 "));
    }
}
