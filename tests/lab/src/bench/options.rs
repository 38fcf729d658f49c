//! What to run, from the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::churn;
use super::contestant::Contestant;
use super::workload::Workload;
use crate::wait::StopFlag;

/// How `berth-bench-e2e` is used.
pub const USAGE: &str = "usage: berth-bench-e2e [OPTION VALUE]...
  --nodes N         nodes of the cluster (default 5000)
  --pods N          pods of a race, of a backlog and of a race of pods with claims (default 8000)
  --constrained N   pods of every other race but preemption (default 3000)
  --preemptors N    pods of a race in a cluster full of pods that give way (default 500)
  --profiles N      profiles of Berth, among which the pods are divided (default 1)
  --idle N          profiles of Berth without pods beside these (default 0)
  --gated N         pods of each contestant that have a scheduling gate meanwhile (default 0)
  --images N        images that each node lists (default 0)
  --rate N          pods a second that are created in latency (default 0: half of what the null scheduler bound in the
                    races of the same run)
  --repeats N       runs of each contestant in each workload (default 3)
  --contestants L   of berth,kube-scheduler,null (default all)
  --workloads L     of race,backlog,labels,spread,anti-affinity,affinity,volumes,extender,claims,churn,latency,
                    preemption,faults,unschedulable,cold-start
                    (default all but claims, which has a size of its own: --nodes 500 --pods 2500; without latency where
                    nothing says its rate)
  --bound N         pods already bound at a cold start (default 150000; 0 leaves it out)
  --namespaces N    namespaces among which these are divided (default 1)
  --padding N       bytes of environment that each of them has beside its 1.7 KB (default 0)
  --seed N          decides in which order the contestants take turns (default 1)
  --out FILE.md     write the tables there too
  --berth PATH      the operator's binary (default: target/release/berth)";

/// Pods that a node takes.
pub(super) const PODS_PER_NODE: usize = 110;

/// What to run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The `berth` binary.
    pub binary: PathBuf,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Pods of a race, of a backlog and of a race of pods with claims.
    pub pods: usize,
    /// Pods of every other race but preemption.
    pub constrained: usize,
    /// Pods of a race in a cluster full of pods that give way.
    pub preemptors: usize,
    /// Profiles of Berth, among which the pods are divided. Others serve all pods by one.
    pub profiles: usize,
    /// Profiles of Berth without pods beside these.
    pub idle: usize,
    /// Pods of each contestant that have a scheduling gate meanwhile; nobody serves those of the null scheduler, which knows no gates.
    pub gated: usize,
    /// Images that each node lists.
    pub images: usize,
    /// Namespaces of the pods that are bound already.
    pub namespaces: usize,
    /// Pods a second that are created where latency is measured; 0 is half of what the null scheduler bound in races.
    pub rate: usize,
    /// Runs of each contestant in each workload.
    pub repeats: usize,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// What they are asked to do.
    pub workloads: Vec<Workload>,
    /// Pods already bound at a cold start.
    pub bound: usize,
    /// Bytes of environment that each of them has.
    pub padding: usize,
    /// Decides in which order the contestants take turns.
    pub seed: u64,
    /// Where to write the tables, beside stdout.
    pub out: Option<PathBuf>,
    /// Raised to end the benchmark early.
    pub stop: StopFlag,
}

impl BenchOptions {
    /// The options of a command line without the program's name. `binary` is what `--berth` replaces. An error names
    /// the option and what it takes.
    pub fn parse(args: impl Iterator<Item = String>, binary: PathBuf, stop: StopFlag) -> Result<Self> {
        let mut args = args;
        let mut options = Self {
            binary,
            nodes: 5000,
            pods: 8000,
            constrained: 3000,
            preemptors: 500,
            profiles: 1,
            idle: 0,
            gated: 0,
            images: 0,
            namespaces: 1,
            rate: 0,
            repeats: 3,
            contestants: Contestant::ALL.to_vec(),
            workloads: Workload::ALL.into_iter().filter(|workload| *workload != Workload::Claims).collect(),
            bound: 150_000,
            padding: 0,
            seed: 1,
            out: None,
            stop,
        };
        let mut names_workloads = false;
        while let Some(option) = args.next() {
            let mut value = || args.next().with_context(|| format!("{option} needs a value\n{USAGE}"));
            match option.as_str() {
                "--nodes" => options.nodes = number(&option, &value()?, 1)?,
                "--pods" => options.pods = number(&option, &value()?, 1)?,
                "--constrained" => options.constrained = number(&option, &value()?, 1)?,
                "--preemptors" => options.preemptors = number(&option, &value()?, 1)?,
                "--profiles" => options.profiles = number(&option, &value()?, 1)?,
                "--idle" => options.idle = number(&option, &value()?, 0)?,
                "--gated" => options.gated = number(&option, &value()?, 0)?,
                "--images" => options.images = number(&option, &value()?, 0)?,
                "--namespaces" => options.namespaces = number(&option, &value()?, 1)?,
                "--rate" => options.rate = number(&option, &value()?, 0)?,
                "--repeats" => options.repeats = number(&option, &value()?, 1)?,
                "--bound" => options.bound = number(&option, &value()?, 0)?,
                "--padding" => options.padding = number(&option, &value()?, 0)?,
                "--seed" => options.seed = number(&option, &value()?, 0)? as u64,
                "--contestants" => {
                    let known = Contestant::ALL.map(|contestant| (contestant.key(), contestant));
                    options.contestants = choices(&option, &value()?, &known)?;
                }
                "--workloads" => {
                    let known = Workload::ALL.map(|workload| (workload.key(), workload));
                    options.workloads = choices(&option, &value()?, &known)?;
                    names_workloads = true;
                }
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--berth" => options.binary = PathBuf::from(value()?),
                _ => bail!("unknown argument {option}\n{USAGE}"),
            }
        }
        if !names_workloads && !options.has_rate() {
            options.workloads.retain(|workload| *workload != Workload::Latency);
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        let room = self.nodes * PODS_PER_NODE;
        let bound = self.bound_first();
        if self.workloads.contains(&Workload::AntiAffinity) && self.constrained >= self.nodes {
            bail!(
                "--constrained {}: pods that keep each other from their nodes need more than {} nodes",
                self.constrained,
                self.nodes
            );
        }
        let last = if self.runs_cold_start() { super::cold_start::BACKLOG } else { self.constrained };
        let most = self.pods.max(self.constrained).max(bound + last);
        if most > room {
            bail!(
                "--nodes {}: these take {room} pods, {most} were asked for; give more nodes or fewer pods",
                self.nodes
            );
        }
        if self.workloads.contains(&Workload::Latency) && !self.has_rate() {
            bail!("--rate 0: half the ceiling is known where the null scheduler runs a race; add both, or give a rate");
        }
        let devices = self.nodes * super::claims::DEVICES_PER_NODE;
        if self.workloads.contains(&Workload::Claims) && self.pods >= devices {
            bail!(
                "--pods {}: these nodes have {devices} devices, one for the probe; give more nodes or fewer pods",
                self.pods
            );
        }
        let full = self.nodes * super::pods::FILLERS_PER_NODE;
        if self.workloads.contains(&Workload::Preemption) && self.preemptors >= full {
            bail!("--preemptors {}: these nodes have room for fewer than {full}: give more nodes", self.preemptors);
        }
        Ok(())
    }

    /// Whether `contestant` can do what `workload` asks for. The null scheduler evicts nobody: it would put pods where
    /// there is no room.
    pub(super) fn takes_part(contestant: Contestant, workload: Workload) -> bool {
        !(contestant == Contestant::Null && matches!(workload, Workload::Preemption | Workload::ColdStart))
    }

    /// Who takes part in cold starts: the null scheduler reads no bound pods and so has none.
    pub(super) fn cold_start_contestants(&self) -> impl Iterator<Item = Contestant> {
        self.contestants.iter().copied().filter(|contestant| *contestant != Contestant::Null)
    }

    /// Whether there is a cold start to run.
    pub(super) fn runs_cold_start(&self) -> bool {
        self.bound > 0
            && self.workloads.contains(&Workload::ColdStart)
            && self.cold_start_contestants().next().is_some()
    }

    /// Whether it is known at which rate pods come where latency is measured.
    fn has_rate(&self) -> bool {
        let ceiling = self.contestants.contains(&Contestant::Null) && self.workloads.contains(&Workload::Race);
        self.rate > 0 || ceiling
    }

    /// How many bound pods there are at most: at a cold start, or beside pods that fit nowhere.
    fn bound_first(&self) -> usize {
        let beside = self.workloads.contains(&Workload::Unschedulable);
        let beside = if beside { self.nodes * churn::PLACED_PER_NODE } else { 0 };
        let cold = if self.runs_cold_start() { self.bound } else { 0 };
        beside.max(cold)
    }

    /// How many pods a run of `workload` places.
    pub(super) fn pods_of(&self, workload: Workload) -> usize {
        match workload {
            Workload::Race | Workload::Backlog | Workload::Claims => self.pods,
            Workload::Labels
            | Workload::Spread
            | Workload::AntiAffinity
            | Workload::Affinity
            | Workload::Volumes
            | Workload::Extender
            | Workload::Churn
            | Workload::Latency
            | Workload::Unschedulable => self.constrained,
            Workload::Preemption => self.preemptors,
            Workload::Faults => super::faults::PODS_EACH,
            Workload::ColdStart => super::cold_start::BACKLOG,
        }
    }

    /// The command that repeats this benchmark, with every default written out.
    pub(super) fn command_line(&self) -> String {
        let contestants: Vec<_> = self.contestants.iter().map(|contestant| contestant.key()).collect();
        let workloads: Vec<_> = self.workloads.iter().map(|workload| workload.key()).collect();
        format!(
            "make bench-e2e ARGS=\"--nodes {} --pods {} --constrained {} --preemptors {} --profiles {} --idle {} --gated {} --images {} --namespaces {} --rate {} --repeats {} --contestants {} --workloads {} --bound {} --padding {} --seed {}\"",
            self.nodes,
            self.pods,
            self.constrained,
            self.preemptors,
            self.profiles,
            self.idle,
            self.gated,
            self.images,
            self.namespaces,
            self.rate,
            self.repeats,
            contestants.join(","),
            workloads.join(","),
            self.bound,
            self.padding,
            self.seed
        )
    }
}

fn number(option: &str, value: &str, least: usize) -> Result<usize> {
    match value.parse() {
        Ok(number) if number >= least => Ok(number),
        _ => bail!("{option} takes a whole number from {least}, not '{value}'"),
    }
}

/// The values of a comma-separated list of known words, each once, in the order of `known`.
fn choices<T: Copy>(option: &str, value: &str, known: &[(&str, T)]) -> Result<Vec<T>> {
    let words: Vec<&str> = value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    if words.is_empty() || words.iter().any(|word| !names.contains(word)) {
        bail!("{option} takes a comma-separated list of {}, not '{value}'", names.join(", "));
    }
    Ok(known.iter().filter(|(name, _)| words.contains(name)).map(|(_, value)| *value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<BenchOptions> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        BenchOptions::parse(args.into_iter(), PathBuf::from("berth"), StopFlag::default())
    }

    #[test]
    fn the_command_line_that_a_report_shows_gives_the_same_options() {
        let options = parse(
            "--nodes 200 --pods 300 --constrained 100 --preemptors 50 --profiles 8 --idle 3 --gated 9 --images 4 --namespaces 2 --rate 40 --contestants null,berth --bound 0 --padding 90 --seed 7",
        )
        .unwrap();
        assert_eq!(options.contestants, [Contestant::Berth, Contestant::Null]);
        assert!(!options.runs_cold_start() && options.workloads.contains(&Workload::Latency));
        let of_berth = parse("--contestants berth").unwrap();
        assert!(!of_berth.workloads.contains(&Workload::Latency), "half of what?");
        let line = options.command_line();
        let args = line.trim_start_matches("make bench-e2e ARGS=\"").trim_end_matches('"');
        assert_eq!(parse(args).unwrap().command_line(), line);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_option_named() {
        for (line, part) in [
            ("--nodes 0", "--nodes takes a whole number from 1"),
            ("--pods many", "not 'many'"),
            ("--contestants berth,volcano", "berth, kube-scheduler, null"),
            ("--workloads", "--workloads needs a value"),
            ("--fast", "unknown argument --fast"),
            ("--nodes 10 --pods 20 --constrained 10", "need more than 10 nodes"),
            ("--nodes 10 --pods 2000 --constrained 9 --bound 0", "take 1100 pods, 2000 were asked for"),
            ("--nodes 20 --pods 9 --workloads unschedulable", "take 2200 pods, 3080 were asked for"),
            ("--workloads latency", "half the ceiling is known where the null scheduler runs a race"),
            ("--nodes 10 --pods 100 --constrained 9 --workloads claims", "have 100 devices"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
