//! What is written reads as the same, and what does not read is told with its line.

use super::diff::{diff, text};
use super::read::{SecretFiles, read, read_with_files};
use super::schema::{KINDS, Shape, UNLISTED, in_order};
use super::write::write;
use super::*;
use member::spec::size;
use proptest::prelude::*;

fn records() -> impl Strategy<Value = String> {
    // Names of CHAP users may be anything without blanks.
    let user = "[^\\s\\p{C}]{1,12}".prop_map(|user| format!("chap={user} for=both"));
    let address = (any::<[u8; 2]>(), 8_u8..=32)
        .prop_map(|([a, b], _)| format!("ip=10.{a}.{b}.* for=snapshot"));
    prop_oneof![user, address, Just("iqn=iqn.2026-11.com.example:a for=volume".to_owned())]
}

/// A value in its normal form; `None` for what is never told.
fn values(shape: Shape) -> BoxedStrategy<Option<Value>> {
    let texts = |all: Vec<String>| Some(in_order(all));
    let size = || (1_u64..1 << 50).prop_map(|bytes| Some(Value::Text(size::short(bytes))));
    match shape {
        Shape::Size => size().boxed(),
        Shape::SizeOrNone => prop_oneof![size(), Just(Some(Value::Text("0".to_owned())))].boxed(),
        Shape::Switch => any::<bool>().prop_map(|on| Some(Value::Switch(on))).boxed(),
        Shape::Number => (0..1_u64 << 32).prop_map(|n| Some(Value::Number(n))).boxed(),
        Shape::Text => "[a-z .\n\"-]{1,20}".prop_map(|text| Some(Value::Text(text))).boxed(),
        Shape::Word(words) => prop::sample::select(words.to_vec())
            .prop_map(|word| Some(Value::Text(word.to_owned())))
            .boxed(),
        Shape::Names => prop::collection::vec("[a-zA-Z0-9._:-]{1,9}", 0..4).prop_map(texts).boxed(),
        Shape::Records => prop::collection::vec(records(), 0..4).prop_map(texts).boxed(),
        Shape::Access => {
            let policy = "[a-z0-9._-]{1,9}".prop_map(|name| format!("policy={name} for=both"));
            let entry = prop_oneof![records(), policy];
            let list = prop::collection::vec(entry, 0..4).prop_map(texts);
            prop_oneof![list, Just(Some(Value::Text(UNLISTED.to_owned())))].boxed()
        }
        Shape::When => {
            let every = (60_u64..1 << 24)
                .prop_map(|seconds| group::schedules::Timing::Every { seconds }.to_string());
            let daily =
                (0..24, 0..60).prop_map(|(hour, minute)| format!("daily {hour:02}:{minute:02}"));
            let weekly = (0..24).prop_map(|hour| format!("weekly sun {hour:02}:00"));
            prop_oneof![every, daily, weekly].prop_map(|when| Some(Value::Text(when))).boxed()
        }
        Shape::SecretFile => Just(None).boxed(),
    }
}

fn sections() -> impl Strategy<Value = (&'static str, String, Keys)> {
    let name = prop_oneof!["[a-zA-Z0-9._:@-]{1,20}", "[^\\s\\p{C}]{1,8}"];
    (prop::sample::select((0..KINDS.len()).collect::<Vec<_>>()), name).prop_flat_map(
        |(at, name)| {
            let kind = &KINDS[at];
            let all: Vec<_> = kind.keys.iter().map(|(_, shape)| values(*shape)).collect();
            all.prop_map(move |values| {
                let told = kind.keys.iter().zip(values);
                let keys = told.filter_map(|((key, _), value)| Some((*key, value?))).collect();
                (kind.word, name.clone(), keys)
            })
        },
    )
}

pub(super) fn sans() -> impl Strategy<Value = San> {
    prop::collection::vec(sections(), 0..8).prop_map(|sections| {
        let mut san = San::default();
        sections.into_iter().for_each(|(kind, name, keys)| san.put(kind, name, keys));
        san
    })
}

proptest! {
    #[test]
    fn what_is_exported_is_the_same(san in sans()) {
        let text = write(&san);
        let back = read(&text).map_err(|refused| TestCaseError::fail(format!("{refused:?}\n{text}")))?;
        prop_assert_eq!(&back, &san, "{}", text);
        prop_assert_eq!(diff(&san, &back), []);
    }

    #[test]
    fn what_differs_is_found(san in sans(), other in sans()) {
        // A schedule without volumes is in no file, and its absence there is no difference.
        let san = san.without_idle();
        prop_assert_eq!(diff(&san, &other).is_empty(), san == other);
    }
}

fn of(text: &str) -> San {
    read(text).unwrap_or_else(|refused| panic!("{refused:?}"))
}

#[test]
fn values_are_compared_by_what_they_mean() {
    let member = of(
        "[volume.a]\nsize = '1G'\nread-ahead = '0'\naccess = ['ip=10.0.0.0/8 for=both', 'policy=p for=volume']\n\
         [schedule.s]\nwhen = 'every 1h'\nvolumes = ['a', 'b']\n[chap.al]\n",
    );
    let file = of(
        "[chap.al]\nsecret-file = '/x'\n[schedule]\ns = { when = 'every 60m', volumes = ['b', 'a'] }\n\
         [volume.a]\nsize = '1024MiB'\nread-ahead = 0\naccess = ['policy=p for=volume', 'ip=10.0.0.0/8']\n",
    );
    assert_eq!(diff(&member, &file), []);
    assert_eq!(
        diff(&member, &of("[volume.a]\n[schedule.s]\n[chap.al]\n")),
        [],
        "it says nothing of it"
    );
}

#[test]
fn differences_are_told_by_section_and_key() {
    let member = of("[volume.a]\nsize = '1G'\nshared = true\n[volume.b]\n[policy.p]\nhosts = []\n");
    let file =
        of("[volume.a]\nsize = '2G'\nshared = true\n[volume.c]\n[policy.p]\nhosts = ['chap=al']\n");
    let found = diff(&member, &file);
    let wanted = "~ volume 'a'\n    size: \"1G\" on the member, \"2G\" in the file\n\
                  - volume 'b': only the member has it\n+ volume 'c': only the file has it\n\
                  ~ policy 'p'\n    hosts: [] on the member, [\"chap=al for=both\"] in the file\n";
    assert_eq!(text(&found, &SecretFiles::new(), false), wanted);
    assert!(text(&found, &SecretFiles::new(), true).contains("\x1b[32m+ volume 'c'"));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(
        json[0]["keys"][0],
        serde_json::json!({"key": "size", "member": "1G", "file": "2G"})
    );
    assert_eq!(
        (&json[1]["how"], &json[2]["how"]),
        (&"only_on_member".into(), &"only_in_file".into())
    );
}

#[test]
fn secrets_that_are_lost_differ_until_the_file_names_others() {
    let told = "signed = true\nbearer = false\nuser = 'u'\n".to_owned();
    let [webhook, email] = ["webhook.w", "email.e"].map(|section| {
        let keys =
            told.lines().filter(|key| key.starts_with("user") == section.starts_with("email"));
        keys.fold(format!("[{section}]\n"), |text, key| format!("{text}{key}\n"))
    });
    let member = format!("[chap.al]\n[chap.bo]\n[mutual-chap.m]\n{webhook}{email}");
    let mut there = of(&member);
    assert_eq!(diff(&there, &of(&member)), []);
    for (kind, name) in [("chap", "al"), ("mutual-chap", "m"), ("webhook", "w"), ("email", "e")] {
        there.lost.insert((kind, name.to_owned()));
    }
    let shown = |file: &str| {
        let (san, files) = read_with_files(file).expect("it reads");
        text(&diff(&there, &san), &files, false)
    };
    let wanted = "~ chap 'al'\n    its secret is lost: write secret-file = \"FILE\" for what it is set anew from\n\
                  ~ mutual-chap 'm'\n    its secret is lost: write secret-file = \"FILE\" for what it is set anew from\n\
                  ~ webhook 'w'\n    its secrets are lost: write url-file = \"FILE\" and secret-file = \"FILE\" for what they are set anew from\n\
                  ~ email 'e'\n    its secret is lost: write password-file = \"FILE\" for what it is set anew from\n";
    assert_eq!(shown(&member), wanted);
    let [m, e] = ["secret-file = 'm'", "password-file = 'p'"];
    let w = "url-file = 'u'\nsecret-file = 's'";
    let named = format!(
        "[chap.al]\nsecret-file = 'a'\n[chap.bo]\nsecret-file = 'b'\n[mutual-chap.m]\n{m}\n{webhook}{w}\n{email}{e}\n"
    );
    let wanted = "~ chap 'al'\n    its secret is lost: it is set anew from 'a'\n\
                  ~ mutual-chap 'm'\n    its secret is lost: it is set anew from 'm'\n\
                  ~ webhook 'w'\n    its secrets are lost: they are set anew from 'u' and 's'\n\
                  ~ email 'e'\n    its secret is lost: it is set anew from 'p'\n";
    assert_eq!(shown(&named), wanted, "bo keeps its own");
    // A file that says nothing of signatures leaves them to be given all the same.
    let (san, files) = read_with_files("[webhook.w]\nurl-file = 'u'\n").expect("it reads");
    assert!(text(&diff(&there, &san), &files, false).contains("write secret-file = "));
    let json = serde_json::to_value(diff(&there, &of(&member))).expect("plain values");
    assert_eq!(json[2]["lost_secrets"], serde_json::json!(["url-file", "secret-file"]));
}

#[test]
fn all_that_is_wrong_is_told_with_its_line_and_what_was_meant() {
    let text = "[volumes.a]\n\n[volume.a]\nsise = '1G'\nsize = '1.5G'\ncolour = 'red'\nraid = 'raid7'\n\
                [schedule.s]\nwhen = 'daily 25:00'\nkeep = 'all'\n[account]\nrole = 'operator'\n\
                [policy.p]\nhosts = ['for=both']\n";
    let said: Vec<String> = read(text).unwrap_err().iter().map(ToString::to_string).collect();
    let wanted = [
        "line 1: there is no kind 'volumes': write [volume.NAME]",
        "line 4: 'volume' has no key 'sise': write 'size'",
        "line 5: 'size': '1.5G' has a fraction: ",
        "line 6: 'volume' has no key 'colour': write one of size, raid, ",
        "line 7: 'raid': write one of \"raid0\", ",
        "line 9: 'when': '25:00' is no time of the day: ",
        "line 10: 'keep': write a number",
        "line 12: 'role' stands in no section: write [account.NAME] above",
        "line 14: 'hosts': an access record needs at least one of ",
    ];
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.starts_with(wanted), "{said}");
    }
    assert!(read("[volume").unwrap_err()[0].to_string().starts_with("line 1: "));
}
