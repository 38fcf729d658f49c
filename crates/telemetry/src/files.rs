use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are enough: watches, workers, extenders and our own pages need some hundreds.
const ENOUGH: u64 = 65_536;

/// Raises the soft limit of open files as far as the hard one lets it, and returns the limit in force; `None` is none.
///
/// The usual soft limit of 1,024 is for programs that use `select`. Nobody raises it for a Rust program.
pub fn raise_open_files() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if now.current.is_none_or(|current| current >= wanted) {
        return now.current;
    }
    // A refusal leaves the limit as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own: the limit is the whole process's.
    #[test]
    fn the_soft_limit_rises_to_the_hard_one() {
        if std::env::var_os("BERTH_TEST_OPEN_FILES").is_some() {
            let before = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: before.maximum }).unwrap();
            assert_eq!(raise_open_files(), before.maximum.map_or(Some(ENOUGH), |most| Some(most.min(ENOUGH))));
            return;
        }
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", "files::tests::the_soft_limit_rises_to_the_hard_one"])
            .env("BERTH_TEST_OPEN_FILES", "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}
