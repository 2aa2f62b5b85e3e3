//! CHAP users and secrets: from the command line, a file or the environment.
//!
//! No message in here repeats what was written: it may be the secret.

use group::regular;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// The shortest secret: 96 bits (RFC 7143 9.2.1 asks for that much outside IPsec).
const SECRET_LEN_MIN: usize = 12;

/// The longest secret. Windows takes no more than 16 bytes, Linux 255.
const SECRET_LEN_MAX: usize = 255;

/// The longest user name that every digest and peer handles.
const USER_LEN_MAX: usize = 255;

/// What is read of a file: more than the longest login.
const FILE_BYTES_MAX: u64 = 4096;

/// The bits of a file's mode that let others than its owner read or change it.
const MODE_OTHERS: u32 = 0o077;

/// A user and the secret it proves to know.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// CHAP_N.
    pub(crate) user: String,
    /// What both sides know.
    pub(crate) secret: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Where a login is to be read from; the first that is given counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The option, without the dashes: `chap` or `mutual-chap`.
    pub(crate) option: &'static str,
    /// What the option says.
    pub(crate) text: Option<&'a Login>,
    /// What the option for a file says.
    pub(crate) file: Option<&'a Path>,
    /// What the environment variable holds.
    pub(crate) environment: Option<&'a str>,
}

/// Why a login was refused.
#[derive(Debug, Error)]
pub(crate) enum SecretError {
    /// No user and secret.
    #[error("a CHAP login needs a user and a secret: write USER:SECRET")]
    Form,
    /// Shorter than the standard asks for, or longer than a host takes.
    #[error(
        "the CHAP secret of user '{user}' has {len_bytes} bytes: write one of {SECRET_LEN_MIN} to {SECRET_LEN_MAX} (Windows takes at most 16)"
    )]
    Length {
        /// The user it belongs to.
        user: String,
        /// Its length.
        len_bytes: usize,
    },
    /// Nothing, or too much, in front of the secret.
    #[error("the CHAP user name has {0} bytes: write one of 1 to {USER_LEN_MAX}")]
    User(usize),
    /// A control character, as from a file that was edited elsewhere.
    #[error(
        "the CHAP login of user '{0}' holds a control character: write it on one line, or user and secret on two"
    )]
    Control(String),
    /// A file that cannot be read.
    #[error("cannot read the CHAP login from '{}': {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that may not be there.
    #[error("cannot read '{}': {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that does not read.
    #[error("cannot read the {what} from '{}': {error}", path.display())]
    Unread {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// A pipe or a device, which might never end.
    #[error(
        "'{}' is no regular file: write the {what} to one, or write - and give it on standard input",
        path.display()
    )]
    NoFile {
        /// What should be in it.
        what: &'static str,
        /// What is there instead.
        path: PathBuf,
    },
    /// A secret that is none.
    #[error(
        "others than its owner may read or change '{}', which holds a secret: run chmod 600 on it",
        .0.display()
    )]
    Exposed(PathBuf),
    /// What a file or the environment holds is refused.
    #[error("{origin}: {error}")]
    From {
        /// The file or variable.
        origin: String,
        /// What is wrong with its contents.
        error: Box<SecretError>,
    },
}

impl SecretError {
    /// Whether it may be otherwise when it is tried again, without anybody's doing: the system could not read a
    /// file, which may lie in a file system that is mounted later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::File { error, .. }
            | Self::Unreadable { error, .. }
            | Self::Unread { error, .. } => error.raw_os_error().is_some(),
            _ => false,
        }
    }
}

/// Reads `USER:SECRET`, or user and secret on two lines. The last colon parts them, since hosts
/// like to use their iSCSI name as the user; a secret with a colon takes the two lines.
pub(crate) fn parse(text: &str) -> Result<Login, SecretError> {
    let parted = text.split_once('\n').or_else(|| text.rsplit_once(':'));
    let (user, secret) = parted.ok_or(SecretError::Form)?;
    let user = user.strip_suffix('\r').unwrap_or(user);
    checked(user, secret)
}

/// A user and a secret that can be one.
pub(crate) fn checked(user: &str, secret: &str) -> Result<Login, SecretError> {
    if !(1..=USER_LEN_MAX).contains(&user.len()) {
        return Err(SecretError::User(user.len()));
    }
    if user.chars().chain(secret.chars()).any(char::is_control) {
        return Err(SecretError::Control(user.escape_debug().to_string()));
    }
    if !(SECRET_LEN_MIN..=SECRET_LEN_MAX).contains(&secret.len()) {
        return Err(SecretError::Length { user: user.to_owned(), len_bytes: secret.len() });
    }
    Ok(Login { user: user.to_owned(), secret: secret.to_owned() })
}

impl Sources<'_> {
    /// The login that is asked for, if one is.
    pub(crate) fn read(&self) -> Result<Option<Login>, SecretError> {
        if let Some(login) = self.text {
            return Ok(Some(login.clone()));
        }
        if let Some(path) = self.file {
            return self.read_file(path).map(Some);
        }
        let Some(text) = self.environment else { return Ok(None) };
        let origin = format!("environment variable {}", self.variable());
        parse(text).map(Some).map_err(|error| SecretError::From { origin, error: Box::new(error) })
    }

    /// The environment variable of this option.
    fn variable(&self) -> String {
        variable(self.option)
    }

    /// Reads a login from a file; line ends at its end do not belong to the secret.
    fn read_file(&self, path: &Path) -> Result<Login, SecretError> {
        let failed = |error| SecretError::File { path: path.to_owned(), error };
        let text = read(path, FILE_BYTES_MAX).map_err(failed)?;
        if let Err(exposed @ SecretError::Exposed(_)) = must_be_private(path) {
            tracing::warn!("{exposed}");
        }
        let origin = format!("file '{}'", path.display());
        parse(text.trim_end_matches(['\r', '\n']))
            .map_err(|error| SecretError::From { origin, error: Box::new(error) })
    }
}

/// What stands for standard input in place of a file.
pub(crate) const STDIN: &str = "-";

/// What is in a regular file, or comes from standard input, of at most so many bytes.
fn read(path: &Path, bytes_max: u64) -> io::Result<Zeroizing<String>> {
    if path == Path::new(STDIN) {
        return regular::read_stream(io::stdin(), bytes_max);
    }
    regular::read_text(path, bytes_max)
}

/// The same of a file that only its owner can read and change; `what` is in it.
pub(crate) fn read_private(
    path: &Path,
    bytes_max: u64,
    what: &'static str,
) -> Result<Zeroizing<String>, SecretError> {
    must_be_private(path)?;
    read(path, bytes_max).map_err(|error| {
        let is_file = path == Path::new(STDIN) || regular::check(path).is_ok();
        match is_file {
            true => SecretError::Unread { what, path: path.to_owned(), error },
            false => SecretError::NoFile { what, path: path.to_owned() },
        }
    })
}

/// Refuses a file that others than its owner, and root, can read or change. Standard input and what is no file
/// are passed.
pub(crate) fn must_be_private(path: &Path) -> Result<(), SecretError> {
    if path == Path::new(STDIN) {
        return Ok(());
    }
    let metadata = fs::metadata(path)
        .map_err(|error| SecretError::Unreadable { path: path.to_owned(), error })?;
    if metadata.is_file() && metadata.permissions().mode() & MODE_OTHERS != 0 {
        return Err(SecretError::Exposed(path.to_owned()));
    }
    Ok(())
}

/// The environment variable that stands in for `--OPTION`.
pub(crate) fn variable(option: &str) -> String {
    format!("DRYSTONE_{}", option.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    fn login(user: &str, secret: &str) -> Login {
        Login { user: user.to_owned(), secret: secret.to_owned() }
    }

    #[test]
    fn the_last_colon_parts_user_from_secret() {
        let cases = [
            ("alice:twelve-bytes", login("alice", "twelve-bytes")),
            (
                "iqn.1993-08.org.debian:01:abc:sixteen-bytes-ok",
                login("iqn.1993-08.org.debian:01:abc", "sixteen-bytes-ok"),
            ),
            ("alice\ncolon:in:secret", login("alice", "colon:in:secret")),
            ("iqn.x:y\r\ncolon:in:secret", login("iqn.x:y", "colon:in:secret")),
            ("é:ééé-é-twelve", login("é", "ééé-é-twelve")),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn each_refusal_says_what_to_write_and_never_the_secret() {
        let long = format!("alice:{}", "s".repeat(256));
        let cases = [
            ("", "a CHAP login needs a user and a secret: write USER:SECRET"),
            ("hush-hush-hush", "a CHAP login needs a user and a secret: write USER:SECRET"),
            (":hush-hush-hush", "the CHAP user name has 0 bytes: write one of 1 to 255"),
            (
                "alice:hush",
                "the CHAP secret of user 'alice' has 4 bytes: write one of 12 to 255 (Windows takes at most 16)",
            ),
            (
                "alice:",
                "the CHAP secret of user 'alice' has 0 bytes: write one of 12 to 255 (Windows takes at most 16)",
            ),
            (
                &long,
                "the CHAP secret of user 'alice' has 256 bytes: write one of 12 to 255 (Windows takes at most 16)",
            ),
            (
                "alice:hush\thush-hush",
                "the CHAP login of user 'alice' holds a control character: write it on one line, or user and secret on two",
            ),
        ];
        for (text, sentence) in cases {
            let said = parse(text).unwrap_err().to_string();
            assert_eq!(said, sentence);
            assert!(!said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn a_login_does_not_show_its_secret_when_printed() {
        let printed = format!("{:?}", login("alice", "hush-hush-hush"));
        assert_eq!(printed, "Login { user: \"alice\", .. }");
    }

    #[test]
    fn the_option_comes_before_the_file_and_the_file_before_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chap");
        fs::write(&path, "file:file-secret-1\n").unwrap();
        let option = login("option", "option-secret");
        let all = Sources {
            option: "chap",
            text: Some(&option),
            file: Some(&path),
            environment: Some("environment:env-secret-12"),
        };
        let user = |sources: Sources<'_>| sources.read().unwrap().map(|login| login.user);
        assert_eq!(user(all).as_deref(), Some("option"));
        assert_eq!(user(Sources { text: None, ..all }).as_deref(), Some("file"));
        assert_eq!(user(Sources { text: None, file: None, ..all }).as_deref(), Some("environment"));
        assert_eq!(user(Sources { text: None, file: None, environment: None, ..all }), None);
    }

    #[test]
    fn a_refusal_names_the_file_or_the_variable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chap");
        fs::write(&path, "alice:short\n").unwrap();
        let shown = path.display();
        let sources =
            Sources { option: "mutual-chap", text: None, file: Some(&path), environment: None };
        let refusal = sources.read().unwrap_err().to_string();
        assert_eq!(
            refusal,
            format!(
                "file '{shown}': the CHAP secret of user 'alice' has 5 bytes: write one of 12 to 255 (Windows takes at most 16)"
            )
        );
        let sources = Sources { file: None, environment: Some("hush"), ..sources };
        assert_eq!(
            sources.read().unwrap_err().to_string(),
            "environment variable DRYSTONE_MUTUAL_CHAP: a CHAP login needs a user and a secret: write USER:SECRET"
        );
        let missing = dir.path().join("missing");
        let sources = Sources { file: Some(&missing), environment: None, ..sources };
        assert_eq!(
            sources.read().unwrap_err().to_string(),
            format!(
                "cannot read the CHAP login from '{}': No such file or directory (os error 2)",
                missing.display()
            )
        );
    }

    #[test]
    fn a_secret_file_keeps_spaces_and_loses_line_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chap");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        std::io::Write::write_all(
            &mut options.open(&path).unwrap(),
            b"al ice\n secret 12345 \r\n\n",
        )
        .unwrap();
        let sources = Sources { option: "chap", text: None, file: Some(&path), environment: None };
        assert_eq!(sources.read().unwrap(), Some(login("al ice", " secret 12345 ")));
    }
}
