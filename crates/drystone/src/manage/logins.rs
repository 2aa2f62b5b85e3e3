//! `drystone account` and `drystone token`.

use super::Desk;
use super::confirm::confirm;
use super::password;
use crate::Failure;
use crate::cli::logins::{AccountArgs, AccountCommand, TokenArgs, TokenCommand};
use crate::print::table::Column::Text;
use crate::print::table::table;
use crate::print::units;
use anyhow::bail;
use api::types::{
    Account, AccountChange, CreatedToken, NewAccount, NewToken, Password, Role, Token,
};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Does what `drystone account` says.
pub(crate) fn account(args: AccountArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out_account(&desk, args.command)?)
}

fn carry_out_account(desk: &Desk, command: AccountCommand) -> anyhow::Result<()> {
    match command {
        AccountCommand::List => {
            let accounts = desk.ask(|member| member.accounts())?;
            desk.show(&accounts, |accounts| Ok(accounts_text(accounts)))
        }
        AccountCommand::Add { name, role, password } => {
            let password = typed(password.password_file.as_deref(), &name)?;
            let new = NewAccount { name, role: role.into(), password };
            let account = desk.ask(|member| member.add_account(&new))?;
            desk.show(&account, |account| Ok(accounts_text(std::slice::from_ref(account))))
        }
        AccountCommand::Set { name, role, password, file, disable, enable } => {
            let is_new = password || file.password_file.is_some();
            let change = AccountChange {
                role: role.map(Into::into),
                password: is_new
                    .then(|| typed(file.password_file.as_deref(), &name))
                    .transpose()?,
                disabled: (disable || enable).then_some(disable),
            };
            if change == AccountChange::default() {
                bail!(
                    "nothing is to be changed: write one of --role, --password, --password-file, --disable and --enable"
                );
            }
            let account = desk.ask(|member| member.change_account(&name, &change))?;
            desk.show(&account, |account| Ok(accounts_text(std::slice::from_ref(account))))
        }
        AccountCommand::Remove { name, confirm: asked } => {
            confirm(&asked, &format!("Remove account '{name}'?"))?;
            desk.ask(|member| member.remove_account(&name))?;
            desk.done(&format!("account '{name}' is gone"))
        }
    }
}

fn typed(file: Option<&Path>, account: &str) -> anyhow::Result<Password> {
    password::read(file, "password", account).map(Password)
}

fn accounts_text(accounts: &[Account]) -> String {
    if accounts.is_empty() {
        return "there are no accounts: 'drystone account add NAME --role ROLE' makes one\n"
            .to_owned();
    }
    let row = |account: &Account| {
        let login = if account.disabled { "disabled" } else { "enabled" };
        let made = units::time(account.created_unix_seconds);
        [account.name.clone(), word(account.role), login.to_owned(), made]
    };
    let columns = [Text("NAME"), Text("ROLE"), Text("LOGIN"), Text("MADE")];
    table(columns, accounts.iter().map(row))
}

fn word(role: Role) -> String {
    group::accounts::Role::from(role).word().to_owned()
}

/// Does what `drystone token` says.
pub(crate) fn token(args: TokenArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out_token(&desk, args.command)?)
}

fn carry_out_token(desk: &Desk, command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::List => {
            let tokens = desk.ask(|member| member.tokens())?;
            desk.show(&tokens, |tokens| Ok(tokens_text(tokens)))
        }
        TokenCommand::Create { name, role, expires } => {
            let expires_unix_seconds = expires.map(|after| (now() + after).as_secs());
            let new = NewToken { name, role: role.into(), expires_unix_seconds };
            let created = desk.ask(|member| member.create_token(&new))?;
            // Nothing but the token, so that it can go to a file.
            desk.show(&created, |CreatedToken { token, .. }| Ok(format!("{token}\n")))
        }
        TokenCommand::Revoke { name } => {
            desk.ask(|member| member.revoke_token(&name))?;
            desk.done(&format!("token '{name}' is worth nothing any more"))
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn tokens_text(tokens: &[Token]) -> String {
    if tokens.is_empty() {
        return "there are no tokens: 'drystone token create NAME --role ROLE' makes one\n"
            .to_owned();
    }
    let now = now().as_secs();
    let row = |token: &Token| {
        let expires = match token.expires_unix_seconds {
            None => "never".to_owned(),
            Some(end) if end <= now => "expired".to_owned(),
            Some(end) => units::time(end),
        };
        let used = token.used_unix_seconds.map_or("never".to_owned(), units::time);
        let made = units::time(token.created_unix_seconds);
        [token.name.clone(), word(token.role), made, expires, used]
    };
    let columns =
        [Text("NAME"), Text("ROLE"), Text("MADE"), Text("EXPIRES"), Text("USED (TO THE HOUR)")];
    table(columns, tokens.iter().map(row))
}
