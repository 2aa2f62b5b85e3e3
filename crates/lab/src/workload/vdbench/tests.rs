//! The papers' files, each rule of the language, and that no text makes it panic.

use std::time::Duration;

use proptest::prelude::*;

use super::super::{Range, Rate, Sizes};
use super::*;

/// Appendix D of the paper on connection counts, with N written out as its users did.
fn connection_paper(workload: &str) -> String {
    let mut text = "hd=default  \nhd=one,system=localhost\n".to_owned();
    for number in 1..=34 {
        text += &format!("sd=sd{number},host=*,lun=\\\\.\\\\PhysicalDrive{number},size=10240m  \n");
    }
    text + workload + "\nrd=rd1,wd=wd1,iorate=max,elapsed=86400,interval=1\n"
}

fn failure(text: &str) -> (usize, String) {
    let error = parse(text).unwrap_err();
    (error.line, error.problem.to_string())
}

const SD: &str = "sd=sd1,lun=/dev/sdb\nsd=sd2,lun=/dev/sdc\n";

#[test]
fn the_files_of_the_connection_paper_run_as_they_are() {
    let cases = [
        ("wd=wd1,sd=(sd1-sd34),xfersize=8k,rdpct=67", 8192, 67, 100),
        ("wd=wd1,sd=(sd1-sd34),xfersize=65536,rdpct=0,seekpct=sequential", 65536, 0, 0),
        ("wd=wd1,sd=(sd1-sd34),xfersize=262144,rdpct=100,seekpct=sequential", 262_144, 100, 0),
    ];
    for (workload, bytes, reads, seeks) in cases {
        let script = parse(&connection_paper(workload)).unwrap();
        assert_eq!(script.storage.len(), 34);
        assert_eq!(script.storage[33].lun.as_deref(), Some("\\\\.\\\\PhysicalDrive34"));
        assert_eq!(script.storage[0].size_bytes, Some(10 << 30));
        assert_eq!(script.steps.len(), 1);
        let step = &script.steps[0];
        assert_eq!((step.rate, step.elapsed), (Rate::Max, Duration::from_secs(86_400)));
        assert_eq!((step.interval, step.warmup), (Duration::from_secs(1), Duration::ZERO));
        let flow = &step.flows[0];
        assert_eq!(flow.storage, (0..34).collect::<Vec<_>>());
        assert_eq!((&flow.sizes, flow.read_percent), (&Sizes::One(bytes), reads));
        assert_eq!(flow.seek_percent, seeks);
    }
}

/// The paper prints no file; this is what its text says: 8 KiB random, 70 % read, 8 threads, 8 GB of
/// each raw disk, ten minutes.
#[test]
fn the_workload_of_the_fs7500_paper() {
    let text = "sd=default,threads=8,size=8g,openflags=o_direct\n\
        sd=sd1,lun=/dev/sdb\n\
        wd=wd1,sd=sd*,xfersize=8k,rdpct=70,seekpct=100\n\
        rd=run1,wd=wd*,iorate=max,elapsed=600,interval=5\n";
    let script = parse(text).unwrap();
    let (storage, step) = (&script.storage[0], &script.steps[0]);
    assert_eq!((storage.threads, storage.size_bytes), (8, Some(8 << 30)));
    assert!(storage.open.direct && !storage.open.durable);
    assert_eq!((step.flows[0].read_percent, step.elapsed), (70, Duration::from_secs(600)));
}

#[test]
fn lists_make_one_run_each() {
    let text = format!(
        "{SD}wd=wd1,sd=(sd1,sd2)\n\
         rd=rd1,wd=wd1,forxfersize=(4k-16k,d),forrdpct=(0,100),forthreads=(1,8),iorate=(100,max)\n"
    );
    let steps = parse(&text).unwrap().steps;
    assert_eq!(steps.len(), 3 * 2 * 2 * 2);
    assert_eq!(steps[0].name, "rd1 xfersize=4k rdpct=0 threads=1 iorate=100");
    let last = &steps[23];
    assert_eq!(last.name, "rd1 xfersize=16k rdpct=100 threads=8 iorate=max");
    assert_eq!((last.threads, last.rate), (Some(8), Rate::Max));
    assert_eq!((&last.flows[0].sizes, last.flows[0].read_percent), (&Sizes::One(16384), 100));
}

#[test]
fn a_range_of_percents_may_begin_at_none() {
    let reads = |list: &str| {
        let text = format!("{SD}wd=w,sd=sd1\nrd=r,wd=w,forrdpct={list}\n");
        let steps = parse(&text).map(|script| script.steps);
        steps.map(|steps| steps.iter().map(|step| step.flows[0].read_percent).collect::<Vec<_>>())
    };
    assert_eq!(reads("(0-100,25)").unwrap(), [0, 25, 50, 75, 100]);
    assert_eq!(reads("(0-50,20)").unwrap(), [0, 20, 40]);
    assert!(reads("(0-100,d)").is_err() && reads("(0-200,100)").is_err());
    let threads = format!("{SD}wd=w,sd=sd1\nrd=r,wd=w,forthreads=(0-8,4)\n");
    assert!(parse(&threads).unwrap_err().to_string().contains("1 to 65536"));
}

#[test]
fn readpct_is_another_word_for_rdpct() {
    let text = format!("{SD}wd=w,sd=sd1,readpct=30\nrd=r,wd=w\n");
    assert_eq!(parse(&text).unwrap().steps[0].flows[0].read_percent, 30);
    let both = format!("{SD}wd=w,sd=sd1,readpct=30,rdpct=40\nrd=r,wd=w\n");
    assert!(parse(&both).unwrap_err().to_string().contains("stands there twice"));
}

/// As in Vdbench: behind a blank stands a comment, also behind a comma, with which the definition goes on in the
/// next line.
#[test]
fn what_stands_behind_a_blank_is_not_read() {
    let text = "sd=sd1,lun=x,  the first disk, rdpct=5\n  threads=3 and so on, size=1m\n\
        wd=wd1,sd=sd1, writes only\n rdpct=0\nrd=r,wd=wd1\n";
    let script = parse(text).unwrap();
    let storage = &script.storage[0];
    assert_eq!((storage.threads, storage.size_bytes), (3, None));
    assert_eq!(script.steps[0].flows[0].read_percent, 0);
    // Whoever meant it to be read is told, as the definition goes on into the next one.
    let (line, told) = failure("sd=sd1,lun=x\nwd=wd1, sd=sd1, rdpct=0\nrd=r,wd=wd1\n");
    assert!(line == 3 && told.starts_with("'rd' is not a word of wd="), "{told}");
}

/// The rest of the last line would be dropped, and nothing behind it tells.
#[test]
fn a_file_that_ends_with_a_comma_is_refused() {
    let text = "sd=s,lun=x\nwd=w,sd=s\nrd=r,wd=w, iorate=100, elapsed=600\n* end\n";
    let (line, told) = failure(text);
    assert!(line == 3 && told.starts_with("the file ends with a comma"), "{told}");
}

#[test]
fn a_word_that_is_not_read_is_told() {
    let text = "sd=s,lun=x, the first disk\n threads=3\nwd=w,sd=s, rdpct=5, xfersize=8k\n seekpct=0\nrd=r,wd=w\n";
    let script = parse(text).unwrap();
    assert_eq!(
        script.notes,
        ["line 3: 'rdpct=5, xfersize=8k' is not read, for it stands behind a comma and a blank"]
    );
}

/// Beyond any clock there is no time between two I/Os, and no end to those that were due.
#[test]
fn a_rate_has_an_end() {
    for rate in ["(1-18000000000000000000,17999999999999999999)", "2000000000", "(1,1e19)"] {
        let text = format!("{SD}wd=w,sd=sd1\nrd=r,wd=w,iorate={rate}\n");
        let told = parse(&text).unwrap_err().to_string();
        assert!(told.contains("(up to 1000000000)"), "{told}");
    }
    let text = format!("{SD}wd=w,sd=sd1\nrd=r,wd=w,iorate=(1-1000000000,999999999)\n");
    assert_eq!(parse(&text).unwrap().steps[1].rate, Rate::Iops(1e9));
}

/// The sweep of the papers: sessions outermost, for they cost a login each.
#[test]
fn sessions_and_clients_are_swept() {
    let script = parse(
        "sd=sd1,lun=a\nsd=sd2,lun=b\nsd=sd3,lun=c\nwd=w,sd=*\nwd=v,sd=sd3\n\
         rd=r,wd=(w,v),forclients=(1,3),forsessions=(1-4096,d)\n",
    )
    .unwrap();
    assert_eq!(script.steps.len(), 26);
    let (first, last) = (&script.steps[0], &script.steps[25]);
    assert_eq!((first.name.as_str(), first.sessions), ("r sessions=1 clients=1", Some(1)));
    assert_eq!((last.sessions, last.clients), (Some(4096), Some(3)));
    let alone = first.of_its_clients();
    assert_eq!((alone.flows.len(), &alone.flows[0].storage[..]), (1, &[0][..]));
    assert_eq!(last.of_its_clients(), *last);
    let wrong = "sd=s,lun=a\nwd=w,sd=s\nrd=r,wd=w,forsessions=(0,5000)\n";
    assert!(parse(wrong).unwrap_err().to_string().contains("1 to 4096"));
}

#[test]
fn a_curve_begins_with_the_maximum() {
    let text =
        format!("{SD}wd=w,sd=*\nrd=r,wd=w,iorate=curve\nrd=s,wd=w,iorate=curve,curve=(50)\n");
    let steps = parse(&text).unwrap().steps;
    let rates: Vec<Rate> = steps.iter().map(|step| step.rate).collect();
    let percents = [10.0, 50.0, 70.0, 80.0, 90.0, 100.0].map(Rate::PercentOfMax);
    assert_eq!(rates[0], Rate::Max);
    assert_eq!(rates[1..7], percents);
    assert_eq!(rates[7..], [Rate::Max, Rate::PercentOfMax(50.0)]);
}

#[test]
fn sizes_in_all_their_forms() {
    let sizes = |text: &str| {
        let text = format!("{SD}wd=w,sd=sd1,xfersize={text}\nrd=r,wd=w\n");
        parse(&text).map(|script| script.steps[0].flows[0].sizes.clone())
    };
    assert_eq!(sizes("1m").unwrap(), Sizes::One(1 << 20));
    assert_eq!(sizes("(4k,60,8k,40)").unwrap(), Sizes::Mix(vec![(4096, 60.0), (8192, 40.0)]));
    let uniform = Sizes::Uniform { min: 4096, max: 65536, step: 4096 };
    assert_eq!(sizes("(4k,64k,4k)").unwrap(), uniform);
    assert_eq!(sizes("(4k,8k)").unwrap(), Sizes::Mix(vec![(4096, 50.0), (8192, 50.0)]));
    for wrong in ["0", "100", "17m", "(4k,60,8k,41)", "(8k,4k)", "(6k,64k,4k)", "x", "()"] {
        let (line, problem) =
            sizes(wrong).map_err(|error| (error.line, error.problem.to_string())).unwrap_err();
        assert_eq!(line, 3, "{wrong}");
        assert!(problem.starts_with(&format!("xfersize={wrong} cannot be")), "{problem}");
    }
}

#[test]
fn everything_else_that_is_understood() {
    let text = "# a comment\n* another\n/ a third\n\n\
        sd=default,hitarea=2m\n\
        sd=s1,lun=a,range=(20,40),threads=4 and what stands behind a blank\n\
        sd=s2,lun=b,range=(1g,2g),\n    openflags=o_dsync\n\
        wd=default,rhpct=10,whpct=20,seekpct=50\n\
        wd=w1,sd=s1,skew=80,rdpct=0,openflags=o_sync\n\
        wd=w2,sd=(s1, s2),hotband=(90,110),seekpct=random\n\
        rd=r1,wd=(w1,w2),iorate=(100-300,100),elapsed=2m,warmup=5,threads=2\n\
        rd=r2,sd=s2,rdpct=50,xfersize=8k,elapsed=3h\n";
    let script = parse(text).unwrap();
    let [s1, s2] = &script.storage[..] else { panic!("{:?}", script.storage) };
    assert_eq!(
        (s1.range, s1.threads, s1.hit_bytes),
        (Some(Range::Percent(20.0, 40.0)), 4, 2 << 20)
    );
    assert_eq!((s2.range, s2.open.durable), (Some(Range::Bytes(1 << 30, 2 << 30)), true));
    let step = &script.steps[0];
    assert_eq!((step.name.as_str(), step.rate), ("r1 iorate=100", Rate::Iops(100.0)));
    assert_eq!((step.elapsed.as_secs(), step.warmup.as_secs(), step.threads), (120, 5, Some(2)));
    let [w1, w2] = &step.flows[..] else { panic!("{:?}", step.flows) };
    assert_eq!((w1.skew_percent, w2.skew_percent), (Some(80.0), None));
    assert_eq!((w1.read_hit_percent, w1.write_hit_percent, w1.seek_percent), (10, 20, 50));
    assert!(w1.durable && !w2.durable && w2.is_hot_band && !w1.is_hot_band);
    assert_eq!((w2.seek_percent, w2.range), (100, Some(Range::Percent(90.0, 110.0))));
    assert_eq!(w2.storage, [0, 1]);
    let last = script.steps.last().unwrap();
    assert_eq!((last.flows[0].read_percent, last.interval.as_secs()), (50, 60));
    assert!(script.writes());
}

#[test]
fn an_error_names_its_line_and_what_to_write() {
    let cases = [
        ("sd=sd1,lun=a\nsd=sd2,lnu=b\n", 2, "'lnu' is not a word of sd=: write one of lun, "),
        ("messagescan=no\n", 1, "'messagescan' begins no definition"),
        ("sd=s,lun=a\n\nfsd=f,anchor=/x\n", 3, "'fsd=' is for file workloads"),
        ("hd=h,system=other\n", 1, "system=other: the lab works from this machine only"),
        ("sd=s,lun=a,host=h9\n", 1, "there is no hd=h9"),
        ("sd=s,lun=a\nsd=s,lun=b\n", 2, "sd=s is defined twice"),
        ("sd=s,lun=a,lun=b\n", 1, "'lun' stands there twice"),
        ("sd=s,lun\n", 1, "'lun' is not WORD=VALUE"),
        ("sd=s,range=(1,2\n", 1, "a bracket is not closed"),
        ("sd=s,lun=a\nwd=w,sd=(s1-s3)\n", 2, "there is no sd=s1"),
        ("sd=s,lun=a\nwd=w,sd=t*\n", 2, "there is no sd=t*"),
        ("sd=s,lun=a\nwd=w,sd=s,rdpct=101\n", 2, "rdpct=101 cannot be: write 0 to 100"),
        ("sd=s,lun=a\nwd=w,sd=s\n", 2, "the file runs nothing"),
        ("sd=s,lun=a\nwd=w,sd=s\nrd=r,wd=w,iorate=fast\n", 3, "iorate=fast cannot be"),
        ("sd=s,lun=a\nwd=w,sd=s\nrd=r,wd=w,iorate=(0-100,50)\n", 3, "iorate=(0-100,50) cannot be"),
        (
            "sd=s,lun=a\nwd=w,sd=s\nrd=r,wd=w,iorate=curve,curve=(50,0)\n",
            3,
            "curve=(50,0) cannot be: write percents of the maximum, 1 to 1000",
        ),
        (
            "sd=s,lun=a\nwd=w,sd=s,skew=50\nrd=r,wd=w\n",
            3,
            "the skews of the workloads add up to 50",
        ),
        (
            "sd=s,lun=a\nwd=w,sd=s\nrd=r,wd=w,forthreads=(1-4000,1),iorate=(1-9,1)\n",
            3,
            "the lists of rd=r",
        ),
        ("sd=s,lun=a\nwd=w,sd=s,\n  xfersize=3\n", 3, "xfersize=3 cannot be"),
    ];
    for (text, line, begins) in cases {
        let (found, problem) = failure(text);
        assert_eq!(found, line, "{text}: {problem}");
        assert!(problem.starts_with(begins), "{problem}");
    }
}

#[test]
fn each_word_of_the_table_is_read() {
    for (kind, word, _) in WORDS {
        let value = "no-such-value-anywhere";
        let text = format!("{SD}wd=w,sd=sd1\n{kind}=x,{word}={value}\nrd=y,wd=w\n");
        let is_free = word == "lun";
        assert_eq!(parse(&text).is_ok(), is_free, "{kind}= {word}= takes any value");
    }
    assert_eq!(table_markdown().lines().count(), WORDS.len() + 2);
}

prop_compose! {
    fn numbers()(a in 1_u64..5000, b in 0_u64..100, c in 1_u64..300, d in 1_u32..64) -> (u64, u64, u64, u32) {
        (a, b, c, d)
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_words_make_it_panic(words in proptest::collection::vec((0..WORDS.len(), "[0-9a-z(),*-]{0,12}"), 0..8)) {
        let mut text = SD.to_owned();
        for (index, value) in words {
            let (kind, word, _) = WORDS[index];
            text += &format!("{kind}=x{index},{word}={value}\n");
        }
        let _ = parse(&text);
    }

    /// What is written is what is read, wherever blanks and line ends stand.
    #[test]
    fn values_arrive((rate, reads, elapsed, threads) in numbers(), breaks in any::<bool>()) {
        let glue = if breaks { ",\n   " } else { "," };
        let run = [
            "rd=r".to_owned(), "wd=w".to_owned(), format!("iorate={rate}"), format!("elapsed={elapsed}"),
            format!("threads={threads}"), format!("rdpct={reads}"),
        ];
        let text = format!("{SD}wd=w,sd=sd*\n{}\n", run.join(glue));
        let script = parse(&text).unwrap();
        let step = &script.steps[0];
        prop_assert_eq!(step.rate, Rate::Iops(rate as f64));
        prop_assert_eq!(step.elapsed.as_secs(), elapsed);
        prop_assert_eq!(step.threads, Some(threads));
        prop_assert_eq!(u64::from(step.flows[0].read_percent), reads);
        prop_assert_eq!(script.writes(), reads < 100);
    }
}
