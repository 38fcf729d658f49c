//! `berth completion SHELL`.

use super::output;
use super::{Answer, Cli};
use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `berth completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(berth completion bash)")]
pub(super) struct Args {
    /// The shell to complete for.
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    // Into memory first: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "berth", &mut script);
    output::print(|out| out.write_all(&script))?;
    Ok(Answer::Done)
}
