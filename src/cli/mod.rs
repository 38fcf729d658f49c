//! The command line: a file for each command (`about` for the smallest), and how answers are printed.
//!
//! Started as `kubectl-berth`, the program is a plugin of kubectl and calls itself `kubectl berth`.
//!
//! Exit codes: 0 done; 1 error; 2 "the answer is no" (a pod does not fit, something was lost). `status` has those of `diff`: 0 well,
//! 1 something is not, 2 could not look.

mod about;
mod calling;
mod compared;
mod complete;
mod convert;
mod diff;
mod drain_check;
mod explain;
mod headroom;
mod inputs;
mod live;
mod more_nodes;
mod operator;
mod orphans;
mod output;
mod page;
mod program;
mod shadow;
mod simulate;
mod status;
mod threads;
mod top;

pub use convert::{converted, converted_back};
pub use inputs::{Calls, InputError, Inputs, inputs_from};

use anyhow::Context;
use clap::{FromArgMatches, Parser, Subcommand};
use program::Program;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command line as it was typed.
#[derive(Debug, Parser)]
#[command(
    name = "berth",
    version,
    about = "Runs a kube-scheduler-equivalent worker for each SchedulerProfile, and answers what it would do",
    after_help = "Exit codes: 0 done, 1 error, 2 the answer is no (a pod does not fit, something is left over, something was lost, a scheduler is missing). \
                  Those of status: 0 well, 1 something is not, 2 could not look.",
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch SchedulerProfiles and run a worker for each: the controller itself.
    Operator(operator::Args),
    /// Say where pending pods would land, with the very engine that schedules live.
    Simulate(simulate::Args),
    /// Say what changed profiles would do: which waiting pods go elsewhere, and what the placed ones would look like.
    Diff(diff::Args),
    /// Say of each pending pod what every filter (predicate) and score (priority) thinks of every node.
    Explain(explain::Args),
    /// Say where the pods of some nodes would go if these were drained together, and what would be left over.
    DrainCheck(drain_check::Args),
    /// Say how many more pods like one that there is would fit, where, and what stops the next one.
    Headroom(headroom::Args),
    /// List pods that wait for a scheduler which nobody serves, with the name that they may mean.
    Orphans(orphans::Args),
    /// Say whether definition, operator, rights, profiles and extenders of a cluster are well, with an exit code.
    Status(status::Args),
    /// Follow profiles, queues, rates, waiting pods, extenders and nodes of a cluster on a screen.
    Top(top::Args),
    /// Say what a profile in mode DryRun would have done with the pods of another scheduler.
    Shadow(shadow::Args),
    /// Turn a configuration or Policy of kube-scheduler into SchedulerProfiles, or back, and say what was lost.
    Convert(convert::Args),
    /// Print the custom resource definition of SchedulerProfile.
    Crd(about::CrdArgs),
    /// Print the version.
    Version(about::VersionArgs),
    /// Print a completion script for a shell.
    Completion(about::CompletionArgs),
    /// Write man pages into a folder, for those who package the program.
    #[command(hide = true)]
    Man(about::ManArgs),
}

/// The command line of this process, or the exit code if there is nothing to run: help or a usage error was printed, or
/// kubectl asked for completions.
pub fn parse() -> Result<Cli, ExitCode> {
    let program = Program::current();
    if program == Program::Completer {
        return Err(complete());
    }
    let parsed = program.command().try_get_matches_from(std::env::args_os());
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|e| {
        let _ = e.print();
        if !e.use_stderr() {
            return ExitCode::SUCCESS;
        }
        // Not clap's 2, which is an answer here; but for `status`, where it is the very one.
        let is_status = std::env::args_os().nth(1).is_some_and(|command| command == "status");
        if is_status { ExitCode::from(status::NOT_SEEN) } else { ExitCode::FAILURE }
    })
}

/// Answers kubectl's question what may come next.
fn complete() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let lines = complete::suggestions(&Program::Completer.command(), &words);
    // As bytes: a tab parts a word from its description.
    match output::print(|out| lines.iter().try_for_each(|line| out.write_all(format!("{line}\n").as_bytes()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the command and prints what it answers; an error goes to standard error as one line.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Operator(args) => operator::run(args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::DrainCheck(args) => drain_check::run(&args),
        Command::Headroom(args) => headroom::run(&args),
        Command::Orphans(args) => orphans::run(&args),
        Command::Status(args) => return status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Shadow(args) => shadow::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Crd(args) => about::crd(&args),
        Command::Version(args) => about::version(&args),
        Command::Completion(args) => about::completion(&args),
        Command::Man(args) => about::man(&args),
    };
    match result {
        Ok(answer) => answer.into(),
        Err(error) => {
            output::note(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// An event loop on this thread for `what`.
fn event_loop(what: &str) -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.with_context(|| format!("no event loop for {what}: raise the process's limit of open files"))
}

/// Now, in microseconds of Unix time; 0 for a clock before 1970.
fn now_unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The answer of a command that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    No,
    /// An error that cannot be said.
    Failed,
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Done => Self::SUCCESS,
            Answer::No => Self::from(2),
            Answer::Failed => Self::FAILURE,
        }
    }
}
