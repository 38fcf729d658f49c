//! Looking into the running process: pages on a loopback address, and the same on SIGUSR2 in the log (`docs/debugging.md`).
//!
//! Everything is copied in short parts, cut to a bound, and made printable: names and messages are written by tenants. Nothing here holds
//! a secret: profiles name Secrets, and tokens never leave the clients that send them.

mod audit;
mod configz;
mod dump;
mod queue;
mod shadow;
mod zpages;

pub(super) use dump::dump_on_signal;

use super::context::Context;
use super::options::Options;
use berth_telemetry::{DebugQuestion, DebugReply, Logs, ServeError, serve_debug};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The pages, for whoever asks for none of them.
const PAGES: [(&str, &str); 7] = [
    ("/statusz", "when this process started, and which pages there are"),
    ("/flagz", "the flags in force"),
    ("/configz", "what each profile that is served comes to, with every default"),
    (
        "/debug/queue",
        "pods of a profile: ?profile=NAME&limit=100&continue=NAMESPACE/NAME; without a profile, all workers",
    ),
    (
        "/debug/shadow",
        "what a profile in mode DryRun has compared: ?profile=NAME&limit=100&continue=NUMBER; without a profile, the figures of all",
    ),
    ("/debug/audit", "what the last comparison with the API server has found"),
    ("/debug/flags/v", "the level of the log; PUT changes it until the process ends"),
];

/// Characters of a message that somebody else may have written.
const MESSAGE: usize = 1_024;

/// What the pages are made of.
#[derive(Clone)]
struct Pages {
    cx: Context,
    flags: Arc<BTreeMap<String, String>>,
    audit_interval: Option<Duration>,
    logs: Logs,
}

/// Serves the pages, if there is an address for them, until the task that is returned is aborted.
pub(super) fn serve(options: &Options, cx: &Context) -> Result<Option<JoinHandle<()>>, ServeError> {
    let Some(address) = options.debug_address else { return Ok(None) };
    let pages = Pages {
        cx: cx.clone(),
        flags: Arc::new(options.flags.clone()),
        audit_interval: options.audit_interval,
        logs: options.logs.clone(),
    };
    let (bound, server) = serve_debug(address, move |question| {
        let pages = pages.clone();
        async move { pages.answer(&question).await }
    })?;
    tracing::info!(address = %bound, "serving /statusz, /flagz, /configz and /debug to this machine alone");
    Ok(Some(tokio::spawn(server)))
}

impl Pages {
    async fn answer(&self, question: &DebugQuestion) -> DebugReply {
        match (question.path.as_str(), &question.put) {
            ("/debug/flags/v", Some(level)) => self.set_level(level),
            (_, Some(_)) => DebugReply::text(405, "only /debug/flags/v can be put\n"),
            ("/debug/flags/v", None) => match self.logs.level() {
                Some(level) => DebugReply::text(200, level + "\n"),
                None => DebugReply::text(404, "this process has not set up the log\n"),
            },
            ("/statusz", None) => zpages::statusz(&PAGES.map(|(path, _)| path)),
            ("/flagz", None) => zpages::flagz(&self.flags),
            ("/configz", None) => configz::page(&self.cx),
            ("/debug/queue", None) => queue::page(&self.cx, question).await,
            ("/debug/shadow", None) => shadow::page(&self.cx, question),
            ("/debug/audit", None) => audit::page(&self.cx, self.audit_interval),
            ("/" | "/debug" | "/debug/", None) => index(200),
            _ => index(404),
        }
    }

    fn set_level(&self, level: &str) -> DebugReply {
        match self.logs.set_level(level) {
            Ok(before) => {
                let now = self.logs.level().unwrap_or_default();
                tracing::warn!(before, now, "level of the log changed by /debug/flags/v");
                DebugReply::text(200, format!("{now} (was {before}); until the process ends\n"))
            }
            Err(error) => DebugReply::text(400, format!("{error}\n")),
        }
    }
}

fn index(status: u16) -> DebugReply {
    let lines: Vec<String> = PAGES.iter().map(|(path, about)| format!("{path:<16}{about}\n")).collect();
    DebugReply::text(status, lines.concat())
}

fn pretty(value: &Value) -> DebugReply {
    DebugReply::json(format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::reconciler_tests::{context, options};
    use berth_testing::{Reply, Scripted};

    pub(super) async fn pages() -> (Pages, Scripted) {
        let server = Scripted::start(|_| async { Reply::status(404, "not there") }).await;
        let (cx, _notices) = context(&server, &options());
        let flags = Arc::new([("bind-qps".to_owned(), "0".to_owned())].into());
        (Pages { cx, flags, audit_interval: Some(Duration::from_mins(5)), logs: Logs::default() }, server)
    }

    pub(super) fn ask(path: &str, query: &[(&str, &str)]) -> DebugQuestion {
        let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        DebugQuestion { path: path.to_owned(), query, put: None }
    }

    #[tokio::test]
    async fn every_page_of_the_list_is_there_and_only_the_level_can_be_put() {
        let (pages, _server) = pages().await;
        for (path, _) in PAGES {
            let answer = pages.answer(&ask(path, &[])).await;
            // The level is that of a process, and this is a test.
            let wanted = if path == "/debug/flags/v" { 404 } else { 200 };
            assert_eq!(answer.status, wanted, "{path}: {}", answer.body);
            let put = DebugQuestion { put: Some("debug".to_owned()), ..ask(path, &[]) };
            let wanted = if path == "/debug/flags/v" { 400 } else { 405 };
            assert_eq!(pages.answer(&put).await.status, wanted, "{path}");
        }
        let lost = pages.answer(&ask("/debug/pprof", &[])).await;
        assert!(lost.status == 404 && lost.body.contains("/debug/queue"), "{}", lost.body);
    }
}
