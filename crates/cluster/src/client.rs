//! The connection to the API server: where it is, who we are, and separate connection pools for what must not wait for
//! each other.

use crate::connections::Connections;
use crate::requests::{Counted, Requests};
use crate::transport::Transport;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tower::retry::RetryLayer;
use tower::timeout::TimeoutLayer;
use tower::util::BoxService;
use tower::{BoxError, Service};

/// How the API server names us in its audit log, and the field manager of what we write: its part before the slash.
pub const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

/// Longest wait for a TCP and TLS handshake: a dead address must fail well within the Lease's renew deadline.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait for an answer to begin, kube's retries included, where the caller sets no limit: kube sets none, and a server or a proxy
/// that takes a request and never answers would be waited for without end. Longer than an API server takes for any of these calls.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest silence within an answer on the same connections, as on a watch: the API server sends a bookmark every minute.
const SILENCE: Duration = Duration::from_secs(150);

/// Longest wait for the first answer of an API server: one that is starting up may be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig named by option or environment is not there or not readable.
    #[error("kubeconfig {path}: {source}; give --kubeconfig or KUBECONFIG the path of a readable kubeconfig")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig was read, and cannot be used.
    #[error("kubeconfig {path}: {source}; correct it, or give --kubeconfig or KUBECONFIG another one")]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// A context was asked for that the kubeconfig does not have.
    #[error("context {name} is not in the kubeconfig, which has {}: give --context one of these, or --kubeconfig another file", listed(.known))]
    NoContext { name: String, known: Vec<String> },
    /// The context that was asked for cannot be used.
    #[error(
        "context {name}: {source}; correct it in the kubeconfig (`kubectl config view`), or give --context another one"
    )]
    Context {
        name: String,
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "no cluster configured: {0}; outside a cluster give --kubeconfig or KUBECONFIG, inside one mount the pod's service account"
    )]
    NoConfig(#[source] Box<kube::config::InferConfigError>),
    /// The configuration was read, but no client can be made of it (certificates, auth plugin, proxy).
    #[error("cannot build a client for {server}: {source}; check certificates, users and proxy in the kubeconfig")]
    Client {
        server: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error(
        "API server {server} cannot be reached: {reason}; check `clusters[].cluster.server`, the certificate authority, and that the server is up"
    )]
    Unreachable { server: String, reason: String },
    #[error("API server {server}: {fault}")]
    Refused { server: String, fault: Fault },
}

/// Contexts that an error names.
const NAMED: usize = 10;

fn listed(contexts: &[String]) -> String {
    match contexts {
        [] => "none".to_owned(),
        named if named.len() <= NAMED => named.join(", "),
        named => format!("{} and {} more", named[..NAMED].join(", "), named.len() - NAMED),
    }
}

/// The error for a `context` that `kubeconfig` does not have.
fn check_context(kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<(), ConnectError> {
    let known: Vec<String> = kubeconfig.contexts.iter().map(|one| one.name.clone()).collect();
    match context {
        Some(name) if !known.iter().any(|known| known == name) => {
            Err(ConnectError::NoContext { name: name.to_owned(), known })
        }
        _ => Ok(()),
    }
}

/// A request that the API server refused. The text names the permission or object to mend, `resource` as RBAC rules do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// 401: the credentials are not accepted.
    #[error(
        "401 on {verb} {resource}: the credentials are not accepted ({message}); renew the token or certificate in use"
    )]
    Unauthenticated {
        /// The API verb: `get`, `list`, `create` …
        verb: &'static str,
        resource: &'static str,
        message: String,
    },
    /// 403: an RBAC rule is missing.
    #[error("403: may not {verb} {resource} ({message}); grant verb `{verb}` on `{resource}` (the chart's RBAC does)")]
    Forbidden { verb: &'static str, resource: &'static str, message: String },
    /// 404, 409: the object is not there, or not as it was taken for.
    #[error("{verb} {resource}: {message}")]
    Conflict { verb: &'static str, resource: &'static str, message: String },
    #[error("{verb} {resource}: {message}")]
    Other { verb: &'static str, resource: &'static str, message: String },
}

impl Fault {
    /// The fault that an error of a request means.
    pub fn of(verb: &'static str, resource: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(verb, resource, status.code, &status.message),
            other => Self::Other { verb, resource, message: root_cause(other) },
        }
    }

    pub fn from_status(verb: &'static str, resource: &'static str, code: u16, message: &str) -> Self {
        let message = message.to_owned();
        match code {
            401 => Self::Unauthenticated { verb, resource, message },
            403 => Self::Forbidden { verb, resource, message },
            404 | 409 => Self::Conflict { verb, resource, message },
            _ => Self::Other { verb, resource, message },
        }
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}

/// Clients of one API server and one identity, each with connections of its own.
#[derive(Clone)]
pub struct Clients {
    /// Watches and initial reads; kube's retries are on. The watches have an event loop of their own, and a connection is driven by the one
    /// that made it: nobody else may use this client.
    pub watch: Client,
    /// What is read beside the watches to know whether they are as new as the cluster; kube's retries are on.
    pub reads: Client,
    /// Binds only: nothing queues ahead of them.
    pub bind: Transport,
    /// Events only.
    pub events: Transport,
    /// All other writes of pods, volumes and claims, and what an extender reads.
    pub writes: Transport,
    /// Everything else: profiles, their status, revisions, the CRD; kube's retries are on, and an answer must begin in time.
    pub rest: Client,
    /// For the Lease. No retries: the elector decides.
    pub lease: LeaseLink,
    /// What went through these clients, the one for the Lease aside.
    pub requests: Arc<Requests>,
    pub server: String,
    /// The API server's version, such as `v1.36.3`.
    pub version: String,
}

/// How the elector reaches the API server.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there are few")]
pub enum LeaseLink {
    /// It has a thread and an event loop of its own, and makes its client there.
    OfItsOwn(Config),
    /// It runs on the caller's event loop, for a test that runs whole processes in one thread.
    Shared(Client),
}

impl From<Config> for LeaseLink {
    fn from(config: Config) -> Self {
        Self::OfItsOwn(config)
    }
}

impl Clients {
    /// Clients of what `service` makes, for a test that has no connections: all that lies above them is the same.
    pub fn over<S, B>(service: impl Fn() -> S, server: &str, version: &str) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let plain = || ClientBuilder::new(service(), "default");
        let retries = || plain().with_layer(&RetryLayer::new(RetryPolicy::default()));
        Self {
            watch: retries().build(),
            reads: retries().build(),
            bind: plain().build().into(),
            events: plain().build().into(),
            writes: plain().build().into(),
            rest: in_time(retries()),
            lease: LeaseLink::Shared(plain().build()),
            requests: Arc::default(),
            server: server.to_owned(),
            version: version.to_owned(),
        }
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("server", &self.server).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Reads the configuration, builds the clients and asks the API server for its version.
///
/// With `kubeconfig` that file is used; without, `KUBECONFIG`, `~/.kube/config`, then the pod's service account.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Clients, ConnectError> {
    connect_with(configure_for(kubeconfig, None).await?).await
}

/// Reads the configuration as [`connect`] does, and takes its `context` instead of the current one, if one is given.
///
/// A context is looked for in kubeconfigs only: inside a cluster there is but one.
pub async fn configure_for(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let named = kubeconfig.map(Path::to_path_buf).or_else(named_by_environment);
    let Some(path) = named else {
        if context.is_some() {
            // One that cannot be read is named below.
            Kubeconfig::read().map_or(Ok(()), |file| check_context(&file, context))?;
        }
        let mut config = match context {
            None => Config::infer().await.map_err(|e| ConnectError::NoConfig(Box::new(e)))?,
            Some(name) => Config::from_kubeconfig(&options)
                .await
                .map_err(|source| ConnectError::Context { name: name.to_owned(), source })?,
        };
        // Inside a cluster kube has named the pod's file itself.
        if config.root_cert_file.is_none() {
            config.root_cert_file = Kubeconfig::read().ok().and_then(|file| authority_file(&file, context));
        }
        return Ok(config);
    };
    let at = |source| match source {
        // Its own text has the path, quoted twice.
        KubeconfigError::ReadConfig(source, _) => ConnectError::Unreadable { path: path.clone(), source },
        source => ConnectError::Kubeconfig { path: path.clone(), source },
    };
    let file = Kubeconfig::read_from(&path).map_err(at)?;
    check_context(&file, context)?;
    let authority = authority_file(&file, context);
    let mut config = Config::from_custom_kubeconfig(file, &options).await.map_err(at)?;
    config.root_cert_file = authority;
    Ok(config)
}

/// The file with the certificate authorities of a context, if its kubeconfig names one: kube reads it again once a minute, as it does a
/// pod's own, so that an authority can be replaced while we run. Left to itself, kube reads a file that a kubeconfig names once.
fn authority_file(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<PathBuf> {
    let wanted = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == wanted)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    // What stands in the kubeconfig itself goes before a file.
    if cluster.certificate_authority_data.is_some() {
        return None;
    }
    cluster.certificate_authority.as_ref().map(PathBuf::from)
}

/// A single path in `KUBECONFIG`; a list of paths is left to kube, which merges them.
fn named_by_environment() -> Option<PathBuf> {
    let value = std::env::var_os("KUBECONFIG")?;
    let mut paths = std::env::split_paths(&value).filter(|p| !p.as_os_str().is_empty());
    let first = paths.next()?;
    paths.next().is_none().then_some(first)
}

/// Builds one client, for reading only, and asks the API server for its version. Returns the client and the server's address.
pub async fn reader(mut config: Config) -> Result<(Client, String), ConnectError> {
    let server = prepare(&mut config);
    let client = build(config, &server)?;
    probe(&client, &server).await?;
    Ok((client, server))
}

/// Sets what all our clients have in common. Returns the server's address.
fn prepare(config: &mut Config) -> String {
    if config.accept_invalid_certs {
        tracing::warn!(
            server = %config.cluster_url,
            "the API server's certificate is not checked: the kubeconfig says insecure-skip-tls-verify"
        );
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.headers.push((HeaderName::from_static("user-agent"), HeaderValue::from_static(USER_AGENT)));
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

fn build(config: Config, server: &str) -> Result<Client, ConnectError> {
    builder(config, server).map(ClientBuilder::build)
}

/// What kube makes of a configuration.
type Stack = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

fn builder(config: Config, server: &str) -> Result<ClientBuilder<Stack>, ConnectError> {
    ClientBuilder::try_from(config)
        .map_err(|source| ConnectError::Client { server: server.to_owned(), source: Box::new(source) })
}

/// The client of a stack in which an answer must begin within [`ANSWER_TIMEOUT`].
fn in_time<S, B>(stack: ClientBuilder<S>) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + Sync,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    stack.with_layer(&TimeoutLayer::new(ANSWER_TIMEOUT)).build()
}

/// Builds the clients for a configuration that is there already, and asks the API server for its version.
pub async fn connect_with(mut config: Config) -> Result<Clients, ConnectError> {
    let server = prepare(&mut config);
    let with_retry = |retry: bool| {
        let mut config = config.clone();
        config.default_retry = retry;
        config
    };
    let requests = Arc::<Requests>::default();
    let counted = Counted(requests.clone());
    let client = |retry: bool| builder(with_retry(retry), &server).map(|stack| stack.with_layer(&counted).build());
    let mut of_rest = with_retry(true);
    of_rest.read_timeout = Some(SILENCE);
    let failed = |source| ConnectError::Client { server: server.clone(), source: Box::new(source) };
    let transport = || Connections::start(&config, requests.clone()).map(Transport::Own).map_err(failed);
    let version = probe(&client(false)?, &server).await?;
    Ok(Clients {
        watch: client(true)?,
        reads: client(true)?,
        bind: transport()?,
        events: transport()?,
        writes: transport()?,
        rest: in_time(builder(of_rest, &server)?.with_layer(&counted)),
        lease: with_retry(false).into(),
        requests: requests.clone(),
        server: server.clone(),
        version,
    })
}

async fn probe(client: &Client, server: &str) -> Result<String, ConnectError> {
    let server = server.to_owned();
    match tokio::time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(version)) => Ok(version.git_version),
        Ok(Err(error @ (kube::Error::Api(_) | kube::Error::SerdeError(_)))) => {
            Err(ConnectError::Refused { server, fault: Fault::of("get", "/version", &error) })
        }
        Ok(Err(error)) => Err(ConnectError::Unreachable { server, reason: root_cause(&error) }),
        Err(_) => {
            Err(ConnectError::Unreachable { server, reason: format!("no answer within {} s", PROBE_TIMEOUT.as_secs()) })
        }
    }
}

/// The innermost error: the layers above it only repeat that a request failed.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use serde_json::json;

    #[tokio::test]
    async fn a_kubeconfig_that_points_nowhere_is_named() {
        let error = connect(Some(Path::new("/nowhere/kubeconfig"))).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreadable { .. }), "{error:?}");
        assert_eq!(error.to_string().matches("/nowhere/kubeconfig").count(), 1, "{error}");
        assert!(error.to_string().contains("--kubeconfig"), "{error}");
    }

    #[test]
    fn a_file_of_authorities_is_followed_and_certificates_in_the_kubeconfig_are_not() {
        let kubeconfig = Kubeconfig::from_yaml(
            "
            current-context: file
            contexts:
            - {name: file, context: {cluster: file, user: nobody}}
            - {name: held, context: {cluster: held, user: nobody}}
            - {name: public, context: {cluster: public, user: nobody}}
            - {name: broken, context: {cluster: nowhere, user: nobody}}
            clusters:
            - {name: file, cluster: {server: 'https://10.0.0.1', certificate-authority: /pki/ca.crt}}
            - {name: held, cluster: {server: 'https://10.0.0.1', certificate-authority: /pki/ca.crt, certificate-authority-data: QQ==}}
            - {name: public, cluster: {server: 'https://10.0.0.1'}}
            ",
        )
        .unwrap();
        let file = Some(PathBuf::from("/pki/ca.crt"));
        for (context, expected) in [
            (None, &file),
            (Some("file"), &file),
            (Some("held"), &None),
            (Some("public"), &None),
            (Some("broken"), &None),
            (Some("nobody"), &None),
        ] {
            assert_eq!(authority_file(&kubeconfig, context), *expected, "{context:?}");
        }
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_told_with_those_that_are() {
        let file = std::env::temp_dir().join(format!("berth-contexts-{}", std::process::id()));
        let context = |name: &str| json!({"name": name, "context": {"cluster": "one", "user": "nobody"}});
        let text = json!({"contexts": [context("staging"), context("production")]});
        std::fs::write(&file, text.to_string()).unwrap();
        let error = configure_for(Some(&file), Some("nope")).await.unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(
            error.starts_with("context nope is not in the kubeconfig, which has staging, production: give"),
            "{error}"
        );
        let many: Vec<String> = (0..12).map(|i| i.to_string()).collect();
        assert_eq!(listed(&many), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(listed(&[]), "none");
    }

    #[tokio::test]
    async fn a_named_kubeconfig_hands_its_file_of_authorities_on() {
        let directory = std::env::temp_dir().join(format!("berth-authority-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (authority, kubeconfig) = (directory.join("ca.crt"), directory.join("kubeconfig"));
        std::fs::write(&authority, "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").unwrap();
        // As kubectl writes it: the file is named relative to the kubeconfig.
        let text = json!({
            "current-context": "one",
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "nobody"}}],
            "clusters": [{"name": "one", "cluster": {"server": "https://10.0.0.1", "certificate-authority": "ca.crt"}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let config = configure_for(Some(&kubeconfig), None).await;
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(config.unwrap().root_cert_file, Some(authority));
    }

    #[tokio::test]
    async fn an_address_where_nobody_listens_is_unreachable() {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let error = connect_with(Config::new(format!("http://{address}").parse().unwrap())).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }

    #[tokio::test]
    async fn refused_credentials_are_named() {
        for (code, word) in [(401, "renew the token"), (403, "grant verb `get`")] {
            let server = Scripted::start(move |_| async move { Reply::status(code, "no") }).await;
            let error = connect_with(server.config()).await.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_begins_is_not_waited_for_without_end() {
        let link = || tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, BoxError>>());
        let clients = Clients::over(link, "https://10.0.0.1", "v1.37.0");
        let began = tokio::time::Instant::now();
        assert!(clients.rest.apiserver_version().await.is_err());
        assert_eq!(began.elapsed(), ANSWER_TIMEOUT);
    }

    #[tokio::test]
    async fn requests_carry_our_user_agent() {
        let server = Scripted::start(|_| async {
            Reply::json(
                200,
                json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            )
        })
        .await;
        let clients = connect_with(server.config()).await.unwrap();
        assert_eq!(clients.version, "v1.36.3");
        assert_eq!(server.requests()[0].user_agent, USER_AGENT);
    }
}
