use rustix::process::{Resource, getrlimit};
use std::fs;

/// The unit of processor times in `/proc`, in parts of a second, on every machine that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the kernel says of this process, as the clients of Prometheus report it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessStats {
    pub cpu_seconds: f64,
    /// In seconds of Unix time.
    pub started_at: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    /// None is no limit.
    pub most_virtual_bytes: Option<u64>,
    pub open_files: usize,
    /// None is no limit.
    pub most_files: Option<u64>,
}

impl ProcessStats {
    /// As of now; none where `/proc` does not tell.
    pub fn read() -> Option<Self> {
        let text = |path| fs::read_to_string(path).ok();
        let stat = Stat::parse(&text("/proc/self/stat")?)?;
        let status = text("/proc/self/status")?;
        let booted_at = number_after(&text("/proc/stat")?, "btime ")?;
        Some(Self {
            cpu_seconds: stat.cpu_ticks as f64 / TICKS_PER_SECOND,
            started_at: booted_at as f64 + stat.start_ticks as f64 / TICKS_PER_SECOND,
            resident_bytes: number_after(&status, "VmRSS:")? * 1_024,
            virtual_bytes: number_after(&status, "VmSize:")? * 1_024,
            most_virtual_bytes: getrlimit(Resource::As).current,
            // One of them is the list itself.
            open_files: fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1),
            most_files: getrlimit(Resource::Nofile).current,
        })
    }
}

/// The number that stands behind `name` at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    /// Since the machine was started.
    start_ticks: u64,
}

impl Stat {
    /// Reads `/proc/PID/stat`: the process's name in brackets is the only field that may have blanks or brackets.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let number = |field: usize| fields.split_whitespace().nth(field - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: number(14)? + number(15)?, start_ticks: number(22)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_from_behind_the_name() {
        let text = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 4000 20 21\n";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 300, start_ticks: 4_000 }));
        assert_eq!(Stat::parse("7 (a) S"), None);
    }

    #[test]
    fn this_process_has_memory_files_and_a_beginning() {
        let stats = ProcessStats::read().unwrap();
        assert!(stats.resident_bytes > 1 << 20 && stats.virtual_bytes >= stats.resident_bytes, "{stats:?}");
        assert!(stats.open_files >= 3 && stats.started_at > 1.6e9, "{stats:?}");
    }
}
