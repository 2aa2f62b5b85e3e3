//! The words that are understood: one table, for the parser, its messages and the documents.

/// A kind of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Storage,
    Workload,
    Run,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Host, Self::Storage, Self::Workload, Self::Run];

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Host => "hd",
            Self::Storage => "sd",
            Self::Workload => "wd",
            Self::Run => "rd",
        }
    }

    pub(super) fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == key)
    }
}

/// Definition, word, and what it means.
pub const WORDS: [(&str, &str, &str); 35] = [
    ("hd", "system", "`localhost`: this machine, the only one there is"),
    ("sd", "lun", "what it is, unless `--on` names targets: a URL, a file, a block device"),
    ("sd", "size", "use so much of it: `10240m`; no more than there is"),
    ("sd", "threads", "I/Os under way at once [8]"),
    ("sd", "range", "use a part of it: `(20,40)` in percent, `(1g,2g)` in bytes"),
    ("sd", "hitarea", "where hits go: so much from the start of the range [1m]"),
    (
        "sd",
        "openflags",
        "`o_direct`, `directio`: past the page cache; `o_sync`, `o_dsync`: durable writes",
    ),
    ("sd", "host", "a host of the file, or `*`; all of them are this machine"),
    ("wd", "sd", "the storage: `sd1`, `(sd1,sd3)`, `(sd1-sd34)`, `sd*`, `*`"),
    ("wd", "host", "as for `sd`"),
    (
        "wd",
        "xfersize",
        "`8k`; `(4k,60,8k,40)` with shares that add up to 100; `(4k,64k,4k)` any multiple of the third from the first to the second; `(4k,8k,64k)` each as often",
    ),
    ("wd", "rdpct", "how many in a hundred read [100]; also `readpct`"),
    (
        "wd",
        "seekpct",
        "how many in a hundred go to a random place [100], from where the others go on; `random`, `sequential`",
    ),
    ("wd", "rhpct", "how many in a hundred reads are hits [0]"),
    ("wd", "whpct", "how many in a hundred writes are hits [0]"),
    ("wd", "skew", "its share of all I/Os in percent; those without one share what is left"),
    ("wd", "range", "as for `sd`, and before it"),
    ("wd", "hotband", "as `range`, with random places nearer to its start"),
    ("wd", "openflags", "as for `sd`, `o_sync` and `o_dsync` only"),
    ("rd", "wd", "the workloads: `wd1`, `(wd1,wd2)`, `wd*`"),
    ("rd", "sd", "the storage of a run without `wd=`"),
    (
        "rd",
        "iorate",
        "I/Os a second over all: `1000`, `max`, `curve`, `(100,200)`, `(100-1000,100)`",
    ),
    ("rd", "curve", "percents of the maximum that `iorate=curve` runs [10,50,70,80,90,100]"),
    ("rd", "elapsed", "how long: seconds, `30m`, `2h` [30]"),
    ("rd", "warmup", "how long before that [0]"),
    ("rd", "interval", "how often figures are noted [1, or 60 above two hours]"),
    ("rd", "threads", "goes before that of `sd`; may be a list"),
    ("rd", "forthreads", "one run for each: `(1,2,4)`, `(1-64,d)` doubling, `(8-64,8)` in steps"),
    ("rd", "forsessions", "one run for each number of sessions, over all targets; not in Vdbench"),
    ("rd", "forclients", "one run for each number of `sd=` that take part; not in Vdbench"),
    ("rd", "forxfersize", "one run for each size"),
    ("rd", "forrdpct", "one run for each `rdpct`"),
    ("rd", "xfersize", "goes before that of `wd`"),
    ("rd", "rdpct", "goes before that of `wd`"),
    ("rd", "seekpct", "goes before that of `wd`"),
];

/// Whether it is a word of any definition.
pub(super) fn is_any(word: &str) -> bool {
    WORDS.iter().any(|(_, known, _)| known.eq_ignore_ascii_case(word))
}

/// Whether `word` is understood in a definition of this kind.
pub(super) fn is_known(kind: Kind, word: &str) -> bool {
    WORDS.iter().any(|(of, known, _)| *of == kind.key() && *known == word)
}

/// All words of a kind, for people.
pub(super) fn known(kind: Kind) -> String {
    let words = WORDS.iter().filter(|(of, ..)| *of == kind.key()).map(|(_, word, _)| *word);
    words.collect::<Vec<_>>().join(", ")
}

/// The words as a table, for docs/lab.md.
#[must_use]
pub fn table_markdown() -> String {
    let row = |(kind, word, meaning): &(&str, &str, &str)| {
        format!("| `{kind}=` | `{word}` | {meaning} |\n")
    };
    let rows: String = WORDS.iter().map(row).collect();
    format!("| in | word | meaning, [default] |\n|---|---|---|\n{rows}")
}
