//! What a bad command line is told: one sentence that says what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::process::ExitCode;

/// Prints help or the version where that was asked for, else the refusal; gives the exit code.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to tell when stdout is closed.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        // `drystone volume` alone: what it can do says more than a sentence.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            crate::say(&sentence(error));
            ExitCode::from(2)
        }
    }
}

/// The sentence for a refusal. Values are quoted only by this program's own parsers: what
/// stands behind `--chap` must not be repeated.
pub(crate) fn sentence(error: &clap::Error) -> String {
    let argument = texts(error, ContextKind::InvalidArg).join(", ");
    match error.kind() {
        ErrorKind::ValueValidation => error.source().map_or_else(
            || format!("{argument} has a value that does not read"),
            ToString::to_string,
        ),
        ErrorKind::InvalidValue => invalid_value(error, &argument),
        ErrorKind::UnknownArgument => unknown_argument(error, &argument),
        ErrorKind::InvalidSubcommand => {
            let name = texts(error, ContextKind::InvalidSubcommand).join(" ");
            let meant = texts(error, ContextKind::SuggestedSubcommand);
            // The parser puts what is most alike last.
            let instead = meant.last().map_or("drystone --help lists them all", String::as_str);
            if meant.is_empty() {
                format!("there is no command '{name}': {instead}")
            } else {
                format!("there is no command '{name}': write '{instead}'")
            }
        }
        ErrorKind::MissingSubcommand => missing_command(error),
        ErrorKind::TooManyValues => format!("{argument} takes no value: write it alone"),
        ErrorKind::MissingRequiredArgument => missing(&argument),
        ErrorKind::ArgumentConflict => {
            let other = texts(error, ContextKind::PriorArg).join(", ");
            if other == argument {
                format!("{argument} is given twice: write it once")
            } else {
                format!("{argument} cannot be used together with {other}: write only one of them")
            }
        }
        ErrorKind::InvalidUtf8 => {
            "the command line holds bytes that are not UTF-8: write names and paths in UTF-8"
                .to_owned()
        }
        _ => first_line(error),
    }
}

/// No command, or none behind `volume` and the like.
fn missing_command(error: &clap::Error) -> String {
    let valid = texts(error, ContextKind::ValidSubcommand);
    if valid.is_empty() || valid.iter().any(|name| name == "export") {
        return "a command is missing: write for example 'drystone export ram:1G', or see drystone --help"
            .to_owned();
    }
    format!("a command is missing: write one of {}", valid.join(", "))
}

/// A value that is missing, or is not one of a list.
fn invalid_value(error: &clap::Error, argument: &str) -> String {
    let valid = texts(error, ContextKind::ValidValue).join(", ");
    let value = texts(error, ContextKind::InvalidValue).join(" ");
    if valid.is_empty() {
        format!("{argument} needs a value: write one behind it")
    } else if value.is_empty() {
        format!("{argument} needs a value: write one of {valid}")
    } else {
        format!("'{value}' is not a value of {argument}: write one of {valid}")
    }
}

/// An option or argument that there is not.
fn unknown_argument(error: &clap::Error, argument: &str) -> String {
    // `--chapp=USER:SECRET` must not repeat the secret.
    let argument = argument.split('=').next().unwrap_or_default();
    let usage = texts(error, ContextKind::Usage).join(" ");
    if usage.contains("lab fio") && ::lab::workload::fio::is_option(argument) {
        return format!("'{argument}' is an option of fio: write '--' before it");
    }
    let instead = texts(error, ContextKind::SuggestedArg);
    match instead.first() {
        Some(instead) => format!("there is no option '{argument}': write '{instead}'"),
        None if argument.starts_with('-') => {
            format!("there is no option '{argument}': --help lists them all")
        }
        None => format!("'{argument}' is one argument too many: leave it out"),
    }
}

/// A required argument that is not there.
fn missing(argument: &str) -> String {
    if argument.contains("SPEC") {
        "a disk to export is missing: write ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], such as ram:1G"
            .to_owned()
    } else if argument.contains("URL") && !argument.starts_with("--") {
        "a volume to attach is missing: write iscsi://HOST[:PORT]/IQN[/LUN]".to_owned()
    } else if argument.contains("--nbd") {
        "a place for the disk is missing: write --nbd unix:PATH, --nbd ADDRESS:PORT, --fuse DIR or --ublk"
            .to_owned()
    } else if argument.contains("--keep") {
        "what becomes of the volume is missing: write --keep or --discard".to_owned()
    } else {
        format!("{argument} is missing: write it, or see --help")
    }
}

/// The texts that the parser keeps of `kind`.
fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        _ => Vec::new(),
    }
}

/// The parser's own words, without its `error: ` and the usage below.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
