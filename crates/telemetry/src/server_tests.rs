use crate::connections::Limits;
use crate::server::serve_within;
use crate::{Access, Addresses, Authorizer, Check, Endpoints, Exposition, Health, Metric, raise_open_files, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

async fn send(address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: berth\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn ask_with(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut answer = String::new();
    send(address, path, headers).await.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn ask(address: SocketAddr, path: &str) -> String {
    ask_with(address, path, "").await
}

fn endpoints() -> Endpoints {
    let metrics = Exposition::new(|s| s.gauge(Metric::Leader, &[], 0.0));
    Endpoints { health: Health::default(), metrics, authorizer: None }
}

fn any() -> Addresses {
    let any = "127.0.0.1:0".parse().unwrap();
    Addresses { pages: any, probes: Some(any) }
}

/// Serves until the test ends.
fn start(endpoints: Endpoints) -> (SocketAddr, SocketAddr) {
    start_within(Limits::default(), endpoints)
}

fn start_within(limits: Limits, endpoints: Endpoints) -> (SocketAddr, SocketAddr) {
    let (bound, server) = serve_within(limits, any(), endpoints).unwrap();
    tokio::spawn(server);
    (bound.pages, bound.probes.unwrap())
}

#[tokio::test]
async fn endpoints_answer_and_readyz_says_why_not() {
    let health = Health::waiting_for(&[Check::Leadership, Check::Caches]);
    let (pages, probes) = start(Endpoints { health: health.clone(), ..endpoints() });
    health.fail(Check::Leadership, "lease kube-system/berth is held by other-0");
    for address in [pages, probes] {
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("leadership: lease kube-system/berth is held by other-0"), "{answer}");
        assert!(answer.contains("caches: not there yet"), "{answer}");
        assert!(ask(address, "/").await.starts_with("HTTP/1.1 404"));
    }
    health.pass(Check::Leadership);
    health.set_role("standby: other-0 leads");
    let answer = ask(probes, "/readyz?verbose").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("[-]caches failed: not there yet\n"), "{answer}");
    health.pass(Check::Caches);
    let answer = ask(probes, "/readyz?verbose=1").await;
    let all =
        "[+]leadership ok\n[+]caches ok\n[+]profiles ok\n[+]process ok\nstandby: other-0 leads\nreadyz check passed\n";
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(all), "{answer}");
    assert!(ask(probes, "/readyz").await.starts_with("HTTP/1.1 200"));
    health.set_watchdog(|| Some("the worker of profile gpu has been in one step for 301 s".to_owned()));
    for address in [pages, probes] {
        let answer = ask(address, "/livez").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("hangs: the worker of profile gpu"), "{answer}");
    }
    let answer = ask(pages, "/metrics").await;
    assert!(answer.contains("text/plain; version=0.0.4") && answer.contains("berth_leader 0"), "{answer}");
    assert!(ask(probes, "/metrics").await.starts_with("HTTP/1.1 404"), "the probes' listener has probes only");
}

#[tokio::test]
async fn metrics_come_in_the_form_that_is_asked_for() {
    let (pages, _) = start(endpoints());
    // As Prometheus asks, with and without OpenMetrics, and as a browser does.
    for (accept, open) in [
        ("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", true),
        ("application/openmetrics-text; version=1.0.0", true),
        ("text/plain;version=0.0.4,*/*;q=0.1", false),
        ("text/html,application/xhtml+xml,*/*;q=0.8", false),
        ("application/openmetrics-text;q=0.1,text/plain", false),
        ("application/openmetrics-text;q=0", false),
    ] {
        let answer = ask_with(pages, "/metrics", &format!("Accept: {accept}\r\n")).await;
        assert_eq!(answer.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), open, "{answer}");
        assert_eq!(answer.ends_with("# EOF\n"), open, "{accept}: {answer}");
    }
}

#[tokio::test]
async fn a_taken_address_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    for (flag, addresses) in [
        ("--http-address", Addresses { pages: address, ..any() }),
        ("--probe-address", Addresses { probes: Some(address), ..any() }),
    ] {
        let error = serve(addresses, endpoints()).err().unwrap().to_string();
        assert!(error.contains(&address.to_string()) && error.contains(flag), "{error}");
    }
}

/// As many as a process with the usual limit of open files could hold, twice: none is left for the API server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_do_not_keep_probes_from_their_answer() {
    raise_open_files();
    // So that it is their number that closes them, and not their age.
    let limits = Limits { header: Duration::from_mins(10), exchange: Duration::from_mins(10), ..Limits::default() };
    let (pages, probes) = start_within(limits, endpoints());
    let mut idle = Vec::new();
    for number in 0..2_000 {
        idle.push(TcpStream::connect(if number % 2 == 0 { pages } else { probes }).await.unwrap());
    }
    for address in [pages, probes] {
        let began = Instant::now();
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    let limit = 2 * Limits::default().connections;
    let mut closed = 0;
    for stream in &mut idle {
        let end = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0; 8])).await;
        closed += usize::from(end.is_ok());
    }
    assert!(closed >= 2_000 - limit, "{closed} of 2000 are closed");
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_answers_that_nobody_reads_are_not_kept_three_hundred_times() {
    let renderings = Arc::new(AtomicUsize::new(0));
    let counted = renderings.clone();
    let long = "a".repeat(1 << 20);
    let metrics = Exposition::new(move |samples| {
        counted.fetch_add(1, Ordering::SeqCst);
        for holder in 0..4 {
            samples.gauge(Metric::Leader, &[("holder", &format!("{long}{holder}"))], 1.0);
        }
    });
    let (pages, _) = start(Endpoints { metrics, ..endpoints() });
    let (before, began) = (resident(), Instant::now());
    let mut unread = Vec::new();
    for _ in 0..300 {
        unread.push(send(pages, "/metrics", "").await);
    }
    // The last one is answered, and reads.
    let mut answer = Vec::new();
    send(pages, "/metrics", "").await.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > 4 << 20, "{}", answer.len());
    let seconds = began.elapsed().as_secs() as usize;
    assert!(renderings.load(Ordering::SeqCst) <= seconds + 2, "{renderings:?} in {seconds} s");
    // 300 texts of 4 MiB are 1.2 GiB. Rendering takes some copies for a moment.
    let grown = resident().saturating_sub(before);
    assert!(grown < 300 << 20, "{} MiB more", grown >> 20);
}

#[tokio::test]
async fn metrics_are_for_those_who_may_read_them() {
    let authorizer = Authorizer::new(
        |token| token == "good",
        |token| async move {
            match token.as_deref() {
                Some("good") => Access::Granted,
                Some("known") => Access::Forbidden("user jane may not get /metrics".to_owned()),
                Some("unlucky") => Access::Unknown("the API server does not answer".to_owned()),
                _ => Access::Unauthenticated,
            }
        },
    );
    let (pages, probes) = start(Endpoints { authorizer: Some(authorizer), ..endpoints() });
    for (headers, code, text) in [
        ("", 401, "www-authenticate: Bearer"),
        ("Authorization: Basic good\r\n", 401, ""),
        ("Authorization: Bearer \r\n", 401, ""),
        ("Authorization: Bearer bad\r\n", 401, ""),
        ("Authorization: Bearer known\r\n", 403, "jane may not"),
        ("Authorization: Bearer unlucky\r\n", 503, "does not answer"),
        ("Authorization: bearer good\r\n", 200, "berth_leader"),
    ] {
        let answer = ask_with(pages, "/metrics", headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")) && answer.contains(text), "{headers}: {answer}");
        assert_eq!(answer.contains("berth_leader"), code == 200, "{headers}: {answer}");
    }
    for address in [pages, probes] {
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"), "a kubelet has no token");
    }
}

/// As a flood of made-up tokens would meet it: each request waits for its review, and beyond the limit one makes room for the next.
#[tokio::test]
async fn who_was_let_in_before_is_answered_whoever_else_asks_meanwhile() {
    let (reviews, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (begun, held) = (reviews.clone(), go.clone());
    let authorizer = Authorizer::new(
        |token| token == "good",
        move |token| {
            begun.fetch_add(1, Ordering::SeqCst);
            let held = held.clone();
            async move {
                let _go = held.acquire().await;
                if token.as_deref() == Some("good") { Access::Granted } else { Access::Unauthenticated }
            }
        },
    );
    let limits = Limits { connections: 3, header: Duration::from_mins(10), exchange: Duration::from_mins(10) };
    let (pages, _) = start_within(limits, Endpoints { authorizer: Some(authorizer), ..endpoints() });
    let mut asking = Vec::new();
    for number in 0..12 {
        let token = if number == 0 { "good".to_owned() } else { format!("made-up-{number}") };
        asking.push(send(pages, "/metrics", &format!("Authorization: Bearer {token}\r\n")).await);
        let come = async {
            while reviews.load(Ordering::SeqCst) <= number {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), come).await.expect("its review has not begun");
    }
    go.add_permits(asking.len());
    let mut answer = String::new();
    let _reset = asking[0].read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("berth_leader"), "{answer:?}");
}
