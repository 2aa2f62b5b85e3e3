//! Whether the array has stopped by itself.

use array::api::ArrayInfo;

/// How the array begins to say so. It has no other way to tell; a test below asks one that has stopped.
const STOPPED: &str = "the array has stopped";

/// Why the array serves nothing any more; `None` while it does. The sentence is one of its warnings.
#[must_use]
pub fn stop_reason(info: &ArrayInfo) -> Option<&str> {
    info.warnings.iter().map(String::as_str).find(|text| text.starts_with(STOPPED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn an_array_says_that_it_has_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        rig.create("a");
        let ask = || rig.with(async |member| member.array().info());
        assert_eq!(stop_reason(&ask()), None);
        rig.with(async |member| drop(member.array().close().await));
        let info = ask();
        let said = stop_reason(&info).expect("it has stopped");
        assert!(said.contains("nothing on it is served"), "{said}");
        assert!(info.warnings.iter().any(|text| text == said));
    }
}
