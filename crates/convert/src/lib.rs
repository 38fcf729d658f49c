//! A way in and a way out: KubeSchedulerConfigurations and scheduler Policies to SchedulerProfiles, and back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod export;
pub mod import;

use std::borrow::Cow;

/// `text` as one word of a command that a user may copy into a shell; in single quotes unless it needs none.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&b);
    if !text.is_empty() && text.bytes().all(is_bare) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_word_remains_one_word() {
        let table = [
            ("a/b-c.yaml", "a/b-c.yaml"),
            ("", "''"),
            ("two words", "'two words'"),
            ("$(id);`id`", "'$(id);`id`'"),
            ("it's", r"'it'\''s'"),
            ("~root", "'~root'"),
        ];
        for (text, want) in table {
            assert_eq!(shell_word(text), want);
        }
    }
}
