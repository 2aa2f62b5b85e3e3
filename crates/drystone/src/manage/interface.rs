//! `drystone member show`: where a running member is managed from afar.

use super::Desk;
use crate::Failure;
use crate::cli::manage::MemberArgs;
use crate::print::details::details;

/// What is said of one that does not listen.
const ALONE: &str = "it is managed by its socket alone: start it with --api-listen ADDR:PORT to manage it from afar; 'drystone status' says why, if it was\n";

/// Prints it.
pub(crate) fn run(args: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(args)?;
    let interface = desk.ask(|member| member.interface())?;
    Ok(desk.show(&interface, |interface| match interface.certificate_sha256 {
        Some(_) => Ok(details(interface)?),
        None => Ok(ALONE.to_owned()),
    })?)
}
