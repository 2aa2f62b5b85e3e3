//! Whose a network namespace is: its name says which process made it.
//!
//! `drystone-lab-h-4026531836-1234-567890`: the host's side, of the process 1234 in that space of process
//! numbers, which was started 567890 clock ticks after the system. So a number that is given again to another
//! process is not taken for the one that made it.

use std::fs;
use std::path::Path;

const PREFIX: &str = "drystone-lab-";
/// Where `ip netns` keeps a file for each namespace.
pub(super) const NAMESPACES: &str = "/run/netns";

/// A process, told from all others of this machine until it is started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    /// The inode of its space of process numbers.
    space: u64,
    pid: u32,
    /// When it was started, in clock ticks after the system.
    started: u64,
}

impl Owner {
    /// This process; `None` where there is no /proc.
    pub(super) fn this() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { space: space()?, pid, started: started(pid)? })
    }

    /// The name of its namespace for a side, `h` or `t`.
    pub(super) fn name(&self, side: char) -> String {
        let Self { space, pid, started } = self;
        format!("{PREFIX}{side}-{space}-{pid}-{started}")
    }

    /// Whose a namespace is; `None` for one that the lab did not name so.
    fn of(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?;
        let mut words = rest.strip_prefix("h-").or_else(|| rest.strip_prefix("t-"))?.split('-');
        let owner = Self {
            space: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
        };
        // Whatever is written otherwise was not written here.
        ['h', 't'].map(|side| owner.name(side)).contains(&name.to_owned()).then_some(owner)
    }

    /// Whether it has ended for certain: of processes in other spaces nothing is known.
    fn has_ended(&self) -> bool {
        space() == Some(self.space) && started(self.pid) != Some(self.started)
    }
}

/// Names of namespaces whose process has ended.
pub(super) fn left_over(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| Owner::of(name).is_some_and(|owner| owner.has_ended())).collect()
}

fn space() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// When a process was started; `None` if there is none of that number, or it waits to be collected.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of a program may hold anything, also blanks and brackets.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    // Field 22 of proc_pid_stat(5); the state is field 3.
    let started = words.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_ended_runs_are_left_over() {
        let this = Owner::this().expect("there is a /proc");
        let directory = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Owner { pid: child.id(), started: this.started, ..this };
        child.wait().unwrap();
        let reused = Owner { started: this.started - 1, ..this };
        let elsewhere = Owner { space: this.space + 1, ..dead };
        let others = ["drystone-lab-h1234", "drystone-lab-h-1-2", "mine", "drystone-lab-x-1-2-3"];
        let padded = format!("drystone-lab-h-{}-0{}-{}", dead.space, dead.pid, dead.started);
        let living = [this.name('h'), this.name('t'), elsewhere.name('h'), padded];
        let ended = [dead.name('h'), dead.name('t'), reused.name('t')];
        for name in others.iter().map(|name| (*name).to_owned()).chain(living).chain(ended.clone())
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let mut found = left_over(directory.path());
        found.sort();
        let mut ended = ended.to_vec();
        ended.sort();
        assert_eq!(found, ended);
        assert_eq!(left_over(Path::new("/no/such")), [""; 0]);
    }
}
