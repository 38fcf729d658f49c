//! `berth crd`: the custom resource definition, the very text that `crds/` holds.

use super::Answer;
use super::output::{self, Format};

/// Arguments of `berth crd`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form of the answer; text is YAML.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    match args.output {
        Format::Text => {
            let yaml = berth_api::crd_yaml()?;
            output::print(|out| out.write_all(yaml.as_bytes()))?;
        }
        Format::Json => output::print_json(&berth_api::crd_json()?)?,
    }
    Ok(Answer::Done)
}
