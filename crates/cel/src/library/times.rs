//! Parts of points in time and of spans.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Run, Shape, Signature};
use crate::time::{Civil, NANOS, Timestamp};
use crate::value::Value;

const ZONED: &[Shape] = &[Shape::Timestamp, Shape::Text];

const fn here(name: &'static str, run: Run) -> Signature {
    Signature::member(name, &[Shape::Timestamp], Shape::Int, run)
}

const fn there(name: &'static str, run: Run) -> Signature {
    Signature::member(name, ZONED, Shape::Int, run)
}

const fn of_span(name: &'static str, run: Run) -> Signature {
    Signature::member(name, &[Shape::Duration], Shape::Int, run)
}

pub(crate) const SIGNATURES: &[Signature] = &[
    here("getFullYear", year),
    there("getFullYear", year),
    here("getMonth", month),
    there("getMonth", month),
    here("getDayOfYear", day_of_year),
    there("getDayOfYear", day_of_year),
    here("getDayOfMonth", day_from_zero),
    there("getDayOfMonth", day_from_zero),
    here("getDate", day),
    there("getDate", day),
    here("getDayOfWeek", weekday),
    there("getDayOfWeek", weekday),
    here("getHours", hours),
    there("getHours", hours),
    of_span("getHours", hours),
    here("getMinutes", minutes),
    there("getMinutes", minutes),
    of_span("getMinutes", minutes),
    here("getSeconds", seconds),
    there("getSeconds", seconds),
    of_span("getSeconds", seconds),
    here("getMilliseconds", millis),
    there("getMilliseconds", millis),
    of_span("getMilliseconds", millis),
];

/// The moment, and the seconds that its place is east of UTC.
fn moment(args: &[Value<'_>]) -> Result<(Timestamp, i64), EvalError> {
    match args {
        [Value::Timestamp(at)] => Ok((*at, 0)),
        [Value::Timestamp(at), Value::Text(zone)] => Ok((*at, offset(zone)?)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn offset(zone: &str) -> Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ => Err(EvalError::unsupported(format!("the time zone {zone:?}"))),
        };
    };
    let number = |text: &str| text.parse::<i32>().map(i64::from);
    let (Ok(hours), Ok(minutes)) = (number(hours), number(minutes)) else {
        return Err(EvalError::failed("parsing the offset of a time zone: invalid syntax"));
    };
    let minutes = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    // A day is more than any place is away; further off the calendar ends.
    let is_near = minutes.abs() <= 24 * 60;
    if is_near { Ok(minutes * 60) } else { Err(EvalError::unsupported(format!("the time zone {zone:?}"))) }
}

fn civil(args: &[Value<'_>]) -> Result<Civil, EvalError> {
    moment(args).map(|(at, offset)| at.civil(offset))
}

/// Of a span the whole number of units, else what the calendar says.
fn either<'a>(args: &[Value<'a>], unit: i64, part: fn(&Civil) -> i64) -> Evaluated<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => Ok(Value::Int(part(&civil(args)?))),
    }
}

fn year<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.year))
}

fn month<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.month - 1))
}

fn day_of_year<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.day_of_year))
}

fn day_from_zero<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.day - 1))
}

fn day<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.day))
}

fn weekday<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(civil(args)?.weekday))
}

fn hours<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    either(args, 3_600 * NANOS, |at| at.hour)
}

fn minutes<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    either(args, 60 * NANOS, |at| at.minute)
}

fn seconds<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    either(args, NANOS, |at| at.second)
}

fn millis<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        _ => moment(args).map(|(at, _)| Value::Int(at.millis())),
    }
}
