//! `drystone lab`: reads what is asked for, opens the targets, runs, and keeps the results.

mod compare;
mod experiment;
mod live;
mod options;

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, anyhow};
use lab::engine::{Bench, Event, Listener, Opener, Opening, RunOptions, run as run_script};
use lab::measure::{SessionCount, StepFigures};
use lab::report::{Ending, Report, ReportError, ResultsDirectory};
use lab::volume::{Address, OpenError, OpenTarget, Sessions, assign, detach_all, open_all};
use lab::workload::{OpenFlags, Script, fio, vdbench};
use ring::CoreConfig;

use crate::cli::lab::{CommonArgs, FioArgs, LabArgs, LabCommand, RunArgs};
use crate::os::files;
use crate::os::signals::StopSignals;
use crate::{Failure, print};
use live::Live;

/// Buffers beyond those of the workload's own I/Os.
const SPARE_BUFFER_BYTES: usize = 256 << 20;

/// Does what is asked for.
pub(crate) fn run(args: LabArgs) -> Result<(), Failure> {
    match args.what {
        LabCommand::Run(args) => run_file(&args),
        LabCommand::Fio(args) => run_fio(&args),
        LabCommand::Experiment(args) => experiment::run(&args),
        LabCommand::Compare(args) => compare::run(&args),
    }
}

fn run_file(args: &RunArgs) -> Result<(), Failure> {
    let name = args.file.display();
    let bytes = fs::read(&args.file).with_context(|| format!("cannot read {name}"))?;
    let text = text_of(bytes).map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let script =
        vdbench::parse(&text).map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let title = args
        .file
        .file_stem()
        .map_or_else(|| name.to_string(), |stem| stem.to_string_lossy().into());
    let resume = args.resume;
    Task { script, title, resume, language: Language::Vdbench, args: &args.common }.run()
}

/// The text of a file, or in which line it is none.
fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        format!("line {line}: it holds a byte that is no UTF-8 text: write the file in UTF-8")
    })
}

fn run_fio(args: &FioArgs) -> Result<(), Failure> {
    let script = fio::parse(&args.options).map_err(|error| Failure::Usage(fio_hint(&error)))?;
    let title = format!("fio {}", args.options.join(" "));
    Task { script, title, resume: false, language: Language::Fio, args: &args.common }.run()
}

/// What is wrong with options of fio, and where to look.
fn fio_hint(error: &fio::FioError) -> String {
    let fio::FioError::Option(option) = error else { return error.to_string() };
    let ours = <FioArgs as clap::Args>::augment_args(clap::Command::new("fio"));
    if ours.get_arguments().any(|ours| ours.get_long() == Some(option)) {
        return format!("--{option} is an option of the lab: write it before the '--'");
    }
    format!("{error} (drystone lab fio --help lists those that are)")
}

/// What a workload is written in: what to change about it is told in its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Vdbench,
    Fio,
}

/// One run.
struct Task<'a> {
    script: Script,
    title: String,
    resume: bool,
    language: Language,
    args: &'a CommonArgs,
}

impl Task<'_> {
    fn run(self) -> Result<(), Failure> {
        let addresses =
            addresses(&self.script, &self.args.on, self.language).map_err(Failure::Usage)?;
        self.must_be_allowed(&addresses).map_err(Failure::Usage)?;
        let sessions = options::sessions(self.args).map_err(Failure::Usage)?;
        let directory = self.args.report.as_deref().map(take_directory).transpose()?;
        if let Some(url) = &self.args.target_metrics {
            // Better known now than after an hour without the figure.
            url.cpu_time().context("the CPU time of the target cannot be had")?;
        }
        files::raise_limit();
        let stop = stop_flag().context("cannot take signals over")?;
        let config =
            CoreConfig { buf_budget_bytes: buffers(&self.script), ..CoreConfig::default() };
        let args = self.args.clone();
        let work = Work {
            script: self.script,
            title: self.title,
            resume: self.resume,
            addresses,
            sessions,
            options: options::run_options(&args, stop),
            directory: directory.map(Rc::new),
            args,
        };
        let report =
            ring::block_on(&config, work.run()).context("cannot start the I/O engine")??;
        conclude(&report)
    }

    /// A workload that writes needs the word, unless all it writes to is memory.
    fn must_be_allowed(&self, addresses: &[Address]) -> Result<(), String> {
        let is_memory = |address: &&Address| {
            matches!(address, Address::Ram(_) | Address::Null(_) | Address::Sim(..))
        };
        let lasting = addresses.iter().find(|address| !is_memory(address));
        match lasting {
            Some(target) if self.script.writes() && !self.args.overwrite => {
                let place = if self.language == Language::Fio { ", before the '--'," } else { "" };
                Err(format!(
                    "the workload writes, and what is on {target} would be lost: add --overwrite{place} to say so"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// What a core does.
struct Work {
    script: Script,
    title: String,
    resume: bool,
    addresses: Vec<Address>,
    sessions: Sessions,
    options: RunOptions,
    /// Where results are kept.
    directory: Option<Rc<ResultsDirectory>>,
    args: CommonArgs,
}

impl Work {
    async fn run(mut self) -> anyhow::Result<Report> {
        let opened = Rc::new(Opened {
            addresses: self.addresses.clone(),
            sessions: self.sessions.clone(),
            script: self.script.clone(),
            targets: RefCell::default(),
        });
        let total = self.script.steps.first().and_then(|step| step.sessions);
        let outcome = match opened.open_all(total).await {
            Ok(()) => self.measure(&opened).await,
            Err(error) => Err(error.into()),
        };
        detach_all(opened.targets.take()).await;
        outcome
    }

    async fn measure(&mut self, opened: &Rc<Opened>) -> anyhow::Result<Report> {
        let volumes = assign(&mut self.script, &opened.targets.borrow())?;
        self.script.notes.extend(without_sessions(&self.addresses, &self.args));
        let shown = volumes.iter().map(|volume| format!("{volume:?}")).collect();
        let report = Report::new(&self.title, &self.script, shown).made(&unusual(&self.args));
        let done = self.steps_done(&report)?;
        let live = Live::new(self.args.json, &report.notes);
        let bench = Bench::new(volumes, &self.script, self.options.clone())?;
        bench.set_opener(opened.clone());
        let keeper = Rc::new(Keeper {
            report: RefCell::new(Report { steps: done.clone(), ..report }),
            directory: self.directory.clone(),
            live: RefCell::new(live),
            trouble: RefCell::default(),
            stop: self.options.stop.clone(),
        });
        let teller = keeper.clone();
        let listener: Listener = Rc::new(move |event| teller.hear(event));
        let steps = run_script(&bench, &self.script, &done, &listener).await;
        let kept = keeper.report.borrow().clone();
        let mut trouble = keeper.trouble.take();
        let report = match steps {
            Ok(steps) => {
                let ending = match () {
                    () if bench.mismatch_count() >= self.options.mismatches_max => {
                        Ending::WrongData
                    }
                    () if self.options.stop.load(Ordering::Relaxed) => Ending::Stopped,
                    () => Ending::Complete,
                };
                Report { steps, ending, ..kept }
            }
            // What was measured before is kept and told all the same.
            Err(error) => {
                trouble.get_or_insert(error.into());
                kept
            }
        };
        let mut is_kept = false;
        if let Some(directory) = &self.directory {
            let saved = save(&report, directory);
            is_kept = saved.is_ok();
            trouble = trouble.or(saved.err());
        }
        // Figures that cannot be kept are shown: they are all that is left of the run.
        let directory = self.args.report.as_deref().filter(|_| is_kept);
        keeper.live.borrow().end(&report, directory)?;
        if self.args.json {
            print::json(&report)?;
        }
        trouble.map_or(Ok(report), Err)
    }

    fn steps_done(&self, report: &Report) -> anyhow::Result<Vec<StepFigures>> {
        let Some(directory) = self.args.report.as_deref().filter(|_| self.resume) else {
            return Ok(Vec::new());
        };
        if let Some(steps) = report.resumable(directory)? {
            return Ok(steps);
        }
        let holds_others = directory.join("results.json").exists();
        anyhow::ensure!(
            !holds_others,
            "{} holds results of another workload, other targets or other options: leave out --resume to replace them",
            directory.display()
        );
        Ok(Vec::new())
    }
}

/// The targets of a run, open, and how to open them with another number of sessions.
#[derive(Debug)]
struct Opened {
    addresses: Vec<Address>,
    sessions: Sessions,
    /// As it was written: storage is divided anew.
    script: Script,
    targets: RefCell<Vec<OpenTarget>>,
}

impl Opened {
    async fn open_all(&self, total: Option<u32>) -> Result<(), OpenError> {
        let (flags, read_only) = (open_flags(&self.script), !self.script.writes());
        let opened = open_all(&self.addresses, &self.sessions, flags, read_only, total).await?;
        self.targets.replace(opened);
        Ok(())
    }
}

impl Opener for Opened {
    fn open(&self, sessions: Option<u32>) -> Opening<'_> {
        Box::pin(async move {
            detach_all(self.targets.take()).await;
            self.open_all(sessions).await?;
            Ok(assign(&mut self.script.clone(), &self.targets.borrow())?)
        })
    }
}

/// Keeps what is measured, after each step.
struct Keeper {
    report: RefCell<Report>,
    directory: Option<Rc<ResultsDirectory>>,
    live: RefCell<Live>,
    /// Why results could not be kept: it ends the run.
    trouble: RefCell<Option<anyhow::Error>>,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    fn hear(&self, event: &Event<'_>) {
        let mut outcome = self.live.borrow_mut().hear(event);
        if let Event::Ended(figures) = event {
            let mut report = self.report.borrow_mut();
            report.steps.push((*figures).clone());
            if let Some(sessions) = figures.sessions.filter(SessionCount::is_short) {
                report.notes.push(format!("{}: {sessions}", figures.name));
            }
            if let Some(directory) = &self.directory {
                outcome = outcome.and(save(&report, directory));
            }
        }
        if let Err(trouble) = outcome {
            self.trouble.borrow_mut().get_or_insert(trouble);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes the directory of results, before anything is measured.
fn take_directory(path: &Path) -> anyhow::Result<ResultsDirectory> {
    ResultsDirectory::take(path).map_err(|error| {
        let instead = match error {
            ReportError::Busy(_) => ": wait for its end, or name another --report",
            ReportError::Foreign(_) => ": move it away, or name another --report",
            _ => "",
        };
        anyhow!("no results could be kept: {error}{instead}")
    })
}

/// Keeps what there is; a run whose results cannot be kept ends.
fn save(report: &Report, directory: &ResultsDirectory) -> anyhow::Result<()> {
    directory.save(report).map_err(|error| {
        let what_is_there = match error {
            ReportError::Mixed { .. } => "has files of two ages",
            _ => "has those of the steps before, if any",
        };
        anyhow!(
            "results cannot be kept: {error}; {} {what_is_there}. Make room there, then run it again with --resume, \
             or name another --report",
            directory.path().display()
        )
    })
}

/// What is worked on: the targets of the command line, else what the script names.
fn addresses(script: &Script, on: &[Address], language: Language) -> Result<Vec<Address>, String> {
    if !on.is_empty() {
        return Ok(on.to_vec());
    }
    let mut all: Vec<Address> = Vec::new();
    for storage in &script.storage {
        let name = match language {
            Language::Vdbench => format!("sd={}", storage.name),
            Language::Fio => "--filename".to_owned(),
        };
        let lun = storage.lun.as_deref().ok_or_else(|| match language {
            Language::Vdbench => format!("nothing says what {name} is: write lun= there, or --on"),
            Language::Fio => "nothing says what to work on: write --on TARGET before the '--', or --filename=PATH behind it".to_owned(),
        })?;
        let address: Address = lun.parse().map_err(|error| format!("{name}: {error}"))?;
        if all.contains(&address) {
            return Err(format!("{lun} is named twice: two sd= would write over each other"));
        }
        all.push(address);
    }
    Ok(all)
}

/// Options that change what is measured, if they are not as usual: a resumed run must have the same.
fn unusual(args: &CommonArgs) -> String {
    let mut words = Vec::new();
    if args.no_validation {
        words.push("--no-validation".to_owned());
    }
    words.extend(args.sessions.map(|sessions| format!("--sessions {sessions}")));
    words.join(" ")
}

/// What is told of `--sessions` where no target has any.
fn without_sessions(addresses: &[Address], args: &CommonArgs) -> Option<String> {
    let has_sessions = |address: &Address| {
        matches!(address, Address::Iscsi(_) | Address::Portal { .. } | Address::Nbd(_))
    };
    let sessions = args.sessions.filter(|_| !addresses.iter().any(has_sessions))?;
    Some(format!("--sessions {sessions} has no effect: only iscsi:// and nbd:// have sessions"))
}

/// One way to open for all: each file is opened once.
fn open_flags(script: &Script) -> OpenFlags {
    let any = |of: fn(&OpenFlags) -> bool| script.storage.iter().any(|storage| of(&storage.open));
    OpenFlags { direct: any(|flags| flags.direct), durable: any(|flags| flags.durable) }
}

/// What the buffers of all I/Os that can be under way take, and a copy of each.
fn buffers(script: &Script) -> usize {
    let step_bytes = |step: &lab::workload::Step| {
        let flows = step.flows.iter();
        let one = |flow: &lab::workload::Flow| {
            let of =
                |index: &usize| step.threads.unwrap_or(script.storage[*index].threads) as usize;
            let threads: usize = flow.storage.iter().map(of).sum();
            threads
                * step.streams as usize
                * (flow.sizes.max() as usize).max(4096).next_power_of_two()
        };
        flows.map(one).sum::<usize>()
    };
    let most = script.steps.iter().map(step_bytes).max().unwrap_or(0);
    SPARE_BUFFER_BYTES + 2 * most
}

/// Set by the first SIGINT, SIGTERM or SIGHUP; a second one ends the process.
fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut signals, flag) = (StopSignals::install_with_hangup()?, stop.clone());
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.wait();
        flag.store(true, Ordering::Relaxed);
    })?;
    Ok(stop)
}

/// Wrong data, failed I/Os and an early end are failures, whatever was measured.
fn conclude(report: &Report) -> Result<(), Failure> {
    let (wrong, errors) = (report.mismatch_count(), report.error_count());
    let idle = report.steps.iter().find(|step| step.total.ios == 0 && !step.intervals.is_empty());
    let trouble = if wrong > 0 {
        anyhow!("{wrong} blocks held wrong data")
    } else if errors > 0 {
        anyhow!("{errors} I/Os failed")
    } else if report.ending == Ending::Stopped {
        anyhow!("stopped by a signal before the end of the workload")
    } else if let Some(step) = idle {
        anyhow!("no I/O was finished in the step '{}'", step.name)
    } else {
        return Ok(());
    };
    Err(Failure::Run(trouble))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn common(args: &[&str]) -> CommonArgs {
        let args = [&["drystone", "lab", "run", "f"], args].concat();
        let Command::Lab(LabArgs { what: LabCommand::Run(args) }) =
            Cli::try_parse_from(args).unwrap().command
        else {
            panic!("not a run");
        };
        args.common
    }

    fn allowed(text: &str, args: &[&str]) -> Result<(), String> {
        let args = common(args);
        let script = vdbench::parse(text).unwrap();
        let language = Language::Vdbench;
        let addresses = addresses(&script, &args.on, language)?;
        Task { script, title: String::new(), resume: false, language, args: &args }
            .must_be_allowed(&addresses)
    }

    const WRITES: &str = "sd=s,lun=/dev/null9\nwd=w,sd=s,rdpct=50\nrd=r,wd=w\n";
    const READS: &str = "sd=s,lun=/dev/null9\nwd=w,sd=s,rdpct=100\nrd=r,wd=w\n";

    #[test]
    fn writing_needs_the_word_except_to_memory() {
        let refused = allowed(WRITES, &[]).unwrap_err();
        assert_eq!(
            refused,
            "the workload writes, and what is on /dev/null9 would be lost: add --overwrite to say so"
        );
        assert!(allowed(WRITES, &["--on", "ram:1M", "--on", "/tmp/x"]).is_err());
        for fine in [&["--overwrite"][..], &["--on", "ram:1M"], &["--on", "sim:nvme:1M"]] {
            assert_eq!(allowed(WRITES, fine), Ok(()), "{fine:?}");
        }
        assert_eq!(allowed(READS, &[]), Ok(()));
    }

    #[test]
    fn options_that_change_figures_are_part_of_a_run() {
        assert_eq!(unusual(&common(&["--on", "ram:1M", "--json"])), "");
        let other = unusual(&common(&["--no-validation", "--sessions", "3"]));
        assert_eq!(other, "--no-validation --sessions 3");
    }

    #[test]
    fn sessions_of_a_target_without_any_are_told_of() {
        let told = |args: &[&str]| {
            let args = common(args);
            without_sessions(&args.on, &args)
        };
        let note = told(&["--on", "ram:1M", "--sessions", "3"]).unwrap();
        assert!(note.starts_with("--sessions 3 has no effect"), "{note}");
        assert_eq!(told(&["--on", "ram:1M"]), None);
        assert_eq!(told(&["--on", "ram:1M", "--on", "nbd://h/x", "--sessions", "3"]), None);
    }

    #[test]
    fn a_byte_that_is_no_text_is_named_by_its_line() {
        assert_eq!(text_of(b"# caf\xc3\xa9\nsd=s".to_vec()).unwrap(), "# caf\u{e9}\nsd=s");
        let told = text_of(b"sd=s\n\n# caf\xe9\n".to_vec()).unwrap_err();
        assert!(told.starts_with("line 3: "), "{told}");
    }

    #[test]
    fn one_disk_is_not_worked_on_twice() {
        let text = "sd=a,lun=/dev/x\nsd=b,lun=/dev/x\nwd=w,sd=*\nrd=r,wd=w\n";
        assert!(allowed(text, &[]).unwrap_err().contains("named twice"));
        let none = "sd=a,size=1m\nwd=w,sd=a\nrd=r,wd=w\n";
        assert!(allowed(none, &[]).unwrap_err().starts_with("nothing says what sd=a is"));
    }
}
