//! What may come next on kubectl's command line, in the form in which kubectl asks its plugins.

mod names;

use clap::{Arg, Command};
use names::Names;

/// kubectl's directive: only what is listed, no file names.
const LISTED_ONLY: &str = ":4";

/// kubectl's directive: file names as well.
const FILES_TOO: &str = ":0";

/// Completions of the last of `words`: one a line, followed by a tab and its description; the last line is the directive. Names of
/// objects are read from the cluster that the words are about.
pub(super) fn suggestions(root: &Command, words: &[String]) -> Vec<String> {
    suggestions_with(root, words, |names, before| names.read(root, before))
}

fn suggestions_with(root: &Command, words: &[String], read: impl Fn(Names, &[String]) -> Vec<String>) -> Vec<String> {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut command = root;
    for word in before {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let takes_value = before.last().and_then(|word| option(command, word));
    let of_cluster = |arg: &Arg| Names::of(arg).map(|names| read(names, before));
    let (mut lines, files): (Vec<String>, bool) = match takes_value {
        Some(arg) => of_cluster(arg).map_or_else(|| listed(arg), |names| (names, false)),
        None if last.starts_with('-') => (flags(command), false),
        None => {
            let names = command.get_positionals().next().and_then(of_cluster);
            (subcommands(command).into_iter().chain(names.into_iter().flatten()).collect(), false)
        }
    };
    lines.retain(|line| line.starts_with(last));
    lines.push(if files { FILES_TOO } else { LISTED_ONLY }.to_owned());
    lines
}

/// The values that an argument may have; without any it takes a file for all that is known.
fn listed(arg: &Arg) -> (Vec<String>, bool) {
    let values: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let files = values.is_empty();
    (values, files)
}

/// The option that `word` names, if it takes a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let is = |arg: &&Arg| {
        let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])));
        (long || short) && arg.get_action().takes_values()
    };
    command.get_arguments().find(is)
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let flag = |arg: &Arg| Some(described(&format!("--{}", arg.get_long()?), arg.get_help()));
    shown.filter_map(flag).collect()
}

fn subcommands(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|sub| described(sub.get_name(), sub.get_about())).collect()
}

fn described(name: &str, about: Option<&clap::builder::StyledStr>) -> String {
    let about = about.map(ToString::to_string).unwrap_or_default();
    match about.lines().next() {
        Some(line) if !line.is_empty() => format!("{name}\t{line}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::program::Program;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let read = |names: Names, _: &[String]| vec![format!("one of {names:?}"), "other".to_owned()];
        let lines = suggestions_with(&Program::Plugin.command(), &words, read);
        lines.iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn commands_flags_and_values_are_suggested() {
        assert!(names(&[""]).contains(&"explain".to_owned()));
        assert_eq!(names(&["expl"]), ["explain", LISTED_ONLY]);
        assert_eq!(names(&["explain", "--sc"]), ["--scores", LISTED_ONLY]);
        assert_eq!(names(&["status", "--lease"]), ["--lease-namespace", LISTED_ONLY]);
        assert_eq!(names(&["explain", "-o", "j"]), ["json", LISTED_ONLY]);
        assert_eq!(names(&["explain", "--output", ""]), ["text", "json", LISTED_ONLY]);
        assert_eq!(names(&["explain", "-f", ""]), [FILES_TOO]);
        assert_eq!(names(&["explain", "zzz"]), [LISTED_ONLY]);
        assert_eq!(names(&["explain", "o"]), ["one of Pods", "other", LISTED_ONLY]);
        assert_eq!(names(&["explain", "--pod", ""]), ["one of PodsAndNamespaces", "other", LISTED_ONLY]);
        assert_eq!(names(&["explain", "--node", "one"]), ["one of Nodes", LISTED_ONLY]);
        assert_eq!(names(&["drain-check", "a", "one"]), ["one of Nodes", LISTED_ONLY], "and more of them");
        assert_eq!(names(&["shadow", "report", "one"]), ["one of Profiles", LISTED_ONLY]);
        assert_eq!(names(&["explain", "-n", "one"]), ["one of Namespaces", LISTED_ONLY]);
        assert_eq!(names(&["convert", "--scheduler-name", ""]), [FILES_TOO]);
        assert_eq!(names(&[]).last().unwrap(), LISTED_ONLY);
    }
}
