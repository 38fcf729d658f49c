//! The known bugs under `tests/mutants`: each still fits the sources, so that `make mutants` can prove that worlds catch it.

use std::path::Path;
use std::process::Command;

/// At least so many.
const FEWEST: usize = 20;

#[test]
fn each_known_bug_still_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(root.join("tests/mutants")).unwrap().map(|entry| entry.unwrap().path());
    let patches: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "patch")).collect();
    assert!(patches.len() >= FEWEST, "{} patches", patches.len());
    for patch in patches {
        let check = Command::new("git").current_dir(root).args(["apply", "--check"]).arg(&patch).output().unwrap();
        let why = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{} does not apply: {why}", patch.display());
    }
}
