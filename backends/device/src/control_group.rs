//! The memory that Linux's control groups leave to this process, of both versions.

use std::fs;
use std::path::{Path, PathBuf};

use crate::MemoryFigures;

/// Where systems mount control groups.
const MOUNT: &str = "/sys/fs/cgroup";

/// What is no limit: version 1 writes a number larger than any memory.
const NO_LIMIT: u64 = 1 << 62;

/// The memory of the group of this process that has the least left, the groups around its own included; `None` without a limit.
pub(crate) fn memory() -> Option<MemoryFigures> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    memory_of(&groups, Path::new(MOUNT))
}

/// The files of one version of control groups.
struct Version {
    /// The limits: one that ends processes, and one that only slows them down.
    limits: &'static [&'static str],
    used: &'static str,
    /// The names in `memory.stat` of memory that holds parts of files, which gives way to other memory.
    of_files: [&'static str; 2],
}

const FIRST: Version = Version {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    of_files: ["total_inactive_file", "total_active_file"],
};

const SECOND: Version = Version {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    of_files: ["inactive_file", "active_file"],
};

/// Does what [`memory`] does for a process in `groups`, lines `number:controllers:path`, and groups that are mounted at `mount`.
fn memory_of(groups: &str, mount: &Path) -> Option<MemoryFigures> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (version, roots) = if controllers.is_empty() {
            (SECOND, vec![mount.join("unified"), mount.to_owned()])
        } else {
            let of_memory = controllers.split(',').any(|name| name == "memory");
            of_memory.then(|| (FIRST, vec![mount.join("memory")]))?
        };
        let root = roots.into_iter().find(|root| root.is_dir())?;
        version.least(&root, path)
    };
    groups.lines().filter_map(of_line).reduce(least)
}

/// The figures with less memory left, and the smaller size.
fn least(one: MemoryFigures, other: MemoryFigures) -> MemoryFigures {
    MemoryFigures {
        total: one.total.min(other.total),
        free: one.free.min(other.free),
    }
}

impl Version {
    /// The least memory of the group `path` below `root` and of the groups around it.
    fn least(&self, root: &Path, path: &str) -> Option<MemoryFigures> {
        // In a container the path begins with groups of the machine outside, of which the mount shows none.
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut inside = (0..=names.len()).map(|first| root.join(names[first..].join("/")));
        let own = inside.find(|group| group.is_dir())?;
        let around = own.ancestors().take_while(|group| group.starts_with(root));
        around.filter_map(|group| self.read(group)).reduce(least)
    }

    /// The size of one group and what is left of it; `None` without a limit.
    fn read(&self, group: &Path) -> Option<MemoryFigures> {
        let number = |name: &str| parsed(&fs::read_to_string(group.join(name)).ok()?);
        // "max" is no number.
        let limits = self.limits.iter().filter_map(|name| number(name));
        let total = limits.min().filter(|limit| *limit < NO_LIMIT)?;
        let taken = number(self.used)?.saturating_sub(self.files(group.join("memory.stat")));
        Some(MemoryFigures {
            total,
            free: Some(total.saturating_sub(taken)),
        })
    }

    /// Bytes of the group's memory that hold parts of files.
    fn files(&self, statistics: PathBuf) -> u64 {
        let statistics = fs::read_to_string(statistics).unwrap_or_default();
        let fields = statistics.lines().filter_map(|line| line.split_once(' '));
        let of_files = fields.filter(|(name, _)| self.of_files.contains(name));
        of_files.filter_map(|(_, bytes)| parsed(bytes)).sum()
    }
}

fn parsed(number: &str) -> Option<u64> {
    number.trim().parse().ok()
}

#[cfg(test)]
#[path = "control_group_tests.rs"]
mod tests;
