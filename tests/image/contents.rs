//! What the layers unpack to, and the bill of materials that says it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Image, berth, folder, json_of, ran, repository};

/// Every file below `root`, links left out.
fn files(root: &Path) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => open.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn everything_is_roots_and_nothing_is_setuid_or_open_to_writers() {
    let Some(image) = Image::shared("everything_is_roots_and_nothing_is_setuid_or_open_to_writers") else { return };
    for layer in image.layers() {
        let archive = layer.to_str().unwrap();
        for line in ran("tar", &["--list", "--verbose", "--numeric-owner", "--gzip", "--file", archive]).lines() {
            let mode = line.split(' ').next().unwrap();
            assert!(line.contains(" 0/0 "), "{line}");
            assert!(!mode.contains(['s', 'S', 't', 'T']), "{line}");
            assert!(mode.starts_with('l') || !mode[5..].contains('w'), "{line}");
        }
    }
}

/// A shell, an interpreter or a tool would be a third kind.
#[test]
fn only_the_binary_and_the_libraries_that_it_loads_can_be_run() {
    let Some(image) = Image::shared("only_the_binary_and_the_libraries_that_it_loads_can_be_run") else { return };
    let root = image.unpacked("image-contents");
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let is_run = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0;
    let is_elf = |path: &PathBuf| fs::read(path).unwrap().starts_with(b"\x7fELF");
    let found: BTreeSet<String> =
        files(&root).iter().filter(|path| is_run(path) || is_elf(path)).map(|path| named(path)).collect();
    let loads = ran("readelf", &["--dynamic", "--wide", root.join("berth").to_str().unwrap()]);
    let loads = loads.lines().filter(|line| line.contains("(NEEDED)"));
    let mut wanted: BTreeSet<String> = loads.map(|line| line.split(['[', ']']).nth(1).unwrap().to_owned()).collect();
    assert!(wanted.contains("libc.so.6"), "{wanted:?}: what is measured uses glibc");
    wanted.insert("berth".to_owned());
    assert_eq!(found, wanted);
}

#[test]
fn the_binary_is_the_one_of_a_release_and_its_symbols_are_in_a_file_of_their_own() {
    let Some(image) = Image::shared("the_binary_is_the_one_of_a_release_and_its_symbols_are_in_a_file_of_their_own")
    else {
        return;
    };
    let root = image.unpacked("image-binary");
    // As hack/dist.sh does.
    let parted = folder("image-parted");
    ran(repository().join("hack/symbols.sh"), &[&berth(), parted.to_str().unwrap()]);
    for (ours, theirs) in [(root.join("berth"), "berth"), (image.folder.join("berth.debug"), "berth.debug")] {
        ran("cmp", &[ours.to_str().unwrap(), parted.join(theirs).to_str().unwrap()]);
    }
    let sections = |file: &Path| ran("readelf", &["--wide", "--section-headers", file.to_str().unwrap()]);
    let stripped = sections(&root.join("berth"));
    assert!(stripped.contains(" .gnu_debuglink ") && !stripped.contains(" .symtab "), "{stripped}");
    assert!(sections(&image.folder.join("berth.debug")).contains(" .debug_line "));
}

/// The fields of a package's control file in the image.
fn field(text: &str, name: &str) -> String {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
}

#[test]
fn the_bill_of_materials_names_every_package_of_the_image_and_every_crate() {
    let Some(image) = Image::shared("the_bill_of_materials_names_every_package_of_the_image_and_every_crate") else {
        return;
    };
    let bill = json_of(&image.folder.join("berth.cdx.json"));
    let about = &bill["metadata"]["component"];
    assert_eq!((&bill["bomFormat"], &about["type"]), (&Value::from("CycloneDX"), &Value::from("container")));
    assert_eq!(format!("sha256:{}", about["hashes"][0]["content"].as_str().unwrap()), image.digest);

    let root = image.unpacked("image-bill");
    let installed: BTreeSet<(String, String)> = fs::read_dir(root.join("var/lib/dpkg/status.d"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|text| (field(&text, "Package"), field(&text, "Version")))
        .collect();
    let components = bill["components"].as_array().unwrap();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let debian: Vec<&Value> = components.iter().filter(|one| text(one, "purl").starts_with("pkg:deb/")).collect();
    let named: BTreeSet<_> = debian.iter().map(|one| (text(one, "name"), text(one, "version"))).collect();
    assert_eq!(named, installed);
    for needed in ["base-files", "ca-certificates", "libc6", "libgcc-s1"] {
        assert!(named.iter().any(|(name, _)| name == needed), "{named:?}");
    }
    for one in debian {
        assert_eq!(text(&one["hashes"][0], "content").len(), 64, "{one}");
        let terms = root.join("usr/share/doc").join(text(one, "name")).join("copyright");
        assert!(terms.metadata().is_ok_and(|terms| terms.len() > 0), "no licence of {one}");
    }

    // tests/dist.rs compares the crates of the binary's own bill with what cargo says.
    let of_binary: Value = serde_json::from_str(&ran(repository().join("hack/sbom.sh"), &["0"])).unwrap();
    let names = |bill: &Value| -> BTreeSet<String> {
        bill["components"].as_array().unwrap().iter().map(|one| text(one, "bom-ref")).collect()
    };
    let mut wanted = names(&of_binary);
    wanted.insert(text(&of_binary["metadata"]["component"], "bom-ref"));
    wanted.extend(components.iter().map(|one| text(one, "bom-ref")).filter(|name| name.starts_with("pkg:deb/")));
    assert_eq!(names(&bill), wanted);
    let edges = bill["dependencies"].as_array().unwrap();
    assert_eq!(edges.len(), components.len() + 1);
    let of_image = edges.iter().find(|edge| edge["ref"] == image.digest).unwrap();
    assert_eq!(of_image["dependsOn"].as_array().unwrap().len(), installed.len() + 1);
}
