use super::super::testing::{apply, facts, node, object, pod, refused, synced};
use super::*;
use berth_cluster::watch::{BadObject, ObjectKey};
use serde_json::json;

fn milli_cpu_on(facts: &Facts, node: &str) -> i64 {
    facts.pods.on(node).map_or(0, |taken| taken.requests.milli_cpu)
}

#[test]
fn what_pods_take_follows_them() {
    let mut facts = Facts::default();
    apply(&mut facts, pod("a", "1", ""), "Pod");
    synced(&mut facts);
    assert_eq!((facts.pods.waiting().count(), facts.pods.placed()), (1, 0));
    apply(&mut facts, pod("a", "1", "n"), "Pod");
    apply(&mut facts, pod("b", "500m", "n"), "Pod");
    assert_eq!((facts.pods.waiting().count(), milli_cpu_on(&facts, "n")), (0, 1_500));
    // The same again, resized.
    apply(&mut facts, pod("b", "250m", "n"), "Pod");
    assert_eq!((facts.pods.on("n").unwrap().pods, milli_cpu_on(&facts, "n")), (2, 1_250));
    // One that has ended takes nothing, though it is there.
    let mut ended = pod("b", "250m", "n");
    ended["status"] = json!({"phase": "Succeeded"});
    apply(&mut facts, ended, "Pod");
    assert_eq!(milli_cpu_on(&facts, "n"), 1_000);
    facts.take::<Object>(true, WatchEvent::Delete(ObjectKey { uid: "a".to_owned(), ..ObjectKey::default() }));
    assert_eq!((facts.pods.on("n"), facts.pods.placed()), (None, 0));
}

#[test]
fn a_whole_read_forgets_what_is_gone_and_keeps_what_it_cannot_read() {
    let mut facts = facts();
    facts.take::<Object>(true, WatchEvent::Begin);
    facts.take(true, WatchEvent::Item(object(pod("train", "8", ""), "Pod")));
    let bad = BadObject { key: ObjectKey { uid: "web".to_owned(), ..ObjectKey::default() }, ..BadObject::default() };
    facts.take::<Object>(true, WatchEvent::Bad(bad));
    facts.take::<Object>(true, WatchEvent::Synced);
    let waiting: Vec<String> = facts.pods.waiting().map(|pod| pod.key.to_string()).collect();
    assert_eq!((waiting, milli_cpu_on(&facts, "small")), (vec!["ci/train".to_owned()], 3_000));
    facts.take::<Object>(false, WatchEvent::Begin);
    facts.take(false, WatchEvent::Item(object(node("small", "4"), "Node")));
    facts.take::<Object>(false, WatchEvent::Synced);
    assert_eq!(facts.nodes.len(), 1);
}

#[test]
fn pods_that_get_a_node_are_counted_by_scheduler_and_names_are_bounded() {
    let mut facts = Facts::default();
    synced(&mut facts);
    facts.count(Duration::from_secs(1));
    let Object::Pod(first) = object(pod("p", "1", ""), "Pod") else { panic!("no pod") };
    for i in 0..NAMES + 5 {
        let mut pod = Pod { uid: i.to_string().into(), scheduler_name: format!("s{i}").into(), ..(*first).clone() };
        facts.take(true, WatchEvent::Apply(pod.clone()));
        pod.node_name = Some("n".into());
        facts.take(true, WatchEvent::Apply(pod));
    }
    facts.count(Duration::from_secs(3));
    assert_eq!(facts.of_watches.rate(Counter::Placed, "s0", ""), Some(0.5));
    assert_eq!(facts.pods.placed_so_far.len(), NAMES);
}

#[test]
fn long_messages_are_cut() {
    let mut facts = Facts::default();
    apply(&mut facts, refused(pod("a", "1", ""), &"é".repeat(9_000)), "Pod");
    assert_eq!(facts.pods.waiting().next().unwrap().message.chars().count(), MESSAGE);
}

#[test]
fn another_leader_counts_anew() {
    let mut facts = Facts::default();
    let led_by = |facts: &mut Facts, holder: &str| {
        facts.led_by(Leader::Leads { holder: holder.to_owned(), seconds: 0 });
    };
    led_by(&mut facts, "a");
    facts.scraped(Duration::from_secs(1), Scrape::default());
    facts.scraped(Duration::from_secs(2), Scrape::default());
    assert!(facts.of_scrapes.is_open());
    led_by(&mut facts, "a");
    assert!(facts.of_scrapes.is_open());
    led_by(&mut facts, "b");
    assert!(!facts.of_scrapes.is_open());
}

#[test]
fn a_profile_serves_what_its_status_says_and_asks_for_what_its_spec_says() {
    let names = |object: serde_json::Value| Profile::read(object).names;
    let status = json!({"schedulerNames": [{"name": "x", "state": "Conflict"}, {"name": "y", "state": "Serving"}]});
    let object = json!({"metadata": {"name": "a"}, "spec": {"schedulerNames": ["x", "y"]}, "status": status});
    assert_eq!(names(object), [Str::from("y")]);
    assert_eq!(names(json!({"metadata": {"name": "a"}, "spec": {}})), [Str::from("a")]);
    assert_eq!(names(json!({"metadata": {"name": "a"}, "spec": {"schedulerNames": ["z"]}})), [Str::from("z")]);
}
