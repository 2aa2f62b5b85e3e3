//! `drystone member check`: whether a file reads, and whether all is there that it names.

use super::config::{self, Config, DISK_KEYS, is_pattern, texts};
use super::service_user::{self, ServiceUser};
use crate::Failure;
use crate::access::secret;
use crate::advice::Advised;
use crate::cli::up::ApiArgs;
use crate::cli::words::{Refused, Words};
use crate::print;
use crate::serve::plan::Plan;
use crate::serve::{self, portals};
use crate::up::{self, socket};
use anyhow::anyhow;
use api::server::Identity;
use member::memory::Machine;
use member::spec::disk::MemberDisk;
use serde::Serialize;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use target::StartError;

/// Whether the member starts in spite of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    /// It does.
    Warning,
    /// It does not.
    Error,
}

/// Something to look at.
#[derive(Debug, Serialize)]
struct Finding {
    severity: Severity,
    /// Of the file, counted from 1.
    line: Option<usize>,
    text: String,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    config: &'a Path,
    findings: Vec<Finding>,
}

/// Prints what is wrong.
///
/// # Errors
/// The member would not start.
pub(super) fn run(path: &Path, json: bool) -> Result<(), Failure> {
    let (findings, summary) = match config::read(path) {
        Ok(config) => {
            let mut findings = look(&config);
            if let Some(user) = ServiceUser::find() {
                findings.extend(look_as(&user, path, &config));
            }
            findings.sort_by_key(|finding| finding.line);
            (findings, summary(&config))
        }
        Err(unusable) => (unusable.refused().into_iter().map(error).collect(), String::new()),
    };
    let errors = findings.iter().filter(|it| it.severity == Severity::Error).count();
    let shown = path.display();
    if json {
        print::json(&Report { config: path, findings })?;
    } else {
        for Finding { severity, line, text } in &findings {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            let severity = if *severity == Severity::Error { "error" } else { "warning" };
            print::out(&format!("{shown}{line}: {severity}: {text}\n"))?;
        }
        if errors == 0 {
            print::out(&format!("{shown}: the member can start: {summary}\n"))?;
        }
    }
    match errors {
        0 => Ok(()),
        1 => {
            Err(anyhow!("the member does not start with '{shown}': mend what is said above").into())
        }
        n => {
            Err(anyhow!("the member does not start with '{shown}': mend the {n} errors above")
                .into())
        }
    }
}

fn summary(config: &Config) -> String {
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}, {}",
        counted(config.up.disks.len() + config.up.journals.len(), "disk"),
        counted(config.up.serve.portals.len(), "portal")
    )
}

fn error(refused: Refused) -> Finding {
    Finding { severity: Severity::Error, line: refused.line, text: refused.what }
}

fn warning(refused: Refused) -> Finding {
    Finding { severity: Severity::Warning, ..error(refused) }
}

/// What the file names and is not as it should be.
fn look(config: &Config) -> Vec<Finding> {
    let at = |key: &str, what: String| {
        let line = config.entries.iter().find(|entry| entry.key == key).map(|entry| entry.line);
        Refused { line, what }
    };
    let mut findings: Vec<Finding> = config.unmatched.iter().cloned().map(warning).collect();
    findings.extend(missing_disks(config).into_iter().map(warning));
    for (key, file) in [
        ("chap-file", &config.up.serve.chap_file),
        ("mutual-chap-file", &config.up.serve.mutual_chap_file),
    ] {
        // One that is not there is told of below.
        if let Some(Err(open)) =
            file.as_ref().filter(|it| it.exists()).map(|it| secret::must_be_private(it))
        {
            findings.push(warning(at(key, open.to_string())));
        }
    }
    if let Err(refused) = Plan::of(&config.up.serve, |_| None) {
        findings.push(error(at("chap-file", refused.to_string())));
    }
    findings.extend(config.up.serve.portals.iter().filter_map(|portal| {
        let refused = portals::try_bind(portal).err()?;
        let is_in_use = refused.kind() == ErrorKind::AddrInUse;
        let refused = serve::explain(&StartError::Portal { portal: *portal, source: refused });
        let refused = at("portal", refused.to_string());
        // Most likely by the member itself, which runs.
        Some(if is_in_use { warning(refused) } else { error(refused) })
    }));
    if let Err(refused) = config.up.cache_memory.bytes_on(Machine::look()) {
        findings.push(error(at("cache-memory", refused.to_string())));
    }
    if let Err(refused) = serve::congestion(&config.up.serve.congestion) {
        findings.push(error(at("congestion", in_keys(&refused.to_string()))));
    }
    if let Some(Err(refused)) = config.up.socket.socket.as_deref().map(socket::look) {
        findings.push(warning(at("socket", in_keys(&refused))));
    }
    if let Some(refused) = up::refused_by_data(&config.up) {
        findings.push(error(at("data", refused.sentence())));
    }
    findings.extend(look_at_interface(
        &config.up.api,
        (&config.up.serve.portals, config.up.data.as_deref()),
        at,
    ));
    if let Some(data) = config.up.data.as_ref().filter(|data| data.exists() && !data.is_dir()) {
        let what = format!("'{}' is no directory: write another", data.display());
        findings.push(error(at("data", what)));
    }
    if let Some(Err(refused)) =
        config.up.data.as_ref().map(|data| serve::check_name(data, "--data"))
    {
        findings.push(error(at("data", in_keys(&refused.to_string()))));
    }
    findings
}

/// What a start says, in the words of the file.
fn in_keys(sentence: &str) -> String {
    Words::of("up", None, &[]).in_keys(sentence)
}

/// What the user of the service may not use of what the file names, and of the file itself.
fn look_as(user: &ServiceUser, path: &Path, config: &Config) -> Vec<Finding> {
    let refused = match user.refused(user.needs(path, config)) {
        Ok(refused) => refused,
        Err(why) => return vec![warning(service_user::not_looked(&why).into())],
    };
    let told = refused.iter().map(|need| {
        let line = config.entries.iter().find(|entry| entry.key == need.key).map(|it| it.line);
        let refused = Refused { line, what: need.sentence() };
        if need.is_vital { error(refused) } else { warning(refused) }
    });
    told.collect()
}

/// What keeps the member from being managed over TLS, and from nothing else.
fn look_at_interface(
    args: &ApiArgs,
    (portals, data): (&[SocketAddr], Option<&Path>),
    at: impl Fn(&str, String) -> Refused,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(what) = args.check(portals) {
        let keys = ["api-listen", "api-certificate", "api-key"];
        let is_given = [!args.api_listen.is_empty(), args.api_certificate.is_some(), true];
        let key =
            keys.into_iter().zip(is_given).find_map(|(key, is_given)| is_given.then_some(key));
        let key = key.unwrap_or(keys[0]);
        findings.push(error(at(key, in_keys(&what))));
    }
    if let Some((certificate, key)) = args.api_certificate.as_ref().zip(args.api_key.as_ref())
        && let Err(refused) = Identity::load(certificate, key)
    {
        findings.push(warning(at("api-certificate", refused.to_string())));
    }
    if let Some(data) =
        data.filter(|_| !args.api_listen.is_empty() && args.api_certificate.is_none())
        && let Some(Err(refused)) = Identity::of_directory(data)
    {
        findings.push(warning(at("data", refused.to_string())));
    }
    for address in &args.api_listen {
        if let Err(refused) = portals::try_bind(address) {
            let what = format!("cannot listen on {address} to be managed over TLS: {refused}");
            findings.push(warning(at("api-listen", what)));
        }
    }
    findings
}

/// Disks that were named and are not there: an array opens without some.
fn missing_disks(config: &Config) -> Vec<Refused> {
    let mut missing = Vec::new();
    for entry in config.entries.iter().filter(|entry| DISK_KEYS.contains(&entry.key.as_str())) {
        for text in texts(&entry.value).iter().filter(|text| !is_pattern(text)) {
            let Ok(disk) = text.parse::<MemberDisk>() else { continue };
            if let Some(path) = disk.path().filter(|path| !disk.is_new() && !path.exists()) {
                let what = format!(
                    "disk '{}' is not there: an array opens without it if the others have its data",
                    path.display()
                );
                missing.push(Refused { line: Some(entry.line), what });
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_root_may_use_and_the_service_may_not_is_told_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().display();
        let at = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at("data")).unwrap();
        for name in ["chap", "key", "disk", "data/events.0", "member.toml"] {
            fs::write(at(name), "alice:sixteen-bytes-ok").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(at("data"), Permissions::from_mode(0o777)).unwrap();
        let text = format!(
            "disk = '{shown}/disk'\nchap-file = '{shown}/chap'\napi-key = '{shown}/key'\n\
             api-certificate = '{shown}/none'\ndata = '{shown}/data'\n"
        );
        fs::write(at("member.toml"), text).unwrap();
        let path = at("member.toml");
        let config = config::read(&path).unwrap();
        let findings = look_as(&ServiceUser::nobody(), &path, &config);
        if !rustix::process::geteuid().is_root() {
            assert!(findings[0].text.contains("was not looked at"), "{findings:?}");
            return;
        }
        let told = |name: &str, may: &str| {
            format!(
                "the service runs as the user 'drystone', who cannot {may} '{shown}/{name}': run chown "
            )
        };
        let wanted = [
            (Severity::Error, None, told("member.toml", "read")),
            (Severity::Error, Some(2), told("chap", "read")),
            (Severity::Warning, Some(3), told("key", "read")),
            (Severity::Warning, Some(1), told("disk", "read and write")),
            (Severity::Warning, Some(5), told("data/events.0", "read and write")),
        ];
        assert_eq!(findings.len(), wanted.len(), "{findings:?}");
        for (found, (severity, line, begins)) in findings.iter().zip(wanted) {
            assert_eq!((found.severity, found.line), (severity, line), "{found:?}");
            assert!(found.text.starts_with(&begins), "{found:?} is not {begins}");
        }
        for name in ["chap", "key", "disk", "data/events.0", "member.toml"] {
            fs::set_permissions(at(name), Permissions::from_mode(0o666)).unwrap();
        }
        assert_eq!(look_as(&ServiceUser::nobody(), &path, &config).len(), 0);
        let told_of_socket = |socket: &str| {
            fs::write(&path, format!("disk = 'ram:1G'\nsocket = '{socket}'\n")).unwrap();
            look_as(&ServiceUser::nobody(), &path, &config::read(&path).unwrap())
        };
        let findings = told_of_socket(&format!("{shown}/not/there/control.sock"));
        assert_eq!((findings[0].severity, findings[0].line), (Severity::Warning, Some(2)));
        let wanted = format!("cannot make a control socket in '{shown}', so that no command ");
        assert!(findings[0].text.contains(&wanted), "{findings:?}");
        // Systemd makes that.
        assert_eq!(told_of_socket("/run/drystone-member/control.sock").len(), 0);
    }

    #[test]
    fn a_pair_for_tls_that_the_member_made_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (dir.path().join("data"), dir.path().join("member.toml"));
        fs::create_dir(&data).unwrap();
        let (data, listens) = (data.as_path(), ["127.0.0.1".parse().unwrap()]);
        let text = format!(
            "disk = 'ram:1G'\nportal = '127.0.0.1:0'\napi-listen = '127.0.0.1:0'\ndata = '{}'\n",
            data.display()
        );
        fs::write(&path, text).unwrap();
        let found = || look(&config::read(&path).unwrap());
        assert_eq!(found().len(), 0, "there is none yet");
        Identity::load_or_make(data, &listens).unwrap();
        assert_eq!(found().len(), 0);
        let key = data.join("api-key.pem");
        fs::set_permissions(&key, Permissions::from_mode(0o666)).unwrap();
        let told = found();
        assert_eq!((told.len(), told[0].severity, told[0].line), (1, Severity::Warning, Some(4)));
        assert!(told[0].text.contains("run chmod 600 on it"), "{told:?}");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        fs::write(data.join("api-certificate.pem"), "").unwrap();
        assert!(found()[0].text.contains("holds no certificate in PEM"), "{:?}", found());
    }

    /// The start was refused for ever, and the check said that all is well.
    #[test]
    fn hosts_that_would_be_let_in_without_a_check_are_told_as_the_start_tells_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member.toml");
        fs::write(dir.path().join("access"), "chap\nallow\n").unwrap();
        let found = |more: &str| {
            let shown = dir.path().display();
            let text = format!("disk = 'ram:1G'\nportal = '127.0.0.1:0'\ndata = '{shown}'\n{more}");
            fs::write(&path, text).unwrap();
            look(&config::read(&path).unwrap())
        };
        assert_eq!(found("").len(), 0, "it lets nobody in");
        let told = found("allow = '127.0.0.0/8'\n");
        assert_eq!((told.len(), told[0].severity, told[0].line), (1, Severity::Error, Some(3)));
        let doors = member::data::doors::Doors { chap: false, allow: true };
        assert_eq!(told[0].text, doors.check(dir.path()).unwrap_err().sentence());
        assert!(told[0].text.contains("remembers that hosts log in by CHAP"), "{told:?}");
        fs::write(dir.path().join("access"), "allow\n").unwrap();
        assert_eq!(found("allow = '127.0.0.0/8'\n").len(), 0);
    }

    #[test]
    fn what_a_start_would_stumble_over_is_told_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member.toml");
        let long = dir.path().join("s".repeat(120));
        let text = format!(
            "disk = 'ram:1G'\ncongestion = 'no-such-thing'\nsocket = '{}'\nportal = '127.0.0.1:0'\ndata = \"/srv/a\\nb\"\n\
             cache-memory = '1P'\n",
            long.display()
        );
        fs::write(&path, text).unwrap();
        let mut findings = look(&config::read(&path).unwrap());
        findings.sort_by_key(|finding| finding.line);
        let said: Vec<_> =
            findings.iter().map(|it| (it.severity, it.line, it.text.as_str())).collect();
        let [congestion, socket, data, cache] = said[..] else { panic!("{said:?}") };
        assert_eq!((congestion.0, congestion.1), (Severity::Error, Some(2)));
        assert!(congestion.2.contains("'no-such-thing' cannot be set"), "{congestion:?}");
        assert!(congestion.2.contains(": write congestion system, or one"), "{congestion:?}");
        assert_eq!((socket.0, socket.1), (Severity::Warning, Some(3)));
        assert!(socket.2.contains(" bytes, and one in its place may have "), "{socket:?}");
        assert!(
            socket.2.ends_with(" until it is started with a socket that can be made"),
            "{socket:?}"
        );
        assert_eq!((data.0, data.1), (Severity::Error, Some(5)));
        assert!(data.2.contains("control characters"), "{data:?}");
        assert_eq!((cache.0, cache.1), (Severity::Error, Some(6)));
        assert!(cache.2.starts_with("1P for the read cache is more than "), "{cache:?}");
    }
}
