//! Many worlds, each in a process of its own, on all cores; and how a seed that breaks a rule is told.

use super::plan::Plan;
use super::run::run;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Worlds in `make test`, unless `BERTH_WORLDS` says how many.
const WORLDS: u64 = 1_000;

/// A long run goes on after a world that breaks a rule, until so many have: each is told, the first one with its shortest trace.
const MOST_BROKEN: usize = 10;

/// After so many worlds of a long run it says how far it is.
const SAID_EACH: u64 = 500;

/// Of `make test`: after so long no further world is begun. A slow machine does fewer worlds then, and says so: a test that fails for being
/// slow says nothing of what it tests.
const TIME: Duration = Duration::from_mins(3);

/// The first of the seeds that are tried where none is given.
const FIRST: u64 = 0x00be_4700;

/// Set for a process that copies itself.
const COPIES: &str = "BERTH_WORLD_COPIES";

/// Printed by it after each world.
const OVER: &str = "OVER";

/// Runs of one seed to find the shortest trace.
const SHRINKS: usize = 60;

/// A seed, or one that was never tried.
fn first_seed(text: &str) -> u64 {
    if text == "random" { RandomState::new().hash_one(std::process::id()) } else { number(text) }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(text: &str) -> u64 {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// Runs the worlds that the environment names, and prints what became of them.
pub(crate) fn in_this_process() {
    if variable(COPIES).is_some() {
        return copy_for_each();
    }
    let Some(seed) = variable("BERTH_WORLD_SEED") else { return };
    let left_out: Vec<usize> = variable("BERTH_WORLD_WITHOUT")
        .map_or_else(Vec::new, |list| list.split(',').map(|one| number(one) as usize).collect());
    live(Plan::draw(number(&seed)).without(&left_out), variable("BERTH_WORLD_TRACE").is_some());
}

/// Runs a world, and prints what became of it.
fn live(plan: Plan, keep: bool) {
    let (began, steps) = (Instant::now(), plan.steps.len());
    let world = std::thread::Builder::new().stack_size(16 << 20).spawn(move || run(plan, keep)).unwrap();
    let Ok(outcome) = world.join() else {
        println!("\nBROKEN panic: the world's thread panicked");
        return;
    };
    // The test's name stands on this line already.
    println!();
    for line in &outcome.trace {
        println!("TRACE {line}");
    }
    for rule in &outcome.broken {
        println!("BROKEN {rule}");
    }
    println!(
        "WORLD hash={:016x} events={} steps={steps} ms={}",
        outcome.hash,
        outcome.steps,
        began.elapsed().as_millis()
    );
}

/// What a process has printed of its world.
#[derive(Debug, Clone, Default)]
struct Told {
    hash: String,
    broken: Vec<String>,
    steps: usize,
    events: u64,
    trace: Vec<String>,
    /// Whether the world came to its end.
    ended: bool,
}

impl Told {
    fn line(&mut self, line: &str) {
        if let Some(broken) = line.strip_prefix("BROKEN ") {
            self.broken.push(broken.to_owned());
        } else if let Some(trace) = line.strip_prefix("TRACE ") {
            self.trace.push(trace.to_owned());
        } else if let Some(numbers) = line.strip_prefix("WORLD ") {
            self.ended = true;
            for (name, value) in numbers.split(' ').filter_map(|part| part.split_once('=')) {
                match name {
                    "hash" => value.clone_into(&mut self.hash),
                    "steps" => self.steps = number(value) as usize,
                    "events" => self.events = number(value),
                    _ => {}
                }
            }
        }
    }

    fn is_panic(&self) -> bool {
        !self.ended && self.broken.is_empty()
    }
}

/// This binary as a process of its own, in which [`in_this_process`] finds what it is to do.
fn process() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "one_world", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env_remove("RUST_BACKTRACE");
    command
}

fn in_own_process(seed: u64, left_out: &[usize], trace: bool) -> Told {
    let mut command = process();
    command.env("BERTH_WORLD_SEED", format!("{seed:#x}"));
    let list: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    command.env("BERTH_WORLD_WITHOUT", list.join(","));
    command.env("BERTH_WORLD_TRACE", if trace { "1" } else { "" });
    let output = command.output().unwrap();
    let (text, mut told) = (String::from_utf8_lossy(&output.stdout), Told::default());
    text.lines().for_each(|line| told.line(line));
    if told.is_panic() {
        let errors = String::from_utf8_lossy(&output.stderr);
        told.broken.push(format!("panic: the process ended with {}:\n{text}\n{errors}", output.status));
    }
    told
}

/// A process that copies itself for each world: a copy has at once what takes a fifth of a world's time to make, the definition of the
/// API, and is otherwise as a process that was started for this world alone.
struct Copied {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Copied {
    fn start() -> Self {
        let mut command = process();
        command.env(COPIES, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    fn run(&mut self, seed: u64) -> Told {
        writeln!(self.process.stdin.as_mut().unwrap(), "{seed}").unwrap();
        let mut told = Told::default();
        for line in self.lines.by_ref().lines() {
            match line.unwrap().as_str() {
                OVER => break,
                line => told.line(line),
            }
        }
        if told.is_panic() { in_own_process(seed, &[], false) } else { told }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // It ends where its input ends.
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

/// Copies this process for each seed that is asked for, until no more are.
#[allow(clippy::exit, reason = "a copy has but this one thread, and nothing to go back to")]
fn copy_for_each() {
    // What a world would make otherwise.
    let _made = super::model::api::definition();
    for line in std::io::stdin().lines() {
        let seed = number(&line.unwrap());
        let Some(copy) = berth_replay::fork().unwrap() else {
            live(Plan::draw(seed), false);
            std::process::exit(0);
        };
        let _ended = rustix::process::waitpid(Some(copy), rustix::process::WaitOptions::empty());
        println!("{OVER}");
    }
}

/// Leaves out steps of a plan as long as a rule is broken without them: halves, quarters, and so on.
fn shrink(seed: u64, told: &Told) -> (Vec<usize>, Told) {
    let rule = |told: &Told| told.broken.first().map(|broken| broken.split(':').next().unwrap_or_default().to_owned());
    let wanted = rule(told);
    let (mut out, mut best, mut tries) = (Vec::new(), told.clone(), 0);
    let mut part = told.steps.div_ceil(2);
    while part > 0 {
        let mut begin = 0;
        while begin < told.steps {
            let more: Vec<usize> = (begin..(begin + part).min(told.steps)).filter(|step| !out.contains(step)).collect();
            begin += part;
            if more.is_empty() {
                continue;
            }
            if tries >= SHRINKS {
                return (out, best);
            }
            tries += 1;
            let without: Vec<usize> = out.iter().copied().chain(more).collect();
            let shorter = in_own_process(seed, &without, false);
            if rule(&shorter) == wanted {
                (out, best) = (without, shorter);
            }
        }
        part /= 2;
    }
    (out, best)
}

/// What somebody needs who is to mend it; only the rules where `BERTH_WORLD_BRIEF` is set.
fn report(seed: u64, told: &Told) -> String {
    if variable("BERTH_WORLD_BRIEF").is_some() {
        return format!("seed {seed:#x} breaks a rule: {}", told.broken.join("; "));
    }
    let (out, _) = shrink(seed, told);
    let shortest = in_own_process(seed, &out, true);
    let mut text = format!("seed {seed:#x} breaks a rule:\n");
    for broken in &told.broken {
        let _ = writeln!(text, "  {broken}");
    }
    let _ = writeln!(text, "again: BERTH_WORLD_SEED={seed:#x} cargo test --workspace --test simulation");
    let plan = Plan::draw(seed).without(&out);
    let _ = writeln!(text, "with {} of its {} steps it breaks {:?}:", plan.steps.len(), told.steps, shortest.broken);
    for (at, step) in &plan.steps {
        let _ = writeln!(text, "  {:>9.3} {step:?}", at.as_secs_f64());
    }
    let _ = writeln!(text, "what happened last, of {} lines (BERTH_WORLD_TRACE=1 shows all):", shortest.trace.len());
    let whole = variable("BERTH_WORLD_TRACE").is_some();
    let skip = if whole { 0 } else { shortest.trace.len().saturating_sub(60) };
    for line in &shortest.trace[skip..] {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Whether a seed is run a second time, to compare the two.
fn is_repeated(index: u64) -> bool {
    variable("BERTH_WORLD_TWICE").is_some() || index.is_multiple_of(10)
}

/// Runs as many worlds as the environment asks for, or the one that it names.
pub(crate) fn many() {
    let one = variable("BERTH_WORLD_SEED").map(|seed| number(&seed));
    let (first, count) = match one {
        Some(seed) => (seed, 1),
        None => (
            variable("BERTH_WORLD_FIRST").map_or(FIRST, |first| first_seed(&first)),
            variable("BERTH_WORLDS").map_or(WORLDS, |count| number(&count)),
        ),
    };
    let unlimited = variable("BERTH_WORLDS").is_some();
    let (began, next, events, done) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Vec<(u64, Told)>> = Mutex::default();
    let most = if unlimited && variable("BERTH_WORLD_BRIEF").is_none() { MOST_BROKEN } else { 1 };
    let work = || {
        // The second run of a world is in another process, so that nothing that is drawn once for a process is the same by chance.
        let (mut worlds, mut other) = (Copied::start(), Copied::start());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let late = !unlimited && began.elapsed() > TIME;
            if index >= count || late || failed.lock().unwrap().len() >= most {
                return;
            }
            let seed = first.wrapping_add(index);
            let mut told = worlds.run(seed);
            if told.broken.is_empty() && (one.is_some() || is_repeated(index)) {
                let again = other.run(seed);
                if again.hash != told.hash {
                    told.broken.push(format!("replay: the second run differs, {} and {}", told.hash, again.hash));
                }
            }
            events.fetch_add(told.events, Ordering::Relaxed);
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            if unlimited && so_far.is_multiple_of(SAID_EACH) {
                println!("{so_far} of {count} worlds in {:.0} s", began.elapsed().as_secs_f64());
            }
            if !told.broken.is_empty() {
                println!("seed {seed:#x} breaks a rule: {}", told.broken.join("; "));
                failed.lock().unwrap().push((seed, told));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (done, seconds) = (done.into_inner(), began.elapsed().as_secs_f64());
    println!("{done} worlds of 320 s in {seconds:.1} s, {} events", events.into_inner());
    let failed = failed.into_inner().unwrap();
    if let [(seed, told), others @ ..] = &*failed {
        let others: String = others.iter().fold(String::new(), |mut text, (seed, told)| {
            let _ = writeln!(text, "seed {seed:#x} breaks a rule: {}", told.broken.join("; "));
            text
        });
        panic!("after {done} worlds: {}{others}", report(*seed, told));
    }
    match fewer(done, count, unlimited) {
        None => {}
        Some(Fewer::Told(text)) => {
            // Past what captures the output of tests that pass; `hack/timed.sh` repeats it at the very end.
            let _told = writeln!(std::io::stderr(), "\n{text}");
        }
        Some(Fewer::Fails(text)) => panic!("{text}"),
    }
}

/// What it means that not all worlds were run that were wanted.
#[derive(Debug, PartialEq, Eq)]
enum Fewer {
    Told(String),
    Fails(String),
}

fn fewer(done: u64, wanted: u64, is_asked_for: bool) -> Option<Fewer> {
    let text = format!("WORLDS: ONLY {done} OF {wanted} were run; no rule was broken in those");
    (done < wanted).then(|| {
        if is_asked_for {
            Fewer::Fails(text)
        } else {
            Fewer::Told(format!("{text}. This machine is slow: `make soak N={wanted}` takes the time that they need"))
        }
    })
}

#[test]
fn fewer_worlds_than_were_asked_for_fail_and_fewer_than_usual_are_told() {
    assert_eq!((fewer(1_000, 1_000, false), fewer(20_000, 20_000, true)), (None, None));
    assert!(
        matches!(fewer(400, 1_000, false), Some(Fewer::Told(text)) if text.starts_with("WORLDS: ONLY 400 OF 1000 "))
    );
    assert!(matches!(fewer(19_999, 20_000, true), Some(Fewer::Fails(text)) if text.contains("ONLY 19999 OF 20000 ")));
}
