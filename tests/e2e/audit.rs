//! What the API server's audit log has: every bind, and every write of the operators.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use berth_lab::{ControlPlane, Operator};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::HOME;

/// Where the API server says which token a request came with.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A bind request, as the API server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Bind {
    pub(crate) pod: String,
    pub(crate) code: u64,
    /// When it came, in microseconds of Unix time.
    pub(crate) received_us: i64,
    /// When it was answered.
    pub(crate) answered_us: i64,
}

/// A write of an operator, as the API server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Verb, path and answer.
    #[allow(dead_code, reason = "a test that fails shows it")]
    pub(crate) what: String,
    pub(crate) is_bind: bool,
    /// In microseconds of Unix time.
    pub(crate) received_us: i64,
    pub(crate) answered_us: i64,
}

/// The audit log of one control plane. Its directory goes away with it.
pub(crate) struct Audit(PathBuf);

impl Audit {
    pub(crate) fn new(name: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                // What an operator says about itself and asks about itself. Its events would be as many as all binds.
                {"level": "None", "resources": [
                    {"group": "", "resources": ["events"]},
                    {"group": "events.k8s.io"},
                    {"group": "coordination.k8s.io"},
                    {"group": "authentication.k8s.io"},
                    {"group": "authorization.k8s.io"},
                ]},
                {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
                {
                    "level": "Metadata",
                    "users": [format!("system:serviceaccount:{HOME}:berth")],
                    "verbs": ["create", "update", "patch", "delete", "deletecollection"],
                },
                {"level": "None"},
            ],
        });
        fs::write(directory.join("policy.json"), policy.to_string()).unwrap();
        Self(directory)
    }

    /// The API server's flags for it.
    pub(crate) fn flags(&self) -> Vec<String> {
        let flag = |name: &str, file: &str| format!("--{name}={}", self.0.join(file).display());
        // The file is begun anew at 100 MB, and 80,000 binds would be forgotten, unless the limit (in MB) is far away.
        let never = "--audit-log-maxsize=100000".to_owned();
        vec![flag("audit-policy-file", "policy.json"), flag("audit-log-path", "audit.log"), never]
    }

    /// Where in the log what comes from now on begins, in bytes.
    #[allow(dead_code, reason = "only tests/faults has a log so long that it is read in parts")]
    pub(crate) fn end(&self) -> u64 {
        fs::metadata(self.log()).unwrap().len()
    }

    /// All binds so far.
    pub(crate) fn binds(&self) -> Vec<Bind> {
        self.binds_from(0)
    }

    /// The binds from this byte of the log on, with which a line begins.
    pub(crate) fn binds_from(&self, place: u64) -> Vec<Bind> {
        self.read(place, |event| {
            (event["objectRef"]["subresource"] == "binding").then(|| Bind {
                pod: event["objectRef"]["name"].as_str().unwrap_or_default().to_owned(),
                code: event["responseStatus"]["code"].as_u64().unwrap_or(0),
                received_us: micros(&event["requestReceivedTimestamp"]),
                answered_us: micros(&event["stageTimestamp"]),
            })
        })
    }

    /// All that the bearer of `credential` wrote, its events and its Lease aside.
    pub(crate) fn writes_of(&self, credential: &str) -> Vec<Write> {
        self.read(0, |event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            (event["user"]["extra"][CREDENTIAL][0] == credential).then(|| Write {
                what: format!("{} {}: {}", text("verb"), text("requestURI"), event["responseStatus"]["code"]),
                is_bind: event["objectRef"]["subresource"] == "binding",
                received_us: micros(&event["requestReceivedTimestamp"]),
                answered_us: micros(&event["stageTimestamp"]),
            })
        })
    }

    fn log(&self) -> PathBuf {
        self.0.join("audit.log")
    }

    fn read<T>(&self, place: u64, of: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let (mut log, mut text) = (File::open(self.log()).unwrap(), String::new());
        log.seek(SeekFrom::Start(place)).unwrap();
        log.read_to_string(&mut text).unwrap();
        // The last line may be half written.
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["stage"] == "ResponseComplete").filter_map(|event| of(&event)).collect()
    }

    /// The longest time from the answer to one bind to the arrival of the next, which is one from `since` on (microseconds of Unix
    /// time); in milliseconds.
    pub(crate) fn longest_gap(&self, since: i64) -> f64 {
        let mut done = self.binds();
        done.retain(|bind| bind.code == 201);
        done.sort_by_key(|bind| bind.received_us);
        let gaps = done.windows(2).filter(|pair| pair[1].received_us >= since);
        gaps.map(|pair| (pair[1].received_us - pair[0].answered_us) as f64 / 1e3).fold(0.0, f64::max)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How the audit log tells the operator's requests from those of its replicas, which have the same account.
pub(crate) fn credential_of(plane: &ControlPlane, operator: &Operator) -> String {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let own = plane.api.with_token(&operator.token).post(path, &review).unwrap();
    own["status"]["userInfo"]["extra"][CREDENTIAL][0].as_str().expect("a token of its own").to_owned()
}

/// Microseconds of Unix time.
pub(crate) fn micros(time: &Value) -> i64 {
    time.as_str().unwrap().parse::<Timestamp>().unwrap().as_microsecond()
}
