//! Semantic versions. A value is its text, which is valid; its parts are read when they are asked for.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature};
use crate::text::Text;
use crate::value::Value;
use std::cmp::Ordering;

const TWO: &[Shape] = &[Shape::Semver, Shape::Semver];

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("semver", &[Shape::Text], Shape::Semver, parse),
    Signature::global("semver", &[Shape::Text, Shape::Bool], Shape::Semver, parse),
    Signature::global("isSemver", &[Shape::Text], Shape::Bool, is_semver),
    Signature::global("isSemver", &[Shape::Text, Shape::Bool], Shape::Bool, is_semver),
    Signature::member("isGreaterThan", TWO, Shape::Bool, is_greater),
    Signature::member("isLessThan", TWO, Shape::Bool, is_less),
    Signature::member("compareTo", TWO, Shape::Int, compare_to),
    Signature::member("major", &[Shape::Semver], Shape::Int, major),
    Signature::member("minor", &[Shape::Semver], Shape::Int, minor),
    Signature::member("patch", &[Shape::Semver], Shape::Int, patch),
];

/// The parts of a version, the metadata of its build aside: those have no place in the order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts<'a> {
    numbers: [u64; 3],
    /// Empty where there is none.
    pre: &'a str,
}

/// A number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !(text.len() > 1 && text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Reads `MAJOR.MINOR.PATCH[-PRE][+BUILD]`.
fn parts(text: &str) -> Option<Parts<'_>> {
    let (major, rest) = text.split_once('.')?;
    let (minor, rest) = rest.split_once('.')?;
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let is_pre =
        |part: &str| number(part).is_some() || (is_identifier(part) && !part.bytes().all(|b| b.is_ascii_digit()));
    let is_valid = pre.is_none_or(|pre| pre.split('.').all(is_pre))
        && build.is_none_or(|build| build.split('.').all(is_identifier));
    let numbers = [number(major)?, number(minor)?, number(patch)?];
    is_valid.then_some(Parts { numbers, pre: pre.unwrap_or("") })
}

pub(crate) fn is_valid(text: &str) -> bool {
    is_plain(text.as_bytes()) || parts(text).is_some()
}

/// Whether it is three small numbers, as most versions are: each device is asked before each evaluation.
fn is_plain(text: &[u8]) -> bool {
    let (mut dots, mut digits, mut begins_with_zero) = (0, 0, false);
    for b in text {
        match b {
            b'0'..=b'9' if digits < 9 && !begins_with_zero => {
                begins_with_zero = digits == 0 && *b == b'0';
                digits += 1;
            }
            b'.' if digits > 0 && dots < 2 => (dots, digits, begins_with_zero) = (dots + 1, 0, false),
            _ => return false,
        }
    }
    dots == 2 && digits > 0
}

/// The order of two valid versions.
pub(crate) fn compare(one: &str, other: &str) -> Ordering {
    let (Some(one), Some(other)) = (parts(one), parts(other)) else { return Ordering::Equal };
    one.numbers.cmp(&other.numbers).then_with(|| match (one.pre, other.pre) {
        ("", "") => Ordering::Equal,
        ("", _) => Ordering::Greater,
        (_, "") => Ordering::Less,
        (a, b) => a.split('.').map(Identifier::new).cmp(b.split('.').map(Identifier::new)),
    })
}

/// Numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'a> {
    Number(u64),
    Word(&'a str),
}

impl<'a> Identifier<'a> {
    fn new(text: &'a str) -> Self {
        number(text).map_or(Self::Word(text), Self::Number)
    }
}

/// Makes a version of what people write: without `v`, without leading zeros, with all three numbers.
fn normalized(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return None;
    }
    parts.resize(3, "0".to_owned());
    Some(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn version<'a>(args: &[Value<'a>]) -> Result<Option<Text<'a>>, EvalError> {
    let text = match args {
        [Value::Text(text)] | [Value::Text(text), Value::Bool(false)] => Some(text.clone()),
        [Value::Text(text), Value::Bool(true)] => normalized(text).map(|text| Text::Shared(text.into())),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(text.filter(|text| is_valid(text)))
}

fn parse<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    version(args)?.map(Value::Semver).ok_or_else(|| EvalError::failed("the text is no semantic version"))
}

fn is_semver<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(version(args)?.is_some()))
}

fn ordering(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [Value::Semver(one), Value::Semver(other)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(compare(one, other))
}

fn is_greater<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(args)?.is_gt()))
}

fn is_less<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(ordering(args)?.is_lt()))
}

fn compare_to<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(ordering(args)? as i64))
}

fn part<'a>(args: &[Value<'a>], at: usize) -> Evaluated<'a> {
    let [Value::Semver(text)] = args else { return Err(EvalError::NoSuchOverload) };
    // As in Go, a number beyond an int wraps.
    Ok(Value::Int(parts(text).map_or(0, |parts| parts.numbers[at] as i64)))
}

fn major<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    part(args, 0)
}

fn minor<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    part(args, 1)
}

fn patch<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    part(args, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_semantic_versions_are_valid() {
        for text in ["1.2.3", "0.0.0", "1.0.0-alpha.1", "1.0.0-0a", "1.0.0+build.01", "1.0.0-a-b+c", "1.0.0--"] {
            assert!(is_valid(text), "{text}");
        }
        for text in [
            "",
            "1",
            "1.2",
            "v1.2.3",
            "01.2.3",
            "1.2.3.4",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3-a..b",
            "1.2.x",
            " 1.2.3",
            "1.2.3-é",
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }

    #[test]
    fn the_short_way_is_a_part_of_the_long_one() {
        for text in [
            "1.2.3", "0.0.0", "10.20.30", "01.2.3", "1.02.3", "1.2", "1.2.3.4", "1..3", "1.2.", "", ".1.2", "1.2.3-a",
            "0.10.0",
        ] {
            assert!(!is_plain(text.as_bytes()) || parts(text).is_some(), "{text}");
        }
        assert!(is_plain(b"1.20.3") && is_plain(b"0.0.0"));
    }

    #[test]
    fn versions_are_ordered() {
        let sorted = [
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0",
            "1.0.1",
            "1.10.0",
            "2.0.0",
        ];
        assert!(sorted.windows(2).all(|pair| compare(pair[0], pair[1]) == Ordering::Less));
        assert_eq!(compare("1.0.0+a", "1.0.0+b"), Ordering::Equal);
    }

    #[test]
    fn loose_versions_are_normalized() {
        for (text, version) in [
            ("v1.2.3", Some("1.2.3")),
            ("1", Some("1.0.0")),
            ("1.2", Some("1.2.0")),
            ("01.002.0003", Some("1.2.3")),
            ("1.2.00-rc", Some("1.2.0-rc")),
            ("000", Some("0.0.0")),
            ("1-rc", None),
            ("vv1", Some("0v1.0.0")),
        ] {
            assert_eq!(normalized(text).as_deref(), version, "{text}");
        }
    }
}
