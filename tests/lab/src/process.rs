//! One child process: its log, its figures, and its certain end.
//!
//! Two things end a child. Dropping its [`Managed`] does: SIGTERM to its process group, SIGKILL after a limit. And if
//! the parent itself is killed, so that nothing is dropped, a watchdog does: a small shell of its own process group
//! that reads a pipe held open by the parent alone; when the pipe closes, it ends the child in the same way.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wait::wait_for;

/// How long a child may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Ends process group `$1` when its standard input closes: SIGTERM, five seconds, SIGKILL.
const END_GROUP: &str = r#"cat >/dev/null
kill -s TERM -- "-$1" || exit 0
for _ in $(seq 50); do kill -s 0 -- "-$1" || exit 0; sleep 0.1; done
kill -s KILL -- "-$1""#;

/// Removes directory `$1` when its standard input closes and the processes writing to it have had their time to end.
const REMOVE_DIRECTORY: &str = r#"cat >/dev/null
sleep 7
rm -rf -- "$1""#;

/// A shell that does something when this process dies without having dropped it.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(crate) fn removing(directory: &Path) -> Result<Self> {
        Self::start(REMOVE_DIRECTORY, directory.as_os_str())
    }

    fn start(script: &str, argument: impl AsRef<std::ffi::OsStr>) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "watchdog"]).arg(argument);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self(command.spawn().context("starting a watchdog")?))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The whole group, before the pipe closes: neither the shell nor its `cat` may see the end of input and act.
        if let Ok(group) = pid_of(&self.0) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A child process that ends when this value is dropped.
#[derive(Debug)]
pub struct Managed {
    name: String,
    child: Child,
    log: PathBuf,
    watchdog: Option<Watchdog>,
    detached: bool,
}

impl Managed {
    /// Starts `command` in a process group of its own, its output appended to `log`. Ctrl-C in the terminal does not
    /// reach it: its owner decides when it ends.
    pub fn spawn(name: &str, mut command: Command, log: PathBuf) -> Result<Self> {
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("opening the log of {name}"))?;
        command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let program = command.get_program().to_owned();
        let child = command
            .spawn()
            .with_context(|| format!("starting {name} ({}): does the file exist?", program.display()))?;
        let mut managed = Self { name: name.to_owned(), child, log, watchdog: None, detached: false };
        managed.watchdog = Some(Watchdog::start(END_GROUP, managed.pid().to_string())?);
        Ok(managed)
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that holds its standard output and standard error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last `lines` lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// The error followed by the tail of this process's log, for a reader who has nothing else.
    pub fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!("{error:#}\nlast lines of the log of {}:\n{}", self.name, self.log_tail(20))
    }

    /// Sends it a signal. Fails when it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(pid_of(&self.child)?, signal).with_context(|| format!("sending a signal to {}", self.name))
    }

    /// Its exit status if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            // Its process id may now be given to someone else: nobody may signal it any more.
            self.watchdog = None;
        }
        Ok(status)
    }

    /// Waits until it has ended by itself or by a signal sent before.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        wait_for(&what, limit, || self.ended())
    }

    /// Kills it at once (SIGKILL, the whole group) and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended()?.is_none() {
            kill_process_group(pid_of(&self.child)?, Signal::KILL)?;
            self.wait(GRACE)?;
        }
        Ok(())
    }

    /// Its highest resident set so far, in KiB. Fails when it has ended.
    pub fn rss_peak_kib(&self) -> Result<u64> {
        self.memory_kib("VmHWM:")
    }

    /// Makes [`Self::rss_peak_kib`] the highest from now on. Fails when it has ended, and on a kernel without `CONFIG_PROC_PAGE_MONITOR`.
    pub fn reset_rss_peak(&self) -> Result<()> {
        // proc_pid_clear_refs(5): 5 sets VmHWM to what is resident now.
        fs::write(format!("/proc/{}/clear_refs", self.pid()), "5")
            .with_context(|| format!("beginning the peak memory of {} anew: has it ended?", self.name))
    }

    /// Its resident set now, in KiB. Fails when it has ended.
    pub fn rss_kib(&self) -> Result<u64> {
        self.memory_kib("VmRSS:")
    }

    fn memory_kib(&self, line_of: &str) -> Result<u64> {
        let status = self.proc_file("status")?;
        status
            .lines()
            .find_map(|line| line.strip_prefix(line_of))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .with_context(|| format!("{} has ended: no memory figure", self.name))
    }

    /// The processor time that it has used so far, user and system, in seconds. Fails when it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = self.proc_file("stat")?;
        // The second field is the program's name in parentheses and may hold spaces: count from its end.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
            bail!("/proc/{}/stat of {} has an unknown form", self.pid(), self.name);
        };
        Ok((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Lets it live on after this process, without an owner, and returns its process id.
    pub fn detach(mut self) -> u32 {
        self.detached = true;
        self.watchdog = None;
        self.pid()
    }

    fn proc_file(&self, file: &str) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid()))
            .with_context(|| format!("reading the figures of {}: has it ended?", self.name))
    }

    fn end(&mut self) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        kill_process_group(pid_of(&self.child)?, Signal::TERM)?;
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if self.ended()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        if let Err(error) = self.end() {
            let _ = writeln!(std::io::stderr(), "could not end {}: {error:#}", self.name);
        }
    }
}

fn pid_of(child: &Child) -> Result<Pid> {
    Pid::from_raw(child.id() as i32).context("a child without a process id")
}

/// Whether a process with this id exists and is more than a zombie.
pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z'))
}

/// How many TCP connections to this port of any machine a process has, those included that are about to come about.
pub fn connections(pid: u32, port: u16) -> Result<usize> {
    let sockets = fs::read_dir(format!("/proc/{pid}/fd")).context("reading what a process has open: has it ended?")?;
    let own: BTreeSet<String> = sockets
        .flatten()
        .filter_map(|open| fs::read_link(open.path()).ok()?.to_str()?.strip_prefix("socket:[").map(str::to_owned))
        .collect();
    let mut count = 0;
    for table in ["tcp", "tcp6"] {
        // A machine without IPv6 has no second table.
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            // Number, own address, the other's, state (1: established, 2: being opened), five more, inode.
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, _, remote, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            let leads_there = remote.ends_with(&format!(":{port:04X}")) && matches!(state, "01" | "02");
            count += usize::from(leads_there && own.contains(&format!("{inode}]")));
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn shell(directory: &Path, script: &str) -> Managed {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Managed::spawn("shell", command, directory.join("shell.log")).unwrap()
    }

    #[test]
    fn dropping_ends_the_child_and_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let child = shell(directory.path(), "sleep 1000 & echo $!; wait");
        let pid = child.pid();
        let grandchild: u32 = wait_for("the grandchild", LIMIT, || Ok(child.log_tail(1).trim().parse().ok())).unwrap();
        assert!(is_alive(pid) && is_alive(grandchild));
        drop(child);
        assert!(!is_alive(pid));
        wait_for("the grandchild's end", LIMIT, || Ok((!is_alive(grandchild)).then_some(()))).unwrap();
    }

    #[test]
    fn the_watchdog_ends_the_child_when_the_pipe_closes() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = shell(directory.path(), "exec sleep 1000");
        // What the kernel does to the pipe when the parent is killed.
        drop(child.watchdog.as_mut().unwrap().0.stdin.take());
        let status = wait_for("the child's end", LIMIT, || Ok(child.child.try_wait()?)).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn connections_to_a_port_are_counted_by_who_opened_them() {
        let listeners = [(); 2].map(|()| std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let [port, other] = [0, 1].map(|i: usize| listeners[i].local_addr().unwrap().port());
        let open = [port, port, other].map(|port| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
        let own = std::process::id();
        assert_eq!((connections(own, port).unwrap(), connections(own, other).unwrap()), (2, 1));
        let directory = tempfile::tempdir().unwrap();
        let child = shell(directory.path(), "exec sleep 1000");
        assert_eq!(connections(child.pid(), port).unwrap(), 0, "they are not the child's");
        drop(open);
        assert_eq!(connections(own, port).unwrap(), 0);
    }

    #[test]
    fn figures_are_read_while_it_lives_and_refused_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = shell(directory.path(), "while :; do :; done");
        wait_for("processor time", LIMIT, || Ok((child.cpu_seconds()? > 0.0).then_some(()))).unwrap();
        assert!(child.rss_peak_kib().unwrap() > 0);
        child.signal(Signal::TERM).unwrap();
        assert!(!child.wait(LIMIT).unwrap().success());
        assert!(child.rss_peak_kib().is_err() && child.reset_rss_peak().is_err());
    }
}
