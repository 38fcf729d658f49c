//! The machine that figures belong to.

use std::fs;

use anyhow::{Context, Result};

/// One line: processor, cores, memory, kernel.
pub(super) fn describe() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let processors = fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = field(&processors, "model name").unwrap_or("a processor without a name");
    let kib: f64 = field(&memory, "MemTotal").and_then(|value| value.split(' ').next()?.parse().ok()).unwrap_or(0.0);
    let gib = kib / f64::from(1 << 20);
    Ok(format!("{cores} cores of {model}, {gib:.0} GiB of memory, Linux {}", kernel.trim()))
}

/// The value after the first `NAME:` of a file of such lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name() {
        let text = "processor\t: 0\nmodel name\t: A Fast One\nmodel name\t: A Second\n";
        assert_eq!(field(text, "model name"), Some("A Fast One"));
        assert_eq!(field(text, "MemTotal"), None);
    }
}
