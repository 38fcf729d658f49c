use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Upstream's plugin, in a process of its own.
pub(crate) struct Oracle {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub(crate) fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built =
            Command::new(root.join("hack/upstream.sh")).arg("--plugin").stderr(Stdio::inherit()).output().unwrap();
        assert!(built.status.success(), "hack/upstream.sh --plugin failed");
        let tool = String::from_utf8(built.stdout).unwrap();
        let mut child = Command::new(tool.trim())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", tool.trim()));
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// The answers to all questions, by node. A thread writes, since neither side reads without end before it writes.
    pub(crate) fn ask<'a>(&mut self, questions: impl Iterator<Item = &'a Value>) -> Vec<Value> {
        let lines: Vec<String> = questions.map(|question| format!("{question}\n")).collect();
        let count = lines.len();
        let mut stdin = self.child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            for line in lines {
                stdin.write_all(line.as_bytes()).expect("the oracle reads");
            }
            stdin
        });
        let answers = (0..count).map(|_| {
            let mut line = String::new();
            self.answers.read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
        });
        let answers = answers.collect();
        self.child.stdin = Some(writer.join().unwrap());
        answers
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
