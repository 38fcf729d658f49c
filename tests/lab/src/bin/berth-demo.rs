//! `berth-demo`: the guided tour behind `make demo`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use berth_lab::StopFlag;
use berth_lab::demo::{DemoOptions, run};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const USAGE: &str = "usage: berth-demo [--keep] [--berth PATH]
  --keep        leave everything running at the end, and say how to end it
  --berth PATH  the operator's binary (default: target/release/berth)";

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Everything was ended while the error came up here.
            let _ = writeln!(io::stderr(), "\nberth-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<DemoOptions> {
    let stop = StopFlag::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.shared()).context("handling signals")?;
    }
    let mut options = DemoOptions {
        binary: release_binary()?,
        keep: false,
        stop,
    };
    while let Some(argument) = args.next() {
        match argument.as_str() {
            "--keep" => options.keep = true,
            "--berth" => {
                let path = args.next().context("--berth needs a path")?;
                options.binary = PathBuf::from(path);
            }
            _ => bail!("unknown argument {argument}\n{USAGE}"),
        }
    }
    Ok(options)
}

/// `release/berth` beside the directory of this very program, wherever cargo builds.
fn release_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program's own path")?;
    let target = own
        .parent()
        .and_then(Path::parent)
        .context("this program is in no directory")?;
    Ok(target.join("release/berth"))
}
