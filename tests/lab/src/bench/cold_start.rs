//! A start in a cluster with many bound pods: time to the first bind, and memory.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;

use super::Bench;
use super::cluster::bound_namespace;
use super::contestant::Contestant;
use super::figures::Figures;
use super::options::BenchOptions;
use super::pods::bound;
use super::progress::progress;
use super::workload::Workload;

/// Pods that wait for the contestant when it starts.
pub(super) const BACKLOG: usize = 200;
/// Bound pods between two progress lines.
const STEP: usize = 10_000;
const BUFFER: usize = 1 << 18;

/// An encoding of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    pub(super) const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Protobuf => "protobuf",
        }
    }

    const fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// A reading of the list of all pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct BareList {
    pub(super) encoding: Encoding,
    pub(super) seconds: f64,
    /// Bytes per pod.
    pub(super) each: usize,
}

impl Bench {
    /// Creates bound pods, straight onto their nodes, until there are `upto`.
    pub(super) fn fill(&mut self, upto: usize) -> Result<()> {
        let BenchOptions { nodes, padding, namespaces, .. } = self.options;
        let first = self.bound;
        let count = upto.saturating_sub(first);
        let made = AtomicUsize::new(0);
        let began = Instant::now();
        self.each(count, |index| {
            let namespace = bound_namespace((first + index) % namespaces);
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            self.cluster.plane.api.post(&path, &bound(first + index, &namespace, (nodes, padding)))?;
            match made.fetch_add(1, Ordering::Relaxed) + 1 {
                done if done % STEP == 0 || done == count => {
                    progress(&format!("{done} of {count} bound pods made in {} s", began.elapsed().as_secs()))
                }
                _ => Ok(()),
            }
        })?;
        self.bound = self.bound.max(upto);
        Ok(())
    }

    /// Reads the list of all pods once in each encoding, over one connection, and throws it away: what no start can do without.
    pub(super) fn read_bare_lists(&mut self) -> Result<()> {
        for encoding in Encoding::ALL {
            self.calm()?;
            let began = Instant::now();
            let mut list = self.cluster.plane.api.stream("/api/v1/pods", encoding.accept())?;
            let mut buffer = vec![0; BUFFER];
            let mut bytes = 0;
            loop {
                match list.read(&mut buffer)? {
                    0 => break,
                    read => bytes += read,
                }
            }
            let seconds = began.elapsed().as_secs_f64();
            let each = bytes / self.options.bound.max(1);
            let (name, megabytes) = (encoding.name(), bytes as f64 / 1e6);
            progress(&format!(
                "the bare list in {name}: {megabytes:.1} MB read in {seconds:.2} s, {each} bytes per pod"
            ))?;
            self.bare_lists.push(BareList { encoding, seconds, each });
        }
        Ok(())
    }

    /// One start with a small backlog.
    pub(super) fn cold_start(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.backlog(Workload::ColdStart, contestant, prefix)
    }
}
