//! What `deny.toml` says of dependencies, as far as it can be told without cargo-deny and a network: licences, sources, refused crates,
//! second versions. So every change is held to it; `make deny` reads the same lists, and looks for advisories as well.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::{page, root};

struct Package<'a> {
    name: &'a str,
    version: &'a str,
    /// `None`: a folder.
    source: Option<&'a str>,
}

/// What cargo says of the workspace on this platform: `deny.toml` leaves out what other systems alone need, and nothing downloads it.
fn metadata() -> Value {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn built(metadata: &Value) -> Vec<Package<'_>> {
    let packages = metadata["packages"].as_array().unwrap().iter();
    let read = packages.map(|package| Package {
        name: package["name"].as_str().unwrap(),
        version: package["version"].as_str().unwrap(),
        source: package["source"].as_str(),
    });
    read.collect()
}

/// The packages of a `Cargo.lock`, those for other systems among them.
fn locked(lock: &str) -> Vec<Package<'_>> {
    fn field<'a>(package: &'a str, name: &str) -> Option<&'a str> {
        package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
    }
    let read = lock.split("[[package]]\n").skip(1).map(|package| Package {
        name: field(package, "name").unwrap(),
        version: field(package, "version").unwrap(),
        source: field(package, "source"),
    });
    read.collect()
}

fn section<'a>(policy: &'a str, name: &str) -> &'a str {
    let (_, after) = policy.split_once(&format!("\n[{name}]\n")).unwrap();
    after.split("\n[").next().unwrap()
}

/// What stands between the brackets of a list, which are on one line or each at the end or the start of theirs.
fn list<'a>(section: &'a str, name: &str) -> &'a str {
    let start = format!("{name} = [");
    let found = section.match_indices(&start).find(|(at, _)| *at == 0 || section[..*at].ends_with('\n'));
    let (at, _) = found.unwrap_or_else(|| panic!("deny.toml has no list {name}"));
    let after = &section[at + start.len()..];
    after.split(if after.starts_with('\n') { "\n]" } else { "]" }).next().unwrap()
}

fn strings<'a>(section: &'a str, name: &str) -> BTreeSet<&'a str> {
    list(section, name).split('"').skip(1).step_by(2).collect()
}

/// The crates of a list whose rows say why.
fn crates<'a>(section: &'a str, name: &str) -> BTreeSet<&'a str> {
    let rows = list(section, name).lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#'));
    let read = rows.map(|row| {
        let parts = row.strip_prefix("{ crate = \"").and_then(|rest| rest.split_once("\", reason = \""));
        let (named, reason) = parts.unwrap_or_else(|| panic!("deny.toml, {name}: write a crate and a reason: {row}"));
        assert!(!reason.starts_with('"'), "deny.toml, {name}: no reason for {named}");
        named
    });
    read.collect()
}

/// The versions that there are of each crate.
fn versions<'a>(packages: &[Package<'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for package in packages {
        found.entry(package.name).or_default().insert(package.version);
    }
    found
}

/// What the policy has against these packages: those for any system, and those that are built on this one.
fn objections(policy: &str, locked: &[Package<'_>], built: &[Package<'_>]) -> Vec<String> {
    let (bans, sources) = (section(policy, "bans"), section(policy, "sources"));
    let (denied, skipped) = (crates(bans, "deny"), crates(bans, "skip"));
    let registries = strings(sources, "allow-registry");
    let mut found = Vec::new();
    for Package { name, version, source } in locked {
        if let Some(source) = source
            && source.strip_prefix("registry+").is_none_or(|registry| !registries.contains(registry))
        {
            found.push(format!("{name} {version} comes from {source}"));
        }
        if denied.contains(name) {
            found.push(format!("{name} is denied"));
        }
    }
    for (name, mut versions) in versions(built) {
        versions.retain(|version| !skipped.contains(&*format!("{name}@{version}")));
        if versions.len() > 1 {
            found.push(format!("{name} is there as {versions:?}: move one, or let skip say who keeps the older"));
        }
    }
    let versions = versions(locked);
    for skip in skipped {
        let (name, version) = skip.split_once('@').unwrap_or((skip, ""));
        if versions.get(name).is_none_or(|versions| versions.len() < 2 || !versions.contains(version)) {
            found.push(format!("{skip} is no second version: take it out of skip"));
        }
    }
    found
}

#[test]
fn only_what_the_policy_knows_is_used() {
    let (policy, lock, metadata) = (page("deny.toml"), page("Cargo.lock"), metadata());
    for level in ["multiple-versions", "wildcards", "unknown-registry", "unknown-git"] {
        assert!(policy.contains(&format!("\n{level} = \"deny\"\n")), "deny.toml: {level} is not denied");
    }
    let (locked, built) = (locked(&lock), built(&metadata));
    assert!(built.len() > 100 && built.len() <= locked.len(), "{} of {} packages", built.len(), locked.len());
    let found = objections(&policy, &locked, &built);
    assert!(found.is_empty(), "deny.toml and Cargo.lock:\n{}", found.join("\n"));

    let ours = metadata["workspace_members"].as_array().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let members: Vec<&Value> = packages.iter().filter(|package| ours.contains(&package["id"])).collect();
    let names: BTreeSet<&str> = members.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let folders: BTreeSet<&str> = locked.iter().filter(|one| one.source.is_none()).map(|one| one.name).collect();
    assert_eq!(folders, names, "Cargo.lock: a folder that is no member of the workspace");
    for need in members.iter().flat_map(|package| package["dependencies"].as_array().unwrap()) {
        assert!(need["req"] != "*" || need["path"].is_string(), "a member takes any version of {}", need["name"]);
    }
}

#[test]
fn what_the_policy_does_not_know_is_found() {
    const R: &str = "registry+https://r";
    let policy = "
[bans]
deny = [
  { crate = \"bad\", reason = \"r\" },
]
skip = [
  # A comment.
  { crate = \"two@1.0.0\", reason = \"r\" },
]

[sources]
allow-registry = [\"https://r\"]
";
    let found = |more: &[(&str, &str, &str)], without: &str| {
        let known = [("ours", "0.1.0", ""), ("two", "1.0.0", R), ("two", "2.0.0", R)];
        let rows = known.iter().chain(more).filter(|(_, version, _)| *version != without);
        let rows = rows.map(|(name, version, source)| {
            let source = if source.is_empty() { String::new() } else { format!("source = \"{source}\"\n") };
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        });
        let lock = rows.collect::<Vec<_>>().concat();
        let packages = locked(&lock);
        objections(policy, &packages, &packages).join("; ")
    };
    assert_eq!(found(&[], ""), "");
    assert_eq!(found(&[("one", "1.0.0", "git+https://r?rev=1#1")], ""), "one 1.0.0 comes from git+https://r?rev=1#1");
    assert_eq!(found(&[("one", "1.0.0", "registry+https://s")], ""), "one 1.0.0 comes from registry+https://s");
    assert_eq!(found(&[("bad", "1.0.0", R)], ""), "bad is denied");
    assert!(found(&[("two", "3.0.0", R)], "").starts_with(r#"two is there as {"2.0.0", "3.0.0"}"#));
    assert!(found(&[], "1.0.0").starts_with("two@1.0.0 is no second version"));
    assert!(found(&[], "2.0.0").starts_with("two@1.0.0 is no second version"));
}

/// Whether an SPDX expression can be met by these licences. Parentheses stand around alternatives alone, as in all that we use.
fn is_met(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], "");
    plain.split(" AND ").all(|part| part.split(" OR ").any(|licence| allowed.contains(licence)))
}

#[test]
fn every_crate_has_a_licence_that_is_allowed() {
    let policy = page("deny.toml");
    let allowed = strings(section(&policy, "licenses"), "allow");
    for package in metadata()["packages"].as_array().unwrap() {
        let (name, licence) = (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or("none"));
        let exception = format!("crate = \"{name}\", allow = [\"{licence}\"]");
        assert!(
            is_met(licence, &allowed) || policy.contains(&exception),
            "deny.toml does not allow {licence} of {name}"
        );
    }
}
