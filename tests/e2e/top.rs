//! `berth top` on the real API server: as text, and on the screen of a real terminal.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};

use berth_lab::Patch;
use serde_json::json;

use crate::cluster::{HOME, binary, own_plane, serving};
use crate::objects::{PROFILES, pod_path, profile, wait_reason};
use crate::terminal::{self, Terminal};
use crate::world::World;
use crate::{LATER, SOON};

fn once(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(binary()).args(["top", "--once"]).args(args).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A corner with a pod that is placed and one that fits nowhere.
fn busy(name: &str) -> World {
    let world = World::with(name, &json!({}), 2);
    world.pod("fits", "500m", |_| {});
    world.bound("fits");
    world.pod("huge", "64", |_| {});
    world.unschedulable("huge");
    world
}

#[test]
fn the_screen_shows_a_cluster_and_answers_keys() {
    let Some(tmux) = terminal::found() else { return };
    let world = busy("screened");
    let (binary, kubeconfig) = (binary(), world.plane.kubeconfig.clone());
    let (binary, kubeconfig) = (binary.to_str().unwrap(), kubeconfig.to_str().unwrap());
    let command = [binary, "top", "--kubeconfig", kubeconfig, "--metrics-url", &world.operator.http];
    let terminal = Terminal::run(tmux, "screened", (160, 48), &command);

    // All panes at once, and who leads.
    let panes = ["Profiles (", "Waiting pods (", "Why pods wait (", "Extenders (", "Nodes by fill ("];
    let screen = terminal.shows(&[&panes[..], &["berth-shared_", "leads", " nodes · "]].concat());
    assert!(!screen.contains("not read"), "{screen}");
    filter(&terminal, "screened");
    terminal.shows(&["▸ Profiles (1) /screened", "Serving", "2/2"]);

    // The pod that waits, and what the engine says of it.
    terminal.press(&["Tab"]);
    filter(&terminal, "screened/huge");
    terminal.shows(&["▸ Waiting pods (1) /screened/huge", "Unschedulable", "0/2 nodes are available"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["Pod screened/huge", "0/2 nodes fit", "Insufficient cpu", "Esc q back"]);
    terminal.press(&["q"]);
    terminal.shows(&["▸ Waiting pods (1) /screened/huge"]);

    // It goes, without a key.
    world.delete("huge");
    terminal.shows(&["▸ Waiting pods (0) /screened/huge"]);

    // The nodes, on a screen that has become small.
    terminal.press(&["BTab", "BTab"]);
    filter(&terminal, "screened-");
    terminal.shows(&["▸ Nodes by fill (2) /screened-", "500m/4", "12 %"]);
    terminal.resize(90, 24);
    let screen = terminal.shows(&["▸ Nodes by fill (2) /screened-", "500m/4"]);
    assert!(!screen.contains("Waiting pods"), "{screen}");
    terminal.resize(30, 8);
    terminal.shows(&["berth top needs"]);
    terminal.resize(120, 40);
    terminal.press(&["?"]);
    terminal.shows(&["filter the pane"]);
    terminal.press(&["q"]);
    terminal.shows(&["▸ Nodes by fill (2) /screened-"]);
    let coloured = terminal.coloured();
    assert!(coloured.contains("\u{1b}[7m") || coloured.contains(";7m"), "what is chosen is reversed\n{coloured}");
    terminal.press(&["q"]);
    terminal.ended(0);
}

fn filter(terminal: &Terminal, text: &str) {
    terminal.press(&["/"]);
    terminal.type_in(text);
    terminal.shows(&[&format!("/{text}▏")]);
    terminal.press(&["Enter"]);
}

#[test]
fn a_signal_puts_the_terminal_back_and_no_colour_is_obeyed() {
    let Some(tmux) = terminal::found() else { return };
    let world = busy("stopped");
    let (binary, kubeconfig) = (binary(), world.plane.kubeconfig.clone());
    let (binary, kubeconfig) = (binary.to_str().unwrap(), kubeconfig.to_str().unwrap());
    for (signal, colour) in [("TERM", "NO_COLOR=1"), ("INT", "NO_COLOR="), ("HUP", "NO_COLOR=")] {
        let command = ["env", colour, binary, "top", "--kubeconfig", kubeconfig];
        let terminal = Terminal::run(tmux.clone(), &format!("stopped-{signal}"), (160, 48), &command);
        terminal.shows(&["Waiting pods (", "! metrics not read: "]);
        terminal.press(&["Tab"]);
        filter(&terminal, "stopped/huge");
        terminal.shows(&["Waiting pods (1) /stopped/huge"]);
        terminal.press(&["Tab"]);
        terminal.shows(&["▸ Why pods wait"]);
        let coloured = terminal.coloured();
        let is_red = ["[31m", ";31m", "38;5;1m"].iter().any(|code| coloured.contains(code));
        assert_eq!(is_red, colour == "NO_COLOR=", "{coloured}");
        terminal.signal(signal);
        terminal.ended(0);
    }
}

#[test]
fn without_rights_to_the_metrics_status_and_watches_answer() {
    let world = busy("glanced");
    let plane = world.plane;
    plane.kubectl_ok(&["-n", "glanced", "create", "serviceaccount", "watcher"]).unwrap();
    let resources = "pods,nodes,schedulerprofiles.scheduling.berth.dev,leases.coordination.k8s.io";
    let role = ["create", "clusterrole", "glanced", "--verb=get,list,watch", "--resource", resources];
    plane.kubectl_ok(&role).unwrap();
    let account =
        ["create", "clusterrolebinding", "glanced", "--clusterrole=glanced", "--serviceaccount=glanced:watcher"];
    plane.kubectl_ok(&account).unwrap();
    let token = plane.token_for("glanced", "watcher").unwrap();
    let kubeconfig = plane.kubeconfig_for_token("glanced", &token).unwrap();
    let said = text(&once(&kubeconfig, &[]));
    let note = format!("note: metrics not read: may not get pods/proxy in namespace {HOME}");
    assert!(said.contains(&note), "{said}");
    assert!(said.contains("berth-shared_") && said.contains(" leads\n"), "{said}");
    assert!(said.lines().any(|line| line.contains("  glanced ") && line.contains("Serving")), "{said}");

    // Without any right there is nothing to say.
    plane.kubectl_ok(&["delete", "clusterrolebinding", "glanced"]).unwrap();
    let refused = plane.wait_for("the right to be gone", SOON, || {
        let output = once(&kubeconfig, &[]);
        Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
    });
    let refused = refused.unwrap();
    assert!(refused.contains("pods not read: 403") && refused.contains("grant verb `list` on `pods`"), "{refused}");
    plane.kubectl_ok(&["delete", "clusterrole", "glanced"]).unwrap();
}

/// An address of this machine to which the API server's proxy connects; it refuses the loopback one.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // No packet is sent: the kernel chooses the address from which one would go.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn the_leaders_metrics_come_through_the_api_servers_proxy() {
    let Some(address) = own_address() else {
        println!("left out: this machine has no address but the loopback one");
        return;
    };
    let plane = own_plane(Vec::new());
    let free = std::net::TcpListener::bind((&*address, 0)).unwrap().local_addr().unwrap();
    let operator = serving(&plane, "berth-0", &[&format!("--http-address={free}")]);
    plane.api.post(PROFILES, &profile("batch", &json!({}))).unwrap();
    wait_reason(&plane, "batch", "Ready", "Serving");
    let container =
        json!({"name": "berth", "image": "berth", "ports": [{"name": "http", "containerPort": free.port()}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "berth-0", "namespace": HOME},
        "spec": {"nodeName": "elsewhere", "automountServiceAccountToken": false, "containers": [container]}});
    plane.api.post(&pod_path(HOME, ""), &pod).unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
    plane.api.patch(&format!("{}/status", pod_path(HOME, "berth-0")), Patch::Merge, &status).unwrap();
    let scraped = plane.wait_for("the metrics", LATER, || {
        let said = text(&once(&plane.kubeconfig, &[]));
        Ok((!said.contains("metrics not read")).then_some(said))
    });
    let said = scraped.unwrap();
    assert!(said.contains("berth-0_") && said.contains(" bound/s\n"), "{said}");
    drop(operator);
}
