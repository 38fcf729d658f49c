//! What is broken, one after the other. Each returns once all is whole again.

use std::thread;
use std::time::{Duration, Instant};

use berth_lab::{Api, Patch, for_each};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::HOME;
use crate::kubelets::Kubelets;
use crate::load::LOADED;
use crate::objects::{PROFILES, pod, pod_path, profile};
use crate::stage::{End, Setting, Stage, node};
use crate::stopped::Late;
use crate::{Case, authority, noise, quota};

/// The operator's roles, as the chart names them: in all namespaces, for the Lease, and for what outlives a restart.
const ROLES: [&str; 3] = [
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/berth",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/berth-lease",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/berth-system/roles/berth-state",
];

/// Verbs that a short run withdraws, each with a resource: a bind, a refusal and the Lease.
const FEW_RIGHTS: [(&str, &str); 3] = [("pods/binding", "create"), ("pods/status", "patch"), ("leases", "update")];

pub(super) const CASES: &[Case] = &[
    Case {
        id: "api-server",
        what: "the API server is killed for 20 s",
        full: 5,
        short: 1,
        fault: |stage| {
            stage.plane.apiserver().kill().unwrap();
            // Also the shorter time costs the leader its Lease.
            let away = stage.lasting(20, 12);
            stage.pass(away);
            stage.plane.restart_apiserver().unwrap();
        },
    },
    Case {
        id: "etcd",
        what: "etcd stands still for 15 s",
        full: 1,
        short: 1,
        fault: |stage| {
            stage.plane.etcd().signal(Signal::STOP).unwrap();
            // Also in the shorter time requests are given up.
            let still = stage.lasting(15, 5);
            stage.pass(still);
            stage.plane.etcd().signal(Signal::CONT).unwrap();
        },
    },
    Case {
        id: "killed",
        what: "the leader is killed, and its container comes back (limit 15.5 s)",
        full: 20,
        short: 1,
        fault: |stage| stage.end_leader(End::Killed),
    },
    Case {
        id: "gone",
        what: "the leader is killed, and its pod does not come back (limit 15.5 s)",
        full: 5,
        short: 0,
        fault: |stage| stage.end_leader(End::Lost),
    },
    Case {
        id: "stopped",
        what: "the leader stands still for 20 s, with many pods yet to be bound",
        full: 10,
        short: 0,
        fault: stand_still,
    },
    Case {
        id: "watches",
        what: "all watches are cut every 1 to 5 s",
        full: 1,
        short: 1,
        fault: |stage| {
            let rounds = if stage.scale.is_full { 12 } else { 2 };
            for round in 0..rounds {
                stage.proxy.cut_watches();
                stage.pass(Duration::from_millis(1_000 + round * 1_700 % 4_000));
            }
        },
    },
    Case {
        id: "429",
        what: "half of all writes are answered 429",
        full: 1,
        short: 1,
        fault: |stage| {
            stage.proxy.throttle(50);
            stage.pass(stage.scale.span);
            stage.proxy.throttle(0);
        },
    },
    Case {
        id: "lost",
        what: "the answers to 5 % of all binds are lost",
        full: 1,
        short: 1,
        fault: |stage| {
            stage.proxy.lose_binds(5);
            stage.pass(stage.scale.span);
            stage.proxy.lose_binds(0);
        },
    },
    Case {
        id: "nodes",
        what: "ten nodes a second are deleted and made anew",
        full: 1,
        short: 1,
        fault: |stage| {
            let (nodes, last) = (stage.scale.nodes, stage.scale.span.as_millis() as usize / 100);
            each(stage, last, Duration::from_millis(100), |api, i| {
                let i = i * 7 % nodes;
                let path = format!("/api/v1/nodes/n{i}");
                drop(api.delete(&path, None));
                // Its pods stay: one that did not come back would be missed in the end.
                let made = |_| api.request("POST", "/api/v1/nodes", Some(&node(i).object()));
                let is_there = (0..50).map(made).any(|answer| {
                    let is_there = answer.is_ok_and(|answer| answer.is_success() || answer.status == 409);
                    if !is_there {
                        thread::sleep(Duration::from_millis(100));
                    }
                    is_there
                });
                assert!(is_there, "node n{i} cannot be made anew");
                drop(api.patch(&path, Patch::Merge, &json!({"spec": {"taints": []}})));
            });
        },
    },
    Case {
        id: "profiles",
        what: "five profiles a second are made, changed, broken or deleted",
        full: 1,
        short: 1,
        fault: |stage| {
            let last = stage.scale.span.as_millis() as usize / 200;
            each(stage, last, Duration::from_millis(200), |api, i| {
                let name = format!("changing-{}", i / 4);
                let path = format!("{PROFILES}/{name}");
                match i % 4 {
                    0 => drop(api.post(PROFILES, &profile(&name, &json!({"preset": "Spread"})))),
                    1 => drop(api.patch(&path, Patch::Merge, &json!({"spec": {"preset": "BinPack"}}))),
                    2 => drop(api.patch(
                        &path,
                        Patch::Merge,
                        &json!({"spec": {"schedulerNames": ["default-scheduler"]}}),
                    )),
                    _ => drop(api.delete(&path, None)),
                }
            });
        },
    },
    Case {
        id: "foreign",
        what: "kube-scheduler binds onto the same nodes",
        full: 1,
        short: 1,
        fault: beside_kube_scheduler,
    },
    Case {
        id: "rights",
        what: "verbs are withdrawn one by one and given back",
        full: 1,
        short: 1,
        fault: withdraw_rights,
    },
    Case {
        id: "token",
        what: "the operators' tokens end, and later others lie in their place",
        full: 1,
        short: 0,
        fault: |stage| {
            let path = format!("/api/v1/namespaces/{HOME}/serviceaccounts/berth");
            let mut account = stage.plane.api.get(&path).unwrap();
            stage.plane.api.delete(&path, None).unwrap();
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                account["metadata"].as_object_mut().unwrap().remove(field);
            }
            stage.plane.api.post(path.trim_end_matches("/berth"), &account).unwrap();
            stage.pass(Duration::from_secs(5));
            stage.renew_tokens();
            // The client reads the file once a minute.
            stage.pass(Duration::from_mins(1));
        },
    },
    Case {
        id: "authority",
        what: "the API server's authority is replaced, and 12 s later the file that operators trust",
        full: 1,
        short: 0,
        fault: authority::replace,
    },
    Case {
        id: "clock",
        what: "the operators' wall clock is stepped by +5, -10 and +5 minutes",
        full: 1,
        short: 0,
        fault: |stage| {
            stage.set_clock("+0");
            stage.restart_as(Setting::OwnClock);
            for offset in ["+300", "-300", "+0"] {
                stage.set_clock(offset);
                stage.pass(Duration::from_secs(20));
            }
        },
    },
    Case {
        id: "quota",
        what: "etcd's quota is reached for 20 s, then room is made and the alarm disarmed",
        full: 1,
        short: 0,
        fault: quota::reach,
    },
    Case {
        id: "noise",
        what: "another account floods the API server with lists",
        full: 1,
        short: 1,
        fault: noise::flood,
    },
];

/// Calls `step` so many times, one each `pace`, while the stage goes on.
fn each(stage: &mut Stage, count: usize, pace: Duration, step: impl Fn(&Api, usize) + Sync) {
    let (api, began) = (stage.plane.api.clone(), Instant::now());
    thread::scope(|scope| {
        let steps = scope.spawn(|| {
            for_each(count, 4, |i| {
                thread::sleep((began + pace * i as u32).saturating_duration_since(Instant::now()));
                step(&api, i);
                Ok(())
            })
        });
        while !steps.is_finished() {
            stage.pass(Duration::from_millis(100));
        }
    });
}

/// How often the leader is stopped until it has something under way: a busy machine may see the backlog's first binds late.
const STOPS: usize = 3;

/// It has much to send when it is stopped, and finds when it goes on that another one leads.
fn stand_still(stage: &mut Stage) {
    for _ in 0..STOPS {
        stage.begin_backlog(1_500);
        if let Some(Late { writes, most }) = stage.stop_leader(Duration::from_secs(20)) {
            println!("faults: stopped: {writes} writes once another led (limit {most})");
            stage.remark(format!("{writes} writes by it once another led"));
            return;
        }
        assert!(stage.become_ready(), "not ready: {}", stage.logs());
    }
    panic!("it had nothing under way whenever it was stopped, {STOPS} times");
}

pub(super) fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("sh").args(["-c", "kill -s \"$1\" \"$0\"", &pid.to_string(), name]).status();
    assert!(sent.unwrap().success());
}

/// Two seconds for each verb.
fn withdraw_rights(stage: &mut Stage) {
    let mut withdrawn = 0;
    for path in ROLES {
        let role = stage.plane.api.get(path).unwrap();
        for (rule, verb) in verbs_of(&role) {
            if stage.scale.is_full || is_one_of_few(&role["rules"][rule], verb) {
                set_rules(stage, path, &without(&role, rule, verb));
                stage.pass(Duration::from_secs(2));
                withdrawn += 1;
            }
        }
        set_rules(stage, path, &role);
    }
    assert!(withdrawn >= FEW_RIGHTS.len(), "the roles do not have all of {FEW_RIGHTS:?}");
    stage.remark(format!("{withdrawn} of them"));
}

/// Whether the verb at this place of the rule is one of [`FEW_RIGHTS`].
fn is_one_of_few(rule: &Value, verb: usize) -> bool {
    let resources = rule["resources"].as_array().unwrap();
    let is_it = |(resource, wanted): &(&str, &str)| {
        resources.iter().any(|one| one == resource) && rule["verbs"][verb] == *wanted
    };
    FEW_RIGHTS.iter().any(is_it)
}

/// Every verb of the role: its rule, and its place there.
fn verbs_of(role: &Value) -> Vec<(usize, usize)> {
    let rules = role["rules"].as_array().unwrap().iter().enumerate();
    rules.flat_map(|(rule, one)| (0..one["verbs"].as_array().unwrap().len()).map(move |verb| (rule, verb))).collect()
}

/// The role without one verb of one rule; a rule without verbs is none.
fn without(role: &Value, rule: usize, verb: usize) -> Value {
    let mut less = role.clone();
    let rules = less["rules"].as_array_mut().unwrap();
    let verbs = rules[rule]["verbs"].as_array_mut().unwrap();
    verbs.remove(verb);
    if verbs.is_empty() {
        rules.remove(rule);
    }
    less
}

fn set_rules(stage: &Stage, path: &str, role: &Value) {
    stage.plane.api.patch(path, Patch::Merge, &json!({"rules": role["rules"]})).unwrap();
}

/// Its pods come at half the rate of ours, in the same namespace.
fn beside_kube_scheduler(stage: &mut Stage) {
    const THEIRS: &str = "theirs";
    let fit = json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}});
    let config = json!({
        "profiles": [{"schedulerName": THEIRS, "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}]}],
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    let kubelets = Kubelets::start(&stage.plane, LOADED);
    let upstream = stage.plane.start_kube_scheduler(&stage.plane.kubeconfig, config).unwrap();
    let pace = stage.scale.pace * 2 / stage.scale.makers as u32;
    let count = (stage.scale.span.as_micros() / pace.as_micros()) as usize;
    each(stage, count, pace, |api, i| {
        drop(api.post(&pod_path(LOADED, ""), &pod(LOADED, &format!("theirs-{i}"), THEIRS, "300m")));
    });
    wait_until_placed(stage, THEIRS);
    drop(upstream);
    // A busy API server shows its last binds late, and until then we bind beside them.
    stage.kubelets = Some(kubelets);
}

/// Waits until this scheduler has placed its pods, for ten seconds at most: those that it has not placed are not ours to place.
fn wait_until_placed(stage: &mut Stage, scheduler: &str) {
    let waiting = format!("spec.schedulerName%3D{scheduler}%2Cspec.nodeName%3D");
    let path = format!("{}?limit=1&fieldSelector={waiting}", pod_path(LOADED, ""));
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        let left = stage.plane.api.get(&path).unwrap();
        if left["items"].as_array().is_none_or(Vec::is_empty) {
            return;
        }
        stage.pass(Duration::from_millis(500));
    }
}
