//! `berth version`.

use super::Answer;
use super::output::{self, Format};
use std::collections::BTreeMap;

/// Arguments of `berth version`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let version = env!("CARGO_PKG_VERSION");
    let served = format!("{}/{}", berth_api::GROUP, berth_api::VERSION);
    match args.output {
        Format::Text => output::print(|out| writeln!(out, "berth {version} ({served})"))?,
        Format::Json => output::print_json(&BTreeMap::from([("api", served.as_str()), ("version", version)]))?,
    }
    Ok(Answer::Done)
}
