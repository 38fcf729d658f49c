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
  --berth PATH  the operator's binary (default: target/debug/berth)";

/// What shells report for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let stop = StopFlag::default();
    // Everything that was started is ended while the error comes up here.
    let Err(error) = parse(std::env::args().skip(1), &stop).and_then(|options| run(&options)) else {
        return ExitCode::SUCCESS;
    };
    if stop.is_raised() {
        let _ = writeln!(io::stderr(), "\nberth-demo: interrupted; all processes ended");
        return ExitCode::from(INTERRUPTED);
    }
    let _ = writeln!(io::stderr(), "\nberth-demo: {error:#}");
    ExitCode::FAILURE
}

fn parse(mut args: impl Iterator<Item = String>, stop: &StopFlag) -> Result<DemoOptions> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.shared()).context("handling signals")?;
    }
    let mut options = DemoOptions { binary: debug_binary()?, keep: false, stop: stop.clone() };
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

/// `debug/berth` beside the directory of this very program, wherever cargo builds.
fn debug_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program's own path")?;
    let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
    Ok(target.join("debug/berth"))
}
