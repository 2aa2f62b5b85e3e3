//! `drystone chap`.

use super::{Desk, password};
use crate::Failure;
use crate::access::secret;
use crate::cli::access::{ChapArgs, ChapCommand, LoginArgs, MutualCommand};
use crate::print::table::Column::Text;
use crate::print::table::table;
use api::types::{ChapUser, ChapUsers, Login, NewSecret, Secret};

/// Does what the command line says.
pub(crate) fn run(args: ChapArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: ChapCommand) -> anyhow::Result<()> {
    let done = match command {
        ChapCommand::List => return list(desk),
        ChapCommand::Add { login } => {
            let login = read(login)?;
            desk.ask(|member| member.add_chap_user(&login))?;
            format!("CHAP user '{}' is there", login.user)
        }
        ChapCommand::Set { login } => {
            let Login { user, secret } = read(login)?;
            desk.ask(|member| member.set_chap_secret(&user, &NewSecret { secret }))?;
            format!("CHAP user '{user}' has the new secret")
        }
        ChapCommand::Delete { user } => {
            desk.ask(|member| member.delete_chap_user(&user))?;
            format!("CHAP user '{user}' is gone")
        }
        ChapCommand::Mutual(MutualCommand::Set { login }) => {
            let login = read(login)?;
            desk.ask(|member| member.set_chap_mutual(&login))?;
            format!("volumes with an access list prove to be '{}'", login.user)
        }
        ChapCommand::Mutual(MutualCommand::Clear) => {
            desk.ask(|member| member.clear_chap_mutual())?;
            "volumes with an access list prove nothing".to_owned()
        }
    };
    desk.done(&done)
}

/// A user with its secret, from its file or from standard input; one line end at its end is not a part of
/// it.
fn read(login: LoginArgs) -> anyhow::Result<Login> {
    let text = password::read(login.secret_file.as_deref(), "secret", &login.user)?;
    let secret = Secret(secret::checked(&login.user, &text)?.secret);
    Ok(Login { user: login.user, secret })
}

fn list(desk: &Desk) -> anyhow::Result<()> {
    let users: ChapUsers = desk.ask(|member| member.chap_users())?;
    desk.show(&users, |users| {
        let ChapUsers { users, mutual } = users;
        if users.is_empty() && mutual.is_none() {
            return Ok("there are no CHAP users: 'drystone chap add USER' makes one\n".to_owned());
        }
        let state = |usable| if usable { "set" } else { "to be set again" }.to_owned();
        let row =
            |of: &ChapUser, proves: &str| [of.user.clone(), proves.to_owned(), state(of.usable)];
        let rows = users.iter().map(|user| row(user, "host"));
        let rows = rows.chain(mutual.iter().map(|user| row(user, "volumes")));
        Ok(table([Text("USER"), Text("OF"), Text("SECRET")], rows))
    })
}
