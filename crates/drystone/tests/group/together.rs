//! `drystone up --members`: a group on one machine by one command, in a network of its own, as its ports are fixed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{drystone, finish_within};
use crate::sites::{PATIENCE, wait_for};

/// The processes of a test, all below one.
struct Together {
    dir: TempDir,
    child: Child,
}

impl Together {
    fn start(dir: TempDir) -> Self {
        let words = drystone(&["up", "--members", "3", "--hints"]);
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
        command.arg(words.get_program()).args(words.get_args());
        command.arg("--data").arg(dir.path()).arg("--socket").arg(dir.path().join("one.sock"));
        let file = |name: &str| File::create(dir.path().join(name)).expect("there is room");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.spawn().expect("unshare is there (package util-linux)");
        Self { dir, child }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn socket(&self, number: u8) -> String {
        let name = match number {
            1 => "one.sock".to_owned(),
            _ => format!("member-{number}/control.sock"),
        };
        self.dir.path().join(name).display().to_string()
    }

    fn await_printed(&mut self) -> String {
        wait_for("the group is printed", PATIENCE, || {
            let ended = self.child.try_wait().expect("it is ours");
            assert!(ended.is_none(), "it has ended: {}", self.text("err"));
            let text = self.text("out");
            if text.contains("\ngroup name=") { Ok(text) } else { Err(text) }
        })
    }

    fn asked(&self, number: u8, words: &[&str]) -> Result<Value, String> {
        let mut command =
            drystone(&[words, &["--json", "--socket", &self.socket(number)]].concat());
        let ended = finish_within(&mut command, PATIENCE).expect("it answers or gives up");
        match ended.status.success() {
            true => serde_json::from_slice(&ended.stdout).map_err(|error| error.to_string()),
            false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
        }
    }

    fn states(&self, number: u8) -> Result<Vec<String>, String> {
        let members = self.asked(number, &["member", "list"])?;
        let members = members.as_array().ok_or("no list")?;
        Ok(members.iter().map(|one| format!("{} {}", one["name"], one["state"])).collect())
    }

    fn await_states(&self, asked: u8, wanted: [&str; 3]) {
        let states: Vec<String> = (1..=3_u8)
            .map(|number| format!("\"member-{number}\" \"{}\"", wanted[usize::from(number) - 1]))
            .collect();
        wait_for(&format!("{wanted:?}"), PATIENCE, || match self.states(asked)? {
            found if found == states => Ok(()),
            found => Err(format!("{found:?}")),
        });
    }

    /// The process of a member, as it was printed.
    fn pid(text: &str, name: &str) -> Pid {
        let line = text.lines().find(|line| line.starts_with(&format!("member name={name} ")));
        let pid = line.and_then(|line| line.split("pid=").nth(1)?.split(' ').next()?.parse().ok());
        pid.and_then(Pid::from_raw).expect("it is printed")
    }

    /// Asks it to stop as a user does, and hands out what the members keep.
    fn stop(mut self) -> TempDir {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is ours");
        wait_for("it stops", PATIENCE, || match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            other => Err(format!("{other:?}: {}", self.text("err"))),
        });
        assert!(!runs_on(self.dir.path()), "something outlived it: {}", self.text("err"));
        let dir = tempfile::tempdir().expect("there is room");
        std::mem::replace(&mut self.dir, dir)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // Its members end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether any process has this directory in its command line.
fn runs_on(dir: &Path) -> bool {
    let dir = dir.display().to_string();
    let all = fs::read_dir("/proc").expect("the kernel tells of its processes").flatten();
    let mut lines = all.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&dir))
}

#[test]
fn three_members_on_one_machine_are_one_group_and_come_back_as_one() {
    let mut together = Together::start(tempfile::tempdir().expect("there is room"));
    let text = together.await_printed();
    assert!(
        text.contains("group name=drystone members=3") && text.contains("drystone member list")
    );
    together.await_states(3, ["present"; 3]);
    let volume = ["volume", "create", "vm1", "64M", "--on", "member-2"];
    together.asked(2, &volume).expect("a member makes a volume");
    wait_for("the first one knows it", PATIENCE, || {
        let volumes = together.asked(1, &["group", "volumes"])?;
        if volumes[0]["member"] == "member-2" { Ok(()) } else { Err(volumes.to_string()) }
    });

    // One that is killed is missed by the others, which go on.
    kill_process(Together::pid(&text, "member-3"), Signal::KILL).expect("it runs");
    together.await_states(1, ["present", "present", "away"]);
    assert!(together.text("err").contains("'member-3' has ended; the others go on"));

    let dir = together.stop();
    let mut again = Together::start(dir);
    again.await_printed();
    again.await_states(2, ["present"; 3]);
    drop(again.stop());
}
