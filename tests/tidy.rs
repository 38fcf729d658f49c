//! What the house rules say that a linter does not: rings, sizes, and pages that must follow the code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "tidy/dependencies.rs"]
mod dependencies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which members of the workspace each may use, tests aside. Cargo holds the arrows; this holds the picture.
const MAY_USE: [(&str, &[&str]); 16] = [
    ("quantity", &[]),
    ("cel", &["quantity"]),
    ("devices", &["cel", "quantity"]),
    ("core", &["cel", "devices", "quantity"]),
    ("api", &[]),
    ("counting", &[]),
    ("telemetry", &[]),
    ("testing", &[]),
    ("profile", &["api", "core"]),
    ("replay", &[]),
    ("convert", &["api", "core", "profile"]),
    ("cluster", &["cel", "core", "devices"]),
    ("extender", &["api", "core", "cluster", "telemetry"]),
    ("runtime", &["core", "telemetry"]),
    ("simulate", &["core"]),
    ("explain", &["cel", "core", "devices", "simulate"]),
];

/// What the deciding ring may take from outside.
const CORE_CRATES: [&str; 11] = [
    "std",
    "core",
    "crate",
    "super",
    "hashbrown",
    "rustc_hash",
    "smallvec",
    "regex",
    "berth_quantity",
    "berth_cel",
    "berth_devices",
];

/// The members that decide.
const DECIDING: [&str; 4] = ["crates/core/src", "crates/devices/src", "crates/cel/src", "crates/quantity/src"];

/// Doors to the outside world that `std` has.
const WORLD: [&str; 8] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::io",
    "std::time::Instant",
    "std::time::SystemTime",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(dir)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// What ships, inline tests included.
fn all_sources() -> Vec<(PathBuf, String)> {
    let mut all = sources("src");
    all.extend(sources("crates"));
    all
}

fn is_test(path: &Path) -> bool {
    path.file_stem().and_then(|s| s.to_str()).is_some_and(|s| s.ends_with("tests") || s == "testing" || s == "scripted")
}

/// The code of a file above its inline tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// The members that `crates/NAME/Cargo.toml` names among its dependencies, those of tests aside.
fn dependencies(member: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(format!("crates/{member}/Cargo.toml"))).unwrap();
    let (_, after) = manifest.split_once("[dependencies]").unwrap();
    let normal = after.split("\n[").next().unwrap();
    let names = normal.lines().filter_map(|line| line.strip_prefix("berth-"));
    names.map(|line| line.split(['.', ' ']).next().unwrap().to_owned()).collect()
}

#[test]
fn arrows_between_members_point_inwards() {
    let members: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let drawn: BTreeSet<String> = MAY_USE.iter().map(|(member, _)| (*member).to_owned()).collect();
    assert_eq!(members, drawn, "a member of the workspace is missing in MAY_USE, or one there is gone");
    for (member, uses) in MAY_USE {
        let uses = uses.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(dependencies(member), uses, "crates/{member}/Cargo.toml and MAY_USE");
    }
    for (path, text) in sources("src/operator") {
        assert!(!code(&text).contains("crate::cli"), "{}: nothing points at cli", path.display());
    }
}

/// What the image builds is what the workspace holds: Cargo reads every member's manifest.
#[test]
fn the_image_copies_every_member() {
    let file = fs::read_to_string(root().join("Dockerfile")).unwrap();
    let copied: BTreeSet<&str> = file
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--from"))
        .flat_map(|line| line.split_whitespace().rev().skip(1))
        .collect();
    let cargo = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = cargo.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    for member in members.split('"').skip(1).step_by(2).map(|m| if m == "." { "src" } else { m.trim_end_matches("/*") })
    {
        assert!(copied.contains(member), "Dockerfile: no COPY line takes {member}");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "benches"] {
        assert!(copied.contains(needed), "Dockerfile: no COPY line takes {needed}");
    }
}

/// Without them an extender with a public certificate could only be skipped, not verified. `tests/image` makes what the image has of
/// the same script, and calls such an extender; this holds that a daemon makes nothing else of the Dockerfile.
#[test]
fn the_image_has_certificate_authorities() {
    let file = page("Dockerfile");
    let (build, image) = file.split_once("\nFROM scratch\n").unwrap();
    let script = "hack/image-root.sh";
    let makes = |line: &str| line.starts_with("RUN ") && line.contains(&format!(" {script} /image "));
    assert!(build.lines().any(makes), "Dockerfile: the build does not run {script}");
    let copies: Vec<&str> = image.lines().filter(|line| line.starts_with("COPY ")).collect();
    assert_eq!(copies, ["COPY --from=build /image /"], "Dockerfile: the image is not what {script} makes");
    let script = page(script);
    let packages = script.lines().find_map(|line| line.strip_prefix("packages=(")).unwrap();
    assert!(packages.trim_end_matches(')').split(' ').any(|name| name == "ca-certificates"), "{packages}");
    let bundle = "> \"$root/etc/ssl/certs/ca-certificates.crt\"";
    assert!(script.lines().any(|line| line.ends_with(bundle)), "the script makes no bundle of authorities");
}

/// The image's binary must be built by the compiler that all others are built by.
#[test]
fn the_image_is_built_by_the_pinned_compiler() {
    let pinned = page("rust-toolchain.toml");
    let version = pinned.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"').to_owned();
    let file = page("Dockerfile");
    let from = file.lines().find(|line| line.starts_with("FROM rust:")).unwrap();
    assert!(from.starts_with(&format!("FROM rust:{version}-")), "Dockerfile: {from} is not {version}");
}

#[test]
fn the_core_takes_nothing_from_the_world() {
    for (path, text) in DECIDING.into_iter().flat_map(sources) {
        if is_test(&path) {
            continue;
        }
        let text = code(&text);
        for door in WORLD {
            assert!(!text.contains(door), "{}: the core must not use {door}", path.display());
        }
        for line in text.lines().filter_map(|l| l.trim_start().strip_prefix("use ")) {
            let first = line.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            let local = first.starts_with(|c: char| c.is_uppercase()) || text.contains(&format!("mod {first};"));
            assert!(local || CORE_CRATES.contains(&first), "{}: the core must not use {first}", path.display());
        }
    }
}

#[test]
fn no_file_is_too_full() {
    let lab = sources("tests");
    for (path, text) in all_sources().into_iter().chain(lab) {
        let lines = text.lines().count();
        assert!(lines <= 600, "{}: {lines} lines; 600 are the most a room may hold", path.display());
    }
}

#[test]
fn no_function_is_too_long() {
    for (path, text) in all_sources() {
        let most = if is_test(&path) { 75 } else { 60 };
        let mut start: Option<(usize, usize)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let opens = ["fn ", "pub fn ", "pub(", "const fn ", "async fn ", "pub const fn ", "pub async fn "];
            if start.is_none()
                && line.contains("fn ")
                && line.contains('(')
                && !line.trim_end().ends_with(';')
                && opens.iter().any(|o| line.trim_start().starts_with(o))
            {
                start = Some((number, indent));
            }
            // The declaration of a trait's function has no body.
            if start.is_some_and(|(_, depth)| indent == depth && line.trim_end().ends_with(';')) {
                start = None;
            }
            if let Some((from, depth)) = start
                && line.trim_end() == format!("{}}}", " ".repeat(depth))
            {
                assert!(number - from <= most, "{}:{}: {} lines", path.display(), from + 1, number - from);
                start = None;
            }
        }
    }
}

#[test]
fn nothing_is_left_to_do_later() {
    for (path, text) in all_sources() {
        for word in ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!("] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// The file of which a page gives the path as pages do: without `crates/` and `src/`.
fn file_of(path: &str) -> Option<PathBuf> {
    let (first, rest) = path.split_once('/')?;
    let ways = [path.to_owned(), format!("src/{path}"), format!("crates/{first}/src/{rest}")];
    ways.into_iter().map(|way| root().join(way)).find(|way| way.is_file())
}

/// The names of the tests of a file: functions below `#[test]`, `#[tokio::test]` or another attribute of that name. `proptest!` and
/// bolero keep the attribute, so theirs are among them. An attribute of several lines ends with the one that the function follows.
fn tests_of(code: &str) -> BTreeSet<&str> {
    let (mut found, mut is_below) = (BTreeSet::new(), false);
    for line in code.lines().map(str::trim) {
        let attribute = line.strip_prefix("#[").map(|rest| rest.split(['(', ']', ' ']).next().unwrap_or_default());
        if attribute.is_some_and(|name| name == "test" || name.ends_with("::test")) {
            is_below = true;
        }
        if let Some((head, rest)) = line.split_once("fn ")
            && !line.starts_with("//")
            && head.split(' ').all(|word| ["", "pub", "async", "const", "unsafe"].contains(&word))
            && std::mem::take(&mut is_below)
        {
            found.extend(rest.split(['(', '<']).next());
        }
    }
    found
}

#[test]
fn a_test_is_told_from_other_functions() {
    let code = "
        fn helper() {}
        #[test]
        /// A comment about a fn that is none.
        #[ignore = \"slow\"]
        fn plain() { let fn_pointer = helper; }
        fn after() {}
        #[tokio::test(start_paused = true)]
        async fn paused() {}
        #[tokio::test(
            flavor = \"multi_thread\",
        )]
        async fn on_threads() {}
        proptest! {
            #[test]
            fn property(x in 0..9) {}
        }
        #[cfg(test)]
        fn built_for_tests() {}
        #[testing]
        fn no_test() {}";
    assert_eq!(tests_of(code).into_iter().collect::<Vec<_>>(), ["on_threads", "paused", "plain", "property"]);
}

/// `path::name` is a test of that file, with `…` at its end the beginning of one, and `*` all of them; `::name` and `…::name` are tests of
/// the file that was named last. A renamed test leaves its page, and what only looks like one shows nothing.
#[test]
fn the_tests_that_pages_name_exist() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in ["docs/architecture.md", "docs/hardening.md", "docs/reliability.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let mut last = "";
        for code in text.split('`').skip(1).step_by(2).filter(|code| !code.contains(char::is_whitespace)) {
            let name = if let Some((path, name)) = code.split_once(".rs::") {
                last = path;
                name
            } else if let Some(path) = code.strip_suffix(".rs") {
                last = path;
                continue;
            } else if code.starts_with("::") || code.starts_with('…') {
                code.trim_start_matches(['…', ':'])
            } else {
                continue;
            };
            let Some(file) = file_of(&format!("{last}.rs")) else {
                wrong.push(format!("{page}: there is no {last}.rs"));
                continue;
            };
            let source = fs::read_to_string(file).unwrap();
            let name = name.rsplit("::").next().unwrap_or(name);
            let is_named = |test: &&str| match name.strip_suffix('…') {
                Some(start) => test.starts_with(start),
                None => *test == name || name == "*",
            };
            seen += 1;
            if !tests_of(&source).iter().any(is_named) {
                wrong.push(format!("{page}: {last}.rs has no test {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 300, "{seen} names; are they written in another way now?");
}

/// What others have failed by is held by a test that bears the number, so that whoever reads of an issue finds it.
#[test]
fn each_failure_of_others_has_a_test_that_bears_its_number() {
    let text = page("docs/reliability.md");
    let (_, section) = text.split_once("\n## What failed elsewhere\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for row in section.lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [what, issues, here] = cells[..] else { continue };
        if issues == "issues" {
            continue;
        }
        let numbers: Vec<&str> = issues.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        let tests = here.split('`').skip(1).step_by(2).filter_map(|code| code.rsplit_once("::"));
        seen += 1;
        if !tests.filter_map(|(_, name)| name.rsplit('_').next()).any(|end| numbers.contains(&end)) {
            wrong.push(format!("docs/reliability.md, {what}: no test ends with one of {issues}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "{seen} rows; are they written in another way now?");
}

/// A known bug that no page mentions is one of which nobody says whether worlds catch it.
#[test]
fn the_page_on_bad_days_names_every_known_bug() {
    let text = page("docs/reliability.md");
    let (_, section) = text.split_once("\n### Known bugs").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let patches = fs::read_dir(root().join("tests/mutants")).unwrap().map(|entry| entry.unwrap().path());
    let bugs: BTreeSet<String> = patches
        .filter(|path| path.extension().is_some_and(|ending| ending == "patch"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(bugs.len() > 20, "{} patches; are they elsewhere now?", bugs.len());
    for bug in &bugs {
        assert!(section.contains(&format!("`{bug}`")), "docs/reliability.md, Known bugs: {bug} is not there");
    }
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for row in rows {
        assert!(bugs.contains(row), "docs/reliability.md, Known bugs: tests/mutants has no {row}.patch");
    }
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}

/// The anchor of a heading, as the sites that show such pages make it.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Runbooks, conditions and errors send people to sections: a renamed heading leaves them at the top of a page.
#[test]
fn links_between_pages_lead_to_sections_that_exist() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let others = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "charts/berth/README.md"];
    let mut seen = 0;
    for from in docs.chain(others.map(|path| root().join(path))).filter(|path| path.extension().is_some()) {
        // A pattern of a schema, in code, may look like a link.
        let text: String = fs::read_to_string(&from).unwrap().split('`').step_by(2).collect();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.contains(char::is_whitespace) {
                continue;
            }
            let (path, section) = link.split_once('#').unwrap_or((link, ""));
            let to = if path.is_empty() { from.clone() } else { from.with_file_name(path) };
            assert!(to.exists(), "{}: {link} leads nowhere", from.display());
            seen += 1;
            if !section.is_empty() {
                let page = fs::read_to_string(&to).unwrap();
                let mut headings = page.lines().filter(|line| line.starts_with('#'));
                assert!(headings.any(|line| anchor(line) == section), "{}: no section for {link}", from.display());
            }
        }
    }
    assert!(seen > 50, "{seen} links; are they written in another way now?");
}

#[test]
fn the_page_on_support_names_the_versions_that_are_run() {
    let support = page("docs/support.md");
    for (family, module) in [
        ("kubernetes", "k8s.io/kubernetes "),
        ("kubernetes-1.35", "k8s.io/kubernetes "),
        ("etcd", "go.etcd.io/etcd/server/v3 "),
        ("kwok", "sigs.k8s.io/kwok "),
        ("helm", "helm.sh/helm/v4 "),
        ("prometheus", "github.com/prometheus/prometheus "),
        ("health", "github.com/fluxcd/cli-utils "),
        ("health", "github.com/yuin/gopher-lua "),
        ("crane", "github.com/google/go-containerregistry "),
    ] {
        let pins = page(&format!("tests/upstream/{family}/go.mod"));
        let pinned =
            pins.lines().find_map(|line| line.trim().trim_start_matches("require ").strip_prefix(module)).unwrap();
        let version = pinned.split(' ').next().unwrap();
        assert!(support.contains(version), "docs/support.md does not name {module}{version}");
    }
    let minor = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    for path in ["docs/support.md", "SECURITY.md"] {
        assert!(page(path).contains(minor), "{path} does not name {minor}");
    }
}

/// What runs for a change must be what runs on a desk.
#[test]
fn workflows_call_targets_of_the_makefile() {
    let makefile = page("Makefile");
    let mut seen = 0;
    for file in ["ci.yml", "nightly.yml"] {
        let text = page(&format!(".github/workflows/{file}"));
        let lines = || text.lines().map(str::trim);
        let called = lines().filter_map(|line| line.strip_prefix("- run: make "));
        let listed = lines().filter_map(|line| line.strip_prefix("target: ["));
        let listed = listed.flat_map(|list| list.trim_end_matches(']').split(", "));
        // The quoted one takes its name from the list.
        for target in called.filter(|target| !target.starts_with('"')).chain(listed) {
            assert!(makefile.contains(&format!("\n{target}:")), "{file}: the Makefile has no target {target}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen} targets; are they called in another way now?");
}

/// What is measured is a release build. What is packaged is the same but for its symbols, and `make test-image` looks at just that.
#[test]
fn what_is_packaged_is_what_is_measured() {
    let profile = "\n[profile.dist]\ninherits = \"release\"\nstrip = \"none\"\n\n";
    assert!(page("Cargo.toml").contains(profile), "Cargo.toml: more than symbols tells dist from release");
    for (file, build) in [
        ("hack/image.sh", "cargo build --profile dist --locked --bin berth\n"),
        ("hack/dist.sh", "\nprofile=${BERTH_DIST_PROFILE:-dist}\n"),
        ("hack/dist.sh", "cargo build --profile \"$profile\" --locked --bin berth\n"),
        ("Makefile", "\tcargo build --profile dist --locked --bin berth\n"),
        ("Makefile", "\tcargo build --release --locked --bin berth\n"),
    ] {
        assert!(page(file).contains(build), "{file} has no line {build}");
    }
}

/// What events call what was done, and the kinds that they are about: no reasons.
const NO_REASONS: [&str; 18] = [
    "Accepting",
    "Acquiring",
    "Asking",
    "Binding",
    "Claiming",
    "Comparing",
    "Deleting",
    "Leading",
    "Lease",
    "Pausing",
    "Pod",
    "Preempting",
    "Releasing",
    "Resuming",
    "RollingOut",
    "Running",
    "SchedulerProfile",
    "Scheduling",
];

/// An event that no page explains is a riddle to whoever meets it.
#[test]
fn the_page_on_conditions_lists_every_event() {
    let page = page("docs/conditions.md");
    let (_, table) = page.split_once("\n## Events\n").unwrap();
    let mut seen = BTreeSet::new();
    for file in ["cluster/events/mod.rs", "operator/announce.rs", "operator/news.rs", "operator/standby.rs"] {
        let text = fs::read_to_string(file_of(file).unwrap()).unwrap();
        for line in code(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
            let is_word = |word: &&str| {
                word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphabetic())
            };
            for word in line.split('"').skip(1).step_by(2).filter(is_word).filter(|word| !NO_REASONS.contains(word)) {
                assert!(
                    table.contains(&format!("`{word}`")),
                    "docs/conditions.md, Events: {word} of {file} is not there"
                );
                seen.insert(word.to_owned());
            }
        }
    }
    assert!(seen.len() > 10, "{seen:?}; are reasons written in another way now?");
}

/// Only that they are named: whether what the page says is so, the conformance oracle knows.
#[test]
fn the_parity_page_names_every_plugin_and_argument() {
    let page = fs::read_to_string(root().join("docs/parity.md")).unwrap();
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|l| l.starts_with('|')).map(|l| l.split('|').map(str::trim).collect()).collect();
    let names: BTreeSet<&str> =
        rows.iter().filter_map(|cells| cells.get(1)).flat_map(|cell| cell.split(", ")).collect();
    for plugin in berth_core::plugins::Plugin::ALL {
        assert!(names.contains(plugin.name()), "docs/parity.md has no row for the plugin {}", plugin.name());
    }
    for score in berth_core::profile::Score::ALL {
        assert!(names.contains(score.name()), "docs/parity.md has no row for the score {}", score.name());
    }
    let schema = schemars::schema_for!(berth_api::PluginArgs).to_value();
    for argument in schema["properties"].as_object().unwrap().keys() {
        let plugin = argument[..1].to_uppercase() + &argument[1..];
        let named = names.contains(&*plugin) || page.contains(&format!("`{argument}`"));
        assert!(named, "docs/parity.md does not name the arguments {argument}");
    }
}
