//! `berth convert`: configurations of kube-scheduler as SchedulerProfiles, and the way back.

mod configuration;
mod profiles;
mod yaml;

use super::Answer;
use super::inputs::{self, InputError};
use super::output::{self, Format};
use berth_api::DEFAULT_SCHEDULER_NAME;
use berth_convert::import::Loss;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 2: something was lost, or means something else now. Standard error has a line for each such setting:
  lost:     it has no counterpart
  changed:  it was taken over and does not mean quite the same
  note:     the setting never decided where pods go, or was taken over whole and deserves a look (exit code 0)

-o json prints {\"profiles\": [SchedulerProfile, …], \"manifests\": [Secret, …], \"losses\": [LOSS, …]}, or with
--to kube-scheduler-configuration {\"configuration\": KubeSchedulerConfiguration, \"losses\": [LOSS, …]}, where LOSS is
{\"source\": FILE AND OBJECT, \"field\": PATH, \"kind\": \"Lost\" | \"Changed\" | \"Note\", \"message\": TEXT}.")]
pub(super) struct Args {
    /// What to convert: a file, a folder (read recursively), or `-` for standard input; may be given several times.
    ///
    /// A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); a Policy in JSON or YAML; a KubeSchedulerConfiguration
    /// v1alpha1, whose Policy is a file beside it or a ConfigMap among the inputs; ConfigMaps that hold any of these; AKS'
    /// SchedulerConfiguration and OpenShift's Scheduler; with --to kube-scheduler-configuration also SchedulerProfiles.
    /// Other kinds are skipped.
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// What to write.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    to: To,
    /// The scheduler name to serve where the input names none, as a Policy never does.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SCHEDULER_NAME)]
    scheduler_name: String,
    /// The form of the answer; text is YAML with comments.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum To {
    /// SchedulerProfiles, to be applied.
    #[default]
    SchedulerProfiles,
    /// One KubeSchedulerConfiguration v1 for all profiles.
    KubeSchedulerConfiguration,
}

/// The result of a conversion.
struct Written {
    yaml: String,
    json: Value,
    losses: Vec<(String, Loss)>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let found = inputs::convertible(&args.filename, &args.scheduler_name)?;
    output::notes(&found.notes);
    let files: Vec<String> = args.filename.iter().map(|path| path.display().to_string()).collect();
    let written = match args.to {
        To::SchedulerProfiles => profiles::write(&found, &files.join(", "))?,
        To::KubeSchedulerConfiguration => configuration::write(&found, &files.join(", "))?,
    };
    for (source, loss) in &written.losses {
        output::note(format_args!("{}: {source}: {loss}", loss.kind.word()));
    }
    let mut json = written.json;
    json["losses"] = written.losses.iter().map(in_json).collect();
    output::answer(args.output, &json, |out| out.write_all(written.yaml.as_bytes()))?;
    let matters = written.losses.iter().any(|(_, loss)| loss.matters());
    Ok(if matters { Answer::No } else { Answer::Done })
}

fn in_json((source, loss): &(String, Loss)) -> Value {
    json!({"source": source, "field": loss.field, "kind": loss.kind, "message": loss.what})
}

/// The SchedulerProfiles that `berth convert` prints for `text`, which stands in a file called `name`.
pub fn converted(name: &str, text: &str) -> Result<String, InputError> {
    let found = inputs::convertible_text(name, text, DEFAULT_SCHEDULER_NAME)?;
    Ok(profiles::write(&found, name)?.yaml)
}

/// The KubeSchedulerConfiguration that `berth convert --to kube-scheduler-configuration -o json` prints for `text`, which stands
/// in a file called `name`.
pub fn converted_back(name: &str, text: &str) -> anyhow::Result<Value> {
    let found = inputs::convertible_text(name, text, DEFAULT_SCHEDULER_NAME)?;
    let mut written = configuration::write(&found, name)?;
    Ok(written.json["configuration"].take())
}
