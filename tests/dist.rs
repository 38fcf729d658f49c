//! What `make dist` makes, here from the debug binary: archives, checksums, completions, man pages, chart, bill of materials, krew manifest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use berth_lab::Upstream;
use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The man pages of a release, in the order of their files.
const PAGES: [&str; 16] = [
    "berth-completion",
    "berth-convert",
    "berth-crd",
    "berth-diff",
    "berth-drain-check",
    "berth-explain",
    "berth-headroom",
    "berth-operator",
    "berth-orphans",
    "berth-shadow-report",
    "berth-shadow",
    "berth-simulate",
    "berth-status",
    "berth-top",
    "berth-version",
    "berth",
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What the program prints; it must succeed.
fn ran(program: impl AsRef<OsStr>, args: &[&str], dir: &Path) -> String {
    let program = program.as_ref();
    let output = Command::new(program).args(args).current_dir(dir).env("KUBECONFIG", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {args:?}: {said}", program.to_string_lossy());
    // readelf prints the bytes of a checksum as they are.
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn helm() -> PathBuf {
    Upstream::find_or_build().unwrap().binary("helm")
}

/// The folder of the release, made once for all tests.
fn release() -> &'static Path {
    static RELEASE: OnceLock<PathBuf> = OnceLock::new();
    RELEASE.get_or_init(|| {
        // The script takes it from the cache.
        assert!(helm().exists());
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
        let _absent = fs::remove_dir_all(&out);
        let output = Command::new(repository().join("hack/dist.sh"))
            .env("BERTH_DIST_PROFILE", "dev")
            .env("BERTH_DIST_DIR", &out)
            .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_BIN_EXE_berth")).ancestors().nth(2).unwrap())
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        out
    })
}

/// The start of the names that say which machine a file is for.
fn name() -> String {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!("berth_{VERSION}_linux_{machine}")
}

fn unpack(archive: &str, to: &Path) {
    ran("tar", &["-xzf", release().join(archive).to_str().unwrap()], to);
}

/// The release's archive, unpacked in a folder of this name.
fn unpacked(folder: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let _absent = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).unwrap();
    unpack(&format!("{}.tar.gz", name()), &to);
    to
}

/// The checksum of each file, as the release says.
fn sums() -> BTreeMap<String, String> {
    let text = fs::read_to_string(release().join("SHA256SUMS")).unwrap();
    let pairs = text.lines().map(|line| line.split_once("  ").unwrap());
    pairs.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect()
}

#[test]
fn every_file_of_a_release_has_its_checksum() {
    ran("sha256sum", &["--check", "--strict", "SHA256SUMS"], release());
    let there = fs::read_dir(release()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.filter(|file| file != "SHA256SUMS").collect();
    let name = name();
    let wanted = [
        format!("berth-{VERSION}.tgz"),
        "berth.yaml".to_owned(),
        format!("{name}.cdx.json"),
        format!("{name}.tar.gz"),
        format!("{name}_debug.tar.gz"),
    ];
    assert_eq!(there, BTreeSet::from(wanted));
    assert_eq!(sums().into_keys().collect::<BTreeSet<_>>(), there);
}

#[test]
fn archives_hold_what_users_install_and_no_owner_or_time_of_a_build() {
    let list = |archive: String| ran("tar", &["--list", "--gzip", "--file", &archive], release());
    let wanted = "LICENSE\nberth\ncompletion/\ncompletion/_berth\ncompletion/berth.bash\ncompletion/berth.fish\nman/\n";
    let pages = PAGES.map(|page| format!("man/{page}.1\n")).concat();
    assert_eq!(list(format!("{}.tar.gz", name())), format!("{wanted}{pages}"));
    assert_eq!(list(format!("{}_debug.tar.gz", name())), "berth.debug\n");
    let archive = format!("{}.tar.gz", name());
    for line in ran("tar", &["--list", "--verbose", "--utc", "--gzip", "--file", &archive], release()).lines() {
        assert!(line.contains(" 0/0 ") && line.contains(" 2023-11-14 22:13 "), "{line}");
    }
}

#[test]
fn the_binary_runs_and_leaves_its_symbols_to_the_other_archive() {
    let dir = unpacked("dist-binary");
    unpack(&format!("{}_debug.tar.gz", name()), &dir);
    assert!(ran(dir.join("berth"), &["version"], &dir).starts_with(&format!("berth {VERSION} ")));
    let sections = |file: &str| ran("readelf", &["--wide", "--section-headers", file], &dir);
    let (stripped, symbols) = (sections("berth"), sections("berth.debug"));
    assert!(stripped.contains(" .gnu_debuglink ") && !stripped.contains(" .debug_line "), "{stripped}");
    assert!(!stripped.contains(" .symtab ") && symbols.contains(" .symtab "), "{stripped}\n{symbols}");
    assert!(symbols.contains(" .debug_line "), "{symbols}");
    let link = ran("readelf", &["--string-dump=.gnu_debuglink", "berth"], &dir);
    assert!(link.contains("berth.debug"), "{link}");
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let dir = unpacked("dist-completion");
    ran("bash", &["-n", "completion/berth.bash"], &dir);
    let script = |file: &str| fs::read_to_string(dir.join("completion").join(file)).unwrap();
    assert!(script("berth.bash").contains("complete -F _berth"));
    assert!(script("_berth").starts_with("#compdef berth"));
    assert!(script("berth.fish").contains("complete -c berth"));
}

#[test]
fn each_command_has_a_man_page() {
    let dir = unpacked("dist-man");
    for page in PAGES {
        let text = fs::read_to_string(dir.join(format!("man/{page}.1"))).unwrap();
        let heads: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        assert!(heads.starts_with(&["NAME", "SYNOPSIS", "DESCRIPTION"]), "{page}: {heads:?}");
        assert!(text.contains(&format!("\n.TH {page} 1 ")), "{page}: {text}");
        // A line of text that begins with a dot would be taken for a request, and vanish.
        for request in text.lines().filter(|line| line.starts_with(['.', '\''])) {
            let name = request[1..].split(' ').next().unwrap();
            assert!(["ie", "el", "TH", "SH", "TP", "RS", "RE", "br", "PP", "IP"].contains(&name), "{page}: {request}");
        }
    }
}

#[test]
fn the_krew_manifest_names_the_archive_and_its_checksum() {
    let text = fs::read_to_string(release().join("berth.yaml")).unwrap();
    assert!(!text.contains('@'), "not filled in: {text}");
    let manifest: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(manifest["metadata"]["name"], "berth");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], format!("v{VERSION}"));
    // krew's index takes no longer ones.
    assert!(spec["shortDescription"].as_str().unwrap().len() <= 50);
    let archive = format!("{}.tar.gz", name());
    let platform = &spec["platforms"][0];
    assert!(platform["uri"].as_str().unwrap().ends_with(&format!("/v{VERSION}/{archive}")), "{platform}");
    assert_eq!(platform["sha256"], sums()[&archive]);
    let dir = unpacked("dist-krew");
    let files: Vec<&str> =
        platform["files"].as_array().unwrap().iter().map(|file| file["from"].as_str().unwrap()).collect();
    assert!(files.contains(&platform["bin"].as_str().unwrap()), "{platform}");
    assert!(files.iter().all(|file| dir.join(file).is_file()), "{platform}");
}

/// From the files of the release, as its page would serve them: krew checks the manifest and the archive's checksum.
#[test]
fn krew_installs_the_release_and_kubectl_finds_it() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("krew");
    let _absent = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    let archive = release().join(format!("{}.tar.gz", name()));
    let install = |manifest: &Path| {
        let mut krew = Command::new(Upstream::krew().unwrap());
        let [manifest, archive] = [("--manifest=", manifest), ("--archive=", &archive)].map(|(option, file)| {
            let mut option = std::ffi::OsString::from(option);
            option.push(file);
            option
        });
        krew.arg("install").args([manifest, archive]).env("KREW_ROOT", &root).env("KREW_NO_UPGRADE_CHECK", "1");
        krew.output().unwrap()
    };
    let right = fs::read_to_string(release().join("berth.yaml")).unwrap();
    let sum = &sums()[&format!("{}.tar.gz", name())];
    let wrong = root.join("berth.yaml");
    fs::write(&wrong, right.replace(sum.as_str(), &"0".repeat(64))).unwrap();
    assert!(!install(&wrong).status.success(), "krew does not look at the checksum");
    let output = install(&release().join("berth.yaml"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let kubectl = Upstream::find_or_build().unwrap().binary("kubectl");
    let path = std::env::join_paths(
        [root.join("bin")].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = Command::new(kubectl).args(["berth", "--version"]).env("PATH", path.unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("kubectl berth {VERSION}\n"));
}

/// The packages that the binary links: reached from it by plain dependencies, those of macros aside, which run in the compiler.
fn linked() -> BTreeSet<String> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &platform];
    let metadata: Value = serde_json::from_str(&ran(env!("CARGO"), &args, repository())).unwrap();
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        list.as_array().unwrap().iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one.clone())).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let is_macro =
        |package: &Value| package["targets"].as_array().unwrap().iter().any(|target| target["kind"][0] == "proc-macro");
    let (own, _) = packages.iter().find(|(_, package)| package["name"] == "berth").unwrap();
    let (mut open, mut seen) = (vec![own.as_str()], BTreeSet::new());
    while let Some(id) = open.pop() {
        if is_macro(&packages[id]) || !seen.insert(id) {
            continue;
        }
        let needs = nodes[id]["deps"].as_array().unwrap().iter();
        let plain = needs.filter(|dep| dep["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null()));
        let built = plain.map(|dep| dep["pkg"].as_str().unwrap());
        open.extend(built.filter(|dep| asked_for(&packages[id], &nodes[id], packages[*dep]["name"].as_str().unwrap())));
    }
    let named =
        |id: &str| format!("{}@{}", packages[id]["name"].as_str().unwrap(), packages[id]["version"].as_str().unwrap());
    seen.into_iter().map(named).collect()
}

/// Whether `package` as resolved in `node` needs `name`. The metadata lists an optional dependency also where a feature only says
/// what it would want of it (`name?/std`).
fn asked_for(package: &Value, node: &Value, name: &str) -> bool {
    let texts = |list: &Value| list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let declared = package["dependencies"].as_array().unwrap();
    if declared.iter().any(|dep| dep["name"] == name && dep["kind"].is_null() && dep["optional"] == false) {
        return true;
    }
    let on: Vec<String> = texts(&node["features"]);
    on.iter().any(|feature| {
        let wants: Vec<String> = texts(&package["features"][feature]);
        wants.iter().any(|want| want == &format!("dep:{name}") || want.starts_with(&format!("{name}/")))
    })
}

#[test]
fn the_bill_of_materials_names_every_package_that_the_binary_links() {
    let text = fs::read_to_string(release().join(format!("{}.cdx.json", name()))).unwrap();
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["specVersion"], "1.6");
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let components = bill["components"].as_array().unwrap();
    let reference = |one: &Value| one["bom-ref"].as_str().unwrap().to_owned();
    let mut named: BTreeSet<String> = components.iter().map(reference).collect();
    assert_eq!(named.len(), components.len(), "a package is named twice");
    named.insert(reference(&bill["metadata"]["component"]));
    let missing: Vec<String> = linked().into_iter().filter(|package| !named.contains(package)).collect();
    assert!(missing.is_empty(), "not in the bill: {missing:?}");
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    for one in components {
        let id = reference(one);
        assert!(one["licenses"][0]["expression"].is_string(), "{id} has no licence");
        match one["hashes"][0]["content"].as_str() {
            Some(sum) => assert!(lock.contains(&format!("checksum = \"{sum}\"")), "{id}: Cargo.lock has no {sum}"),
            None => assert!(id.starts_with("berth-"), "{id} has no checksum"),
        }
    }
    let edges = bill["dependencies"].as_array().unwrap();
    assert_eq!(edges.len(), named.len());
    let ends = edges.iter().flat_map(|edge| edge["dependsOn"].as_array().unwrap());
    assert!(ends.clone().count() > named.len() && ends.clone().all(|end| named.contains(end.as_str().unwrap())));
}

#[test]
fn the_packaged_chart_renders_as_the_folder_does() {
    let template = |chart: &Path| {
        let args = ["template", "berth", chart.to_str().unwrap(), "--namespace", "berth-system"];
        ran(helm(), &args, release())
    };
    let packaged = template(&release().join(format!("berth-{VERSION}.tgz")));
    assert!(packaged.contains("kind: Deployment"), "{packaged}");
    assert_eq!(packaged, template(&repository().join("charts/berth")));
}
