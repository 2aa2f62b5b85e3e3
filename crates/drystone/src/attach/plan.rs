//! What a command line asks for, with secrets read and names found.

use crate::access::name;
use crate::access::secret::{self, Login, SecretError, Sources};
use crate::cli::attach::{AttachArgs, RuntimeArgs};
use crate::os::{machine, runtime_dir};
use ::attach::nbd::Address;
use ::attach::ublk::{self, UblkError};
use anyhow::Context;
use initiator::{DiskOptions, PlanOptions, SessionOptions, TargetAddress};
use iscsi::chap::{Credentials, CredentialsError, InitiatorChap};
use iscsi::text::{IscsiName, NameError};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where open-iscsi keeps the name of this host.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";

/// Options that do not go together, or do not work here.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// A secret that cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A secret that cannot be used.
    #[error("the CHAP login cannot be used: {0}")]
    Credentials(#[from] CredentialsError),
    /// The target is to prove itself to a host that does not.
    #[error("mutual CHAP needs CHAP: write --chap USER:SECRET beside --mutual-chap")]
    MutualAlone,
    /// Two users for one login.
    #[error("the URL has a CHAP login and so have the options: write only one of them")]
    LoginTwice,
    /// The name of this host.
    #[error("'{name}' cannot be this host's name: {error}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        error: NameError,
    },
    /// The command line's parser lets nothing through without these.
    #[error("a volume or a place is missing: write URL and --nbd unix:PATH, --fuse DIR or --ublk")]
    Missing,
    /// There are no block devices here.
    #[error("{0}, or write --nbd unix:PATH or --fuse DIR")]
    Ublk(#[from] UblkError),
}

/// Where the disk is to be found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a socket, by NBD clients.
    Nbd(Address),
    /// In a directory, as a file.
    Fuse(PathBuf),
    /// In /dev, as a block device.
    Ublk,
}

/// What to attach, and how.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where it is served.
    pub(crate) place: Place,
    /// The volume, without the login.
    pub(crate) volume: TargetAddress,
    /// How to reach it.
    pub(crate) options: DiskOptions,
    /// How many sessions.
    pub(crate) sessions: PlanOptions,
}

impl Plan {
    /// Checks `args` as a whole; `environment` gives the value of a variable.
    pub(crate) fn of(
        args: &AttachArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Plan, PlanError> {
        let place = match (&args.nbd, &args.fuse) {
            (Some(address), _) => Place::Nbd(address.clone()),
            (None, Some(dir)) => Place::Fuse(dir.clone()),
            (None, None) if args.ublk => Place::Ublk,
            (None, None) => return Err(PlanError::Missing),
        };
        if place == Place::Ublk {
            ublk::check()?;
        }
        let read = |option, text, file| {
            let variable = environment(&secret::variable(option)).filter(|text| !text.is_empty());
            Sources { option, text, file, environment: variable.as_deref() }.read()
        };
        let given = read("chap", args.chap.as_ref(), args.chap_file.as_deref())?;
        let mutual =
            read("mutual-chap", args.mutual_chap.as_ref(), args.mutual_chap_file.as_deref())?;
        let mut volume = args.volume.clone().ok_or(PlanError::Missing)?;
        let of_url = volume.login.take().map(|(user, secret)| Login { user, secret });
        let chap = match (given, of_url) {
            (Some(_), Some(_)) => return Err(PlanError::LoginTwice),
            (given, of_url) => given.or(of_url),
        };
        let mut session = SessionOptions::new(initiator_name(args.initiator.as_deref())?);
        session.chap = login(chap, mutual)?;
        session.connections = args.connections;
        let mut options = DiskOptions::new(session);
        options.router.policy = args.policy;
        options.router.limit = args.path_timeout;
        let count = args.sessions.map(u32::from);
        let sessions = PlanOptions { sessions: count, ..PlanOptions::default() };
        Ok(Plan { place, volume, options, sessions })
    }
}

/// What to authenticate with.
pub(crate) fn login(
    chap: Option<Login>,
    mutual: Option<Login>,
) -> Result<Option<InitiatorChap>, PlanError> {
    let credentials = |login: &Login| Credentials::new(login.user.as_str(), login.secret.as_str());
    match (chap, mutual) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(PlanError::MutualAlone),
        (Some(chap), mutual) => {
            let mutual = mutual.as_ref().map(credentials).transpose()?;
            Ok(Some(InitiatorChap::new(credentials(&chap)?, mutual)?))
        }
    }
}

/// The name to log in as: the given one, else that of this host.
pub(crate) fn initiator_name(given: Option<&str>) -> Result<IscsiName, PlanError> {
    let name = given.map_or_else(|| host_name(Path::new(NAME_FILE)), str::to_owned);
    IscsiName::parse(&name).map_err(|error| PlanError::Name { name: name.clone(), error })
}

/// The name of this host: the one it has already, else one that stays the same.
fn host_name(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let written = text.lines().find_map(|line| line.trim().strip_prefix("InitiatorName="));
    written.map(str::trim).filter(|name| name::parse(name).is_ok()).map_or_else(
        || {
            let id = machine::serial(&machine::identity(), "initiator", "");
            format!("iqn.2026-11.dev.drystone:host-{}", id.to_ascii_lowercase())
        },
        str::to_owned,
    )
}

/// The directory in which attachments are found.
pub(crate) fn runtime_dir(args: &RuntimeArgs) -> anyhow::Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    args.runtime_dir
        .clone()
        .or_else(|| runtime_dir::default_dir(root, |name| env::var(name).ok()))
        .context("there is no place to find attachments: write --runtime-dir DIR")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    const URL: &str = "iscsi://192.0.2.1/iqn.2026-11.com.example:a/2";

    fn plan(args: &[&str], variables: &[(&str, &str)]) -> Result<Plan, PlanError> {
        let args = [&["drystone", "attach"], args].concat();
        let Command::Attach(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("not an attachment");
        };
        Plan::of(&args, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn refused(args: &[&str], variables: &[(&str, &str)]) -> String {
        plan(args, variables).unwrap_err().to_string()
    }

    #[test]
    fn the_options_reach_the_initiator() {
        let nbd = ["--nbd", "unix:/x", "--policy", "round-robin:8", "--path-timeout", "7"];
        let name =
            ["--initiator", "iqn.2026-11.com.example:me", "--sessions", "3", "--connections", "2"];
        let made = plan(&[&[URL], &nbd[..], &name].concat(), &[]).unwrap();
        assert_eq!(made.volume.to_string(), URL);
        assert_eq!(made.options.router.policy.to_string(), "round-robin:8");
        assert_eq!(made.options.router.limit.as_secs(), 7);
        assert_eq!(made.options.session.initiator_name.to_string(), "iqn.2026-11.com.example:me");
        assert!(made.options.session.chap.is_none());
        assert_eq!((made.sessions.sessions, made.options.session.connections), (Some(3), 2));
    }

    #[test]
    fn a_login_comes_from_one_place() {
        let (nbd, chap) = (["--nbd", "unix:/x"], ("DRYSTONE_CHAP", "alice:sixteen-bytes-ok"));
        let of =
            |url: &str, variables: &[(&str, &str)]| plan(&[&[url], &nbd[..]].concat(), variables);
        assert!(of(URL, &[chap]).unwrap().options.session.chap.is_some());
        let url = URL.replace("//", "//bob%sixteen-bytes-no@");
        let made = of(&url, &[]).unwrap();
        assert!(made.options.session.chap.is_some() && made.volume.login.is_none());
        let twice = of(&url, &[chap]).unwrap_err().to_string();
        assert_eq!(
            twice,
            "the URL has a CHAP login and so have the options: write only one of them"
        );
        let mutual = ("DRYSTONE_MUTUAL_CHAP", "srv:sixteen-bytes-ok");
        let args = [&[URL], &nbd[..]].concat();
        assert!(refused(&args, &[mutual]).starts_with("mutual CHAP needs CHAP"));
        let same = refused(&args, &[chap, mutual]);
        assert!(same.starts_with("the CHAP login cannot be used: "), "{same}");
        assert!(!same.contains("sixteen"), "{same}");
    }

    #[test]
    fn where_there_is_no_ublk_a_sentence_says_what_works() {
        if Path::new("/dev/ublk-control").exists() {
            return; // tests/vm/ublk is where it works
        }
        let said = refused(&[URL, "--ublk"], &[]);
        assert_eq!(
            said,
            "this machine has no /dev/ublk-control: load the kernel's driver with 'modprobe ublk_drv', or write --nbd unix:PATH or --fuse DIR"
        );
    }

    #[test]
    fn each_reason_against_ublk_joins_to_a_sentence() {
        for reason in [UblkError::NotRoot, UblkError::NotPermitted, UblkError::TooOld] {
            let said = PlanError::from(reason).to_string();
            assert!(said.ends_with(", or write --nbd unix:PATH or --fuse DIR"), "{said}");
        }
    }

    #[test]
    fn the_host_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("initiatorname.iscsi");
        let made = host_name(&file);
        assert!(made.starts_with("iqn.2026-11.dev.drystone:host-"), "{made}");
        assert_eq!(host_name(&file), made);
        fs::write(&file, "# comment\nInitiatorName=iqn.1993-08.org.debian:01:abc\n").unwrap();
        assert_eq!(host_name(&file), "iqn.1993-08.org.debian:01:abc");
        fs::write(&file, "InitiatorName=nonsense\n").unwrap();
        assert_eq!(host_name(&file), made);
    }
}
