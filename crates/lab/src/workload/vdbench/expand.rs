//! From definitions to runs.

use std::time::Duration;

use super::super::size::size;
use super::super::{Flow, OpenFlags, Range, Rate, Script, Sizes, Step, Storage, units};
use super::line::{Statement, Word};
use super::list::{bytes, items, named, number, numbers, plain};
use super::words::Kind;
use super::{ParameterError, Problem};

/// Runs that one `rd=` may make.
pub(super) const STEPS_MAX: usize = 10_000;
const THREADS: u32 = 8;
const THREADS_MAX: u64 = 65_536;
/// More than any group of members takes.
const SESSIONS_MAX: u64 = 4096;
const CLIENTS_MAX: u64 = 4096;
const HIT_BYTES: u64 = 1 << 20;
const ELAPSED: Duration = Duration::from_secs(30);
/// Runs longer than this note figures once a minute, unless they say otherwise.
const LONG: Duration = Duration::from_secs(7200);
const CURVE_PERCENTS: [u64; 6] = [10, 50, 70, 80, 90, 100];
const DEFAULT: &str = "default";

/// Names and what they stand for, in order.
struct Defined<T> {
    names: Vec<String>,
    values: Vec<T>,
}

impl<T> Defined<T> {
    fn new() -> Self {
        Self { names: Vec::new(), values: Vec::new() }
    }

    fn add(&mut self, statement: &Statement, value: T) -> Result<(), ParameterError> {
        if self.names.contains(&statement.name) {
            let (kind, name) = (statement.kind.key(), statement.name.clone());
            return Err(Problem::Defined { kind, name }.at(statement.line));
        }
        self.names.push(statement.name.clone());
        self.values.push(value);
        Ok(())
    }
}

/// Makes a script of the definitions, which may use only what stands above them.
pub(super) fn script(statements: &[Statement]) -> Result<Script, ParameterError> {
    let (mut hosts, mut storage) = (Defined::new(), Defined::new());
    let (mut workloads, mut runs) = (Defined::new(), Defined::new());
    for statement in statements {
        let words = with_defaults(statements, statement);
        if statement.name == DEFAULT {
            continue;
        }
        match statement.kind {
            Kind::Host => {
                host(&words)?;
                hosts.add(statement, ())?;
            }
            Kind::Storage => {
                check_hosts(&words, &hosts.names)?;
                storage.add(statement, storage_of(&statement.name, &words)?)?;
            }
            Kind::Workload => {
                check_hosts(&words, &hosts.names)?;
                let flow = flow_of(statement, &words, &storage.names)?;
                workloads.add(statement, flow)?;
            }
            Kind::Run => {
                let steps = steps_of(statement, &words, &storage.names, &workloads)?;
                runs.add(statement, steps)?;
            }
        }
    }
    let steps: Vec<Step> = runs.values.into_iter().flatten().collect();
    if steps.is_empty() {
        return Err(Problem::NoRun.at(statements.last().map_or(1, |statement| statement.line)));
    }
    Ok(Script { storage: storage.values, steps, notes: Vec::new() })
}

/// The words of a definition, and those of the last `default` above it that it does not have itself.
fn with_defaults<'a>(all: &'a [Statement], statement: &'a Statement) -> Vec<&'a Word> {
    let mut words: Vec<&Word> = statement.words.iter().collect();
    let above = all.iter().take_while(|other| other.line < statement.line).filter(|other| {
        other.kind == statement.kind && other.name == DEFAULT && statement.name != DEFAULT
    });
    for default in above.collect::<Vec<_>>().into_iter().rev() {
        for word in &default.words {
            if !words.iter().any(|known| known.key == word.key) {
                words.push(word);
            }
        }
    }
    words
}

fn get<'a>(words: &[&'a Word], key: &str) -> Option<&'a Word> {
    words.iter().find(|word| word.key == key).copied()
}

fn host(words: &[&Word]) -> Result<(), ParameterError> {
    match get(words, "system") {
        Some(word) if word.value != "localhost" => {
            Err(Problem::OtherSystem(word.value.clone()).at(word.line))
        }
        _ => Ok(()),
    }
}

fn check_hosts(words: &[&Word], names: &[String]) -> Result<(), ParameterError> {
    match get(words, "host") {
        Some(word) if word.value != "*" => named(word, "hd", names).map(drop),
        _ => Ok(()),
    }
}

fn storage_of(name: &str, words: &[&Word]) -> Result<Storage, ParameterError> {
    const SIZE: &str = "a size such as 10240m";
    let size_of = |key| get(words, key).map(|word| bytes(word, SIZE)).transpose();
    Ok(Storage {
        name: name.to_owned(),
        lun: get(words, "lun").map(|word| word.value.clone()),
        size_bytes: size_of("size")?,
        range: get(words, "range").map(range).transpose()?,
        hit_bytes: size_of("hitarea")?.unwrap_or(HIT_BYTES),
        threads: get(words, "threads").map(threads).transpose()?.unwrap_or(THREADS),
        open: get(words, "openflags").map(open_flags).transpose()?.unwrap_or_default(),
    })
}

fn threads(word: &Word) -> Result<u32, ParameterError> {
    number(word, 1, THREADS_MAX, "1 to 65536").map(|number| number as u32)
}

fn open_flags(word: &Word) -> Result<OpenFlags, ParameterError> {
    let mut flags = OpenFlags::default();
    for item in items(&word.value) {
        match item.to_ascii_lowercase().as_str() {
            "o_direct" | "directio" => flags.direct = true,
            "o_sync" | "o_dsync" => flags.durable = true,
            _ => return Err(word.wrong("o_direct, directio, o_sync or o_dsync")),
        }
    }
    Ok(flags)
}

/// Percent up to 200, bytes above, as Vdbench tells them apart.
fn range(word: &Word) -> Result<Range, ParameterError> {
    const INSTEAD: &str = "(20,40) in percent, up to 200, or (1g,2g) in bytes, the smaller first";
    const PERCENT_MAX: f64 = 200.0;
    let wrong = || word.wrong(INSTEAD);
    let [from, to] = items(&word.value)[..] else { return Err(wrong()) };
    let percents = units::decimal(from).zip(units::decimal(to));
    match percents {
        Some((from, to)) if to <= PERCENT_MAX => {
            // A range of more than all would visit some of it twice as often.
            let fits = from < to && from <= 100.0 && to - from <= 100.0;
            if fits { Ok(Range::Percent(from, to)) } else { Err(wrong()) }
        }
        _ => {
            let (from, to) = units::bytes(from).zip(units::bytes(to)).ok_or_else(wrong)?;
            if from < to { Ok(Range::Bytes(from, to)) } else { Err(wrong()) }
        }
    }
}

fn flow_of(
    statement: &Statement,
    words: &[&Word],
    storage: &[String],
) -> Result<Flow, ParameterError> {
    let percent = |key| get(words, key).map(percent).transpose();
    let storage = match get(words, "sd") {
        Some(word) => named(word, "sd", storage)?,
        None => return Err(Problem::Unknown { kind: "sd", name: String::new() }.at(statement.line)),
    };
    let open = get(words, "openflags").map(open_flags).transpose()?.unwrap_or_default();
    if let (true, Some(word)) = (open.direct, get(words, "openflags")) {
        return Err(word.wrong("o_sync or o_dsync here; o_direct belongs to sd="));
    }
    let hot_band = get(words, "hotband").map(range).transpose()?;
    if let (Some(word), true) = (get(words, "range"), hot_band.is_some()) {
        return Err(word.wrong("either range= or hotband="));
    }
    Ok(Flow {
        name: statement.name.clone(),
        storage,
        sizes: get(words, "xfersize").map(sizes).transpose()?.unwrap_or(Sizes::One(4096)),
        read_percent: percent("rdpct")?.unwrap_or(100),
        seek_percent: get(words, "seekpct").map(seek).transpose()?.unwrap_or(100),
        read_hit_percent: percent("rhpct")?.unwrap_or(0),
        write_hit_percent: percent("whpct")?.unwrap_or(0),
        skew_percent: get(words, "skew").map(skew).transpose()?,
        is_hot_band: hot_band.is_some(),
        range: hot_band.or(get(words, "range").map(range).transpose()?),
        durable: open.durable,
    })
}

fn percent(word: &Word) -> Result<u32, ParameterError> {
    units::percent(&word.value).ok_or_else(|| word.wrong("0 to 100"))
}

fn skew(word: &Word) -> Result<f64, ParameterError> {
    let skew = units::decimal(&word.value).filter(|skew| *skew <= 100.0 && *skew > 0.0);
    skew.ok_or_else(|| word.wrong("a share in percent, above 0 and up to 100"))
}

fn seek(word: &Word) -> Result<u32, ParameterError> {
    match word.value.to_ascii_lowercase().as_str() {
        "random" | "rand" => Ok(100),
        "sequential" | "seq" => Ok(0),
        number => {
            units::percent(number).ok_or_else(|| word.wrong("0 to 100, random or sequential"))
        }
    }
}

/// A size, shares, a range, or a list of which each is as often.
fn sizes(word: &Word) -> Result<Sizes, ParameterError> {
    const INSTEAD: &str = "multiples of 512 up to 16m: 8k, or (4k,60,8k,40) with shares that add up \
        to 100, or (MIN,MAX,STEP) with both multiples of STEP, or (4k,8k,64k) rising";
    let wrong = || word.wrong(INSTEAD);
    let items = items(&word.value);
    let values: Option<Vec<u64>> = items.iter().map(|item| units::bytes(item)).collect();
    let values = values.ok_or_else(wrong)?;
    if let [one] = values[..] {
        return Sizes::one(one).ok_or_else(wrong);
    }
    if let Some(mix) = shares(&items, &values) {
        return Ok(mix);
    }
    let sizes: Option<Vec<u32>> = values.iter().map(|bytes| size(*bytes)).collect();
    let sizes = sizes.filter(|sizes| !sizes.is_empty()).ok_or_else(wrong)?;
    if let [min, max, step] = sizes[..]
        && step <= min
        && min < max
    {
        let fits = min.is_multiple_of(step) && max.is_multiple_of(step);
        return if fits { Ok(Sizes::Uniform { min, max, step }) } else { Err(wrong()) };
    }
    if !sizes.is_sorted_by(|a, b| a < b) {
        return Err(wrong());
    }
    let share = 100.0 / sizes.len() as f64;
    Ok(Sizes::Mix(sizes.into_iter().map(|bytes| (bytes, share)).collect()))
}

/// Pairs of sizes and percents, if they are such.
fn shares(items: &[&str], values: &[u64]) -> Option<Sizes> {
    if !items.len().is_multiple_of(2) {
        return None;
    }
    let mut parts = Vec::new();
    for (pair, value) in items.chunks(2).zip(values.chunks(2)) {
        parts.push((size(value[0])?, units::decimal(pair[1])?));
    }
    let total: f64 = parts.iter().map(|part| part.1).sum();
    ((total - 100.0).abs() < 0.01).then_some(Sizes::Mix(parts))
}

fn steps_of(
    statement: &Statement,
    words: &[&Word],
    storage: &[String],
    workloads: &Defined<Flow>,
) -> Result<Vec<Step>, ParameterError> {
    let flows = flows_of(statement, words, storage, workloads)?;
    check_skew(&flows, statement.line)?;
    let time = |key: &str| {
        let read = |word: &Word| {
            units::time(&word.value)
                .ok_or_else(|| word.wrong("seconds, or 30m or 2h, up to a year"))
        };
        get(words, key).map(read).transpose()
    };
    let elapsed = time("elapsed")?.unwrap_or(ELAPSED);
    let seconds = if elapsed > LONG { 60 } else { 1 };
    let interval = time("interval")?.unwrap_or(Duration::from_secs(seconds));
    if let (true, Some(word)) = (interval < Duration::from_millis(100), get(words, "interval")) {
        return Err(word.wrong("at least 0.1 seconds"));
    }
    if let (true, Some(word)) = (elapsed.is_zero(), get(words, "elapsed")) {
        return Err(word.wrong("more than 0 seconds"));
    }
    let base = Step {
        name: statement.name.clone(),
        flows,
        rate: Rate::Max,
        threads: None,
        clients: None,
        sessions: None,
        streams: 1,
        elapsed,
        warmup: time("warmup")?.unwrap_or(Duration::ZERO),
        interval,
        bytes_max: None,
        passes: None,
    };
    let steps = multiply(base, words, statement)?;
    if steps.len() > STEPS_MAX {
        return Err(Problem::TooMany(statement.name.clone()).at(statement.line));
    }
    Ok(steps)
}

fn flows_of(
    statement: &Statement,
    words: &[&Word],
    storage: &[String],
    workloads: &Defined<Flow>,
) -> Result<Vec<Flow>, ParameterError> {
    let mut flows = match (get(words, "wd"), get(words, "sd")) {
        (Some(word), _) => {
            let indices = named(word, "wd", &workloads.names)?;
            indices.into_iter().map(|index| workloads.values[index].clone()).collect()
        }
        (None, Some(_)) => vec![flow_of(statement, &only(words, "sd"), storage)?],
        (None, None) => {
            return Err(Problem::Unknown { kind: "wd", name: String::new() }.at(statement.line));
        }
    };
    if let (Some(_), Some(word)) = (get(words, "wd"), get(words, "sd")) {
        return Err(word.wrong("sd= in a run without wd=, or in the workload"));
    }
    for flow in &mut flows {
        if let Some(word) = get(words, "xfersize") {
            flow.sizes = sizes(word)?;
        }
        if let Some(word) = get(words, "rdpct") {
            flow.read_percent = percent(word)?;
        }
        if let Some(word) = get(words, "seekpct") {
            flow.seek_percent = seek(word)?;
        }
    }
    Ok(flows)
}

fn only<'a>(words: &[&'a Word], key: &str) -> Vec<&'a Word> {
    words.iter().filter(|word| word.key == key).copied().collect()
}

/// Shares that are given may not exceed 100, and must be 100 where all are given.
fn check_skew(flows: &[Flow], line: usize) -> Result<(), ParameterError> {
    let given: Vec<f64> = flows.iter().filter_map(|flow| flow.skew_percent).collect();
    let total: f64 = given.iter().sum();
    let all = given.len() == flows.len();
    let fits = given.is_empty() || (all && (total - 100.0).abs() < 0.01) || (!all && total < 100.0);
    if fits { Ok(()) } else { Err(Problem::Skew(format!("{total}")).at(line)) }
}

/// One step for each value of the lists: sessions outermost, rates innermost.
fn multiply(
    base: Step,
    words: &[&Word],
    statement: &Statement,
) -> Result<Vec<Step>, ParameterError> {
    let mut steps = vec![base];
    let mut each = |values: Vec<(String, Change)>| {
        if values.is_empty() {
            return Ok(());
        }
        let before = std::mem::take(&mut steps);
        for step in before {
            for (label, change) in &values {
                let mut step = step.clone();
                change.apply(&mut step);
                if values.len() > 1 || !label.is_empty() {
                    step.name = format!("{} {label}", step.name);
                }
                steps.push(step);
            }
        }
        if steps.len() > STEPS_MAX {
            return Err(Problem::TooMany(statement.name.clone()).at(statement.line));
        }
        Ok(())
    };
    // What makes targets be opened anew changes least often.
    const SESSIONS: &str = "1 to 4096: (1,3,16), (1-4096,d), (45,510,1020)";
    each(counted(words, "forsessions", SESSIONS_MAX, SESSIONS, Change::Sessions)?)?;
    const CLIENTS: &str = "1 to 4096: (1,15,45), (1-45,11)";
    each(counted(words, "forclients", CLIENTS_MAX, CLIENTS, Change::Clients)?)?;
    if let Some(word) = get(words, "forxfersize") {
        const SIZES: &str = "sizes, multiples of 512 up to 16m: (4k,8k), (4k-1m,d), (4k-64k,4k)";
        let values = numbers(word, SIZES, units::bytes)?;
        let sizes: Option<Vec<u32>> = values.iter().map(|bytes| size(*bytes)).collect();
        let sizes = sizes.ok_or_else(|| word.wrong(SIZES))?;
        let label =
            |bytes: u32| (format!("xfersize={}", short(u64::from(bytes))), Change::Size(bytes));
        each(sizes.into_iter().map(label).collect())?;
    }
    if let Some(word) = get(words, "forrdpct") {
        const PERCENTS: &str = "0 to 100: (0,50,100), (0-100,25)";
        let values = numbers(word, PERCENTS, |text| units::percent(text).map(u64::from))?;
        if values.iter().any(|value| *value > 100) {
            return Err(word.wrong(PERCENTS));
        }
        let label = |percent: u64| (format!("rdpct={percent}"), Change::Reads(percent as u32));
        each(values.into_iter().map(label).collect())?;
    }
    for key in ["threads", "forthreads"] {
        each(counted(
            words,
            key,
            THREADS_MAX,
            "1 to 65536: 8, (1,2,4), (1-64,d), (8-64,8)",
            Change::Threads,
        )?)?;
    }
    if let Some(values) = rates(words)? {
        each(values)?;
    }
    Ok(steps)
}

/// A step for each number; nothing if the word is not there.
fn counted(
    words: &[&Word],
    key: &str,
    max: u64,
    instead: &'static str,
    change: fn(u32) -> Change,
) -> Result<Vec<(String, Change)>, ParameterError> {
    let Some(word) = get(words, key) else { return Ok(Vec::new()) };
    let values = numbers(word, instead, plain)?;
    if values.iter().any(|value| !(1..=max).contains(value)) {
        return Err(word.wrong(instead));
    }
    let named = key.starts_with("for") || values.len() > 1;
    let label = |count: u64| {
        let what = key.strip_prefix("for").unwrap_or(key);
        let label = if named { format!("{what}={count}") } else { String::new() };
        (label, change(count as u32))
    };
    Ok(values.into_iter().map(label).collect())
}

fn rates(words: &[&Word]) -> Result<Option<Vec<(String, Change)>>, ParameterError> {
    const PERCENTS: &str = "percents of the maximum, 1 to 1000: (10,50,100)";
    const RATES: &str =
        "I/Os a second (up to 1000000000), max, curve, (100,200,max) or (100-1000,100)";
    let Some(word) = get(words, "iorate") else { return Ok(None) };
    let percents = match get(words, "curve") {
        Some(word) => {
            numbers(word, PERCENTS, |text| plain(text).filter(|n| (1..=1000).contains(n)))?
        }
        None => CURVE_PERCENTS.to_vec(),
    };
    let one = |text: &str, many: bool| -> Option<Vec<(String, Change)>> {
        let label = |text: String| if many { text } else { String::new() };
        match text.to_ascii_lowercase().as_str() {
            "max" => Some(vec![(label("iorate=max".to_owned()), Change::Rate(Rate::Max))]),
            "curve" => {
                let max = ("iorate=max".to_owned(), Change::Rate(Rate::Max));
                let rest = percents.iter().map(|percent| {
                    let rate = Rate::PercentOfMax(*percent as f64);
                    (format!("iorate={percent}%"), Change::Rate(rate))
                });
                Some([max].into_iter().chain(rest).collect())
            }
            number => {
                let rate = units::rate(number)?;
                Some(vec![(label(format!("iorate={number}")), Change::Rate(Rate::Iops(rate)))])
            }
        }
    };
    let listed = items(&word.value);
    if listed.len() == 2 && listed[0].contains('-') {
        let steps =
            numbers(word, RATES, |text| plain(text).filter(|_| units::rate(text).is_some()))?;
        let label = |rate: u64| (format!("iorate={rate}"), Change::Rate(Rate::Iops(rate as f64)));
        return Ok(Some(steps.into_iter().map(label).collect()));
    }
    let mut values = Vec::new();
    for item in &listed {
        values.extend(one(item, listed.len() > 1).ok_or_else(|| word.wrong(RATES))?);
    }
    if values.is_empty() { Err(word.wrong(RATES)) } else { Ok(Some(values)) }
}

/// What one value of a list changes.
enum Change {
    Size(u32),
    Reads(u32),
    Threads(u32),
    Clients(u32),
    Sessions(u32),
    Rate(Rate),
}

impl Change {
    fn apply(&self, step: &mut Step) {
        match self {
            Self::Size(bytes) => {
                step.flows.iter_mut().for_each(|flow| flow.sizes = Sizes::One(*bytes));
            }
            Self::Reads(percent) => {
                step.flows.iter_mut().for_each(|flow| flow.read_percent = *percent);
            }
            Self::Threads(count) => step.threads = Some(*count),
            Self::Clients(count) => step.clients = Some(*count),
            Self::Sessions(count) => step.sessions = Some(*count),
            Self::Rate(rate) => step.rate = *rate,
        }
    }
}

/// Bytes as short as they were most likely written.
fn short(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}
