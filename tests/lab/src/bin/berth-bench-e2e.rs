//! `berth-bench-e2e`: the side-by-side benchmark behind `make bench-e2e`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use berth_lab::StopFlag;
use berth_lab::bench::{BenchOptions, USAGE, run};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What shells report for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        let _ = writeln!(io::stdout(), "{USAGE}");
        return ExitCode::SUCCESS;
    }
    let stop = StopFlag::default();
    // Everything that was started is ended while the error comes up here.
    let Err(error) = parse(&stop).and_then(|options| run(&options)) else {
        return ExitCode::SUCCESS;
    };
    if stop.is_raised() {
        let _ = writeln!(io::stderr(), "\nberth-bench-e2e: interrupted; all processes ended");
        return ExitCode::from(INTERRUPTED);
    }
    let _ = writeln!(io::stderr(), "\nberth-bench-e2e: {error:#}");
    ExitCode::FAILURE
}

fn parse(stop: &StopFlag) -> Result<BenchOptions> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.shared()).context("handling signals")?;
    }
    BenchOptions::parse(std::env::args().skip(1), release_binary()?, stop.clone())
}

/// `release/berth` beside the directory of this very program, wherever cargo builds.
fn release_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program's own path")?;
    let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
    Ok(target.join("release/berth"))
}
