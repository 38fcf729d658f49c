//! `berth status`: whether everything that Berth needs in a cluster is well, with an exit code for scripts.
//!
//! ```text
//!  facts     what was read from the API server, and what could not be
//!  verdict   pure: facts → findings, each with what to do about it
//! ```
//!
//! The exit codes are those of `diff`, and not of the other commands: a check that could not look must not pass for one that found
//! something, and "found something" is what a script asks for.

mod facts;
mod verdict;

use super::live::lease;
use super::output::{self, Format, counted};
use anyhow::anyhow;
use berth_cluster::client;
use facts::{Facts, Places};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use verdict::{Finding, State, judge};

/// Longest look: an API server that answers this slowly is not well, and nobody waits longer for a check.
const WITHIN: Duration = Duration::from_mins(1);

/// Exit code: nothing was found that is not well.
const WELL: u8 = 0;

/// Exit code: something is not well.
const NOT_WELL: u8 = 1;

/// Exit code: it is not known, because the command line is wrong, the API server did not answer, or essential rights are missing.
pub(super) const NOT_SEEN: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Of the kubeconfig's cluster.
  berth status

  # In a script: 0 well, 1 something is not, 2 could not look.
  berth status -o json > status.json || jq -r '.findings[] | select(.state == \"NotWell\") | .text' status.json

A note or a part that could not be checked does not change the exit code; a part without which nothing can be said, the Lease or
the profiles, makes it 2.")]
pub(super) struct Args {
    /// The kubeconfig to use. Without it: KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The namespace of the operator's Deployment. Without it: that of the installation which holds the Lease.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The namespace of the operator's Lease, as the operator was told.
    #[arg(long, value_name = "NAME", env = "BERTH_LEASE_NAMESPACE", default_value = lease::NAMESPACE)]
    lease_namespace: String,

    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The answer, in the JSON form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The worst of the findings that count.
    state: State,
    /// The API server that was asked.
    server: String,
    findings: Vec<Finding>,
}

/// Looks, prints, and returns the exit code; an error goes to standard error as one line.
pub(super) fn run(args: &Args) -> ExitCode {
    let code = look(args).and_then(|report| {
        output::answer(args.output, &report, |out| write(out, &report))?;
        Ok(match report.state {
            State::NotWell => NOT_WELL,
            State::NotSeen => NOT_SEEN,
            State::Well | State::Note | State::NotChecked => WELL,
        })
    });
    ExitCode::from(code.unwrap_or_else(|error| {
        output::note(format_args!("error: {error:#}"));
        NOT_SEEN
    }))
}

fn look(args: &Args) -> anyhow::Result<Report> {
    let (server, facts) = super::event_loop("the connection")?.block_on(async {
        let looked = tokio::time::timeout(WITHIN, read(args)).await;
        looked.map_err(|_| anyhow!("the API server has not answered everything within {} s", WITHIN.as_secs()))?
    })?;
    let findings = judge(&facts);
    Ok(Report { state: verdict::worst(&findings), server, findings })
}

async fn read(args: &Args) -> anyhow::Result<(String, Facts)> {
    let config = client::configure_for(args.kubeconfig.as_deref(), args.context.as_deref());
    // The errors' texts include their sources.
    let config = config.await.map_err(|error| anyhow!("{error}"))?;
    let (client, server) = client::reader(config).await.map_err(|error| anyhow!("{error}"))?;
    let places = Places { home: args.namespace.clone(), lease_namespace: args.lease_namespace.clone() };
    Ok((server, facts::gather(&client, places, Timestamp::now()).await))
}

fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for Finding { state, part, text, advice } in &report.findings {
        writeln!(out, "{:<11}  {part:<10}  {text}", state.in_words())?;
        if let Some(advice) = advice {
            writeln!(out, "{:<11}  {:<10}  do: {advice}", "", "")?;
        }
    }
    let count = |wanted: State| report.findings.iter().filter(|finding| finding.state == wanted).count();
    writeln!(out)?;
    match report.state {
        State::NotWell => {
            writeln!(out, "not well: {} of {}", counted(count(State::NotWell), "line"), report.findings.len())
        }
        State::NotSeen => writeln!(out, "not known: {} could not be looked at", counted(count(State::NotSeen), "part")),
        State::Well | State::Note | State::NotChecked => writeln!(out, "well"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_one_line_and_what_to_do_another() {
        let finding = |state, text: &str, advice: Option<&str>| Finding {
            state,
            part: "profile",
            text: text.to_owned(),
            advice: advice.map(str::to_owned),
        };
        let findings = vec![finding(State::Well, "a: Ready", None), finding(State::NotWell, "b: no", Some("mend b"))];
        let report = Report { state: State::NotWell, server: "https://x".to_owned(), findings };
        let mut out = Vec::new();
        write(&mut out, &report).unwrap();
        let want = "well         profile     a: Ready\n\
                    not well     profile     b: no\n                         do: mend b\n\n\
                    not well: 1 line of 2\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["state"], &json["findings"][1]["do"]), (&"NotWell".into(), &"mend b".into()));
        assert!(json["findings"][0].get("do").is_none());
    }
}
