//! A real terminal for programs that draw on one: a tmux server of its own, and what its screen shows.

use std::path::PathBuf;
use std::process::{Command, Output};

use berth_lab::wait_for;

use crate::SOON;

/// A terminal in which a program runs. A shell holds it, so that what the program leaves behind can be seen.
pub(crate) struct Terminal {
    tmux: String,
    socket: PathBuf,
    pid_file: PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_already = self.tmux(&["kill-server"]);
        let _gone_already = std::fs::remove_file(&self.pid_file);
    }
}

/// The tmux to use: `BERTH_TMUX`, which must work, or the one that is installed. `None`: there is none, and this is said.
pub(crate) fn found() -> Option<String> {
    if let Ok(tmux) = std::env::var("BERTH_TMUX") {
        return Some(tmux);
    }
    let works = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    if !works {
        println!("left out: there is no tmux (hack/tmux.sh says how to get one)");
    }
    works.then(|| "tmux".to_owned())
}

impl Terminal {
    /// Runs `command` in a terminal of so many columns and lines, with `before` on its screen.
    pub(crate) fn run(tmux: String, name: &str, size: (u16, u16), command: &[&str]) -> Self {
        let at = |what: &str| std::env::temp_dir().join(format!("berth-{}-{name}.{what}", std::process::id()));
        let terminal = Self { tmux, socket: at("tmux"), pid_file: at("pid") };
        let (columns, lines) = (size.0.to_string(), size.1.to_string());
        let pid_file = terminal.pid_file.to_str().unwrap();
        let inner = r#"echo $$ > "$0"; exec "$@""#;
        let outer = r#"echo before; sh -c "$@"; echo "ended with $?"; stty -a; exec cat"#;
        let mut args = vec!["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines];
        args.extend(["sh", "-c", outer, "sh", inner, pid_file]);
        args.extend(command);
        let output = terminal.tmux(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        Command::new(&self.tmux).arg("-u").arg("-S").arg(&self.socket).args(args).output().unwrap()
    }

    /// What the screen shows.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// The same with the codes of colours.
    pub(crate) fn coloured(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p", "-e"]).stdout).unwrap()
    }

    /// Waits until the screen shows all of `texts`, and returns it.
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        let mut last = String::new();
        let shown = wait_for("the screen", SOON, || {
            last = self.screen();
            Ok(texts.iter().all(|text| last.contains(text)).then_some(()))
        });
        shown.unwrap_or_else(|error| panic!("{error}: to show {texts:?}\n{last}"));
        last
    }

    /// Presses keys by tmux's names: `Tab`, `Enter`, `Down`, `q`.
    pub(crate) fn press(&self, keys: &[&str]) {
        let output = self.tmux(&[&["send-keys"], keys].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Types a text.
    pub(crate) fn type_in(&self, text: &str) {
        let output = self.tmux(&["send-keys", "-l", text]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes the terminal another size.
    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let output = self.tmux(&["resize-window", "-x", &columns, "-y", &lines]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Sends the program a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(&self.pid_file).unwrap();
        assert!(Command::new("kill").args(["-s", name, pid.trim()]).status().unwrap().success());
    }

    /// Waits until the program has ended with this code, and asserts that it has put the terminal back.
    pub(crate) fn ended(&self, code: i32) {
        let screen = self.shows(&[&format!("ended with {code}"), "icanon"]);
        assert!(screen.trim_start().starts_with("before"), "what stood there is there again\n{screen}");
        assert!(!screen.contains("-icanon") && !screen.contains("-echo "), "{screen}");
    }
}
