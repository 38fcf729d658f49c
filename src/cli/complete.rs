//! What may come next on kubectl's command line, in the form in which kubectl asks its plugins.

use clap::Command;

/// kubectl's directive: only what is listed, no file names.
const LISTED_ONLY: &str = ":4";

/// kubectl's directive: file names as well.
const FILES_TOO: &str = ":0";

/// Completions of the last of `words`: one a line, followed by a tab and its description; the last line is the directive.
pub(super) fn suggestions(root: &Command, words: &[String]) -> Vec<String> {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut command = root;
    for word in before {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let takes_value = before.last().and_then(|word| option(command, word));
    let mut lines: Vec<String> = match takes_value {
        Some(arg) => arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        None if last.starts_with('-') => flags(command),
        None => subcommands(command),
    };
    lines.retain(|line| line.starts_with(last));
    let files = takes_value.is_some_and(|arg| arg.get_possible_values().is_empty());
    lines.push(if files { FILES_TOO } else { LISTED_ONLY }.to_owned());
    lines
}

/// The option that `word` names, if it takes a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c clap::Arg> {
    let is = |arg: &&clap::Arg| {
        let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])));
        (long || short) && arg.get_action().takes_values()
    };
    command.get_arguments().find(is)
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let flag = |arg: &clap::Arg| Some(described(&format!("--{}", arg.get_long()?), arg.get_help()));
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
        let lines = suggestions(&Program::Plugin.command(), &words);
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
        assert_eq!(names(&[]).last().unwrap(), LISTED_ONLY);
    }
}
