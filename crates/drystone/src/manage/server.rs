//! Which member a command asks: one on this machine by its socket, or one from afar.

use crate::access::secret;
use crate::advice::advised;
use crate::cli::manage::{MemberArgs, ServerArgs};
use anyhow::{Context, anyhow, bail};
use api::client::{Client, Fingerprint, Remote, ServerUrl, Trust};
use group::regular;
use std::env;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What is read of a file with a token, or with certificates.
const TOKEN_BYTES_MAX: u64 = 4096;
const CERTIFICATES_BYTES_MAX: u64 = 4 << 20;

/// The environment variables that stand in for options.
const SERVER: &str = "DRYSTONE_SERVER";
const TOKEN_FILE: &str = "DRYSTONE_TOKEN_FILE";
const CA_FILE: &str = "DRYSTONE_CA_FILE";
const FINGERPRINT: &str = "DRYSTONE_FINGERPRINT";
const SOCKET: &str = "DRYSTONE_SOCKET";

/// The member that is meant.
///
/// # Errors
/// It is not clear which one, or what is needed to reach it is not there.
pub(super) fn client(args: &MemberArgs) -> anyhow::Result<Client> {
    let environment = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    match Asked::of(&args.server, args.socket.socket.as_deref(), environment)? {
        None => Ok(Client::new(crate::up::socket_of_member(&args.socket)?)),
        Some(asked) => Client::remote(asked.remote()?).map_err(advised),
    }
}

/// Refuses what a command that asks no member cannot heed.
pub(super) fn none(args: &MemberArgs) -> anyhow::Result<()> {
    if args.server.server.is_some() || args.on_member.is_some() {
        bail!(
            "this command is about disks of this machine: leave --server and --on out, or run it over there"
        );
    }
    Ok(())
}

/// A member from afar, as it was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    url: ServerUrl,
    token_file: PathBuf,
    trust: TrustAsked,
}

#[derive(Debug, PartialEq, Eq)]
enum TrustAsked {
    System,
    Authorities(PathBuf),
    Fingerprint(Fingerprint),
}

impl Asked {
    /// What the options and the environment say; an option comes before any variable. `None` for a member
    /// on this machine.
    fn of(
        args: &ServerArgs,
        socket: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        let is_from = |name| environment(name).is_some_and(|it| socket == Some(Path::new(&it)));
        let is_socket_written = socket.is_some() && !is_from(SOCKET);
        let url = match (&args.server, environment(SERVER)) {
            (Some(_), _) if is_socket_written => {
                bail!(
                    "a member is reached by its socket or from afar: write one of --socket and --server"
                )
            }
            (Some(url), _) => url.clone(),
            (None, Some(_)) if is_socket_written => return Self::local(args),
            (None, Some(_)) if socket.is_some() => {
                bail!(
                    "{SOCKET} and {SERVER} are both set: unset one of them, or write --server or --socket"
                )
            }
            (None, Some(text)) => text.parse().context(SERVER)?,
            (None, None) => return Self::local(args),
        };
        let file = |option: &Option<PathBuf>, variable| {
            option.clone().or_else(|| environment(variable).map(PathBuf::from))
        };
        let token_file = file(&args.token_file, TOKEN_FILE).ok_or_else(|| {
            anyhow!(
                "{url} asks who it is: write --token-file FILE with a token that 'drystone token create' made there"
            )
        })?;
        let trust = match (&args.fingerprint, &args.ca_file) {
            (Some(fingerprint), _) => TrustAsked::Fingerprint(fingerprint.clone()),
            (None, Some(file)) => TrustAsked::Authorities(file.clone()),
            (None, None) => match (environment(FINGERPRINT), environment(CA_FILE)) {
                (Some(_), Some(_)) => {
                    bail!("{FINGERPRINT} and {CA_FILE} are both set: unset one of them")
                }
                (Some(text), None) => TrustAsked::Fingerprint(text.parse().context(FINGERPRINT)?),
                (None, Some(file)) => TrustAsked::Authorities(file.into()),
                (None, None) => TrustAsked::System,
            },
        };
        Ok(Some(Self { url, token_file, trust }))
    }

    /// What is for a member from afar means nothing to one on this machine.
    fn local(args: &ServerArgs) -> anyhow::Result<Option<Self>> {
        let ServerArgs { server: _, token_file, ca_file, fingerprint } = args;
        let given = [
            ("--token-file", token_file.is_some()),
            ("--ca-file", ca_file.is_some()),
            ("--fingerprint", fingerprint.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((option, _)) => {
                bail!(
                    "{option} is for a member from afar: write --server https://HOST:PORT beside it"
                )
            }
        }
    }

    /// With what is in the files.
    fn remote(self) -> anyhow::Result<Remote> {
        let Self { url, token_file, trust } = self;
        let token = secret::read_private(&token_file, TOKEN_BYTES_MAX, "token")?;
        let token = token_of(&token).with_context(|| {
            format!(
                "'{}' holds no token: write what 'drystone token create' printed into it",
                token_file.display()
            )
        })?;
        let trust = match trust {
            TrustAsked::System => Trust::System,
            TrustAsked::Fingerprint(fingerprint) => Trust::Fingerprint(fingerprint),
            TrustAsked::Authorities(file) => {
                let shown = file.display();
                let pem = regular::read(&file, CERTIFICATES_BYTES_MAX)
                    .with_context(|| format!("cannot read the authorities from '{shown}'"))?;
                Trust::Authorities(pem.to_vec())
            }
        };
        Ok(Remote { url, token, trust })
    }
}

/// The token of a file: one word.
fn token_of(text: &str) -> Option<Zeroizing<String>> {
    let text = text.trim();
    let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://san1:8443";

    fn asked(
        args: &ServerArgs,
        socket: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<Asked>, String> {
        let environment = |name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        };
        Asked::of(args, socket.map(Path::new), environment).map_err(|error| format!("{error:#}"))
    }

    fn args(server: Option<&str>) -> ServerArgs {
        let server = server.map(|url| url.parse().expect("a URL"));
        ServerArgs { server, token_file: None, ca_file: None, fingerprint: None }
    }

    #[test]
    fn an_option_comes_before_any_variable_and_two_variables_are_too_many() {
        let token = ("DRYSTONE_TOKEN_FILE", "t");
        let (server, socket) = (("DRYSTONE_SERVER", URL), ("DRYSTONE_SOCKET", "/s"));
        let is_remote = |asked: Result<Option<Asked>, String>| asked.unwrap().is_some();
        assert!(!is_remote(asked(&args(None), None, &[token])));
        assert!(!is_remote(asked(&args(None), Some("/s"), &[socket])));
        assert!(!is_remote(asked(&args(None), Some("/t"), &[socket, server, token])));
        assert!(is_remote(asked(&args(None), None, &[server, token])));
        assert!(is_remote(asked(&args(Some(URL)), Some("/s"), &[socket, token])));
        let both = asked(&args(None), Some("/s"), &[socket, server, token]).unwrap_err();
        assert!(both.contains("unset one of them"), "{both}");
        let both = asked(&args(Some(URL)), Some("/t"), &[token]).unwrap_err();
        assert!(both.contains("write one of --socket and --server"), "{both}");
    }

    #[test]
    fn a_member_from_afar_needs_a_token_and_its_certificate_is_checked_as_asked() {
        let said = asked(&args(Some(URL)), None, &[]).unwrap_err();
        assert!(said.starts_with("https://san1:8443 asks who it is: write --token-file"), "{said}");
        let token = ("DRYSTONE_TOKEN_FILE", "t");
        let trust = |args: &ServerArgs, more: &[(&str, &str)]| {
            asked(args, None, &[&[token], more].concat()).map(|it| it.expect("remote").trust)
        };
        let digits = "ab".repeat(32);
        let fingerprint = TrustAsked::Fingerprint(digits.parse().unwrap());
        let (by_file, by_digits) = (("DRYSTONE_CA_FILE", "c"), ("DRYSTONE_FINGERPRINT", &*digits));
        assert_eq!(trust(&args(Some(URL)), &[]), Ok(TrustAsked::System));
        assert_eq!(trust(&args(Some(URL)), &[by_file]), Ok(TrustAsked::Authorities("c".into())));
        assert_eq!(trust(&args(Some(URL)), &[by_digits]), Ok(fingerprint));
        assert!(trust(&args(Some(URL)), &[by_file, by_digits]).is_err());
        let option = ServerArgs { ca_file: Some("o".into()), ..args(Some(URL)) };
        assert_eq!(trust(&option, &[by_digits]), Ok(TrustAsked::Authorities("o".into())));
        let alone = asked(&ServerArgs { ca_file: Some("o".into()), ..args(None) }, None, &[]);
        assert!(alone.unwrap_err().contains("--ca-file is for a member from afar"));
    }
}
