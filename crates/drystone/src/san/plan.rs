//! What has to be changed on a member for it to be as a file says, and what that takes away.
//!
//! What a new section leaves out is as with the command that makes one.

use super::diff::{Difference, How, KeyDifference};
use super::read::SecretFiles;
use super::schema::{DESTINATIONS, UNLISTED, when};
use super::write::shown;
use super::{Keys, San, Value, destinations};
use api::types::{
    AccessChange, AccountChange, Cache, ConfigurationChange, Entry, HostRecord, Level, Login,
    NamedAccountChange, NamedDestinationChange, NamedHosts, NamedScheduleChange, NewAccount,
    NewConfiguredVolume, NewSchedule, NewVolume, Password, PolicyUse, Role, ScheduleChange, Secret,
    VolumeSetChange, When,
};
use array::CLUSTER_BYTES;
use group::access::Record;
use member::spec::size;
use serde::de::DeserializeOwned;

/// What has to be done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) change: ConfigurationChange,
    /// What is destroyed, and who loses access.
    pub(crate) losses: Vec<String>,
}

/// Reads a secret or a password from a file: the kind of section, its key, the file, and whose it is.
pub(crate) type Secrets<'a> = &'a dyn Fn(&str, &str, &str, &str) -> anyhow::Result<String>;

/// Plans all differences.
///
/// # Errors
/// All that cannot be done, and what to do about it.
pub(crate) fn plan(
    differences: &[Difference],
    file: &San,
    files: &SecretFiles,
    secrets: Secrets<'_>,
) -> Result<Plan, Vec<String>> {
    let mut planner = Planner { file, files, secrets, plan: Plan::default() };
    let mut refused = Vec::new();
    if file.sections.get("mutual-chap").is_some_and(|all| all.len() > 1) {
        refused.push("volumes can prove to be one user only: write one [mutual-chap.NAME]".into());
    }
    for difference in differences {
        if let Err(why) = planner.difference(difference) {
            refused.push(format!("{} '{}': {why}", difference.kind, difference.name));
        }
    }
    if refused.is_empty() { Ok(planner.plan) } else { Err(refused) }
}

struct Planner<'a> {
    file: &'a San,
    files: &'a SecretFiles,
    secrets: Secrets<'a>,
    plan: Plan,
}

type Outcome = Result<(), String>;

impl Planner<'_> {
    fn difference(&mut self, difference: &Difference) -> Outcome {
        let Difference { kind, name, how, keys, .. } = difference;
        let is_lost = difference.renewed(self.files)?.is_some();
        match (*how, *kind) {
            (How::OnlyOnMember, kind) => self.goes(kind, name),
            (How::OnlyInFile, kind) => self.comes(kind, name),
            (How::Differs, "volume") => self.volume(name, keys),
            (How::Differs, "schedule") => self.schedule(name, keys),
            (How::Differs, "policy") => self.policy(name, keys),
            (How::Differs, "account") => self.account(name, keys),
            (How::Differs, kind) if DESTINATIONS.contains(&kind) => {
                self.destination(kind, name, keys, is_lost)
            }
            (How::Differs, kind @ ("chap" | "mutual-chap")) if is_lost => self.login_is(kind, name),
            (How::Differs, _) => Err("it has no keys that can differ".to_owned()),
        }
    }

    fn loses(&mut self, what: String) {
        self.plan.losses.push(what);
    }

    fn goes(&mut self, kind: &str, name: &str) -> Outcome {
        let change = &mut self.plan.change;
        match kind {
            "volume" => {
                return Err(format!(
                    "the file does not have it, and apply deletes no volume: write it into the file, or delete it ('drystone volume offline {name}', then 'drystone volume delete {name}')"
                ));
            }
            "schedule" => change.delete_schedules.push(name.to_owned()),
            "policy" => change.delete_policies.push(name.to_owned()),
            "chap" => change.delete_chap_users.push(name.to_owned()),
            "account" => change.remove_accounts.push(name.to_owned()),
            kind if DESTINATIONS.contains(&kind) => {
                change.delete_destinations.push(name.to_owned());
            }
            _ => {
                let another =
                    self.file.sections.get("mutual-chap").is_some_and(|all| !all.is_empty());
                change.clear_chap_mutual = !another;
            }
        }
        self.loses(format!("{kind} '{name}' goes"));
        Ok(())
    }

    fn comes(&mut self, kind: &'static str, name: &str) -> Outcome {
        let nothing = Keys::new();
        let keys = self.file.sections.get(kind).and_then(|all| all.get(name)).unwrap_or(&nothing);
        match kind {
            "volume" => self.plan.change.new_volumes.push(new_volume(name, keys)?),
            "schedule" => self.plan.change.schedules.push(new_schedule(name, keys)?),
            "policy" => {
                let hosts = keys.get("hosts").map(hosts).transpose()?.unwrap_or_default();
                self.plan.change.policies.push(NamedHosts { name: name.to_owned(), hosts });
            }
            "account" => return self.new_account(name, keys),
            kind if DESTINATIONS.contains(&kind) => {
                let new = destinations::new(kind, name, keys, &|key| {
                    self.secret_if_named(kind, key, name)
                })?;
                self.plan.change.destinations.push(new);
            }
            _ => self.login_is(kind, name)?,
        }
        Ok(())
    }

    fn destination(
        &mut self,
        kind: &'static str,
        name: &str,
        differences: &[KeyDifference],
        is_lost: bool,
    ) -> Outcome {
        let nothing = Keys::new();
        let keys = self.file.sections.get(kind).and_then(|all| all.get(name)).unwrap_or(&nothing);
        let secret = |key| self.secret_if_named(kind, key, name);
        let change = destinations::change(kind, keys, differences, is_lost, &secret)?;
        let name = name.to_owned();
        self.plan.change.change_destinations.push(NamedDestinationChange { name, change });
        Ok(())
    }

    /// What a section that is new has in its file.
    fn secret(&self, kind: &'static str, key: &'static str, name: &str) -> Result<String, String> {
        let secret = self.secret_if_named(kind, key, name)?;
        secret.ok_or_else(|| format!("it is new: write {key} = \"FILE\""))
    }

    /// What is in the file that a key names, if it is written.
    fn secret_if_named(
        &self,
        kind: &'static str,
        key: &'static str,
        name: &str,
    ) -> Result<Option<String>, String> {
        let Some(path) = self.files.get(&(kind, name.to_owned(), key)) else { return Ok(None) };
        (self.secrets)(kind, key, path, name).map(Some).map_err(|error| format!("{error:#}"))
    }

    /// What hosts prove, or volumes to them: it is new, or its secret is lost.
    fn login_is(&mut self, kind: &'static str, name: &str) -> Outcome {
        let secret = Secret(self.secret(kind, "secret-file", name)?);
        let login = Login { user: name.to_owned(), secret };
        match kind {
            "chap" => self.plan.change.chap_users.push(login),
            _ => self.plan.change.chap_mutual = Some(login),
        }
        Ok(())
    }

    fn new_account(&mut self, name: &str, keys: &Keys) -> Outcome {
        let role = word::<Role>(needed(keys, "role")?)?;
        let password = Password(self.secret("account", "password-file", name)?);
        let name = name.to_owned();
        self.plan.change.accounts.push(NewAccount { name: name.clone(), role, password });
        if keys.get("disabled") == Some(&Value::Switch(true)) {
            let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
            self.plan.change.change_accounts.push(NamedAccountChange { name, change });
        }
        Ok(())
    }

    fn account(&mut self, name: &str, keys: &[KeyDifference]) -> Outcome {
        let mut change = AccountChange::default();
        for KeyDifference { key, file, member } in keys {
            match (*key, file) {
                ("disabled", Value::Switch(disabled)) => {
                    change.disabled = Some(*disabled);
                    if *disabled {
                        self.loses(format!("account '{name}' may not log in any more"));
                    }
                }
                _ => {
                    let role = word::<Role>(file)?;
                    change.role = Some(role);
                    let before = member.as_ref().map(word::<Role>).transpose()?;
                    if before.is_none_or(|before| role < before) {
                        self.loses(format!("account '{name}' may do less"));
                    }
                }
            }
        }
        let name = name.to_owned();
        self.plan.change.change_accounts.push(NamedAccountChange { name, change });
        Ok(())
    }

    fn policy(&mut self, name: &str, keys: &[KeyDifference]) -> Outcome {
        for KeyDifference { file, member, .. } in keys {
            if takes(member.as_ref(), file) {
                self.loses(format!("hosts go from policy '{name}'"));
            }
            let (name, hosts) = (name.to_owned(), hosts(file)?);
            self.plan.change.policies.push(NamedHosts { name, hosts });
        }
        Ok(())
    }

    fn schedule(&mut self, name: &str, keys: &[KeyDifference]) -> Outcome {
        let mut change = ScheduleChange::default();
        for KeyDifference { key, file, member } in keys {
            match (*key, file) {
                ("paused", Value::Switch(paused)) => change.paused = Some(*paused),
                ("keep", keep) => {
                    change.keep = Some(number(keep)?);
                    if member.as_ref().map(number).transpose()? > change.keep {
                        self.loses(format!("schedule '{name}' deletes its older snapshots"));
                    }
                }
                ("volumes", Value::Texts(volumes)) if volumes.is_empty() => return Err(of_none()),
                ("volumes", Value::Texts(volumes)) => change.volumes = Some(volumes.clone()),
                (_, due) => change.when = Some(timing(due)?),
            }
        }
        let name = name.to_owned();
        self.plan.change.change_schedules.push(NamedScheduleChange { name, change });
        Ok(())
    }

    fn volume(&mut self, name: &str, keys: &[KeyDifference]) -> Outcome {
        let mut change = VolumeSetChange { name: name.to_owned(), ..VolumeSetChange::default() };
        for difference in keys {
            let KeyDifference { key, file, member } = difference;
            match (*key, file) {
                ("size", wanted) => {
                    let wanted = volume_bytes(wanted)?;
                    if member.as_ref().map(bytes).transpose()? > Some(wanted) {
                        return Err(format!(
                            "it would lose what lies behind its new end, and apply makes no volume smaller: 'drystone volume resize {name} {wanted} --shrink' does"
                        ));
                    }
                    change.size_bytes = Some(wanted);
                }
                ("read-ahead", ahead) => change.read_ahead_bytes = Some(small(ahead)?),
                ("read-cache", Value::Switch(cached)) => change.cached = Some(*cached),
                ("online", Value::Switch(online)) => {
                    change.online = Some(*online);
                    if !online {
                        self.loses(format!("hosts are logged out of volume '{name}'"));
                    }
                }
                ("shared", Value::Switch(shared)) => {
                    change.shared = Some(*shared);
                    if !shared {
                        self.loses(format!("volume '{name}' is for one host at a time"));
                    }
                }
                ("access", access) => {
                    if takes(member.as_ref(), access) {
                        self.loses(format!("hosts go from the access list of volume '{name}'"));
                    }
                    change.access = Some(access_change(access)?);
                }
                _ => return Err(cannot_change(difference)),
            }
        }
        self.plan.change.volumes.push(change);
        Ok(())
    }
}

fn cannot_change(difference: &KeyDifference) -> String {
    let KeyDifference { key, member, file } = difference;
    let member = member.as_ref().map_or_else(|| "nothing".to_owned(), shown);
    format!(
        "{key} is {member} and cannot become {}, as that stays what the volume was made with: write {key} = {member}, or make another volume",
        shown(file)
    )
}

/// Whether somebody may lose access: somebody is not named any more, or a list begins or ends.
fn takes(before: Option<&Value>, after: &Value) -> bool {
    match (before, after) {
        (Some(Value::Texts(before)), Value::Texts(after)) => {
            before.iter().any(|entry| !after.contains(entry))
        }
        _ => true,
    }
}

fn new_volume(name: &str, keys: &Keys) -> Result<NewConfiguredVolume, String> {
    let is_on = |key| keys.get(key) == Some(&Value::Switch(true));
    let cache = keys.get("cache").map(word::<Cache>).transpose()?.unwrap_or_default();
    let block_bytes = keys.get("block").map(number).transpose()?.unwrap_or(BLOCK_BYTES_USUAL);
    let volume = NewVolume {
        name: name.to_owned(),
        size_bytes: volume_bytes(needed(keys, "size")?)?,
        raid: keys.get("raid").map(word::<Level>).transpose()?,
        thick: is_on("thick"),
        block_bytes,
        cache,
        read_ahead_bytes: keys.get("read-ahead").map(small).transpose()?,
        cached: keys.get("read-cache") != Some(&Value::Switch(false)),
        pool: None,
        spread: None,
    };
    let online = keys.get("online") != Some(&Value::Switch(false));
    let access = keys.get("access").map(access_change).transpose()?;
    Ok(NewConfiguredVolume { volume, online, shared: is_on("shared"), access })
}

/// What a volume has that names no block, as with `drystone volume create`.
const BLOCK_BYTES_USUAL: u32 = 512;

fn new_schedule(name: &str, keys: &Keys) -> Result<NewSchedule, String> {
    let Value::Texts(volumes) = needed(keys, "volumes")? else { return Err(strange()) };
    if volumes.is_empty() {
        return Err(of_none());
    }
    Ok(NewSchedule {
        name: name.to_owned(),
        volumes: volumes.clone(),
        when: timing(needed(keys, "when")?)?,
        keep: number(needed(keys, "keep")?)?,
        paused: keys.get("paused") == Some(&Value::Switch(true)),
    })
}

pub(super) fn needed<'a>(keys: &'a Keys, key: &str) -> Result<&'a Value, String> {
    keys.get(key).ok_or_else(|| format!("it is new: write {key} too"))
}

fn access_change(value: &Value) -> Result<AccessChange, String> {
    match value {
        Value::Text(text) if text == UNLISTED => Ok(AccessChange::Unlisted),
        Value::Texts(all) => {
            all.iter().map(|text| entry(text)).collect::<Result<_, _>>().map(AccessChange::Listed)
        }
        _ => Err(strange()),
    }
}

fn entry(text: &str) -> Result<Entry, String> {
    let Some((name, scope)) =
        text.strip_prefix("policy=").and_then(|rest| rest.split_once(" for="))
    else {
        return host(text).map(Entry::Record);
    };
    let scope = scope.parse::<group::access::Scope>().map_err(|error| error.to_string())?;
    Ok(Entry::Policy(PolicyUse { name: name.to_owned(), scope: scope.into() }))
}

fn hosts(value: &Value) -> Result<Vec<HostRecord>, String> {
    let Value::Texts(all) = value else { return Err(strange()) };
    all.iter().map(|text| host(text)).collect()
}

fn host(text: &str) -> Result<HostRecord, String> {
    let record = text.parse::<Record>().map_err(|error| error.to_string())?;
    Ok(record.parts().clone().into())
}

fn timing(value: &Value) -> Result<When, String> {
    let Value::Text(text) = value else { return Err(strange()) };
    when(text).map(Into::into)
}

fn bytes(value: &Value) -> Result<u64, String> {
    let Value::Text(text) = value else { return Err(strange()) };
    if text == "0" {
        return Ok(0);
    }
    size::parse(text).map_err(|error| error.to_string())
}

/// The size of a volume. A member rounds others up: then it would never be as the file says.
fn volume_bytes(value: &Value) -> Result<u64, String> {
    let wanted = bytes(value)?;
    let unit = CLUSTER_BYTES as u64;
    match wanted.checked_next_multiple_of(unit) {
        Some(whole) if whole != wanted => Err(format!(
            "volumes have whole multiples of {}: write size = \"{}\"",
            size::short(unit),
            size::short(whole)
        )),
        _ => Ok(wanted),
    }
}

fn small(value: &Value) -> Result<u32, String> {
    u32::try_from(bytes(value)?).map_err(|_| format!("{} is too much", shown(value)))
}

pub(super) fn number(value: &Value) -> Result<u32, String> {
    let Value::Number(number) = value else { return Err(strange()) };
    u32::try_from(*number).map_err(|_| format!("{number} is too much"))
}

/// A word of the interface, which are the words of files.
pub(super) fn word<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let Value::Text(text) = value else { return Err(strange()) };
    serde_json::from_value(text.as_str().into()).map_err(|error| error.to_string())
}

/// The schema lets nothing of another kind in.
fn of_none() -> String {
    "a schedule cannot be of no volumes: name one, or leave the schedule out".to_owned()
}

fn strange() -> String {
    "a key has another kind of value than it can have".to_owned()
}

#[cfg(test)]
mod tests;
