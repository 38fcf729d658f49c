//! Sizes, types, and conversions from one type to another.

use crate::equal;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::order;
use crate::signatures::{Evaluated, LIST_A, MAP_AB, Shape, Signature};
use crate::text::Text;
use crate::time::{NANOS, Timestamp, parse_duration};
use crate::value::Value;

const TYPE_A: Shape = Shape::Type(&Shape::A);

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("size", &[Shape::Bytes], Shape::Int, size).unguarded(),
    Signature::member("size", &[Shape::Bytes], Shape::Int, size).unguarded(),
    Signature::global("size", &[LIST_A], Shape::Int, size).unguarded(),
    Signature::member("size", &[LIST_A], Shape::Int, size).unguarded(),
    Signature::global("size", &[MAP_AB], Shape::Int, size).unguarded(),
    Signature::member("size", &[MAP_AB], Shape::Int, size).unguarded(),
    Signature::global("size", &[Shape::Text], Shape::Int, size).unguarded(),
    Signature::member("size", &[Shape::Text], Shape::Int, size).unguarded(),
    Signature::global("type", &[Shape::A], TYPE_A, type_of).unguarded(),
    Signature::global("dyn", &[Shape::A], Shape::Dyn, same).unguarded(),
    Signature::global("bool", &[Shape::Bool], Shape::Bool, same),
    Signature::global("bool", &[Shape::Text], Shape::Bool, to_bool),
    Signature::global("bytes", &[Shape::Bytes], Shape::Bytes, same),
    Signature::global("bytes", &[Shape::Text], Shape::Bytes, to_bytes),
    Signature::global("double", &[Shape::Double], Shape::Double, same),
    Signature::global("double", &[Shape::Int], Shape::Double, to_double),
    Signature::global("double", &[Shape::Text], Shape::Double, to_double),
    Signature::global("double", &[Shape::Uint], Shape::Double, to_double),
    Signature::global("duration", &[Shape::Duration], Shape::Duration, same),
    Signature::global("duration", &[Shape::Int], Shape::Duration, to_duration),
    Signature::global("duration", &[Shape::Text], Shape::Duration, to_duration),
    Signature::global("int", &[Shape::Int], Shape::Int, same),
    Signature::global("int", &[Shape::Double], Shape::Int, to_int),
    Signature::global("int", &[Shape::Duration], Shape::Int, to_int),
    Signature::global("int", &[Shape::Text], Shape::Int, to_int),
    Signature::global("int", &[Shape::Timestamp], Shape::Int, to_int),
    Signature::global("int", &[Shape::Uint], Shape::Int, to_int),
    Signature::global("string", &[Shape::Text], Shape::Text, same),
    Signature::global("string", &[Shape::Bool], Shape::Text, to_text),
    Signature::global("string", &[Shape::Bytes], Shape::Text, to_text),
    Signature::global("string", &[Shape::Double], Shape::Text, to_text),
    Signature::global("string", &[Shape::Duration], Shape::Text, to_text),
    Signature::global("string", &[Shape::Int], Shape::Text, to_text),
    Signature::global("string", &[Shape::Timestamp], Shape::Text, to_text),
    Signature::global("string", &[Shape::Uint], Shape::Text, to_text),
    Signature::global("timestamp", &[Shape::Timestamp], Shape::Timestamp, same),
    Signature::global("timestamp", &[Shape::Int], Shape::Timestamp, to_timestamp),
    Signature::global("timestamp", &[Shape::Text], Shape::Timestamp, to_timestamp),
    Signature::global("uint", &[Shape::Uint], Shape::Uint, same),
    Signature::global("uint", &[Shape::Double], Shape::Uint, to_uint),
    Signature::global("uint", &[Shape::Int], Shape::Uint, to_uint),
    Signature::global("uint", &[Shape::Text], Shape::Uint, to_uint),
];

/// The functions that upstream evaluates at once where their argument is a constant: an error in one refuses the expression.
pub(crate) fn is_conversion(name: &str) -> bool {
    matches!(name, "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint")
}

fn no_conversion<'a>(from: &Value<'_>, to: &str) -> Evaluated<'a> {
    Err(EvalError::failed(format!("type conversion error from '{}' to '{to}'", from.type_name())))
}

fn overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn same<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().cloned().ok_or(EvalError::NoSuchOverload)
}

fn size<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let size = match args {
        [Value::Text(text)] => {
            meter.bytes(text.len())?;
            text.chars().count()
        }
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.items.len(),
        [map @ (Value::Map(_) | Value::View(_))] => equal::size(map),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(size as i64))
}

fn type_of<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    args.first().map(|value| Value::Type(value.type_name())).ok_or(EvalError::NoSuchOverload)
}

fn to_bool<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [from @ Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    match &**text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => no_conversion(from, "bool"),
    }
}

fn to_bytes<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    meter.bytes(text.len())?;
    Ok(Value::Bytes(text.as_bytes().into()))
}

fn to_double<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [from @ Value::Text(text)] => match parse_double(text)? {
            Some(value) => Ok(Value::Double(value)),
            None => no_conversion(from, "double"),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Reads a number as Go does, hexadecimal ones aside.
pub(crate) fn parse_double(text: &str) -> Result<Option<f64>, EvalError> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return Err(EvalError::unsupported("a hexadecimal double"));
    }
    let value: Option<f64> = text.parse().ok();
    // A number beyond the range is an error in Go.
    Ok(value.filter(|value| !value.is_infinite() || !text.contains(|c: char| c.is_ascii_digit())))
}

fn to_duration<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [from @ Value::Text(text)] => match parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => no_conversion(from, "google.protobuf.Duration"),
        },
        // It is declared, and upstream cannot do it.
        [from @ Value::Int(_)] => no_conversion(from, "google.protobuf.Duration"),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_int<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => order::int(*value).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(at)] => Ok(Value::Int(at.instant().0)),
        [from @ Value::Text(text)] => {
            text.parse().map_or_else(|_| no_conversion(from, "int"), |value| Ok(Value::Int(value)))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_uint<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(value)] => order::uint(*value).map(Value::Uint).ok_or_else(overflow),
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        [from @ Value::Text(text)] => match text.parse() {
            // Go takes no sign here.
            Ok(value) if !text.starts_with('+') => Ok(Value::Uint(value)),
            _ => no_conversion(from, "uint"),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_timestamp<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let (from, at) = match args {
        [from @ Value::Text(text)] => (from, Timestamp::parse(text)),
        [from @ Value::Int(seconds)] => (from, Timestamp::new(*seconds, 0, 0)),
        _ => return Err(EvalError::NoSuchOverload),
    };
    match at {
        Some(at) => Ok(Value::Timestamp(at)),
        None => no_conversion(from, "google.protobuf.Timestamp"),
    }
}

fn to_text<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [value] = args else { return Err(EvalError::NoSuchOverload) };
    written(meter, value).map(Value::Text)
}

/// What `string()` gives of the types that every expression knows.
pub(crate) fn written<'a>(meter: &mut Meter<'_>, value: &Value<'a>) -> Result<Text<'a>, EvalError> {
    let text = match value {
        Value::Text(text) => return Ok(text.clone()),
        Value::Bool(value) => return Ok(Text::Borrowed(if *value { "true" } else { "false" })),
        Value::Type(name) => return Ok(Text::Borrowed(name)),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => shortest(*value),
        Value::Timestamp(at) => at.to_string(),
        Value::Duration(nanos) => {
            let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / NANOS as f64;
            format!("{seconds}s")
        }
        Value::Bytes(bytes) => {
            meter.bytes(bytes.len())?;
            let text = std::str::from_utf8(bytes);
            text.map_err(|_| EvalError::failed("invalid UTF-8 in bytes, cannot convert to string"))?.to_owned()
        }
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Text::Shared(text.into()))
}

/// A double as Go's `%g` writes it: with an exponent below 10^-4 and from 10^6 on.
pub(crate) fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1_234_567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shortest(value), text, "{value:?}");
        }
    }

    #[test]
    fn doubles_are_read_as_go_reads_them() {
        for (text, value) in [
            ("1", Some(1.0)),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            ("-1e3", Some(-1000.0)),
            ("1e400", None),
            ("", None),
            ("inf", Some(f64::INFINITY)),
            ("x", None),
        ] {
            assert_eq!(parse_double(text), Ok(value), "{text}");
        }
        assert!(parse_double("0x1p3").is_err_and(|error| error.is_unsupported()));
    }
}
