//! The pictures of docs/benchmarks.md show its tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_pictures_follow_the_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let drawn = std::env::temp_dir().join(format!("berth-pictures-{}", std::process::id()));
    let output = Command::new(root.join("hack/pictures.sh")).arg(&drawn).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(root.join("docs/benchmarks.md")).unwrap();
    let names: Vec<_> =
        fs::read_dir(&drawn).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let (kept, new) = (root.join("docs/pictures").join(&name), drawn.join(&name));
        let (kept, new) = (fs::read_to_string(kept).unwrap_or_default(), fs::read_to_string(new).unwrap());
        assert_eq!(kept, new, "docs/pictures/{name} shows other figures than docs/benchmarks.md: run hack/pictures.sh");
        assert!(page.contains(&format!("](pictures/{name})")), "docs/benchmarks.md does not show {name}");
        assert!(!new.contains("nan") && !new.contains("inf") && new.contains("class=\"a\""), "{name}: {new}");
    }
    fs::remove_dir_all(drawn).unwrap();
}
