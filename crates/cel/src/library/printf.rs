//! `string.format`.

use super::convert::{shortest, written};
use crate::equal;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature};
use crate::types::Type;
use crate::value::{List, Value};
use std::fmt::Write as _;

const DYNS: Shape = Shape::List(&Shape::Dyn);

/// Digits behind the point where the clause names none.
const PRECISION: usize = 6;

/// More digits than any double has, and few enough to write.
const MAX_PRECISION: usize = 1_000;

pub(crate) const SIGNATURES: &[Signature] = &[Signature::member("format", &[Shape::Text, DYNS], Shape::Text, format)];

/// A piece of a format.
enum Piece<'f> {
    Plain(&'f str),
    /// The letter of a clause and its precision.
    Clause(char, Option<usize>),
}

fn wrong(why: &str) -> EvalError {
    EvalError::failed(format!("could not parse formatting clause: {why}"))
}

/// The first piece and what follows it.
fn piece(format: &str) -> Result<(Piece<'_>, &str), EvalError> {
    let Some(clause) = format.strip_prefix('%') else {
        let end = format.find('%').unwrap_or(format.len());
        return Ok((Piece::Plain(&format[..end]), &format[end..]));
    };
    if let Some(rest) = clause.strip_prefix('%') {
        return Ok((Piece::Plain("%"), rest));
    }
    let mut rest = clause;
    let mut precision = None;
    if let Some(after) = clause.strip_prefix('.') {
        let end = after
            .bytes()
            .position(|b| !b.is_ascii_digit())
            .ok_or_else(|| wrong("could not find end of precision specifier"))?;
        precision = Some(after[..end].parse().map_err(|_| wrong("error while parsing precision"))?);
        rest = &after[end..];
    }
    let letter = rest.chars().next().ok_or_else(|| wrong("unexpected end of string"))?;
    if !"sdfebxXo".contains(letter) {
        return Err(wrong("unrecognized formatting clause"));
    }
    Ok((Piece::Clause(letter, precision), &rest[1..]))
}

/// What upstream refuses of a format that is a constant: wrong clauses, too few or too many arguments, and those of which the type
/// does not fit. `types` are those of the arguments, each with those within it.
pub(crate) fn check(format: &str, types: &[Vec<&Type>]) -> Result<(), EvalError> {
    let mut rest = format;
    let mut left = types.iter();
    while !rest.is_empty() {
        let (piece, after) = piece(rest)?;
        if let Piece::Clause(letter, _) = piece {
            let of = left.next().ok_or_else(|| wrong("index out of range"))?;
            let looked_at = if letter == 's' { of.len() } else { 1 };
            if let Some(of) = of.iter().take(looked_at).find(|of| !fits(letter, of)) {
                return Err(wrong(&format!("the clause %{letter} cannot take a value of type {}", of.name())));
            }
        }
        rest = after;
    }
    match left.next() {
        Some(_) => Err(wrong("too many arguments supplied to string.format")),
        None => Ok(()),
    }
}

fn fits(letter: char, of: &Type) -> bool {
    match (letter, of) {
        (_, Type::Dyn)
        | ('d' | 'b' | 'x' | 'X' | 'o', Type::Int | Type::Uint)
        | ('b', Type::Bool)
        | ('x' | 'X', Type::Text | Type::Bytes)
        | ('f' | 'e', Type::Double | Type::Text) => true,
        ('s', of) => !matches!(
            of,
            Type::Any
                | Type::Optional(_)
                | Type::Device
                | Type::Quantity
                | Type::Semver
                | Type::Url
                | Type::Format
                | Type::Ip
                | Type::Cidr
        ),
        _ => false,
    }
}

fn format<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(format), Value::List(list)] = args else { return Err(EvalError::NoSuchOverload) };
    let mut out = String::new();
    let mut rest = &**format;
    let mut items = list.items.iter();
    meter.bytes(format.len())?;
    while !rest.is_empty() {
        if rest.starts_with('%') && !rest.starts_with("%%") && items.as_slice().is_empty() {
            return Err(EvalError::failed("index out of range"));
        }
        let (piece, after) = piece(rest)?;
        match piece {
            Piece::Plain(text) => out.push_str(text),
            Piece::Clause(letter, precision) => {
                let item = items.next().ok_or_else(|| EvalError::failed("index out of range"))?;
                clause(meter, &mut out, letter, precision, item)?;
            }
        }
        rest = after;
    }
    Ok(Value::text(out))
}

fn cannot(letter: char, value: &Value<'_>) -> EvalError {
    EvalError::failed(format!("error during formatting: %{letter} was given {}", value.type_name()))
}

fn clause(
    meter: &mut Meter<'_>,
    out: &mut String,
    letter: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), EvalError> {
    let text = match (letter, value) {
        ('s', _) => return shown(meter, out, value),
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b' | 'x' | 'X' | 'o', Value::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            format!("{sign}{}", in_base(letter, value.unsigned_abs()))
        }
        ('b' | 'x' | 'X' | 'o', Value::Uint(value)) => in_base(letter, *value),
        ('x' | 'X', Value::Text(text)) => hex(meter, letter, text.as_bytes())?,
        ('x' | 'X', Value::Bytes(bytes)) => hex(meter, letter, bytes)?,
        ('e', Value::Double(_)) => return Err(EvalError::unsupported("the clause %e")),
        ('f', Value::Double(value)) => fixed(*value, precision.unwrap_or(PRECISION))?,
        ('f' | 'e', Value::Text(text)) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            return Err(EvalError::unsupported("a text for a number in %f or %e"));
        }
        _ => return Err(cannot(letter, value)),
    };
    meter.bytes(text.len())?;
    out.push_str(&text);
    Ok(())
}

fn in_base(letter: char, value: u64) -> String {
    match letter {
        'b' => format!("{value:b}"),
        'o' => format!("{value:o}"),
        'x' => format!("{value:x}"),
        _ => format!("{value:X}"),
    }
}

fn hex(meter: &mut Meter<'_>, letter: char, bytes: &[u8]) -> Result<String, EvalError> {
    meter.bytes(bytes.len())?;
    let mut out = String::with_capacity(2 * bytes.len());
    for b in bytes {
        if letter == 'x' { put(&mut out, format_args!("{b:02x}")) } else { put(&mut out, format_args!("{b:02X}")) }
    }
    Ok(out)
}

/// As in American English: a comma between each three digits before the point.
fn fixed(value: f64, precision: usize) -> Result<String, EvalError> {
    if value.is_nan() {
        return Ok("NaN".to_owned());
    }
    if value.is_infinite() {
        return Ok(if value > 0.0 { "∞" } else { "-∞" }.to_owned());
    }
    if precision > MAX_PRECISION {
        return Err(EvalError::unsupported("so many digits in %f"));
    }
    let plain = format!("{:.precision$}", value.abs());
    let (whole, fraction) = plain.split_once('.').map_or((&*plain, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    Ok(out)
}

/// What `%s` writes.
fn shown(meter: &mut Meter<'_>, out: &mut String, value: &Value<'_>) -> Result<(), EvalError> {
    match value {
        Value::Null => out.push_str("null"),
        Value::List(list) => list_into(meter, out, list)?,
        Value::Map(_) | Value::View(_) => map_into(meter, out, value)?,
        _ => {
            let text = written(meter, value).map_err(|_| cannot('s', value))?;
            meter.bytes(text.len())?;
            out.push_str(&text);
        }
    }
    Ok(())
}

/// A value within a list or a map.
fn inner(meter: &mut Meter<'_>, out: &mut String, value: &Value<'_>) -> Result<(), EvalError> {
    meter.step()?;
    match value {
        Value::Double(value) if value.is_finite() => put(out, format_args!("{value:.PRECISION$}")),
        Value::Double(value) => quoted(out, &shortest(*value)),
        Value::Text(text) => {
            meter.bytes(text.len())?;
            quoted(out, text);
        }
        Value::Bytes(_) => {
            out.push('b');
            let text = written(meter, value)?;
            quoted(out, &text);
        }
        Value::Timestamp(_) => {
            put(out, format_args!("timestamp(\"{}\")", &*written(meter, value)?));
        }
        Value::Duration(_) => put(out, format_args!("duration(\"{}\")", &*written(meter, value)?)),
        other => shown(meter, out, other)?,
    }
    Ok(())
}

fn list_into(meter: &mut Meter<'_>, out: &mut String, list: &List<'_>) -> Result<(), EvalError> {
    out.push('[');
    for (at, item) in list.items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        inner(meter, out, item)?;
    }
    out.push(']');
    Ok(())
}

/// Sorted by the keys as they are written.
fn map_into(meter: &mut Meter<'_>, out: &mut String, map: &Value<'_>) -> Result<(), EvalError> {
    let mut written = Vec::new();
    for (key, value) in equal::entries(meter, map)? {
        if !matches!(key, Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
            return Err(cannot('s', &key));
        }
        let (mut key_text, mut value_text) = (String::new(), String::new());
        inner(meter, &mut key_text, &key)?;
        inner(meter, &mut value_text, &value)?;
        meter.bytes(key_text.len() + value_text.len())?;
        written.push((key_text, value_text));
    }
    written.sort_by(|a, b| a.0.cmp(&b.0));
    let entries: Vec<String> = written.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    out.push('{');
    out.push_str(&entries.join(", "));
    out.push('}');
    Ok(())
}

/// A text as Go quotes it.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if c.is_ascii_control() => put(out, format_args!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => put(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = out.write_fmt(text);
}
