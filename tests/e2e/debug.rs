//! The pages that look into a running operator, and what its audit finds on a real API server while others change it: nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use berth_lab::free_address;
use serde_json::Value;

use crate::cluster::{send_signal, shared, start};
use crate::{LATER, SOON};

/// The answer to a request, head and body.
fn send(address: SocketAddr, request: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.to_owned(), body.to_owned()))
}

fn get(address: SocketAddr, path: &str, host: &str) -> std::io::Result<(String, String)> {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

/// What changes with the level of the log.
fn put_level(address: SocketAddr, level: &str) -> String {
    let length = level.len();
    let put = format!("PUT /debug/flags/v HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{level}");
    send(address, &put).unwrap().1
}

/// All that the shared operator shows of itself to people who look inside: its pages about `profile`, and its whole log once `act` has
/// happened at level debug and SIGUSR2 was sent.
pub(crate) fn all_that_is_shown(profile: &str, act: impl FnOnce()) -> String {
    let shared = shared();
    put_level(shared.debug, "debug");
    act();
    let of_profile = ["/debug/queue", "/debug/shadow"].map(|page| format!("{page}?profile={profile}"));
    let pages = ["/statusz", "/flagz", "/configz", "/debug/queue", "/debug/audit"].map(str::to_owned);
    let shown: Vec<String> = pages
        .iter()
        .chain(&of_profile)
        .map(|path| get(shared.debug, path, "localhost").unwrap())
        .map(|(head, body)| head + &body)
        .collect();
    let log = || std::fs::read_to_string(shared.operator.process.log()).unwrap();
    let ended = |text: &str| text.matches("dump of the state: end").count();
    let before = ended(&log());
    send_signal(&shared.operator, "USR2");
    shared.plane.wait_for("the dump", LATER, || Ok((ended(&log()) > before).then_some(()))).unwrap();
    put_level(shared.debug, "info");
    shown.concat() + &log()
}

/// A replica that stands by has everything read, and is audited as the leader is.
#[test]
fn an_audit_of_a_busy_cluster_finds_nothing_and_the_pages_are_for_this_machine() {
    let plane = &shared().plane;
    let address = free_address().unwrap();
    let debug = format!("--debug-address={address}");
    let _operator = start(plane, "berth-audited", &["--audit-interval=10s", &debug]);
    plane.wait_for("the pages", SOON, || Ok(get(address, "/", "localhost").ok())).unwrap();

    let (head, _) = get(address, "/debug/queue", "berth.example.com").unwrap();
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    for (path, said) in [
        ("/statusz", "berth statusz"),
        ("/flagz", "audit-interval=10s"),
        ("/configz", "profiles"),
        ("/debug/queue", "profiles"),
        ("/debug/flags/v", "info"),
    ] {
        let (head, body) = get(address, path, "localhost:8082").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && body.contains(said), "{path}: {head} {body}");
    }
    assert!(put_level(address, "debug").starts_with("debug (was info)"));

    let audited = plane.wait_for("an audit of every kind", LATER, || {
        let page: Value = serde_json::from_str(&get(address, "/debug/audit", "[::1]")?.1)?;
        let kinds = page["last"]["kinds"].as_array().cloned().unwrap_or_default();
        assert!(kinds.iter().all(|kind| kind["verdict"] != "drifted"), "{page:#}");
        let all = kinds.len() > 10 && kinds.iter().all(|kind| kind["verdict"] == "agrees");
        Ok(all.then_some(kinds))
    });
    let audited = audited.unwrap();
    let nodes = audited.iter().find(|kind| kind["resource"] == "nodes").unwrap();
    assert!(nodes["objects"].as_u64() > Some(0), "{nodes}");
}

/// The first lines of a page, and the names in the others. Upstream draws the mark between a name and its value.
fn form(page: &str) -> (Vec<&str>, Vec<&str>) {
    let (warned, rest) = page.split_at(page.find("purposes only.\n").unwrap());
    let names = ["Started", "Up", "Go version", "Binary version", "Emulation version", "Paths"];
    let of_line = |line: &&str| names.into_iter().find(|name| line.starts_with(name));
    (warned.lines().collect(), rest.lines().filter_map(|line| of_line(&line)).collect())
}

/// Of its own, Berth has no language to tell of, and emulates no older version.
#[test]
fn statusz_and_flagz_are_written_as_an_api_server_writes_them() {
    // Older API servers show them by feature gate alone.
    if std::env::var_os("BERTH_KUBERNETES").is_some() {
        return;
    }
    let theirs = |path: &str| {
        let mut text = String::new();
        shared().plane.api.stream(path, "text/plain").unwrap().read_to_string(&mut text).unwrap();
        // The component's name before that of the page.
        let at = text.find(&path[1..]).unwrap();
        text.replace_range(1..at, "berth ");
        text
    };
    let ours = |path: &str| get(shared().debug, path, "localhost").unwrap().1;
    let (status, other_status) = (ours("/statusz"), theirs("/statusz"));
    let ((head, names), (other_head, mut other_names)) = (form(&status), form(&other_status));
    other_names.retain(|name| !["Go version", "Emulation version"].contains(name));
    assert_eq!((head, names), (other_head, other_names), "{status}\n{other_status}");

    let started = |page: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix("Started")).unwrap();
        let words: Vec<String> =
            line.trim_start_matches([':', '=', ' ']).split_whitespace().map(str::to_owned).collect();
        words
    };
    let (words, other_words) = (started(&status), started(&other_status));
    assert_eq!(words.len(), other_words.len(), "{words:?} {other_words:?}");
    let fixed = |words: &[String]| [words[4].clone(), words[5].clone()];
    assert_eq!(fixed(&words), fixed(&other_words), "the time zone and the year");

    let (flags, other_flags) = (ours("/flagz"), theirs("/flagz"));
    assert_eq!(form(&flags).0, form(&other_flags).0);
    // Names without dashes before them, sorted.
    for page in [&flags, &other_flags] {
        let names: Vec<&str> = page.lines().skip(3).filter_map(|line| line.split([':', '=', ' ']).next()).collect();
        assert!(names.len() > 10 && names.is_sorted() && names.iter().all(|name| !name.starts_with('-')), "{page}");
    }
}
