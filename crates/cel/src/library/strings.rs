//! Texts. Positions count characters.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature, TEXTS};
use crate::text::Text;
use crate::value::Value;

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::member("contains", &[Shape::Text, Shape::Text], Shape::Bool, contains).unguarded(),
    Signature::member("endsWith", &[Shape::Text, Shape::Text], Shape::Bool, ends_with).unguarded(),
    Signature::member("startsWith", &[Shape::Text, Shape::Text], Shape::Bool, starts_with).unguarded(),
    Signature::member("charAt", &[Shape::Text, Shape::Int], Shape::Text, char_at),
    Signature::member("indexOf", &[Shape::Text, Shape::Text], Shape::Int, index_of),
    Signature::member("indexOf", &[Shape::Text, Shape::Text, Shape::Int], Shape::Int, index_of),
    Signature::member("lastIndexOf", &[Shape::Text, Shape::Text], Shape::Int, last_index_of),
    Signature::member("lastIndexOf", &[Shape::Text, Shape::Text, Shape::Int], Shape::Int, last_index_of),
    Signature::member("lowerAscii", &[Shape::Text], Shape::Text, lower),
    Signature::member("upperAscii", &[Shape::Text], Shape::Text, upper),
    Signature::member("replace", &[Shape::Text, Shape::Text, Shape::Text], Shape::Text, replace),
    Signature::member("replace", &[Shape::Text, Shape::Text, Shape::Text, Shape::Int], Shape::Text, replace),
    Signature::member("split", &[Shape::Text, Shape::Text], TEXTS, split),
    Signature::member("split", &[Shape::Text, Shape::Text, Shape::Int], TEXTS, split),
    Signature::member("substring", &[Shape::Text, Shape::Int], Shape::Text, substring),
    Signature::member("substring", &[Shape::Text, Shape::Int, Shape::Int], Shape::Text, substring),
    Signature::member("trim", &[Shape::Text], Shape::Text, trim),
    Signature::global("strings.quote", &[Shape::Text], Shape::Text, quote),
    Signature::member("join", &[TEXTS], Shape::Text, join),
    Signature::member("join", &[TEXTS, Shape::Text], Shape::Text, join),
];

fn out_of_range(index: i64) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

const fn int<'a>(value: usize) -> Value<'a> {
    Value::Int(value as i64)
}

fn contains<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(part)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    Ok(Value::Bool(text.contains(&**part)))
}

fn ends_with<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(part)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(text.ends_with(&**part)))
}

fn starts_with<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(part)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(text.starts_with(&**part)))
}

/// The byte at which the character with this index begins, or the end of the text behind the last one.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Int(index)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let at = byte_at(text, *index).ok_or_else(|| out_of_range(*index))?;
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    Ok(Value::Text(part(text, at, end)))
}

/// A part of a text, without copying where it can be borrowed.
fn part<'a>(text: &Text<'a>, from: usize, to: usize) -> Text<'a> {
    match text {
        Text::Borrowed(text) => Text::Borrowed(&text[from..to]),
        Text::Shared(text) => Text::Shared(text[from..to].into()),
    }
}

fn index_of<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(wanted), rest @ ..] = args else { return Err(EvalError::NoSuchOverload) };
    let offset = if let [Value::Int(offset)] = rest { *offset } else { 0 };
    meter.bytes(text.len())?;
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(from) = byte_at(text, offset) else { return Ok(Value::Int(-1)) };
    match text[from..].find(&**wanted) {
        Some(at) => Ok(int(text[..from + at].chars().count())),
        None => Ok(Value::Int(-1)),
    }
}

fn last_index_of<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(wanted), rest @ ..] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let length = text.chars().count();
    let offset = match rest {
        [Value::Int(offset)] if wanted.is_empty() => return Ok(Value::Int(*offset)),
        _ if wanted.is_empty() => return Ok(int(length)),
        [Value::Int(offset)] if *offset < 0 => return Err(out_of_range(*offset)),
        [Value::Int(offset)] => *offset,
        // Upstream begins at the last character here, of which an empty text has none.
        _ if length == 0 => return Ok(Value::Int(-1)),
        _ => length as i64 - 1,
    };
    if offset >= length as i64 {
        return Ok(Value::Int(-1));
    }
    // Matches may overlap, so each place is tried.
    meter.bytes(text.len().saturating_mul(1 + wanted.len() / 16))?;
    let from = byte_at(text, offset).unwrap_or(text.len());
    let begins = |at: &usize| text.is_char_boundary(*at) && text[*at..].starts_with(&**wanted);
    match (0..=from).rev().find(begins) {
        Some(at) => Ok(int(text[..at].chars().count())),
        None => Ok(Value::Int(-1)),
    }
}

fn lower<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    Ok(Value::text(text.to_ascii_lowercase()))
}

fn upper<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    Ok(Value::text(text.to_ascii_uppercase()))
}

fn replace<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(old), Value::Text(new), rest @ ..] = args else {
        return Err(EvalError::NoSuchOverload);
    };
    let limit = if let [Value::Int(limit)] = rest { *limit } else { -1 };
    // At most a new text at each byte.
    meter.bytes(text.len().saturating_add(new.len().saturating_mul(text.matches(&**old).count())))?;
    Ok(Value::text(match usize::try_from(limit) {
        Ok(limit) => text.replacen(&**old, new, limit),
        Err(_) => text.replace(&**old, new),
    }))
}

fn split<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Text(separator), rest @ ..] = args else { return Err(EvalError::NoSuchOverload) };
    let limit = if let [Value::Int(limit)] = rest { *limit } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    meter.steps(text.len())?;
    let parts: Vec<(usize, usize)> = pieces(text, separator, limit);
    Ok(Value::list(parts.into_iter().map(|(from, to)| Value::Text(part(text, from, to))).collect()))
}

/// Where each piece begins and ends, of which the last has what the limit leaves over.
fn pieces(text: &str, separator: &str, limit: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if limit == 0 {
        return found;
    }
    if separator.is_empty() {
        // Each character is a piece.
        for (at, c) in text.char_indices() {
            if found.len() + 1 == limit {
                found.push((at, text.len()));
                break;
            }
            found.push((at, at + c.len_utf8()));
        }
        return found;
    }
    let mut from = 0;
    for (at, _) in text.match_indices(separator) {
        if found.len() + 1 == limit {
            break;
        }
        found.push((from, at));
        from = at + separator.len();
    }
    found.push((from, text.len()));
    found
}

fn substring<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text), Value::Int(start), rest @ ..] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let end = if let [Value::Int(end)] = rest { Some(*end) } else { None };
    if let Some(end) = end.filter(|end| start > end) {
        return Err(EvalError::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(text, *start).ok_or_else(|| out_of_range(*start))?;
    let to = match end {
        Some(end) => byte_at(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::Text(part(text, from, to)))
}

fn trim<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let from = text.len() - text.trim_start().len();
    Ok(Value::Text(part(text, from, from + text.trim().len())))
}

fn quote<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}

fn join<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), rest @ ..] = args else { return Err(EvalError::NoSuchOverload) };
    let separator = if let [Value::Text(separator)] = rest { &**separator } else { "" };
    let mut joined = String::new();
    for (at, item) in list.items.iter().enumerate() {
        let Value::Text(text) = item else {
            return Err(EvalError::failed(format!("join: invalid input: a value of type {}", item.type_name())));
        };
        meter.step()?;
        meter.bytes(text.len() + separator.len())?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::text(joined))
}
