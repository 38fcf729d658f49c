use super::data::Data;
use super::{Shadowed, Sides, Would, compared, diffed, document, explained, shadowed, simulated};
use berth_core::model::{LabelSelector, Labels, Pod, PodKey, Requests, Usage, ZONE};
use berth_core::profile::CompiledProfile;
use berth_core::testing::{node, pod, shape_of};
use berth_simulate::{Cluster, Options, Outcome, Replay, ReplayDifference, run, run_with};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;

const GIB: i64 = 1 << 30;

fn profiles(name: &str) -> Vec<Arc<CompiledProfile>> {
    let profile = CompiledProfile { scheduler_names: vec!["test".into()], ..CompiledProfile::default_preset(name) };
    vec![Arc::new(profile)]
}

fn recorded(cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> Outcome {
    run_with(cluster, profiles, Options { record: true, ..Options::default() })
}

/// Two nodes of four cores, of which one is half full, and three pods, of which one fits nowhere.
fn small() -> Cluster {
    let nodes = vec![node("n1", 4000, 8 * GIB, 110), node("n2", 4000, 8 * GIB, 110)];
    let running = Pod { node_name: Some("n1".into()), ..pod("running", shape_of(2000, GIB)) };
    let pods =
        vec![running, pod("a", shape_of(1000, GIB)), pod("b", shape_of(1000, GIB)), pod("big", shape_of(9000, GIB))];
    Cluster { nodes, pods, ..Cluster::default() }
}

fn written(data: &Data) -> String {
    let mut page = Vec::new();
    document::write(&mut page, data).unwrap();
    String::from_utf8(page).unwrap()
}

fn page_of(cluster: &Cluster) -> String {
    let profiles = profiles("default");
    written(&simulated(cluster, &profiles, &recorded(cluster, &profiles), "headline", &["a note".to_owned()]))
}

/// What the browser takes for the content of the elements that begin with `tag`.
fn contents<'p>(page: &'p str, tag: &str) -> Vec<&'p str> {
    let end = format!("</{}>", tag.trim_start_matches('<').split([' ', '>']).next().unwrap());
    page.split(tag).skip(1).map(|rest| rest.split(&*end).next().unwrap()).collect()
}

fn data_of(page: &str) -> Value {
    let [json] = contents(page, r#"<script type="application/json" id="data">"#)[..] else { panic!("no data") };
    serde_json::from_str(json).unwrap()
}

fn text(data: &Value, id: &Value) -> String {
    data["strings"][usize::try_from(id.as_u64().unwrap()).unwrap()].as_str().unwrap().to_owned()
}

#[test]
fn the_policy_allows_this_script_and_style_and_nothing_else() {
    let page = page_of(&small());
    let [policy] = contents(&page, r#"<meta http-equiv="Content-Security-Policy" content=""#)[..] else {
        panic!("{page}")
    };
    let policy = policy.split('"').next().unwrap();
    assert_eq!(policy, document::policy());
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("trusted-types 'none'"), "{policy}");
    assert_eq!(contents(&page, "<script>"), [document::SCRIPT]);
    assert_eq!(contents(&page, "<style>"), [document::STYLE]);
    // Of the empty text, as everybody knows it.
    assert_eq!(document::source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
}

/// A browser hashes what it reads after it has made all line ends one character.
#[test]
fn script_and_style_are_what_a_browser_reads() {
    for text in [document::SCRIPT, document::STYLE] {
        assert!(!text.contains(['\r', '\0']) && !text.contains("</") && !text.contains("<!--") && !text.contains("{{"));
    }
    for markup in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch(", "import("]
    {
        assert!(!document::SCRIPT.contains(markup), "the script must not use {markup}");
    }
    for loads in ["url(", "@import", "http:", "https:"] {
        assert!(!document::STYLE.contains(loads) && !document::SCRIPT.contains(loads), "{loads}");
    }
}

const HOSTILE: [&str; 10] = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "{{data}}{{script}}",
    "\u{2028}\u{2029}",
    "\u{202e}gnp.\u{2066}exe\u{2069}\u{200f}",
    "\u{feff}\u{0}\u{1b}]0;x\u{7}\r\n",
    "\"'\\&lt;&amp;",
    "]]>",
    "javascript:alert(1)",
    "\u{10ffff}\u{fffd}é漢🙂",
];

/// `small`, with `name` as the name of whatever has one.
fn named(name: &str) -> Cluster {
    let mut cluster = small();
    for node in &mut cluster.nodes {
        node.name = format!("{name}{}", node.name).into();
        node.labels = [(ZONE, name)].into_iter().collect::<Labels>();
    }
    for pod in &mut cluster.pods {
        pod.key = PodKey { namespace: name.into(), name: format!("{name}{}", pod.key.name).into() };
        pod.node_name = pod.node_name.as_ref().map(|node| format!("{name}{node}").into());
    }
    cluster
}

/// The page has the elements of its shell, whatever the cluster is called, and its data is what it was made from.
fn check(name: &str) {
    let cluster = named(name);
    let plain = page_of(&named("plain"));
    let page = page_of(&cluster);
    let [json] = contents(&page, r#"<script type="application/json" id="data">"#)[..] else { panic!("{name:?}") };
    assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\0', '\r', '\n']), "{name:?}");
    let shell = |page: &str| {
        let [before, after] = page.split(r#"id="data">"#).collect::<Vec<_>>()[..] else { panic!("{name:?}") };
        (before.to_owned(), after.split_once("</script>").unwrap().1.to_owned())
    };
    assert_eq!(shell(&page), shell(&plain), "{name:?}");
    let data = data_of(&page);
    let strings: Vec<&str> = data["strings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(strings.contains(&name) || name.is_empty(), "{name:?}");
    assert!(strings.contains(&&*format!("{name}big")), "{name:?}");
}

#[test]
fn hostile_names_are_texts() {
    HOSTILE.into_iter().for_each(check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_a_text(name in any::<String>(), bits in proptest::collection::vec(0..HOSTILE.len(), 0..3)) {
        check(&format!("{name}{}", bits.into_iter().map(|at| HOSTILE[at]).collect::<String>()));
    }
}

#[test]
fn a_page_of_a_run_has_what_the_run_did() {
    let data = data_of(&page_of(&small()));
    let pods = &data["pods"];
    let names: Vec<String> = pods["name"].as_array().unwrap().iter().map(|id| text(&data, id)).collect();
    assert_eq!(names, ["a", "b", "big", "running"]);
    // placed, placed, unschedulable, running
    assert_eq!(pods["fate"], serde_json::json!([1, 1, 2, 0]));
    assert_eq!(pods["from"], serde_json::json!([-1, -1, -1, 0]));
    assert_eq!((&pods["to"][2], &pods["to"][3]), (&Value::from(-1), &Value::from(0)));
    assert!(pods["to"][0].as_i64().unwrap() >= 0 && pods["to"][1].as_i64().unwrap() >= 0, "{pods}");
    let answer = &data["answers"][usize::try_from(pods["answer"][0].as_i64().unwrap()).unwrap()];
    assert_eq!((&answer["feasible"], &answer["of"]), (&Value::from(2), &Value::from(2)));
    // The emptier node is the better one, and the pod went there.
    assert_eq!(answer["best"][0][0], pods["to"][0]);
    let big = &data["answers"][usize::try_from(pods["answer"][2].as_i64().unwrap()).unwrap()];
    assert_eq!((&big["feasible"], &big["refused"][0][0]), (&Value::from(0), &Value::from(2)));
    assert_eq!(text(&data, &big["refused"][0][2]), "Insufficient cpu");
    assert!(!big["changes"].as_array().unwrap().is_empty(), "{big}");
    let steps = data["events"]["what"].as_array().unwrap();
    assert_eq!(steps.iter().filter(|what| **what == 0).count(), 2, "{steps:?}");
}

#[test]
fn each_of_a_few_pods_is_judged_as_the_cluster_was_before_it() {
    let mut cluster = small();
    cluster.nodes.truncate(1);
    cluster.pods = vec![pod("a", shape_of(3000, GIB)), pod("b", shape_of(3000, GIB))];
    let data = data_of(&page_of(&cluster));
    let feasible = |pod: usize| {
        let answer = usize::try_from(data["pods"]["answer"][pod].as_i64().unwrap()).unwrap();
        data["answers"][answer]["feasible"].clone()
    };
    assert_eq!((feasible(0), feasible(1)), (Value::from(1), Value::from(0)), "{data}");
}

/// A pod of higher priority takes the place of one that runs.
#[test]
fn an_evicted_pod_leaves_its_node() {
    let low = Pod { node_name: Some("n".into()), ..pod("low", shape_of(3000, GIB)) };
    let pods = vec![Pod { priority: 10, ..pod("high", shape_of(3000, GIB)) }, low];
    let cluster = Cluster { nodes: vec![node("n", 4000, 8 * GIB, 110)], pods, ..Cluster::default() };
    let data = data_of(&page_of(&cluster));
    let pods = &data["pods"];
    assert_eq!(pods["fate"], serde_json::json!([1, 6]), "{pods}");
    assert_eq!((&pods["from"], &pods["to"]), (&serde_json::json!([-1, 0]), &serde_json::json!([0, -1])));
    assert_eq!(pods["victims"], serde_json::json!({"0": [1]}));
}

#[test]
fn two_runs_are_a_before_and_an_after() {
    let (cluster, [first, second]) = (small(), ["first", "second"].map(profiles));
    let outcomes = [recorded(&cluster, &first), recorded(&cluster, &second)];
    let page = compared(&cluster, &second, ["first", "second"], [&outcomes[0], &outcomes[1]], &[]);
    let data = data_of(&written(&page));
    let states: Vec<String> = data["states"].as_array().unwrap().iter().map(|id| text(&data, id)).collect();
    assert_eq!((states, &data["kind"]), (vec!["first".to_owned(), "second".to_owned()], &Value::from("diff")));
    // The same profile under two names places alike.
    assert_eq!(data["pods"]["from"], data["pods"]["to"]);
    assert_eq!(data["events"], Value::Null);
}

/// The changed profile places on the one node that has a label.
#[test]
fn a_difference_shows_placed_pods_placed_anew_and_says_where_waiting_ones_would_go() {
    let mut cluster = small();
    cluster.nodes[1].labels = [("pool", "other")].into_iter().collect();
    cluster.pods.push(Pod { node_name: Some("n2".into()), ..pod("wide", shape_of(3000, GIB)) });
    let present = profiles("default");
    let selector = LabelSelector::from(&cluster.nodes[1].labels);
    let mut changed = profiles("default");
    Arc::make_mut(&mut changed[0]).node_selector = Some(selector);
    let waiting = [recorded(&cluster, &present), recorded(&cluster, &changed)];
    let replay = Replay::new(&cluster, &present);
    let placed = [replay.run(&present, 0), replay.run(&changed, 0)];
    let difference = ReplayDifference::new(&replay, &placed[0], &placed[1]);
    let sides =
        Sides { waiting: [&waiting[0], &waiting[1]], placed: [&placed[0], &placed[1]], difference: &difference };
    let data = data_of(&written(&diffed(&cluster, &changed, &sides, &["a note".to_owned()])));
    // a, b, big, running, wide: of the waiting ones none is on a node.
    assert_eq!(data["pods"]["fate"], serde_json::json!([7, 2, 2, 1, 2]), "{data}");
    assert_eq!(data["pods"]["to"], serde_json::json!([-1, -1, -1, 1, -1]));
    let from = data["pods"]["from"].as_array().unwrap();
    assert_eq!(from[..3], [-1, -1, -1].map(Value::from));
    assert!(from[3..].iter().all(|node| *node != -1) && from[3] != from[4], "{from:?}");
    let message = |row: usize| text(&data, &data["pods"]["message"][row]);
    assert!(message(0).starts_with("would be placed on n2; "), "{}", message(0));
    assert!(message(1).contains("Insufficient cpu.; with the present profiles on n"), "{}", message(1));
    assert!(message(2).ends_with("; the same with the present profiles"), "{}", message(2));
    assert!(message(4).contains("Insufficient cpu"), "{}", message(4));
    assert_ne!(data["pods"]["answer"][2], Value::from(-1), "why it fits nowhere");
}

/// One stays, one would be on the other node, one nowhere, and one is gone by now.
#[test]
fn a_shadow_shows_pods_where_they_are_bound_and_where_the_profile_would_have_put_them() {
    let mut cluster = small();
    for pod in &mut cluster.pods {
        pod.node_name = Some("n1".into());
    }
    let compared = |name: &'static str, node, ours, outcome| Shadowed {
        pod: name,
        scheduler: "test",
        node,
        ours,
        outcome,
        why: format!("why {name}"),
    };
    let all = [
        compared("default/a", "n1", Some("n1"), Would::Leave),
        compared("default/b", "n1", Some("n2"), Would::Move),
        compared("default/big", "n1", None, Would::Refuse),
        compared("default/running", "n2", Some("n1"), Would::Move),
    ];
    let mut only_follows = profiles("trial");
    Arc::make_mut(&mut only_follows[0]).scheduler_names.clear();
    let data = data_of(&written(&shadowed(&cluster, &only_follows[0], &all, &[])));
    // a, b, big, running
    assert_eq!(data["pods"]["from"], serde_json::json!([0, 0, 0, 0]));
    assert_eq!(data["pods"]["to"], serde_json::json!([0, 1, -1, 0]));
    assert_eq!(data["pods"]["fate"], serde_json::json!([0, 1, 2, 0]));
    assert_eq!(text(&data, &data["pods"]["message"][1]), "why default/b");
    assert_eq!(data["pods"]["profile"], serde_json::json!([0, 0, 0, 0]), "it serves them on the page");
    // Judged without itself: beside the others of n1, all four cores of n2 are free.
    let answer = usize::try_from(data["pods"]["answer"][1].as_i64().unwrap()).unwrap();
    assert_eq!(data["answers"][answer]["best"][0][0], 1, "{data}");
    assert_eq!(data["pods"]["answer"][0], Value::from(-1), "nobody asks about those that stay");
    assert_eq!(text(&data, &data["notes"][0]), "1 of 4 compared pods are gone by now");
}

#[test]
fn an_explanation_has_one_state_and_says_what_would_place_a_pod() {
    let (cluster, profiles) = (small(), profiles("default"));
    let mut report = berth_explain::explain(&cluster, &profiles, None);
    berth_explain::add_changes(&mut report, &cluster, &profiles);
    let data = data_of(&written(&explained(&cluster, &profiles, &report, &[])));
    assert_eq!(data["states"].as_array().unwrap().len(), 1);
    // fits, fits, unschedulable, running
    assert_eq!(data["pods"]["fate"], serde_json::json!([7, 7, 2, 0]));
    let big = usize::try_from(data["pods"]["answer"][2].as_i64().unwrap()).unwrap();
    assert!(!data["answers"][big]["changes"].as_array().unwrap().is_empty(), "{data}");
}

#[test]
fn recording_changes_nothing_and_the_record_leads_to_the_same_cluster() {
    let (cluster, profiles) = (drawn(40, 400, 300), profiles("default"));
    let (plain, recorded) = (run(&cluster, &profiles, 0), recorded(&cluster, &profiles));
    assert!(plain.timeline.is_empty() && !recorded.timeline.is_empty());
    assert_eq!(plain.report, recorded.report);
    let mut replayed = cluster.ledger();
    recorded.timeline.iter().for_each(|event| event.replay(&mut replayed));
    for node in &cluster.nodes {
        let amounts = |ledger: &berth_core::ledger::Ledger| {
            let nodes = ledger.nodes();
            let id = nodes.find(&node.name).unwrap();
            (nodes.amounts(id), nodes.pod_count(id))
        };
        assert_eq!(amounts(&replayed), amounts(&recorded.ledger), "{}", node.name);
    }
}

/// Nodes of three zones; pods of thirty sizes, of which the last `pending` wait.
fn drawn(nodes: usize, pods: usize, pending: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for i in 0..nodes {
        let mut node =
            node(&format!("ip-10-{}-{}.eu-west-1.compute.internal", i / 250, i % 250), 16_000, 64 * GIB, 110);
        node.labels = [(ZONE, &*format!("eu-west-1{}", ["a", "b", "c"][i % 3]))].into_iter().collect();
        cluster.nodes.push(node);
    }
    let shapes: Vec<_> = (0..30).map(|i| pod("p", shape_of(100 * (1 + i % 10), (1 + i / 10) * GIB / 4))).collect();
    for i in 0..pods {
        let alike = &shapes[i % shapes.len()];
        let name = format!("deployment-{:x}-{:05}", i * 7919 % 0xf_ffff, i);
        let key = PodKey { namespace: format!("team-{}", i % 40).into(), name: name.as_str().into() };
        let on = (i < pods - pending).then(|| cluster.nodes[i % nodes].name.clone());
        cluster.pods.push(Pod { key, uid: name.as_str().into(), node_name: on, ..alike.clone() });
    }
    cluster
}

/// Every message and name is in the table once, so that a page grows with the pods by some sixty bytes each.
#[test]
fn a_page_of_5_000_nodes_and_50_000_pods_is_small() {
    let cluster = drawn(5_000, 50_000, 2_000);
    let page = page_of(&cluster);
    assert!(page.len() <= 30_000_000, "{} bytes", page.len());
    assert_eq!(data_of(&page)["pods"]["name"].as_array().unwrap().len(), 50_000);
}

#[test]
fn texts_are_cut_and_resources_are_bounded() {
    let mut cluster = small();
    cluster.pods[1].key.name = "é".repeat(10_000).into();
    for i in 0..100 {
        let mut requests = Requests::default();
        requests.set_scalar(format!("example.com/device-{i}").into(), 1);
        let usage = Usage { requests, ..Usage::default() };
        cluster.pods.push(Pod { usage: Arc::new(usage), ..pod(&format!("p{i}"), shape_of(100, GIB)) });
    }
    let data = data_of(&page_of(&cluster));
    let longest = data["strings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().len()).max();
    assert!(longest.unwrap() <= 4096, "{longest:?}");
    assert_eq!(data["resources"].as_array().unwrap().len(), 25);
}

/// The numbers that columns hold mean the same to the script.
#[test]
fn the_script_knows_every_fate_and_step() {
    use super::data::{Fate, Step};
    let fates = [
        Fate::Running,
        Fate::Placed,
        Fate::Unschedulable,
        Fate::Preempted,
        Fate::Gated,
        Fate::Held,
        Fate::Evicted,
        Fate::Fits,
        Fate::Pending,
    ];
    let fates = fates.map(|fate| format!("{fate:?}: {}", fate as u8));
    let steps = [Step::Placed, Step::Refused, Step::Removed].map(|step| format!("{step:?}: {}", step as u8));
    for named in [fates.join(", "), steps.join(", ")] {
        assert!(document::SCRIPT.contains(&format!("{{ {} }}", named.to_lowercase())), "{named}");
    }
}

/// A colour of the style in the light and in the dark theme, as its relative luminance.
fn luminance(name: &str) -> [f64; 2] {
    let (_, after) = document::STYLE.split_once(&format!("--{name}: light-dark(")).unwrap();
    let colours: Vec<&str> = after.split(')').next().unwrap().split(", ").collect();
    let [light, dark] = colours[..] else { panic!("{name}: {colours:?}") };
    [light, dark].map(|colour| {
        let part = |at: usize| {
            let share = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    })
}

/// WCAG 2.2: 4.5 for text (1.4.3 AA), 3 for what marks a control or a state (1.4.11 AA).
#[test]
fn text_and_controls_stand_out_in_both_themes() {
    let text = [
        ("ink", &["page", "card", "accent-soft"][..]),
        ("muted", &["page", "card", "accent-soft"]),
        ("accent", &["card", "page", "accent-soft"]),
        ("on-accent", &["accent"]),
        ("good", &["good-soft"]),
        ("bad", &["bad-soft"]),
        ("wait", &["wait-soft"]),
    ];
    let marks =
        [("strong-line", &["card", "page"][..]), ("focus", &["card", "page"]), ("fill-4", &["fill-0", "fill-1"])];
    let text = text.into_iter().map(|(name, on)| (name, on, 4.5));
    for (name, on, least) in text.chain(marks.into_iter().map(|(name, on)| (name, on, 3.0))) {
        for ground in on {
            for (theme, (a, b)) in luminance(name).into_iter().zip(luminance(ground)).enumerate() {
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                assert!(contrast >= least, "{name} on {ground}, theme {theme}: {contrast:.2}, at least {least}");
            }
        }
    }
}

/// Each step of the fill is darker than the last on light ground and lighter on dark, so that it is read without its hue.
#[test]
fn the_fill_is_read_without_its_hue() {
    let steps: Vec<[f64; 2]> = (0..5).map(|step| luminance(&format!("fill-{step}"))).collect();
    for pair in steps.windows(2) {
        assert!(pair[1][0] < pair[0][0] * 0.85 && pair[1][1] > pair[0][1] * 1.3, "{pair:?}");
    }
}
