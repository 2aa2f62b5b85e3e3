//! A password or a secret, from a file, the terminal or standard input, and never from the command line.

use crate::access::secret;
use anyhow::{Context, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

/// What is read: more than the longest of them.
const INPUT_BYTES_MAX: u64 = 4096;

/// The `what`, such as a password, of `whose`; one line end at its end is not a part of it.
pub(super) fn read(file: Option<&Path>, what: &'static str, whose: &str) -> anyhow::Result<String> {
    let text = match file {
        file if is_stdin(file) && io::stdin().is_terminal() => return ask(what, whose),
        file => {
            let file = file.unwrap_or(Path::new(secret::STDIN));
            secret::read_private(file, INPUT_BYTES_MAX, what)?
        }
    };
    Ok(without_line_end(&text).to_owned())
}

fn is_stdin(file: Option<&Path>) -> bool {
    file.is_none_or(|file| file == Path::new(secret::STDIN))
}

fn without_line_end(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
}

/// Asks twice, as nobody sees what is typed.
fn ask(what: &str, whose: &str) -> anyhow::Result<String> {
    let typed = hidden(&format!("The {what} of {whose}: "))?;
    if hidden("The same again: ")? != typed {
        bail!("the two differ: nothing was changed, try again");
    }
    Ok(typed)
}

/// One line, which the terminal does not show.
fn hidden(question: &str) -> anyhow::Result<String> {
    let mut stderr = io::stderr();
    write!(stderr, "{question}").and_then(|()| stderr.flush()).context("cannot ask")?;
    let quiet = Quiet::begin().context("the terminal cannot be kept from showing it")?;
    let mut line = String::new();
    let read = io::stdin().lock().take(INPUT_BYTES_MAX).read_line(&mut line);
    drop(quiet);
    // The line end was not shown either.
    drop(writeln!(stderr));
    if read.context("cannot read it")? == 0 {
        bail!("nothing was typed, and nothing was changed");
    }
    Ok(without_line_end(&line).to_owned())
}

/// A terminal that does not show what is typed, until this is dropped.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_may_read_is_refused_and_one_line_end_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        fs::write(&path, " two words \r\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = read(Some(&path), "password", "ada").unwrap_err().to_string();
        assert!(refused.contains("run chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(Some(&path), "password", "ada").unwrap(), " two words ");
        assert!(read(Some(&dir.path().join("none")), "password", "ada").is_err());
        let device = read(Some(Path::new("/dev/zero")), "password", "ada").unwrap_err().to_string();
        assert!(device.contains("write the password to one, or write - and give it"), "{device}");
    }
}
