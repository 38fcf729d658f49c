//! Regular expressions: those of the `regex` crate are of RE2's family, as Go's are.

use super::translate;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature, TEXTS};
use crate::text::Text;
use crate::value::Value;
use regex::{Regex, RegexBuilder};

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("matches", &[Shape::Text, Shape::Text], Shape::Bool, matches).unguarded(),
    Signature::member("matches", &[Shape::Text, Shape::Text], Shape::Bool, matches).unguarded(),
    Signature::member("find", &[Shape::Text, Shape::Text], Shape::Text, find),
    Signature::member("findAll", &[Shape::Text, Shape::Text], TEXTS, find_all),
    Signature::member("findAll", &[Shape::Text, Shape::Text, Shape::Int], TEXTS, find_all),
];

/// Bytes that one compiled pattern may take. Go's limit is a program of 128 MB; patterns for names of devices take some kilobytes.
const MAX_SIZE: usize = 1 << 20;

/// What compiling a pattern in the middle of an evaluation costs, and each of its bytes.
const COMPILE_STEPS: usize = 1_000;
const STEPS_PER_BYTE: usize = 100;

/// A pattern that does not compile.
#[derive(Debug)]
pub(crate) enum Wrong {
    Invalid(String),
    /// Syntax that Go knows and we do not, or that takes too much.
    Unsupported,
}

impl From<Wrong> for EvalError {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Invalid(text) => Self::failed(text),
            Wrong::Unsupported => Self::unsupported("this regular expression"),
        }
    }
}

/// Compiles a pattern as Go understands it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Wrong> {
    let translated = translate::from_go(pattern)?;
    let built = RegexBuilder::new(&translated).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => Wrong::Unsupported,
        // Go takes a thousand levels, this library a quarter of that, and the error has no other mark.
        regex::Error::Syntax(text) if last_line(&text).contains("maximum number of nested") => Wrong::Unsupported,
        other => Wrong::Invalid(format!("error parsing regexp: {}", last_line(&other.to_string()))),
    })
}

/// The lines before it repeat the pattern.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

fn compile_late(meter: &mut Meter<'_>, pattern: &str) -> Result<Regex, EvalError> {
    meter.steps(COMPILE_STEPS + pattern.len() * STEPS_PER_BYTE)?;
    Ok(compile(pattern)?)
}

/// Searching costs the text, and of a larger pattern more of it.
fn charge(meter: &mut Meter<'_>, text: &str, regex: &Regex) -> Result<(), EvalError> {
    meter.bytes(text.len().saturating_mul(1 + regex.as_str().len() / 4))
}

fn matches<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(_), Value::Text(pattern)] = args else { return Err(EvalError::NoSuchOverload) };
    let regex = compile_late(meter, pattern)?;
    Function::Matches.search(meter, &regex, args)
}

fn find<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(_), Value::Text(pattern)] = args else { return Err(EvalError::NoSuchOverload) };
    let regex = compile_late(meter, pattern)?;
    Function::Find.search(meter, &regex, args)
}

fn find_all<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(_), Value::Text(pattern), ..] = args else { return Err(EvalError::NoSuchOverload) };
    let regex = compile_late(meter, pattern)?;
    Function::FindAll.search(meter, &regex, args)
}

/// A function with a pattern as its second argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Matches,
    Find,
    FindAll,
}

impl Function {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "matches" => Self::Matches,
            "find" => Self::Find,
            "findAll" => Self::FindAll,
            _ => return None,
        })
    }

    /// What the function says with a pattern that is compiled already; its other arguments are where they always are.
    pub(crate) fn search<'a>(self, meter: &mut Meter<'_>, regex: &Regex, args: &[Value<'a>]) -> Evaluated<'a> {
        let Some(Value::Text(text)) = args.first() else { return Err(EvalError::NoSuchOverload) };
        charge(meter, text, regex)?;
        let copy = |found: &str| Value::text(found);
        match self {
            Self::Matches => Ok(Value::Bool(regex.is_match(text))),
            Self::Find => Ok(regex.find(text).map_or(Value::Text(Text::Borrowed("")), |found| copy(found.as_str()))),
            Self::FindAll => {
                let limit = match args.get(2) {
                    None => usize::MAX,
                    Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                    Some(_) => return Err(EvalError::NoSuchOverload),
                };
                meter.steps(text.len())?;
                Ok(Value::list(regex.find_iter(text).take(limit).map(|found| copy(found.as_str())).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deeply_for_us_is_not_called_wrong() {
        let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(compile(&nested(100)).unwrap().is_match("a"));
        assert!(matches!(compile(&nested(300)), Err(Wrong::Unsupported)));
        assert!(matches!(compile("("), Err(Wrong::Invalid(_))));
    }
}
