//! How many connections a listener of ours bears, and for how long: anybody in the cluster may open one.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

/// Connections that the kernel keeps for us until they are accepted.
const BACKLOG: u32 = 1_024;

/// Bytes that the kernel keeps of an answer that is not read.
const SEND_BUFFER: u32 = 64 << 10;

/// Bytes of a request; the token of a service account takes one or two thousand of them.
const REQUEST_BYTES: usize = 16 << 10;

/// The pause after a connection could not be accepted: the process has no file left.
const PAUSE: Duration = Duration::from_millis(50);

/// What one listener bears.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at once.
    pub(crate) connections: usize,
    /// From the connection to the end of the request's header.
    pub(crate) header: Duration,
    /// From the connection to the end of the answer.
    pub(crate) exchange: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 64, header: Duration::from_secs(5), exchange: Duration::from_secs(10) }
    }
}

/// A listener on `address`. `[::]` takes connections of both families; where there is no IPv6 it is `0.0.0.0`.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    or_ipv4(address, |address| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted process need not wait for the connections of the one before it.
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(SEND_BUFFER)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    })
}

fn or_ipv4<T>(address: SocketAddr, listen: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let result = listen(address);
    let taken = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
    if result.is_ok() || taken || address.ip() != Ipv6Addr::UNSPECIFIED {
        return result;
    }
    listen((Ipv4Addr::UNSPECIFIED, address.port()).into()).or(result)
}

/// An open connection.
struct Open {
    task: AbortHandle,
    peer: IpAddr,
    standing: Standing,
}

/// What a connection has shown of who made it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing(Arc<AtomicU8>);

/// Nothing yet; a request has come; whoever asks is known.
const IDLE: u8 = 0;
const ASKED: u8 = 1;
const KNOWN: u8 = 2;

impl Standing {
    /// Whoever asks is known: the connection ends for no stranger's.
    pub(crate) fn mark_known(&self) {
        self.0.store(KNOWN, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Accepts connections for ever; each gets one answer and ends. Dropping the future ends them all.
///
/// A connection beyond the limit takes the place of another, of the address that has the most: of the oldest one that has not asked
/// yet, or else of the oldest. Whoever holds connections and does nothing loses them, a probe that asks at once is answered, and
/// an address that makes one connection after the other ends its own. `answer` says of which connections the
/// maker is known: they make room for no others.
pub(crate) async fn serve<H, F>(listener: TcpListener, limits: Limits, answer: H)
where
    H: Fn(Request<Incoming>, Standing) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<Open> = VecDeque::with_capacity(limits.connections);
    loop {
        let accepted = listener.accept().await;
        while tasks.try_join_next().is_some() {}
        open.retain(|one| !one.task.is_finished());
        let Ok((stream, peer)) = accepted else {
            end_one(&mut open);
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if open.len() >= limits.connections {
            end_one(&mut open);
        }
        // Waits until the one that was ended is gone.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let standing = Standing::default();
        let one = exchange(stream, limits, answer.clone(), standing.clone());
        let task = tasks.spawn(async move {
            one.await;
            drop(place);
        });
        open.push_back(Open { task, peer: peer.ip().to_canonical(), standing });
    }
}

/// Where all are known, the oldest ends.
fn end_one(open: &mut VecDeque<Open>) {
    let strangers = || open.iter().enumerate().filter(|(_, one)| one.standing.get() != KNOWN);
    let mut of: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for (_, one) in strangers() {
        *of.entry(one.peer).or_default() += 1;
    }
    let worst = strangers().max_by_key(|(at, one)| {
        let age = Reverse(*at);
        (of.get(&one.peer), one.standing.get() == IDLE, age)
    });
    let at = worst.map_or(0, |(at, _)| at);
    if let Some(one) = open.remove(at) {
        one.task.abort();
    }
}

/// One request and its answer. No second one: a connection that is kept would have to be told from one that only waits.
async fn exchange<H, F>(stream: TcpStream, limits: Limits, answer: H, standing: Standing)
where
    H: Fn(Request<Incoming>, Standing) -> F + Send,
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let service = service_fn(move |request| {
        standing.0.store(ASKED, Ordering::Relaxed);
        let answer = answer(request, standing.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header).keep_alive(false).max_buf_size(REQUEST_BYTES);
    // How it ended is the client's business.
    let _ = tokio::time::timeout(limits.exchange, http.serve_connection(TokioIo::new(stream), service)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Serves `ok` within these limits.
    fn start(limits: Limits) -> SocketAddr {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, limits, |_, _| async { Response::new(Full::new(Bytes::from_static(b"ok\n"))) }));
        address
    }

    /// Connections end by their number alone.
    fn limits(connections: usize) -> Limits {
        Limits { connections, header: Duration::from_mins(10), exchange: Duration::from_mins(10) }
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: berth\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Whether the server has closed the connection.
    async fn is_closed(stream: &mut TcpStream) -> bool {
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0; 64])).await;
        !matches!(read.expect("neither an answer nor an end"), Ok(bytes) if bytes > 0)
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_takes_the_place_of_the_oldest_idle_one() {
        let address = start(limits(2));
        let mut idle = Vec::new();
        for _ in 0..3 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(is_closed(&mut idle[0]).await, "the oldest made room");
        idle[2].write_all(b"GET / HTTP/1.1\r\nHost: berth\r\n\r\n").await.unwrap();
        assert!(!is_closed(&mut idle[2]).await, "the newest is answered");
        assert!(ask(address).await.contains("ok\n"));
    }

    /// A server that answers once it is told to; it knows who asks for `/known`.
    struct Held {
        address: SocketAddr,
        asked: Arc<AtomicUsize>,
        go: Arc<Semaphore>,
    }

    impl Held {
        fn start(limits: Limits) -> Self {
            let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            let (asked, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
            let (count, held) = (asked.clone(), go.clone());
            tokio::spawn(serve(listener, limits, move |request, standing| {
                if request.uri().path() == "/known" {
                    standing.mark_known();
                }
                count.fetch_add(1, Ordering::SeqCst);
                let held = held.clone();
                async move {
                    let _go = held.acquire().await;
                    Response::new(Full::new(Bytes::from_static(b"ok\n")))
                }
            }));
            Self { address, asked, go }
        }

        /// A connection from this address, once its request has come.
        async fn ask(&self, from: &str, path: &str) -> TcpStream {
            let before = self.asked.load(Ordering::SeqCst);
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
            let mut stream = socket.connect(self.address).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: berth\r\n\r\n").as_bytes()).await.unwrap();
            let come = async {
                while self.asked.load(Ordering::SeqCst) == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), come).await.expect("the request has not come");
            stream
        }

        /// Somebody asks at `path`, and then others from 127.0.0.1, far beyond the limit: the one must be answered.
        async fn keeps_one_beside_many(&self, from: &str, path: &str) {
            let mut one = self.ask(from, path).await;
            let mut many = Vec::new();
            for _ in 0..12 {
                many.push(self.ask("127.0.0.1", "/").await);
            }
            for closed in &mut many[..10] {
                assert!(is_closed(closed).await, "the oldest of the others make room");
            }
            self.go.add_permits(1 + many.len());
            assert!(!is_closed(&mut one).await, "it has made room for others");
            assert!(!is_closed(&mut many[11]).await);
        }
    }

    #[tokio::test]
    async fn a_connection_of_somebody_known_ends_for_no_strangers() {
        Held::start(limits(3)).keeps_one_beside_many("127.0.0.1", "/known").await;
    }

    #[tokio::test]
    async fn whoever_makes_the_most_connections_makes_room_for_others() {
        Held::start(limits(3)).keeps_one_beside_many("127.0.0.2", "/").await;
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_is_cut_off() {
        let address = start(Limits { header: Duration::from_millis(100), ..limits(64) });
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET / HTTP/1.1\r\nHost: be").await.unwrap();
        assert!(is_closed(&mut silent).await && is_closed(&mut half).await);
    }

    #[tokio::test]
    async fn an_answer_ends_the_connection() {
        let address = start(Limits::default());
        let answer = ask(address).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn a_request_longer_than_any_of_ours_is_refused() {
        let address = start(Limits::default());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let long = format!("GET / HTTP/1.1\r\nAuthorization: Bearer {}\r\n\r\n", "a".repeat(64 << 10));
        // The server may close before all of it is written.
        let _ = stream.write_all(long.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }

    struct Text(Arc<[u8]>);

    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_is_dropped_in_time() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { exchange: Duration::from_millis(200), ..Limits::default() };
        let (text, asked) = (Arc::<[u8]>::from(vec![b'a'; 16 << 20]), Arc::new(AtomicBool::new(false)));
        let (held, seen) = (text.clone(), asked.clone());
        tokio::spawn(serve(listener, limits, move |_, _| {
            let answer = Response::new(Full::new(Bytes::from_owner(Text(held.clone()))));
            seen.store(true, Ordering::SeqCst);
            async move { answer }
        }));
        let mut unread = TcpStream::connect(address).await.unwrap();
        unread.write_all(b"GET / HTTP/1.1\r\nHost: berth\r\n\r\n").await.unwrap();
        let dropped = async {
            // One here, one with the server, none in an answer.
            while !(asked.load(Ordering::SeqCst) && Arc::strong_count(&text) == 2) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), dropped).await.expect("kept for a client that does not read");
    }

    #[test]
    fn both_families_where_there_are_two_and_ipv4_where_there_is_one() {
        let tried = Mutex::new(Vec::new());
        let without_ipv6 = |address: SocketAddr| {
            tried.lock().unwrap().push(address.to_string());
            // EAFNOSUPPORT
            if address.is_ipv6() { Err(io::Error::from_raw_os_error(97)) } else { Ok(()) }
        };
        or_ipv4("[::]:8080".parse().unwrap(), without_ipv6).unwrap();
        assert_eq!(*tried.lock().unwrap(), ["[::]:8080", "0.0.0.0:8080"]);
        or_ipv4("[::1]:8080".parse().unwrap(), without_ipv6).unwrap_err();
        let taken = |_| Err::<(), _>(io::Error::from(io::ErrorKind::AddrInUse));
        assert_eq!(or_ipv4("[::]:8080".parse().unwrap(), taken).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn clients_of_ipv4_reach_a_listener_of_both() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        listener.accept().await.unwrap();
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
            listener.accept().await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_kernel_keeps_little_of_an_answer_that_is_not_read() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let kept = TcpSocket::from_std_stream(accepted.into_std().unwrap()).send_buffer_size().unwrap();
        // Linux doubles what is asked for.
        assert!(kept <= 2 * SEND_BUFFER, "{kept}");
    }
}
