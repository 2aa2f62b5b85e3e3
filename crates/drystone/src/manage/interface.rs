//! `drystone member show`: where a running member is managed from afar.

use super::Desk;
use crate::Failure;
use crate::cli::manage::MemberArgs;
use crate::print::details::details;
use api::types::Interface;

/// What is said of one that does not listen.
const ALONE: &str = "it is managed by its socket alone: start it with --api-listen ADDR:PORT to manage it from afar\n";

/// Prints it.
pub(crate) fn run(args: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(args)?;
    let interface = desk.ask(|member| member.interface())?;
    Ok(desk.show(&interface, shown)?)
}

fn shown(interface: &Interface) -> anyhow::Result<String> {
    match (&interface.certificate_sha256, &interface.not_over_tls) {
        (Some(_), _) => Ok(details(interface)?),
        (None, Some(why)) => Ok(format!(
            "it is managed by its socket alone, although it was started to be from afar: {why}\n"
        )),
        (None, None) => Ok(ALONE.to_owned()),
    }
}
