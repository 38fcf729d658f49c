//! The page of `--html` as a person uses it: clicks, keys and what a screen reader says, in a real browser. `make test-ui` runs it.
//!
//! `BERTH_UI_PICTURES=FOLDER` keeps screenshots, to be looked at; `BERTH_UI_TIMES=1` makes the bounds on times count, for a
//! machine that does nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod browser;

use browser::Browser;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart");

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-page-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The page that `berth ARGS --html` writes.
fn page(folder: &Folder, args: &[&str]) -> PathBuf {
    let page = folder.0.join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_berth")).args(args).arg("--html").arg(&page).output().unwrap();
    assert!(page.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

fn manifests(folder: &Folder, items: Vec<Value>) -> String {
    let path = folder.0.join("cluster.json");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn keep_picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var("BERTH_UI_PICTURES").ok().filter(|folder| !folder.is_empty()) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(name), browser.picture()).unwrap();
    }
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn a_simulation_answers_clicks_and_keys() {
    let folder = Folder::new("simulate");
    let page = page(&folder, &["simulate", "-f", QUICKSTART]);
    let mut browser = Browser::start("simulate", 1360, 1320);
    browser.open(&page, "");
    assert!(browser.text("#subtitle").starts_with("12 pending pods: 9 placed on 6 of 8 nodes"));
    // The pod that fits nowhere is what people came for.
    assert_eq!(browser.text("#detail h2"), "batch/train");
    assert!(browser.text("#refused").contains("Insufficient cpu"), "{}", browser.text("#refused"));
    assert!(browser.text("#changes").len() > 20, "{}", browser.text("#changes"));
    keep_picture(&mut browser, "simulate-light.png");
    browser.prefer("dark");
    browser.wait("the dark page", "getComputedStyle(document.body).backgroundColor === 'rgb(18, 20, 23)'");
    keep_picture(&mut browser, "simulate-dark.png");
    browser.prefer("light");

    // A pod, by its row.
    browser.click("#pods-list .row[aria-label^='batch/index']");
    assert_eq!(browser.text("#detail h2"), "batch/index");
    assert!(browser.text("#best tr.chosen").contains("node-a3"), "{}", browser.text("#best"));
    assert_eq!(browser.value("decodeURIComponent(location.hash)"), "#pod=batch/index");
    // Its node, by the link.
    browser.click("#best tr.chosen .link");
    assert_eq!(browser.text("#detail h2"), "node-a3");
    assert!(browser.text("#detail").contains("batch/index"));
    // Before the run the node was empty.
    browser.click("#states [data-state='0']");
    assert!(browser.text("#detail").contains("0 pods"), "{}", browser.text("#detail"));

    // The list, by keys alone.
    browser.focus("#pods-list");
    browser.key("Home", 36);
    browser.key("ArrowDown", 40);
    browser.key("Enter", 13);
    let second = browser.text("#pods-list .row[aria-posinset='2'] .name");
    assert_eq!(browser.text("#detail h2"), second);
    // The map, by keys alone; what is met is said.
    browser.focus("#map-canvas");
    browser.key("ArrowRight", 39);
    browser.key("ArrowRight", 39);
    assert!(browser.text("#map-told").contains("node-a2, a, cpu"), "{}", browser.text("#map-told"));
    browser.key("Enter", 13);
    assert_eq!(browser.text("#detail h2"), "node-a2");
    // The queue, step by step.
    browser.focus("#step");
    browser.key("Home", 36);
    assert!(browser.text("#timeline-told").starts_with("Before the run"), "{}", browser.text("#timeline-told"));
    browser.key("ArrowRight", 39);
    assert!(browser.text("#timeline-told").starts_with("Step 1 of"), "{}", browser.text("#timeline-told"));
    browser.assert_no_trouble();
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn two_profiles_are_two_states() {
    let folder = Folder::new("compare");
    let profile = |name: &str| format!("{}/examples/profiles/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let (first, second) = (profile("binpack"), profile("web-default"));
    let page = page(&folder, &["simulate", "-f", QUICKSTART, "--profile", &first, "--profile", &second]);
    let mut browser = Browser::start("compare", 1200, 1000);
    browser.open(&page, "");
    let states = browser.value("[...document.querySelectorAll('#states button')].map((button) => button.textContent)");
    assert_eq!(states, json!(["batch-binpack", "web-default", "Change"]));
    browser.click("#states [data-state='-2']");
    assert!(browser.text("#legend").contains("at least 25 % more"), "{}", browser.text("#legend"));
    assert!(browser.text("#detail .facts").contains("batch-binpack"), "{}", browser.text("#detail .facts"));
    assert_eq!(browser.value("document.querySelector('#timeline').hidden"), true);
    browser.assert_no_trouble();
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn a_difference_is_two_states_of_what_is_placed() {
    let folder = Folder::new("diff");
    let profile = format!("{}/examples/profiles/binpack.yaml", env!("CARGO_MANIFEST_DIR"));
    let page = page(&folder, &["diff", "-f", &profile, "--manifests", QUICKSTART]);
    let mut browser = Browser::start("diff", 1200, 1000);
    browser.open(&page, "#pod=shop%2Fgateway");
    let states = browser.value("[...document.querySelectorAll('#states button')].map((button) => button.textContent)");
    assert_eq!(states, json!(["Present profiles", "Changed profiles", "Change"]));
    assert!(browser.text("#detail").contains("would be placed on"), "{}", browser.text("#detail"));
    assert_eq!(browser.value("document.querySelector('#timeline').hidden"), true);
    keep_picture(&mut browser, "diff-light.png");
    browser.assert_no_trouble();
}

/// The pages for debugging of a process that has compared one pod, until the test ends.
fn debug_door(comparison: &Value) -> String {
    let page =
        json!({"figures": {"compared": 1, "worse": 1}, "continue": null, "comparisons": [comparison]}).to_string();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _request = connection.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", page.len());
            write!(connection, "{head}\r\nconnection: close\r\n\r\n{page}").unwrap();
        }
    });
    url
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn a_shadow_is_two_states_of_what_another_scheduler_bound() {
    let folder = Folder::new("shadow");
    let node = |name: &str| {
        let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": amounts, "capacity": amounts}})
    };
    let pod = |name: &str, cpu: &str| {
        let container = json!({"name": "c", "image": "c:1", "resources": {"requests": {"cpu": cpu}}});
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {"schedulerName": "default-scheduler", "nodeName": "n1", "containers": [container]}})
    };
    let trial = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "metadata": {"name": "trial"},
        "spec": {"mode": "DryRun", "shadow": {"schedulerNames": ["default-scheduler"]}}});
    let cluster = manifests(&folder, vec![node("n1"), node("n2"), pod("web", "1"), pod("db", "2"), trial]);
    let door = debug_door(&json!({
        "number": 1, "pod": "shop/web", "uid": "uid-web", "scheduler": "default-scheduler", "node": "n1", "ours": "n2",
        "outcome": "worse", "rank": 2, "of": 2, "apart": [{"plugin": "NodeResourcesFit", "by": 30}]}));
    let page = page(&folder, &["shadow", "report", "trial", "--debug-url", &door, "--manifests", &cluster]);
    let mut browser = Browser::start("shadow", 1200, 1000);
    browser.open(&page, "#pod=shop%2Fweb");
    let states = browser.value("[...document.querySelectorAll('#states button')].map((button) => button.textContent)");
    assert_eq!(states, json!(["As they are bound", "As the profile would", "Change"]));
    let detail = browser.text("#detail");
    assert!(detail.contains("would have placed it on n2") && detail.contains("NodeResourcesFit"), "{detail}");
    keep_picture(&mut browser, "shadow-light.png");
    browser.assert_no_trouble();
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn the_policy_is_in_force() {
    let folder = Folder::new("policy");
    let page = page(&folder, &["explain", "-f", QUICKSTART, "--pod", "batch/train"]);
    let mut browser = Browser::start("policy", 800, 800);
    browser.open(&page, "");
    browser.assert_no_trouble();
    for (what, refused) in [
        ("markup", "document.body.innerHTML = '<b>x</b>'"),
        ("a script", "const s = document.createElement('script'); s.textContent = '1'; document.head.append(s)"),
        ("a request", "await fetch('data:text/plain,x')"),
    ] {
        let tried =
            format!("(async () => {{ try {{ {refused}; return 'done' }} catch (error) {{ return error.name }} }})()");
        let name = browser.value(&tried);
        assert_eq!(name, "TypeError", "{what}");
    }
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn lists_are_searched_and_filtered() {
    let folder = Folder::new("lists");
    let page = page(&folder, &["simulate", "-f", QUICKSTART]);
    let mut browser = Browser::start("lists", 1200, 1000);
    browser.open(&page, "#pod=shop%2Fgateway");
    assert_eq!(browser.text("#detail h2"), "shop/gateway");
    browser.focus("#pods-search");
    browser.write("WEB shop");
    assert!(browser.text("#pods-count").starts_with("3 of"), "{}", browser.text("#pods-count"));
    browser.value("document.querySelector('#pods-search').value = ''");
    browser.click("#profiles [data-profile='0']");
    assert!(browser.text("#pods-count").starts_with("6 of"), "{}", browser.text("#pods-count"));
    // Tabs, as the pattern for tabs wants it.
    browser.focus("#pods-tab");
    browser.key("ArrowRight", 39);
    browser.wait("the tab of nodes", "!document.querySelector('#nodes-panel').hidden");
    assert!(browser.text("#nodes-count").starts_with("8 of 8"), "{}", browser.text("#nodes-count"));
    browser.click("#nodes-list .row[aria-posinset='1']");
    assert_eq!(browser.text("#detail h2"), "node-a1");
    // The theme, whatever the system prefers.
    browser.value("(() => { const t = document.querySelector('#theme'); t.value = 'dark'; t.dispatchEvent(new Event('change')) })()");
    assert_eq!(browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(18, 20, 23)");
    browser.resize(400, 900);
    browser.wait("one column", "document.documentElement.scrollWidth <= 400");
    browser.assert_no_trouble();
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn everything_has_a_name_and_focus_goes_everywhere() {
    let folder = Folder::new("spoken");
    let page = page(&folder, &["simulate", "-f", QUICKSTART]);
    let mut browser = Browser::start("spoken", 1200, 1000);
    browser.open(&page, "");
    let spoken = browser.spoken();
    let wanting =
        ["button", "combobox", "searchbox", "slider", "listbox", "option", "tab", "radio", "application", "image"];
    for (role, name) in &spoken {
        assert!(!wanting.contains(&role.as_str()) || !name.is_empty(), "a {role} has no name: {spoken:?}");
    }
    for role in ["heading", "listbox", "option", "tab", "radio", "slider", "application"] {
        assert!(spoken.iter().any(|(known, _)| known == role), "nothing is a {role}");
    }
    let mut met = std::collections::BTreeSet::new();
    for _ in 0..60 {
        browser.key("Tab", 9);
        met.insert(
            browser.value("document.activeElement.id || document.activeElement.className").as_str().unwrap().to_owned(),
        );
    }
    for id in ["map-canvas", "fill", "zoom-in", "step", "pods-tab", "pods-search", "fate", "pods-list", "theme"] {
        assert!(met.contains(id), "Tab does not reach {id}: {met:?}");
    }
    browser.assert_no_trouble();
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn an_explanation_is_shown() {
    let folder = Folder::new("explain");
    let page = page(&folder, &["explain", "-f", QUICKSTART, "--pod", "batch/train"]);
    let mut browser = Browser::start("explain", 1440, 1100);
    browser.open(&page, "");
    assert_eq!(browser.text("#detail h2"), "batch/train");
    assert!(browser.text("#changes").len() > 20);
    assert_eq!(
        browser.value("document.querySelector('#states').hidden && document.querySelector('#timeline').hidden"),
        true
    );
    keep_picture(&mut browser, "explain-light.png");
    browser.assert_no_trouble();
}

/// Names that an API server would refuse, in manifests of somebody else.
#[test]
#[ignore = "needs Chromium: make test-ui"]
fn hostile_names_are_shown_and_not_obeyed() {
    let hostile = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\u{202e}gnp.exe\u{2066}",
        "{{script}}\u{2028}",
        "\u{feff}\u{1b}[31m\u{0}",
        "'\"><svg/onload=alert(1)>&lt;",
    ];
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}})
    };
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
    };
    let folder = Folder::new("hostile");
    let items = hostile.into_iter().flat_map(|name| [node(name), pod(name)]).collect();
    let page = page(&folder, &["simulate", "-f", &manifests(&folder, items)]);
    let mut browser = Browser::start("hostile", 1200, 1000);
    browser.open(&page, "");
    assert_eq!(browser.value("document.querySelectorAll('script, img, svg, iframe, object').length"), 1);
    assert!(browser.text("#pods-count").starts_with("6 of 6"), "{}", browser.text("#pods-count"));
    for row in 1..=6 {
        browser.click(&format!("#pods-list .row[aria-posinset='{row}']"));
        let shown = browser.text("#detail h2");
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{feff}', '\u{1b}', '\u{2028}']), "{shown:?}");
        browser.click("#detail .facts .link");
        browser.wait("a node", "document.querySelector('#detail h3')?.textContent === 'Taken'");
    }
    let all = browser.value("document.body.textContent");
    assert!(all.as_str().unwrap().contains("<img src=x onerror=alert(1)>"));
    keep_picture(&mut browser, "hostile.png");
    browser.assert_no_trouble();
}

/// 5,000 nodes, and 50,000 pods of which 5,000 wait.
fn large() -> Vec<Value> {
    let node = |i: usize| {
        let zone = format!("eu-west-1{}", ["a", "b", "c"][i % 3]);
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("ip-10-{}-{}.eu-west-1.compute.internal", i / 250, i % 250),
                "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}})
    };
    let pod = |i: usize| {
        // Nodes are filled unevenly, as clusters are.
        let on = (i * i + i * 7) % 5_000;
        let mut spec = json!({"containers": [{"name": "c", "resources": {"requests":
            {"cpu": format!("{}m", 200 + i % 10 * 150), "memory": format!("{}Mi", 256 + i % 7 * 512)}}}]});
        if i < 45_000 {
            spec["nodeName"] = format!("ip-10-{}-{}.eu-west-1.compute.internal", on / 250, on % 250).into();
        }
        let name = format!("deployment-{:x}-{i:05}", i * 7_919 % 0xf_ffff);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": format!("team-{}", i % 40)}, "spec": spec})
    };
    (0..5_000).map(node).chain((0..50_000).map(pod)).collect()
}

/// A bound on a time, which counts where it was asked for.
fn bound(what: &str, millis: f64, most: f64) {
    println!("{what}: {millis:.1} ms (at most {most})");
    let counts = std::env::var("BERTH_UI_TIMES").is_ok_and(|times| !times.is_empty());
    assert!(!counts || millis <= most, "{what}: {millis} ms");
}

#[test]
#[ignore = "needs Chromium: make test-ui"]
fn a_page_of_5_000_nodes_and_50_000_pods_is_painted_and_moves() {
    let folder = Folder::new("large");
    let page = page(&folder, &["simulate", "-f", &manifests(&folder, large())]);
    let size = std::fs::metadata(&page).unwrap().len();
    println!("file: {:.1} MB", size as f64 / 1e6);
    assert!(size <= 30_000_000, "{size} bytes");
    let mut browser = Browser::start("large", 1360, 1000);
    browser.open(&page, "");
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
    browser.wait("the first paint", &format!("({paint}) > 0"));
    bound("first paint", browser.value(paint).as_f64().unwrap(), 3_000.0);
    bound("script has run", browser.value("performance.now()").as_f64().unwrap(), 10_000.0);
    keep_picture(&mut browser, "large-light.png");

    for _ in 0..3 {
        browser.click("#zoom-in");
    }
    let record = "(() => { window.frames = []; let last = 0; const each = (now) => { if (last) window.frames.push(now - last); \
                  last = now; requestAnimationFrame(each) }; requestAnimationFrame(each) })()";
    browser.value(record);
    let (x, y) = browser.middle("#map-canvas");
    browser.mouse("mousePressed", (x, y));
    for i in 0..150 {
        let (right, down) = (f64::from(i % 60) * 4.0 - 120.0, f64::from(i % 40) * 3.0 - 60.0);
        browser.mouse("mouseMoved", (x + right, y + down));
    }
    browser.mouse("mouseReleased", (x, y));
    let mut frames: Vec<f64> =
        browser.value("window.frames").as_array().unwrap().iter().map(|frame| frame.as_f64().unwrap()).collect();
    assert!(frames.len() > 20, "{} frames", frames.len());
    frames.sort_by(f64::total_cmp);
    bound("panning, a frame, p95", frames[frames.len() * 95 / 100], 50.0);
    // A list of fifty thousand has few elements.
    browser.value(
        "(() => { const f = document.querySelector('#fate'); f.value = ''; f.dispatchEvent(new Event('input')) })()",
    );
    assert!(browser.text("#pods-count").starts_with("50,000 of 50,000"), "{}", browser.text("#pods-count"));
    assert!(browser.value("document.querySelectorAll('#pods-list .row').length").as_u64().unwrap() < 60);
    browser.focus("#pods-list");
    browser.key("End", 35);
    browser.key("Enter", 13);
    assert_eq!(browser.text("#detail h2"), browser.text("#pods-list .row[aria-posinset='50000'] .name"));
    browser.assert_no_trouble();
}
