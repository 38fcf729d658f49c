//! The pages that look into a running operator, and what its audit finds on a real API server while others change it: nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use crate::cluster::{shared, start};
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

/// A replica that stands by has everything read, and is audited as the leader is.
#[test]
fn an_audit_of_a_busy_cluster_finds_nothing_and_the_pages_are_for_this_machine() {
    let plane = &shared().plane;
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
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
    let put = "PUT /debug/flags/v HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\ndebug";
    assert!(send(address, put).unwrap().1.starts_with("debug (was info)"));

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
