//! Commands that say what the program knows by itself: `berth crd`, `berth version`, `berth completion SHELL`, `berth man FOLDER`.

use super::output::{self, Format};
use super::{Answer, Cli};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct CrdArgs {
    /// The form of the answer; text is YAML.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints the custom resource definition, the very text that `crds/` holds.
pub(super) fn crd(args: &CrdArgs) -> anyhow::Result<Answer> {
    match args.output {
        Format::Text => {
            let yaml = berth_api::crd_yaml()?;
            output::print(|out| out.write_all(yaml.as_bytes()))?;
        }
        Format::Json => output::print_json(&berth_api::crd_json()?)?,
    }
    Ok(Answer::Done)
}

#[derive(Debug, clap::Args)]
pub(super) struct VersionArgs {
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn version(args: &VersionArgs) -> anyhow::Result<Answer> {
    let version = env!("CARGO_PKG_VERSION");
    let served = format!("{}/{}", berth_api::GROUP, berth_api::VERSION);
    let json = BTreeMap::from([("api", served.as_str()), ("version", version)]);
    output::answer(args.output, &json, |out| writeln!(out, "berth {version} ({served})"))?;
    Ok(Answer::Done)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(berth completion bash)")]
pub(super) struct CompletionArgs {
    /// The shell to complete for.
    shell: Shell,
}

pub(super) fn completion(args: &CompletionArgs) -> anyhow::Result<Answer> {
    // Into memory first: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "berth", &mut script);
    output::print(|out| out.write_all(&script))?;
    Ok(Answer::Done)
}

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The folder to write them into; it must be there.
    folder: PathBuf,
}

/// Writes `berth.1`, and a page such as `berth-simulate.1` for each command.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<Answer> {
    let written = clap_mangen::generate_to(Cli::command(), &args.folder);
    written.with_context(|| format!("{}: no man page can be written there", args.folder.display()))?;
    Ok(Answer::Done)
}
