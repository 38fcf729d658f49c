//! The name that the program was started under, and the name that its texts call it by.

use super::Cli;
use clap::{Command, CommandFactory};
use std::{ffi::OsStr, path::Path};

/// What the program was started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// By its own name, or any name without a meaning here.
    Berth,
    /// As a plugin of kubectl: `kubectl berth …` runs `kubectl-berth`.
    Plugin,
    /// As that plugin's completer: kubectl asks `kubectl_complete-berth` what may come next.
    Completer,
}

impl Program {
    pub(crate) fn current() -> Self {
        std::env::args_os().next().map_or(Self::Berth, |name| Self::of(&name))
    }

    fn of(name: &OsStr) -> Self {
        match Path::new(name).file_stem().and_then(OsStr::to_str) {
            Some("kubectl-berth") => Self::Plugin,
            Some("kubectl_complete-berth") => Self::Completer,
            _ => Self::Berth,
        }
    }

    /// What a user types to run it.
    pub(crate) const fn typed(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::Plugin | Self::Completer => "kubectl berth",
        }
    }

    /// The command line with every text in the name that the user typed. Examples in help texts stand two spaces in.
    pub(crate) fn command(self) -> Command {
        let command = Cli::command();
        if self == Self::Berth {
            return command;
        }
        let own = |text: Option<&clap::builder::StyledStr>| {
            text.map(|text| text.to_string().replace("  berth ", &format!("  {} ", self.typed())))
        };
        let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        let command = command.bin_name(self.typed()).display_name(self.typed());
        names.into_iter().fold(command, |command, name| {
            command.mut_subcommand(name, |sub| match own(sub.get_after_help()) {
                Some(text) => sub.after_help(text),
                None => sub,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_it_is() {
        let table = [
            ("berth", Program::Berth),
            ("/usr/local/bin/berth", Program::Berth),
            ("kubectl-berth", Program::Plugin),
            ("/opt/bin/kubectl-berth", Program::Plugin),
            ("/opt/bin/kubectl_complete-berth", Program::Completer),
            ("kubectl-berths", Program::Berth),
            ("", Program::Berth),
        ];
        for (name, want) in table {
            assert_eq!(Program::of(OsStr::new(name)), want, "{name}");
        }
    }

    #[test]
    fn a_plugin_speaks_of_itself_as_one() {
        let mut command = Program::Plugin.command();
        let help = command.find_subcommand_mut("explain").map(|sub| sub.render_long_help().to_string());
        let help = help.unwrap();
        assert!(help.contains("  kubectl berth explain"), "{help}");
        assert!(!help.contains("  berth explain"), "{help}");
        let help = Program::Berth.command().find_subcommand_mut("explain").unwrap().render_long_help().to_string();
        assert!(help.contains("  berth explain") && !help.contains("kubectl berth"), "{help}");
    }
}
