//! Upstream's own plugins, in a process of their own: one JSON line a cluster, one JSON line an answer.

use super::answer::Answer;
use super::cluster::Drawn;
use super::engine::told_upstream;
use super::preemption;
use serde_json::json;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;

/// Clusters that may be asked about before the first answer is read.
const AHEAD: usize = 64;

/// The oracle's process; it ends with this value.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    questions: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it; builds it first if need be.
    pub fn start() -> Self {
        let path = path();
        let mut child = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("starting {}: {e}", path.display()));
        let questions = child.stdin.take().map(BufWriter::new);
        let answers = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        Self { child, questions, answers }
    }

    /// Asks about one cluster.
    pub fn ask(&mut self, drawn: &Drawn) -> Answer {
        let questions = self.questions.as_mut().unwrap();
        write(questions, drawn);
        questions.flush().unwrap();
        read(&mut self.answers)
    }

    /// Asks about each of `clusters`, and hands over each with its answer, in their order.
    pub fn ask_all(&mut self, clusters: impl Iterator<Item = Drawn> + Send, mut each: impl FnMut(Drawn, Answer)) {
        let mut questions = self.questions.take().unwrap();
        let answers = &mut self.answers;
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        let questions = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for drawn in clusters {
                    write(&mut questions, &drawn);
                    questions.flush().unwrap();
                    // Nobody listens any more: the other side has panicked, and says why.
                    if sender.send(drawn).is_err() {
                        break;
                    }
                }
                questions
            });
            for drawn in receiver {
                each(drawn, read(answers));
            }
            writer.join().unwrap()
        });
        self.questions = Some(questions);
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The end of its input is the end of its work, once what it was asked is answered.
        drop(self.questions.take());
        let _ = std::io::copy(&mut self.answers, &mut std::io::sink());
        let _ = self.child.wait();
    }
}

fn write(questions: &mut impl Write, drawn: &Drawn) {
    let mut line = json!({"id": drawn.seed, "objects": drawn.objects, "preemption": preemption::asked(drawn)});
    if let Some(config) = told_upstream(drawn) {
        line["config"] = config;
    }
    serde_json::to_writer(&mut *questions, &line).unwrap();
    questions.write_all(b"\n").unwrap();
}

fn read(answers: &mut impl BufRead) -> Answer {
    let mut line = String::new();
    let bytes = answers.read_line(&mut line).unwrap();
    assert!(bytes > 0, "the oracle ended before it answered; its standard error says why");
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("the oracle's answer is none: {e}: {line:.400}"))
}

/// `BERTH_ORACLE`, or what the build script says.
fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("BERTH_ORACLE") {
        return path.into();
    }
    berth_lab::Upstream::oracle().expect("the oracle")
}
