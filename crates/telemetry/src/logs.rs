use super::log_level::Level;
use super::log_queue::Logs;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "--log-level {level:?}: {source}; use error, warn, info, debug or trace, or directives such as info,berth=debug"
    )]
    Level {
        level: String,
        #[source]
        source: ParseError,
    },
    #[error("logs cannot be written to standard error: {0}")]
    Start(#[source] io::Error),
    /// Someone else has set up logs in this process already.
    #[error("logs cannot be set up: {0}")]
    Taken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the level cannot be changed: this process has not set up the log")]
    NotOurs,
    #[error(
        "a log level has 1 to {most} bytes: error, warn, info, debug, trace, or directives such as info,berth=debug"
    )]
    Length { most: usize },
}

/// Sends logs, and reports of panics, to stderr by a thread of their own; `level` is a level or a list of `target=level`
/// directives. The process should [flush](Logs::flush) them before it ends.
///
/// The Kubernetes client logs each 5xx answer as an error; we log what it means ourselves, so it is kept to warnings
/// unless a directive for it is given. That certificates are not checked it says for each of our clients, and we say it once.
pub fn init_logs(format: LogFormat, level: &str) -> Result<Logs, LogError> {
    let filter = filter(level)?;
    // Not by `Stderr`: who writes to it keeps others from it, and may have to wait for a reader.
    let out = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let logs = out.and_then(Logs::to).map_err(LogError::Start)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs.clone()).with_target(true);
    let (result, change) = match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(false).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), Level::new(level, move |filter| handle.reload(filter)))
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), Level::new(level, move |filter| handle.reload(filter)))
        }
    };
    result.map_err(LogError::Taken)?;
    logs.has_level(change);
    let of_panics = logs.clone();
    std::panic::set_hook(Box::new(move |panic| of_panics.panicked(panic)));
    Ok(logs)
}

pub(super) fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let quiet = if level.contains('=') || level.contains("trace") {
        ""
    } else {
        "kube_client=warn,kube_client::client::tls=error,kube_runtime=warn,hyper=warn,"
    };
    let at = |source| LogError::Level { level: level.to_owned(), source };
    EnvFilter::builder().parse(format!("{quiet}{level}")).map_err(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_accepted_and_others_named() {
        for good in ["info", "debug", "trace", "info,berth=debug"] {
            filter(good).unwrap();
        }
        let error = filter("berth=loud").unwrap_err().to_string();
        assert!(error.contains("berth=loud") && error.contains("--log-level"), "{error}");
    }
}
