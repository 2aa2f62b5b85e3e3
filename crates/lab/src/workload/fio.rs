//! Command lines of fio, as far as they describe work on a disk.

use std::time::Duration;

use super::size::size;
use super::{Flow, OpenFlags, Range, Rate, Script, Sizes, Step, Storage, units};

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// An option that is not understood.
    #[error("--{0} is not an option of fio that is understood here{near}", near = nearest(.0))]
    Option(String),
    /// Not an option at all.
    #[error("'{0}' is not an option: job files are not read, write --OPTION=VALUE")]
    Argument(String),
    /// A value that cannot be.
    #[error("--{option}={value} cannot be: write {instead}")]
    Value {
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// What to write.
        instead: &'static str,
    },
    /// An option without its value.
    #[error("--{0} needs a value")]
    Missing(String),
    /// Several jobs.
    #[error("a second --name begins another job: the lab runs one job for each command line")]
    SecondJob,
    /// Several disks.
    #[error("--filename={0} names several: the lab takes one there; name each by --on")]
    Files(String),
    /// Neither a time nor an amount.
    #[error("nothing says when it ends: add --runtime=SECONDS, with --time_based, or --size=BYTES")]
    NoEnd,
}

/// Option and what it means here.
pub const OPTIONS: [(&str, &str); 29] = [
    ("name", "the name of the run"),
    ("filename", "the disk, unless `--on` names one"),
    (
        "rw",
        "`read`, `write`, `randread`, `randwrite`, `rw` or `readwrite`, `randrw` [read]; also `--readwrite`",
    ),
    ("rwmixread", "how many in a hundred read, of `rw` and `randrw` [50]"),
    ("rwmixwrite", "how many in a hundred write; of it and `rwmixread` the later counts"),
    (
        "percentage_random",
        "how many in a hundred go to a random place, of `rand*` [100]; the others go on from there",
    ),
    ("bs", "how large I/Os are [4k]; also `blocksize`"),
    ("bssplit", "sizes with their shares: `4k/60:8k/40`"),
    ("numjobs", "independent streams [1]"),
    ("iodepth", "I/Os under way at once of each stream [1]"),
    (
        "runtime",
        "how long; without `size` from the beginning again until then, as with `time_based`",
    ),
    ("time_based", "start again from the beginning until the time is over"),
    ("ramp_time", "how long it runs before it is measured"),
    (
        "size",
        "use so much of the disk, bytes or `20%`; each stream ends when it has moved that much, unless `time_based`",
    ),
    ("offset", "where that begins"),
    ("loops", "so many times that much"),
    ("rate_iops", "I/Os a second of each stream"),
    ("direct", "`1`: files past the page cache"),
    ("sync", "`1`, `dsync`: durable writes"),
    ("group_reporting", "as it is always done here"),
    ("ioengine", "no effect: io_uring for files, the own initiator for iSCSI"),
    ("invalidate", "no effect: `direct=1` goes past the cache"),
    ("fsync_on_close", "no effect beyond `1`, which is always done: flush at the end"),
    ("end_fsync", "no effect beyond `1`, which is always done: flush at the end"),
    ("gtod_reduce", "no effect: the latency of each I/O is measured all the same"),
    (
        "output-format",
        "`normal`, and no effect: results are those of the lab, as JSON by `--json` before the `--`",
    ),
    ("randrepeat", "no effect: places are drawn from the same seed each time"),
    ("norandommap", "no effect: places are drawn without a map, so that some are visited twice"),
    ("exitall", "no effect: there is one job"),
];

/// `; write --numjobs` for a name that is nearly that.
fn nearest(name: &str) -> String {
    let known = OPTIONS.iter().map(|(option, _)| *option);
    let near = known.filter(|option| {
        name.len() > 2
            && (option.starts_with(name) || name.starts_with(option) || is_near(option, name))
    });
    near.min_by_key(|option| option.len().abs_diff(name.len()))
        .map_or_else(String::new, |option| format!("; write --{option}"))
}

/// Whether one letter was left out, added or changed, or two were swapped: what is left between the
/// common start and the common end is two letters at most.
fn is_near(a: &str, b: &str) -> bool {
    let alike = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a.as_bytes()[alike..], &b.as_bytes()[alike..]);
    let alike = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    a.len().max(b.len()) - alike <= 2
}

/// Whether fio has such an option and it is understood here; with or without its value and dashes.
#[must_use]
pub fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
    OPTIONS.iter().any(|(known, _)| *known == canonical(name))
}

/// The options in lines, for the help of a command.
#[must_use]
pub fn list_text() -> String {
    let line = |(option, meaning): &(&str, &str)| {
        format!("  --{option:<18} {}\n", meaning.replace('`', ""))
    };
    OPTIONS.iter().map(line).collect()
}

/// Options that are written without a value, or with 0 or 1.
const SWITCHES: [&str; 9] = [
    "time_based",
    "group_reporting",
    "invalidate",
    "fsync_on_close",
    "end_fsync",
    "gtod_reduce",
    "randrepeat",
    "norandommap",
    "exitall",
];
/// Options that change nothing, with what is to be told about them.
const WITHOUT_EFFECT: [&str; 6] =
    ["ioengine", "invalidate", "norandommap", "output", "output-format", "gtod_reduce"];
/// Flushes that are always done.
const FLUSHES: [&str; 2] = ["fsync_on_close", "end_fsync"];

/// What was written, before it is understood.
struct Line {
    options: Vec<(String, String)>,
}

impl Line {
    fn read(args: &[String]) -> Result<Self, FioError> {
        let mut options: Vec<(String, String)> = Vec::new();
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            // fio takes one dash for two, and so do the command lines that people copy.
            let trimmed = arg.trim_start_matches(['-', '\u{2013}']);
            if trimmed.len() == arg.len() || trimmed.is_empty() {
                return Err(FioError::Argument(arg.clone()));
            }
            let (name, value) = match trimmed.split_once('=') {
                Some((name, value)) => (name, Some(value.trim_matches('"').to_owned())),
                None => (trimmed, None),
            };
            let name = canonical(name);
            if name != "output" && !OPTIONS.iter().any(|(known, _)| *known == name) {
                return Err(FioError::Option(name.to_owned()));
            }
            let is_switch = SWITCHES.contains(&name);
            let value = match value {
                Some(value) => value,
                None if is_switch => "1".to_owned(),
                None => {
                    let next = args.next_if(|next| !next.starts_with('-'));
                    next.cloned().ok_or_else(|| FioError::Missing(name.to_owned()))?
                }
            };
            if name == "name" && options.iter().any(|(known, _)| known == "name") {
                return Err(FioError::SecondJob);
            }
            if is_switch && !["0", "1"].contains(&value.as_str()) {
                return Err(wrong(name, &value, "0 or 1"));
            }
            // As in fio, the last one counts.
            options.retain(|(known, _)| known != name);
            options.push((name.to_owned(), value));
        }
        Ok(Self { options })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn with<T>(
        &self,
        name: &str,
        instead: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, FioError> {
        let read = |value: &str| read(value).ok_or_else(|| wrong(name, value, instead));
        self.get(name).map(read).transpose()
    }

    /// Whether the one option stands behind the other, which may not be there.
    fn is_later(&self, one: &str, other: &str) -> bool {
        let place = |name: &str| self.options.iter().position(|(known, _)| known == name);
        place(one) > place(other)
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }
}

fn canonical(name: &str) -> &str {
    match name {
        "readwrite" => "rw",
        "blocksize" => "bs",
        name => name,
    }
}

fn wrong(option: &str, value: &str, instead: &'static str) -> FioError {
    FioError::Value { option: option.to_owned(), value: value.to_owned(), instead }
}

/// Reads the options of one fio job.
///
/// # Errors
/// A [`FioError`].
pub fn parse(args: &[String]) -> Result<Script, FioError> {
    let line = Line::read(args)?;
    if let Some(names) =
        line.get("filename").filter(|name| name.contains(":/") && !name.contains("://"))
    {
        return Err(FioError::Files(names.to_owned()));
    }
    let (flow, open) = (flow_of(&line)?, open_of(&line)?);
    let count = |name, max: u32| {
        let read = |text: &str| text.parse().ok().filter(|n: &u32| (1..=max).contains(n));
        line.with(name, "a number of at least 1", read).map(|n| n.unwrap_or(1))
    };
    let (streams, depth, loops) =
        (count("numjobs", 4096)?, count("iodepth", 65_536)?, count("loops", 1_000_000)?);
    let seconds = |name| line.with(name, "seconds, or 30m or 2h", units::time);
    let (runtime, ramp) = (seconds("runtime")?, seconds("ramp_time")?);
    let (offset, size) = (extent(&line, "offset")?, extent(&line, "size")?);
    let is_time_based = line.is_on("time_based");
    if runtime.is_none() && (is_time_based || size.is_none()) {
        return Err(FioError::NoEnd);
    }
    let (bytes_max, passes) = match size.filter(|_| !is_time_based) {
        Some(Extent::Bytes(bytes)) => (Some(bytes.saturating_mul(u64::from(loops))), None),
        // How much that is depends on the disk.
        Some(Extent::Percent(_)) => (None, Some(loops)),
        None => (None, None),
    };
    line.with("output-format", OUTPUT_FORMAT, |text| (text == "normal").then_some(()))?;
    let rate = line.with("rate_iops", "I/Os a second, up to 1000000000", units::rate)?;
    let name = line.get("name").unwrap_or("fio").to_owned();
    let storage = Storage {
        name: "filename".to_owned(),
        lun: line.get("filename").map(str::to_owned),
        size_bytes: None,
        range: range_of(offset, size),
        hit_bytes: 1 << 20,
        threads: depth,
        open,
    };
    let step = Step {
        name,
        flows: vec![flow],
        rate: rate.map_or(Rate::Max, |rate| Rate::Iops(rate * f64::from(streams))),
        threads: None,
        clients: None,
        sessions: None,
        streams,
        elapsed: runtime.unwrap_or(FOREVER),
        warmup: ramp.unwrap_or_default(),
        interval: Duration::from_secs(1),
        bytes_max,
        passes,
    };
    Ok(Script { storage: vec![storage], steps: vec![step], notes: notes(&line) })
}

/// What to write where results are asked for in a form of fio.
const OUTPUT_FORMAT: &str = "normal, or --json before the '--': results are in the lab's own form, which no reader of fio's takes";
/// The end of a run that ends by its amount.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

fn flow_of(line: &Line) -> Result<Flow, FioError> {
    const KINDS: &str = "read, write, randread, randwrite, rw or randrw";
    let kind = line.get("rw").unwrap_or("read");
    let is_random = kind.starts_with("rand");
    let mix_read = line.with("rwmixread", "0 to 100", units::percent)?;
    let mix_write = line.with("rwmixwrite", "0 to 100", units::percent)?;
    let (reads, rest) = (mix_read, mix_write.map(|writes| 100 - writes));
    let mixed =
        if line.is_later("rwmixwrite", "rwmixread") { rest.or(reads) } else { reads.or(rest) };
    let mixed = mixed.unwrap_or(50);
    let read_percent = match kind.trim_start_matches("rand") {
        "read" => 100,
        "write" => 0,
        "rw" | "readwrite" => mixed,
        _ => return Err(wrong("rw", kind, KINDS)),
    };
    let random = line.with("percentage_random", "0 to 100", units::percent)?.unwrap_or(100);
    const SIZES: &str = "a multiple of 512 up to 16m, such as 64k";
    let one = line.with("bs", SIZES, |text| units::bytes(text).and_then(Sizes::one))?;
    let split = line.with("bssplit", "4k/60:8k/40, with shares that add up to 100", split)?;
    Ok(Flow {
        name: line.get("name").unwrap_or("fio").to_owned(),
        storage: vec![0],
        sizes: split.or(one).unwrap_or(Sizes::One(4096)),
        read_percent,
        seek_percent: if is_random { random } else { 0 },
        read_hit_percent: 0,
        write_hit_percent: 0,
        skew_percent: None,
        range: None,
        is_hot_band: false,
        durable: false,
    })
}

fn split(text: &str) -> Option<Sizes> {
    let part = |part: &str| {
        let (bytes, share) = part.split_once('/')?;
        Some((size(units::bytes(bytes)?)?, units::decimal(share)?))
    };
    let parts: Vec<(u32, f64)> = text.split(':').map(part).collect::<Option<_>>()?;
    let total: f64 = parts.iter().map(|part| part.1).sum();
    ((total - 100.0).abs() < 0.01).then_some(Sizes::Mix(parts))
}

fn open_of(line: &Line) -> Result<OpenFlags, FioError> {
    let direct = line.with("direct", "0 or 1", switch)?.unwrap_or(false);
    let durable = line.with("sync", "0, 1, sync, dsync or none", |text| match text {
        "1" | "sync" | "dsync" => Some(true),
        "0" | "none" => Some(false),
        _ => None,
    })?;
    Ok(OpenFlags { direct, durable: durable.unwrap_or(false) })
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Extent {
    Bytes(u64),
    Percent(f64),
}

fn extent(line: &Line, name: &str) -> Result<Option<Extent>, FioError> {
    line.with(name, "bytes such as 200m, or a share such as 20%", |text| {
        match text.strip_suffix('%') {
            Some(share) => units::decimal(share).filter(|n| *n <= 100.0).map(Extent::Percent),
            None => units::bytes(text).map(Extent::Bytes),
        }
    })
}

fn range_of(offset: Option<Extent>, size: Option<Extent>) -> Option<Range> {
    match (offset, size) {
        (None, None) => None,
        (None | Some(Extent::Bytes(0)), Some(Extent::Bytes(to))) => Some(Range::Bytes(0, to)),
        (Some(Extent::Bytes(from)), Some(Extent::Bytes(bytes))) => {
            Some(Range::Bytes(from, from.saturating_add(bytes)))
        }
        (Some(Extent::Bytes(from)), _) => Some(Range::Bytes(from, u64::MAX)),
        (Some(Extent::Percent(from)), Some(Extent::Percent(share))) => {
            Some(Range::Percent(from, (from + share).min(100.0)))
        }
        (Some(Extent::Percent(from)), _) => Some(Range::Percent(from, 100.0)),
        (None, Some(Extent::Percent(to))) => Some(Range::Percent(0.0, to)),
    }
}

fn notes(line: &Line) -> Vec<String> {
    let given = WITHOUT_EFFECT
        .iter()
        .filter(|name| line.get(name).is_some_and(|value| **name != "gtod_reduce" || value == "1"));
    let flushed = FLUSHES.iter().filter(|name| line.get(name) == Some("0"));
    let flushed = flushed
        .map(|name| format!("--{name}=0 has no effect: what was written is flushed at the end"));
    given
        .map(|name| match *name {
            "output" => "--output has no effect: results go where --report says".to_owned(),
            name => {
                let meaning = OPTIONS.iter().find(|(known, _)| *known == name).map_or("", |o| o.1);
                format!("--{name} has {}", meaning.trim_start_matches("`normal`, and "))
            }
        })
        .chain(flushed)
        .collect()
}

/// The options as a table, for docs/lab.md.
#[must_use]
pub fn table_markdown() -> String {
    let row = |(option, meaning): &(&str, &str)| format!("| `--{option}` | {meaning} |\n");
    format!(
        "| option | meaning, [default] |\n|---|---|\n{}",
        OPTIONS.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn job(text: &str) -> Script {
        parse(&words(text)).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// As the Moonshot paper prints it, with its single dashes.
    #[test]
    fn the_first_command_line_of_the_moonshot_paper() {
        let script =
            job("--rw=randread --bs=64k --numjobs=4 --iodepth=8 --runtime=30 --time_based \
            -loops=1 --ioengine=libaio --direct=1 --invalidate=1 --fsync_on_close=1 -randrepeat=1 \
            --norandommap --exitall --name task1 --filename=/dev/sdb");
        let (step, storage) = (&script.steps[0], &script.storage[0]);
        assert_eq!((step.name.as_str(), step.streams, storage.threads), ("task1", 4, 8));
        assert_eq!((step.elapsed.as_secs(), step.bytes_max), (30, None));
        assert_eq!(storage.lun.as_deref(), Some("/dev/sdb"));
        let flow = &step.flows[0];
        assert_eq!(
            (&flow.sizes, flow.read_percent, flow.seek_percent),
            (&Sizes::One(65536), 100, 100)
        );
        assert!(storage.open.direct);
        assert_eq!(script.notes.len(), 3, "{:?}", script.notes);
    }

    #[test]
    fn the_second_command_line_of_the_moonshot_paper() {
        let script = job("--rw=read --bs=128k --numjobs=1 --iodepth=4 --size=\"200m\" --loops=1 \
            -ioengine=libaio --direct=1 --invalidate=1 --fsync_on_close=1 --randrepeat=1 \
            -norandommap --exitall --name \"test1\" --filename=\"/dev/sdb\" \
            -output=/tmp/fio_verify.sh-22334.log --time_based --runtime=305");
        let (step, storage) = (&script.steps[0], &script.storage[0]);
        assert_eq!((step.elapsed.as_secs(), step.bytes_max), (305, None));
        assert_eq!(
            (storage.range, storage.lun.as_deref()),
            (Some(Range::Bytes(0, 200 << 20)), Some("/dev/sdb"))
        );
        assert_eq!((step.flows[0].seek_percent, storage.threads), (0, 4));
        assert!(script.notes.iter().any(|note| note.starts_with("--output has no effect")));
    }

    #[test]
    fn a_rate_has_an_end() {
        let words = ["--filename=x", "--rw=read", "--runtime=1", "--rate_iops=2000000000"];
        let told = parse(&words.map(str::to_owned)).unwrap_err().to_string();
        assert!(told.contains("up to 1000000000"), "{told}");
    }

    #[test]
    fn an_amount_ends_it_where_no_time_does() {
        let script = job("--name=a --filename=x --rw=randrw --rwmixwrite=30 --size=1m --loops=3 \
            --offset=4m --bssplit=4k/60:8k/40 --rate_iops=50 --numjobs=2 --sync=1");
        let step = &script.steps[0];
        assert_eq!((step.bytes_max, step.rate), (Some(3 << 20), Rate::Iops(100.0)));
        assert_eq!(script.storage[0].range, Some(Range::Bytes(4 << 20, 5 << 20)));
        assert_eq!(step.flows[0].read_percent, 70);
        assert_eq!(step.flows[0].sizes, Sizes::Mix(vec![(4096, 60.0), (8192, 40.0)]));
        assert!(script.storage[0].open.durable);
    }

    /// As in fio, of two that exclude each other the later counts.
    #[test]
    fn the_later_mix_counts() {
        for (mix, reads) in [
            ("--rwmixread=70 --rwmixwrite=70", 30),
            ("--rwmixwrite=70 --rwmixread=70", 70),
            ("--rwmixread=20 --rwmixwrite=90 --rwmixread=60", 60),
            ("--rwmixwrite=90", 10),
            ("", 50),
        ] {
            let script = job(&format!("--rw=rw --size=1m {mix}"));
            assert_eq!(script.steps[0].flows[0].read_percent, reads, "{mix}");
        }
    }

    /// What people have in their scripts: accepted where it means something here, else refused with what to
    /// write.
    #[test]
    fn words_of_scripts_that_report_in_their_own_way() {
        let script =
            job("--readwrite=readwrite --size=10% --loops=2 --end_fsync=1 --gtod_reduce=1 \
            --output-format=normal");
        let (step, storage) = (&script.steps[0], &script.storage[0]);
        assert_eq!((step.bytes_max, step.passes), (None, Some(2)));
        assert_eq!(storage.range, Some(Range::Percent(0.0, 10.0)));
        assert_eq!((step.flows[0].read_percent, step.flows[0].seek_percent), (50, 0));
        assert_eq!(
            script.notes,
            [
                "--output-format has no effect: results are those of the lab, as JSON by `--json` before the `--`",
                "--gtod_reduce has no effect: the latency of each I/O is measured all the same",
            ]
        );
        let late = job("--rw=readwrite --size=10% --runtime=5 --time_based --gtod_reduce=0");
        assert_eq!((late.steps[0].passes, late.notes.len()), (None, 0));
        let kept = job("--rw=write --size=1m --end_fsync=0").notes;
        assert_eq!(kept, ["--end_fsync=0 has no effect: what was written is flushed at the end"]);
        for format in ["json", "json+", "terse", "normal,json"] {
            let refused =
                parse(&words(&format!("--size=1m --output-format={format}"))).unwrap_err();
            let told = refused.to_string();
            assert!(told.contains("--json before the '--'"), "{told}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let wrong = |text: &str| parse(&words(text)).unwrap_err();
        assert_eq!(wrong("--verify=crc32c"), FioError::Option("verify".into()));
        assert_eq!(wrong("job.fio"), FioError::Argument("job.fio".into()));
        assert_eq!(wrong("--rw"), FioError::Missing("rw".into()));
        assert_eq!(wrong("--name=a --name=b"), FioError::SecondJob);
        assert_eq!(wrong("--filename=/dev/a:/dev/b"), FioError::Files("/dev/a:/dev/b".into()));
        for (typed, meant) in
            [("iodpeth", "iodepth"), ("runtim", "runtime"), ("ioedpth", "iodepth")]
        {
            let told = wrong(&format!("--{typed}=4")).to_string();
            assert!(told.ends_with(&format!("; write --{meant}")), "{told}");
        }
        assert!(wrong("--verify=crc32c").to_string().ends_with("understood here"));
        assert_eq!(wrong("--rw=read"), FioError::NoEnd);
        assert_eq!(wrong("--time_based --size=1m"), FioError::NoEnd);
        let cases =
            ["--rw=trim", "--bs=5", "--iodepth=0", "--runtime=-1", "--time_based=2", "--size=200%"];
        for text in cases {
            let error = wrong(text);
            assert!(matches!(error, FioError::Value { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn each_option_of_the_table_is_read() {
        for (option, _) in OPTIONS {
            let result = parse(&words(&format!("--runtime=1 --{option}=no/such:value")));
            let is_free = ["name", "filename", "ioengine"].contains(&option);
            assert_eq!(result.is_ok(), is_free, "{option}");
        }
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(words in proptest::collection::vec((0..OPTIONS.len(), "[0-9a-z%/:-]{0,8}"), 0..8)) {
            let args: Vec<String> =
                words.iter().map(|(index, value)| format!("--{}={value}", OPTIONS[*index].0)).collect();
            let _ = parse(&args);
        }
    }
}
