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
    /// Someone else has set up logs in this process already.
    #[error("logs cannot be set up: {0}")]
    Taken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sends logs to stderr; `level` is a level or a list of `target=level` directives.
///
/// The Kubernetes client logs each 5xx answer as an error; we log what it means ourselves, so it is kept to warnings
/// unless a directive for it is given.
pub fn init_logs(format: LogFormat, level: &str) -> Result<(), LogError> {
    let filter = filter(level)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true);
    let result = match format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    result.map_err(LogError::Taken)
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let quiet = if level.contains('=') || level.contains("trace") {
        ""
    } else {
        "kube_client=warn,kube_runtime=warn,hyper=warn,"
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
