use super::*;
use crate::scripted::until;
use crate::transport::Transport;
use http::Method;
use kube::config::AuthInfo;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Far more than any of these requests takes.
const LIMIT: Duration = Duration::from_secs(60);

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}";

/// An answer that ends so is not followed by the end of the connection before the test says so.
const HELD: &str = "}\n";
const OK_HELD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n";

/// A server on bare sockets, which shows what is sent on which connection.
struct Server {
    url: String,
    /// Closes the connections on which everything was answered.
    close: Arc<Notify>,
    accepted: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    /// The requests as they came.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers one request after the other on a connection with these texts, then closes it.
    async fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let close = Arc::new(Notify::new());
        let server = Self { url, close, accepted: Arc::default(), closed: Arc::default(), heads: Arc::default() };
        let (accepted, closed, heads) = (server.accepted.clone(), server.closed.clone(), server.heads.clone());
        let close = server.close.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                let (closed, heads, close) = (closed.clone(), heads.clone(), close.clone());
                tokio::spawn(async move {
                    for answer in answers {
                        let Some(head) = head_of(&mut stream).await else { break };
                        lock(&heads).push(head);
                        stream.write_all(answer.as_bytes()).await.unwrap();
                        if answer.ends_with(HELD) {
                            close.notified().await;
                        }
                    }
                    drop(stream);
                    closed.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        server
    }

    fn connections(&self) -> Arc<Connections> {
        connections(Config::new(self.url.parse().unwrap()))
    }

    fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    fn came(&self) -> usize {
        lock(&self.heads).len()
    }
}

/// It speaks plain HTTP: whatever authorities the machine has, none are read.
fn connections(mut config: Config) -> Arc<Connections> {
    config.root_cert = Some(Vec::new());
    Connections::start(&config, Arc::default()).unwrap()
}

/// Reads a request, of which the head is given; `None` where the client has closed.
async fn head_of(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let end = read.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if read.len() >= end + 4 + length.map_or(0, |text| text.parse().unwrap()) {
                return Some(head);
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn bind() -> Call {
    Call::post("/api/v1/namespaces/ns/pods/p/binding?timeout=4000ms".to_owned(), b"{\"a\":1}".to_vec())
}

#[tokio::test]
async fn requests_in_turn_share_a_connection_and_requests_at_once_have_several() {
    let server = Server::start(&[OK; 10]).await;
    let connections = server.connections();
    for _ in 0..3 {
        let answer = connections.send(&bind(), LIMIT).await.unwrap();
        assert_eq!((answer.code, &answer.body[..], answer.is_json), (200, &b"{}"[..], true));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(3)));
    }
    assert_eq!((server.accepted(), server.came()), (1, 3));
    let (one, two, three) = (bind(), bind(), bind());
    let all =
        tokio::join!(connections.send(&one, LIMIT), connections.send(&two, LIMIT), connections.send(&three, LIMIT));
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
    // The third takes what the first gives back, if that comes before the second has made its own.
    assert!((2..=3).contains(&server.accepted()) && server.came() == 6, "{} {}", server.accepted(), server.came());
    let posts: u64 = connections.requests.results().iter().map(|(_, _, count)| count).sum();
    assert_eq!((posts, connections.requests.results()[0].1.as_str()), (6, "200"));
}

/// A handshake takes a server as long as several requests: where it falls behind for a moment, one for each request would hold up all.
#[tokio::test]
async fn while_a_connection_is_being_made_requests_take_what_is_given_back() {
    let server = Server::start(&[OK; 100]).await;
    let connections = server.connections();
    connections.send(&bind(), LIMIT).await.unwrap();
    let slow = connections.connecting.lock().await;
    let calls: Vec<Call> = (0..20).map(|_| bind()).collect();
    let all = futures::future::join_all(calls.iter().map(|call| connections.send(call, LIMIT))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!((server.came(), server.accepted()), (21, 1));
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_made_in_time_keeps_no_other_request_waiting() {
    let server = Server::start(&[OK_HELD, OK]).await;
    let connections = server.connections();
    let _slow = connections.connecting.lock().await;
    let began = Instant::now();
    connections.send(&bind(), LIMIT).await.unwrap();
    assert_eq!((began.elapsed() >= TURN, server.accepted()), (true, 1));
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_replaced_and_the_request_is_sent_once() {
    let server = Server::start(&[OK]).await;
    let connections = server.connections();
    for made in 1..=3 {
        connections.send(&bind(), LIMIT).await.unwrap();
        until("the server has closed", || server.closed() == made).await;
        assert_eq!((server.accepted(), server.came()), (made, made));
    }
}

/// In the moment between the look at an idle connection and the request on it.
#[tokio::test]
async fn a_request_on_a_connection_that_is_being_closed_comes_back_unsent_at_once() {
    let server = Server::start(&[OK_HELD]).await;
    let connections = server.connections();
    connections.send(&bind(), LIMIT).await.unwrap();
    let mut connection = connections.kept().expect("one is idle");
    server.close.notify_waiters();
    until("the server has closed", || server.closed() == 1).await;
    // What the socket has to tell must have come in, as it would have for a later request.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let request = connections.request(&bind()).await.unwrap();
    let outcome = timeout(LIMIT / 2, connection.exchange(request, |_| panic!("no answer begins"))).await;
    assert!(matches!(outcome.expect("it does not hang"), Err(Broken::NotSent(_))));
    assert_eq!(server.came(), 1);
}

/// tokio lets a task read from so many sockets in a turn, and then says that none has anything.
#[tokio::test]
async fn of_many_idle_connections_that_were_closed_none_is_used() {
    let server = Server::start(&[OK_HELD]).await;
    let connections = server.connections();
    let made = 200;
    let used = (0..made).map(async |_| {
        let mut connection = connections.connect().await.unwrap();
        let request = connections.request(&bind()).await.unwrap();
        assert!(connection.exchange(request, |_| {}).await.is_ok());
        connection
    });
    futures::future::join_all(used).await.into_iter().for_each(|connection| connections.keep(connection));
    server.close.notify_waiters();
    until("all are closed", || server.closed() == made).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = std::time::Instant::now();
    connections.send(&bind(), LIMIT).await.unwrap();
    assert!(begun.elapsed() < LIMIT / 2);
    assert_eq!((server.accepted(), server.came()), (made + 1, made + 1));
}

#[tokio::test]
async fn a_connection_is_not_used_again_where_the_server_says_so_or_says_too_much() {
    let not_again = [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\n{}\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n{}\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 408 Request Timeout\r\n\r\n\n",
    ];
    for answer in not_again {
        let server = Server::start(vec![answer].leak()).await;
        let connections = server.connections();
        for made in 1..=2 {
            assert_eq!(connections.send(&bind(), LIMIT).await.unwrap().code, 200, "{answer}");
            assert_eq!((server.accepted(), server.came()), (made, made), "{answer}");
        }
    }
}

#[tokio::test]
async fn answers_of_each_form_are_read_whole_and_their_connection_goes_on() {
    static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(40))
    });
    let first = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    let server = Server::start(vec![first, "HTTP/1.1 204 No Content\r\n\r\n", LONG.as_str(), OK_HELD].leak()).await;
    let connections = server.connections();
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = connections.send(&bind(), LIMIT).await.unwrap();
        answers.push((answer.code, answer.body.len()));
    }
    assert_eq!(answers, [(201, 0), (204, 0), (200, 40 * 0x8000), (200, 3)]);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_idle_for_long_is_closed_and_not_used() {
    let server = Server::start(&[OK; 2]).await;
    let connections = server.connections();
    connections.send(&bind(), LIMIT).await.unwrap();
    sleep(IDLE * 2).await;
    assert!(lock(&connections.idle).is_empty(), "nobody has asked for it");
    connections.send(&bind(), LIMIT).await.unwrap();
    lock(&connections.idle)[0].0 -= IDLE;
    connections.send(&bind(), LIMIT).await.unwrap();
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn what_has_not_left_in_time_never_does() {
    let server = Server::start(&[OK]).await;
    let error = server.connections().send(&bind(), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, NoAnswer::NotSent(_)), "{error}");
    assert_eq!(server.came(), 0);
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let connections = connections(Config::new(format!("http://{address}").parse().unwrap()));
    let error = connections.send(&bind(), LIMIT).await.unwrap_err();
    assert!(matches!(&error, NoAnswer::NotSent(why) if why.contains("refused")), "{error}");
    assert_eq!(connections.requests.results(), [("POST", "<error>".to_owned(), 1)]);
}

#[tokio::test]
async fn an_answer_that_does_not_come_or_breaks_off_leaves_the_outcome_unknown() {
    for answers in [&[""][..], &[OK, ""], &["HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{"], &["no HTTP\r\n\r\n"]] {
        let server = Server::start(answers).await;
        let connections = server.connections();
        for _ in 1..answers.len() {
            connections.send(&bind(), LIMIT).await.unwrap();
        }
        let error = connections.send(&bind(), LIMIT).await.unwrap_err();
        assert!(matches!(error, NoAnswer::Lost(_)), "{answers:?}: {error}");
        assert_eq!(server.came(), answers.len(), "{answers:?}: it was sent once");
    }
}

#[tokio::test]
async fn what_the_configuration_says_of_all_requests_goes_with_each() {
    let server = Server::start(&[OK; 2]).await;
    let mut config = Config::new(format!("{}/k8s/one/", server.url).parse().unwrap());
    config.auth_info = AuthInfo { token: Some("secret".to_owned().into()), ..AuthInfo::default() };
    config.auth_info.impersonate = Some("somebody".to_owned());
    config.headers.push((http::header::USER_AGENT, HeaderValue::from_static("berth/1")));
    let connections = connections(config);
    connections.send(&Call { method: Method::PATCH, ..bind() }, LIMIT).await.unwrap();
    let head = lock(&server.heads)[0].clone();
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("PATCH /k8s/one/api/v1/namespaces/ns/pods/p/binding?timeout=4000ms HTTP/1.1"));
    let mut headers: Vec<&str> = lines.collect();
    headers.sort_unstable();
    let host = format!("host: {}", server.url.trim_start_matches("http://"));
    let expected = [
        "accept: application/json",
        "authorization: Bearer secret",
        "content-length: 7",
        "content-type: application/json",
        &host,
        "impersonate-user: somebody",
        "user-agent: berth/1",
    ];
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let server = Server::start(&["", OK]).await;
    let connections = server.connections();
    let call = bind();
    let given_up = async {
        tokio::select! {
            _ = connections.send(&call, LIMIT) => panic!("nobody answers"),
            () = until("the request came", || server.came() == 1) => {}
        }
    };
    given_up.await;
    until("the server was told", || server.closed() == 1).await;
    assert_eq!(connections.requests.results(), [("POST", "<error>".to_owned(), 1)]);
}

#[test]
fn the_host_names_the_port_where_it_is_not_the_schemes_own() {
    for (url, host) in [
        ("https://10.0.0.1:443/", "10.0.0.1"),
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("http://api/", "api"),
        ("http://api:443/", "api:443"),
        ("https://[::1]:6443", "[::1]:6443"),
    ] {
        assert_eq!(host_of(&url.parse().unwrap()).unwrap(), host, "{url}");
    }
}

/// The processor time of this process so far, in microseconds.
fn spent() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].map(|at: usize| fields[at].parse::<u64>().unwrap() * 10_000).iter().sum()
}

/// What a request costs when so many are under way all the time, the server included, in microseconds.
async fn cost(by: Transport, at_once: u64) -> f64 {
    const REQUESTS: u64 = 20_000;
    let before = spent();
    let senders = (0..at_once).map(|_| {
        let by = by.clone();
        tokio::spawn(async move {
            for _ in 0..REQUESTS / at_once {
                by.send(&bind(), LIMIT).await.unwrap();
            }
        })
    });
    futures::future::join_all(senders).await;
    (spent() - before) as f64 / REQUESTS as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures: cargo test -p berth-cluster --lib -- --ignored --nocapture what_a_request_costs"]
async fn what_a_request_costs() {
    let server = Server::start(vec![OK; 100_000].leak()).await;
    let mut config = Config::new(server.url.parse().unwrap());
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    config.auth_info = AuthInfo { token: Some("secret".to_owned().into()), ..AuthInfo::default() };
    for at_once in [1, 8, 64].repeat(3) {
        let own = cost(Transport::Own(Connections::start(&config, Arc::default()).unwrap()), at_once).await;
        let kube = cost(kube::Client::try_from(config.clone()).unwrap().into(), at_once).await;
        println!("{at_once} at once: {own:.1} µs over connections of our own, {kube:.1} µs by kube's client");
    }
}
