//! Shell completions and man pages, from the definitions of the command line.

use crate::Failure;
use crate::cli::Cli;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Prints the completion script of `shell`.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "drystone", &mut script);
    print(&script).context("cannot print the completion script")
}

/// Prints the man page of a command, or writes those of all commands to `dir`.
pub(crate) fn man(page: Option<&str>, dir: Option<&Path>) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    if let Some(dir) = dir {
        write_all(command, dir)
            .with_context(|| format!("cannot write man pages to '{}'", dir.display()))?;
        return Ok(());
    }
    let command = match page {
        None => command,
        Some(name) => named(&command, name)?,
    };
    let text = render(&Man::new(command)).context("cannot make the man page")?;
    Ok(print(text.as_bytes()).context("cannot print the man page")?)
}

/// Prints the long help of the command that these words name.
pub(crate) fn help(words: &[String]) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    for word in words {
        let known: Vec<_> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        command = command.find_subcommand(word).cloned().ok_or_else(|| {
            Failure::Usage(match known.is_empty() {
                true => format!("there is nothing below '{}'", command.get_name()),
                false => format!("there is no command '{word}': write one of {}", known.join(", ")),
            })
        })?;
    }
    let text = command.render_long_help().to_string();
    Ok(print(text.as_bytes()).context("cannot print the help")?)
}

/// Writes the page of `command` and those of its own commands.
fn write_all(command: clap::Command, dir: &Path) -> io::Result<()> {
    for command in command.get_subcommands().cloned() {
        write_all(command, dir)?;
    }
    let man = Man::new(command);
    fs::write(dir.join(man.get_filename()), render(&man)?)
}

/// The page as roff. Indented lines are tables and examples: they keep their line ends.
fn render(man: &Man) -> io::Result<String> {
    let mut roff = Vec::new();
    man.render(&mut roff)?;
    let roff = String::from_utf8(roff).map_err(io::Error::other)?;
    let mut page = String::with_capacity(roff.len());
    let mut indented = false;
    for line in roff.lines() {
        if line.starts_with("  ") != indented {
            indented = !indented;
            page.push_str(if indented { ".nf\n" } else { ".fi\n" });
        }
        // The generator has no heading of its own for what stands at the foot of a help text.
        page.push_str(if line == ".SH EXTRA" { ".SH EXAMPLES" } else { line });
        page.push('\n');
    }
    page.push_str(if indented { ".fi\n" } else { "" });
    Ok(page)
}

/// The command called `name`.
fn named(parent: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    parent.find_subcommand(name).cloned().ok_or_else(|| {
        let names: Vec<_> = parent.get_subcommands().map(clap::Command::get_name).collect();
        Failure::Usage(format!("there is no man page '{name}': write one of {}", names.join(", ")))
    })
}

/// Writes to stdout; a reader that has seen enough (`| head`) is no error.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let mut command = Cli::command();
        command.build();
        render(&Man::new(named(&command, name).unwrap())).unwrap()
    }

    #[test]
    fn tables_and_examples_keep_their_lines() {
        let page = page("export");
        let table = page.find(".nf\n  ram:SIZE").expect("the table of disks is not filled");
        assert!(page[table..].contains("not flushed, as a power cut\n.fi\n"), "{page}");
        assert!(page.contains(".SH EXAMPLES\n"), "{page}");
        assert!(!page.contains(".SH EXTRA"), "{page}");
        assert_eq!(page.matches(".nf\n").count(), page.matches(".fi\n").count(), "{page}");
    }

    #[test]
    fn help_is_given_for_commands_that_there_are() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        for there in ["", "status", "volume create"] {
            help(&words(there)).unwrap();
        }
        let nope = help(&words("volume nope")).unwrap_err().to_string();
        assert!(nope.starts_with("there is no command 'nope': write one of create, "), "{nope}");
        let deep = help(&words("status now")).unwrap_err().to_string();
        assert!(deep.starts_with("there is nothing below"), "{deep}");
    }

    #[test]
    fn every_command_has_a_page_and_a_wrong_name_lists_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Cli::command();
        command.build();
        write_all(command, dir.path()).unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in ["", "-export", "-up", "-volume", "-volume-create", "-snapshot-diff", "-man"] {
            assert!(names.contains(&format!("drystone{name}.1")), "{name}: {names:?}");
        }
        assert_eq!(
            man(Some("nope"), None).unwrap_err().to_string(),
            "there is no man page 'nope': write one of export, up, status, connections, events, audit, top, volume, policy, chap, account, token, snapshot, schedule, notify, export-config, diff, apply, disk, member, group, pool, doctor, array, run, attach, attached, detach, lab, plan, help, completions, man"
        );
    }
}
