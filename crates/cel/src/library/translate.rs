//! From Go's syntax of regular expressions to that of the `regex` crate, where the two read the same signs in different ways.

use super::printf::put;
use super::regex::Wrong;
use std::iter::Peekable;
use std::str::Chars;

/// Go counts no further than this.
const MAX_REPEAT: u32 = 1_000;

/// The pattern with the same meaning, if there is one.
pub(crate) fn from_go(pattern: &str) -> Result<String, Wrong> {
    let mut reader = Reader { rest: pattern.chars().peekable(), out: String::with_capacity(pattern.len()) };
    // Go takes no repetition of a repetition, but for the `?` that makes one lazy.
    let mut repeats = 0;
    while let Some(c) = reader.rest.next() {
        let is_repeat = match c {
            '\\' => {
                reader.escape()?;
                false
            }
            '[' => {
                reader.class()?;
                false
            }
            '(' => {
                reader.group()?;
                false
            }
            '{' => reader.braces()?,
            '}' => {
                reader.out.push_str("\\}");
                false
            }
            '*' | '+' | '?' => {
                reader.out.push(c);
                true
            }
            other => {
                reader.out.push(other);
                false
            }
        };
        repeats = if is_repeat { repeats + 1 } else { 0 };
        if repeats > 1 && !(repeats == 2 && c == '?') {
            return Err(invalid("invalid nested repetition operator"));
        }
    }
    Ok(reader.out)
}

fn invalid(why: &str) -> Wrong {
    Wrong::Invalid(format!("error parsing regexp: {why}"))
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
}

impl Reader<'_> {
    /// What follows a backslash outside brackets. Go's classes are of ASCII.
    fn escape(&mut self) -> Result<(), Wrong> {
        let c = self.rest.next().ok_or_else(|| invalid("trailing backslash at end of expression"))?;
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[\\t\\n\\f\\r ]"),
            'S' => self.out.push_str("[^\\t\\n\\f\\r ]"),
            'b' => self.out.push_str("(?-u:\\b)"),
            'A' | 'z' => {
                self.out.push('\\');
                self.out.push(c);
            }
            _ => self.common_escape(c)?,
        }
        Ok(())
    }

    /// An escape that means the same within brackets and outside.
    fn common_escape(&mut self, c: char) -> Result<(), Wrong> {
        match c {
            'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'p' | 'P' => {
                self.out.push('\\');
                self.out.push(c);
                // What follows in braces is part of it.
                if matches!(c, 'x' | 'p' | 'P') && self.rest.peek() == Some(&'{') {
                    for c in self.rest.by_ref() {
                        self.out.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                Ok(())
            }
            // Octal numbers, quoted text, single bytes, and a boundary that is none.
            '0'..='7' | 'Q' | 'C' | 'B' => Err(Wrong::Unsupported),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => {
                self.literal(c);
                Ok(())
            }
            _ => Err(invalid("invalid escape sequence")),
        }
    }

    /// A character that means itself, whatever stands around it.
    fn literal(&mut self, c: char) {
        put(&mut self.out, format_args!("\\x{{{:x}}}", u32::from(c)));
    }

    /// What follows an opening bracket, with the bracket that closes it.
    fn class(&mut self) -> Result<(), Wrong> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let c = self.rest.next().ok_or_else(|| invalid("missing closing ]"))?;
            match c {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => self.named_class()?,
                '\\' => {
                    let c = self.rest.next().ok_or_else(|| invalid("missing closing ]"))?;
                    match c {
                        'd' => self.out.push_str("0-9"),
                        'w' => self.out.push_str("0-9A-Za-z_"),
                        's' => self.out.push_str("\\t\\n\\f\\r "),
                        'D' | 'W' | 'S' => return Err(Wrong::Unsupported),
                        _ => self.common_escape(c)?,
                    }
                }
                '-' => {
                    if self.rest.peek() == Some(&'-') {
                        return Err(Wrong::Unsupported);
                    }
                    self.out.push('-');
                }
                c if c.is_ascii_punctuation() || c == ' ' => self.literal(c),
                c => self.out.push(c),
            }
            is_first = false;
        }
    }

    /// `[:alpha:]`, whose bracket is read.
    fn named_class(&mut self) -> Result<(), Wrong> {
        let mut name = String::from("[");
        for c in self.rest.by_ref() {
            name.push(c);
            if c == ']' {
                let is_named = name.len() > 4 && name.ends_with(":]");
                self.out.push_str(&name);
                return if is_named { Ok(()) } else { Err(Wrong::Unsupported) };
            }
        }
        Err(invalid("missing closing ]"))
    }

    /// What follows an opening parenthesis, up to where its content begins.
    fn group(&mut self) -> Result<(), Wrong> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        // No flag at all, which Go takes.
        if self.rest.next_if_eq(&')').is_some() {
            self.out.push_str(":)");
            return Ok(());
        }
        while let Some(c) = self.rest.next() {
            self.out.push(c);
            match c {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => return Ok(()),
                'P' | '<' => {
                    let is_name =
                        |c: Option<&char>| c.is_some_and(|c| *c == '<' || c.is_ascii_alphanumeric() || *c == '_');
                    return if is_name(self.rest.peek()) { Ok(()) } else { Err(invalid("invalid named capture")) };
                }
                _ => break,
            }
        }
        Err(invalid("invalid or unsupported Perl syntax"))
    }

    /// What follows an opening brace: a number of repetitions, or else Go takes the brace for itself.
    fn braces(&mut self) -> Result<bool, Wrong> {
        let mut ahead = self.rest.clone();
        let inner: String = ahead.by_ref().take_while(|c| *c != '}').collect();
        let (least, most) = inner.split_once(',').map_or((&*inner, None), |(least, most)| (least, Some(most)));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_closed = self.rest.clone().any(|c| c == '}');
        if !is_closed || !is_number(least) || !most.is_none_or(|most| most.is_empty() || is_number(most)) {
            self.out.push_str("\\{");
            return Ok(false);
        }
        let within = |text: &str| text.parse::<u32>().is_ok_and(|count| count <= MAX_REPEAT);
        if !within(least) || most.is_some_and(|most| !most.is_empty() && !within(most)) {
            return Err(invalid("invalid repeat count"));
        }
        self.rest = ahead;
        put(&mut self.out, format_args!("{{{inner}}}"));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::regex::compile;
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١", false),
            (r"\bA100\b", "NVIDIA A100 80GB", true),
            (r"^[\w.-]+$", "a.b-c_1", true),
            (r"^[a[]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^a{2}$", "aa", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{$", "a{", true),
            (r"\<", "<", true),
            (r"^(?i)gpu$", "GPU", true),
            (r"^(?P<n>a)(?:b)$", "ab", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[&&]$", "&", true),
            (r"a*?", "", true),
            (r"^(?)a$", "a", true),
            (r"^\x{41}\x42$", "AB", true),
            (r"a.b", "a\nb", false),
        ] {
            assert_eq!(compile(pattern).map(|regex| regex.is_match(text)).ok(), Some(expected), "{pattern}");
        }
        for pattern in ["(", "a**", "a+*", "*", "[a", r"\", r"\y", "(?=a)", "(?<!a)", "a{1001}", "a{2}{3}", "(?x)a"] {
            assert!(matches!(compile(pattern), Err(Wrong::Invalid(_))), "{pattern}");
        }
        for pattern in [r"\Qa\E", r"\101", r"[\D]", r"\C"] {
            assert!(matches!(compile(pattern), Err(Wrong::Unsupported)), "{pattern}");
        }
    }
}
