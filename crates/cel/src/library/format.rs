//! Named formats of texts. How many complaints there are is as upstream; their words are our own.

use super::url;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Run, Shape, Signature, TEXTS};
use crate::text::Text;
use crate::time::Timestamp;
use crate::value::Value;

/// A format with what it finds wrong in a text.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    check: fn(&str) -> Vec<&'static str>,
}

macro_rules! formats {
    ($($name:literal $upper:literal $check:expr;)*) => {
        const FORMATS: &[(&str, Format)] = &[$(($name, Format { name: $upper, check: $check })),*];
        const CONSTANTS: &[Signature] = &[$(
            constant(concat!("format.", $name), |_, _| named($name).map(Value::Format).ok_or(EvalError::NoSuchOverload))
        ),*];
    };
}

formats! {
    "dns1123Label" "DNS1123Label" dns1123_label;
    "dns1123Subdomain" "DNS1123Subdomain" dns1123_subdomain;
    "dns1035Label" "DNS1035Label" dns1035_label;
    "qualifiedName" "QualifiedName" qualified_name;
    "dns1123LabelPrefix" "DNS1123LabelPrefix" |text| dns1123_label(&without_dash(text));
    "dns1123SubdomainPrefix" "DNS1123SubdomainPrefix" |text| dns1123_subdomain(&without_dash(text));
    "dns1035LabelPrefix" "DNS1035LabelPrefix" |text| dns1035_label(&without_dash(text));
    "labelValue" "LabelValue" label_value;
    "uri" "URI" |text| unless(url::parse_request(text).is_some(), "is no URI");
    "uuid" "uuid" |text| unless(is_uuid(text), "does not match the UUID format");
    "byte" "byte" |text| unless(is_base64(text), "invalid base64");
    "date" "date" |text| unless(is_date(text), "invalid date");
    "datetime" "datetime" |text| unless(is_datetime(text), "invalid datetime");
}

pub(crate) const NAMED: &[Signature] = CONSTANTS;

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("format.named", &[Shape::Text], Shape::Optional(&Shape::Format), by_name),
    Signature::member("validate", &[Shape::Format, Shape::Text], Shape::Optional(&TEXTS), validate),
];

const fn constant(name: &'static str, run: Run) -> Signature {
    Signature::global(name, &[], Shape::Format, run)
}

fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|(found, _)| *found == name).map(|(_, format)| format)
}

fn by_name<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(name)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(named(name).map_or(Value::Optional(None), |format| Value::some(Value::Format(format))))
}

fn validate<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Format(format), Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let wrong = (format.check)(text);
    if wrong.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(wrong.into_iter().map(|why| Value::Text(Text::Borrowed(why))).collect())))
}

fn unless(is_right: bool, why: &'static str) -> Vec<&'static str> {
    if is_right { Vec::new() } else { vec![why] }
}

/// Of a name that something is appended to, the dash at the end does not count.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest + "a"
        }
        _ => text.to_owned(),
    }
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Begins as `first` allows, ends with a letter or digit, and has nothing but those and `inner` between.
fn is_label(text: &str, first: fn(u8) -> bool, end: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| first(*b))
        && bytes.last().is_some_and(|b| end(*b))
        && bytes.iter().all(|b| end(*b) || inner.contains(b))
}

fn dns1123_label(text: &str) -> Vec<&'static str> {
    let mut wrong = unless(text.len() <= 63, "must be no more than 63 bytes");
    wrong.extend(unless(is_label(text, is_lower, is_lower, b"-"), "must be a lowercase RFC 1123 label"));
    wrong
}

fn dns1123_subdomain(text: &str) -> Vec<&'static str> {
    let mut wrong = unless(text.len() <= 253, "must be no more than 253 bytes");
    let is_right = text.split('.').all(|label| is_label(label, is_lower, is_lower, b"-"));
    wrong.extend(unless(is_right, "must be a lowercase RFC 1123 subdomain"));
    wrong
}

fn dns1035_label(text: &str) -> Vec<&'static str> {
    let mut wrong = unless(text.len() <= 63, "must be no more than 63 bytes");
    let is_right = is_label(text, |b| b.is_ascii_lowercase(), is_lower, b"-");
    wrong.extend(unless(is_right, "must be a DNS-1035 label"));
    wrong
}

fn is_name(text: &str) -> bool {
    is_label(text, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric(), b"-_.")
}

fn label_value(text: &str) -> Vec<&'static str> {
    let mut wrong = unless(text.len() <= 63, "must be no more than 63 bytes");
    wrong.extend(unless(text.is_empty() || is_name(text), "must be a valid label value"));
    wrong
}

fn qualified_name(text: &str) -> Vec<&'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let (mut wrong, name) = match parts[..] {
        [name] => (Vec::new(), name),
        ["", name] => (vec!["prefix part must be non-empty"], name),
        [prefix, name] => (dns1123_subdomain(prefix), name),
        _ => return vec!["a qualified name must have at most one slash"],
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty");
    }
    wrong.extend(unless(name.len() <= 63, "name part must be no more than 63 bytes"));
    wrong.extend(unless(is_name(name), "name part must be a qualified name"));
    wrong
}

/// 32 hexadecimal digits, with or without dashes at the four usual places.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, count) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..count) {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => rest = &rest[count..],
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn is_date(text: &str) -> bool {
    // The year 0 is no timestamp, and a date all the same.
    text.len() == 10 && Timestamp::parse(&format!("{}T00:00:00Z", text.replacen("0000-", "0400-", 1))).is_some()
}

fn is_datetime(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time).is_some()
}

/// `hh:mm:ss`, a fraction behind any sign, and a zone.
fn is_time(text: &str) -> Option<()> {
    let two = |text: &str, most: u8| {
        text.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_digit()))?.parse::<u8>().ok().filter(|n| *n <= most)
    };
    let rest = text.get(2..)?.strip_prefix(':')?;
    two(text, 23).and(two(rest, 59))?;
    let rest = rest.get(2..)?.strip_prefix(':')?;
    two(rest, 59)?;
    let rest = rest.get(2..)?;
    let is_zone = |zone: &str| {
        zone == "z"
            || zone.strip_prefix(['+', '-']).is_some_and(|zone| {
                zone.len() == 5
                    && two(zone, 99).is_some()
                    && zone[2..].strip_prefix(':').is_some_and(|m| two(m, 99).is_some())
            })
    };
    if is_zone(rest) {
        return Some(());
    }
    let sign = rest.chars().next()?;
    let after = &rest[sign.len_utf8()..];
    let digits = after.bytes().position(|b| !b.is_ascii_digit())?;
    (digits > 0 && is_zone(&after[digits..])).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_upstream_takes() {
        for (name, right, wrong) in [
            ("dns1123Label", "a-1", "A"),
            ("dns1123LabelPrefix", "ab-", "-"),
            ("dns1123Subdomain", "a.b-c", "a..b"),
            ("dns1035Label", "a1", "1a"),
            ("qualifiedName", "example.com/Name_1", "/a"),
            ("labelValue", "", "-"),
            ("uri", "/a", "a"),
            ("uuid", "12345678-1234-1234-1234-1234567890aB", "1234"),
            ("byte", "aGk=", "a"),
            ("date", "2024-02-29", "2023-02-29"),
            ("datetime", "2024-02-29T10:00:00.5+01:00", "2024-02-29T25:00:00Z"),
        ] {
            let check = named(name).unwrap().check;
            assert!(check(right).is_empty(), "{name} {right}");
            assert!(!check(wrong).is_empty(), "{name} {wrong}");
        }
    }
}
