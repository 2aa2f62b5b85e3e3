//! What the machine says of its memory, and the control group of the service of its own (cgroup v2).

use std::fs;
use std::path::Path;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Memory that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// All of it: of the machine, or of the smallest limit that holds for the process.
    pub total_bytes: u64,
    /// What can be had without anybody having to swap.
    pub available_bytes: u64,
}

impl Machine {
    /// As it is now; `None` where the system does not say so.
    #[must_use]
    pub fn look() -> Option<Self> {
        let mut machine = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
        // No file where there are no control groups: then there is no limit.
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(own) = own_group(&groups) else { return Some(machine) };
        let own = Path::new(GROUPS).join(own);
        // A limit of a group holds for all groups in it.
        for group in own.ancestors().take_while(|group| group.starts_with(GROUPS)) {
            let max = fs::read_to_string(group.join("memory.max")).unwrap_or_default();
            let Ok(max_bytes) = max.trim().parse() else { continue };
            let current = fs::read_to_string(group.join("memory.current")).ok()?;
            let stat = fs::read_to_string(group.join("memory.stat")).ok()?;
            machine = machine.smaller(of_group(max_bytes, &current, &stat)?);
        }
        Some(machine)
    }

    fn smaller(self, other: Self) -> Self {
        Self {
            total_bytes: self.total_bytes.min(other.total_bytes),
            available_bytes: self.available_bytes.min(other.available_bytes),
        }
    }
}

/// What `/proc/meminfo` says, in KiB for each line.
fn of_meminfo(text: &str) -> Option<Machine> {
    let bytes = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Machine { total_bytes: bytes("MemTotal:")?, available_bytes: bytes("MemAvailable:")? })
}

/// The path of the group in `/proc/self/cgroup` of version 2, below where groups are mounted.
fn own_group(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.trim().trim_start_matches('/'))
}

/// A group with a limit. Files that were not used of late are given back by the kernel before it refuses anything.
fn of_group(max_bytes: u64, current: &str, stat: &str) -> Option<Machine> {
    let current_bytes: u64 = current.trim().parse().ok()?;
    let inactive = stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?;
    let held_bytes = current_bytes.saturating_sub(inactive.trim().parse().ok()?);
    let available_bytes = max_bytes.saturating_sub(held_bytes);
    Some(Machine { total_bytes: max_bytes, available_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let text = "MemTotal:       16303456 kB\nMemFree:          204800 kB\nMemAvailable:    8151728 kB\n";
        let machine = of_meminfo(text).expect("it reads");
        assert_eq!(machine.total_bytes, 16_303_456 << 10);
        assert_eq!(machine.available_bytes, 8_151_728 << 10);
        assert_eq!(of_meminfo("MemTotal: 1 kB\n"), None, "kernels before 3.14");
        assert_eq!(of_meminfo("MemTotal: x kB\nMemAvailable: 1 kB\n"), None);
        assert_eq!(
            own_group("12:cpu:/x\n0::/system.slice/a.service\n"),
            Some("system.slice/a.service")
        );
        assert_eq!(own_group("0::/\n"), Some(""));
        assert_eq!(own_group("3:memory:/x\n"), None, "version 1 alone");
    }

    #[test]
    fn files_that_are_not_in_use_do_not_count_as_held() {
        let stat = "anon 600\nfile 300\ninactive_file 200\nactive_file 100\n";
        let group = of_group(1000, "900\n", stat).expect("it reads");
        assert_eq!(group, Machine { total_bytes: 1000, available_bytes: 300 });
        let full = of_group(100, "900\n", stat).expect("it reads");
        assert_eq!(full.available_bytes, 0);
        assert_eq!(of_group(1000, "900\n", "anon 600\n"), None);
        let machine = Machine { total_bytes: 5000, available_bytes: 200 };
        assert_eq!(machine.smaller(group), Machine { total_bytes: 1000, available_bytes: 200 });
    }

    #[test]
    fn this_machine_says_what_it_has() {
        let machine = Machine::look().expect("it has memory");
        assert!(machine.total_bytes > 64 << 20 && machine.available_bytes <= machine.total_bytes);
    }
}
