//! Everything up to the moment at which the target serves.

use crate::cli::export::ExportArgs;
use crate::export::disks;
use crate::export::ready::Lun;
use crate::serve::{self, State, plan::Plan};
use target::{Server, TargetSpec};

/// Opens the disks and starts to serve them.
pub(crate) fn start(args: &ExportArgs, plan: &Plan) -> anyhow::Result<(Server, Vec<Lun>)> {
    let state_dir = serve::state_dir(args.state_dir.as_ref(), "--state-dir")?;
    let (units, luns) = disks::open_all(&args.specs, &args.iqn)?.into_iter().unzip();
    let target =
        TargetSpec { iqn: args.iqn.clone(), alias: args.alias.clone(), units, access: None };
    let state = State::of_files(&state_dir)?;
    let config = serve::config(&args.serve, plan, vec![target], state, 0, None)?;
    let server = Server::start(config).map_err(|error| serve::explain(&error))?;
    Ok((server, luns))
}
