//! Kubernetes quantities.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature};
use crate::value::Value;
use berth_quantity::Quantity;
use std::cmp::Ordering;

const TWO: &[Shape] = &[Shape::Quantity, Shape::Quantity];
const WITH_INT: &[Shape] = &[Shape::Quantity, Shape::Int];

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("quantity", &[Shape::Text], Shape::Quantity, parse),
    Signature::global("isQuantity", &[Shape::Text], Shape::Bool, is_quantity),
    // Upstream declares this one without a target.
    Signature::global("sign", &[Shape::Quantity], Shape::Int, sign),
    Signature::member("isGreaterThan", TWO, Shape::Bool, is_greater),
    Signature::member("isLessThan", TWO, Shape::Bool, is_less),
    Signature::member("compareTo", TWO, Shape::Int, compare_to),
    Signature::member("asApproximateFloat", &[Shape::Quantity], Shape::Double, as_float),
    Signature::member("asInteger", &[Shape::Quantity], Shape::Int, as_integer),
    Signature::member("isInteger", &[Shape::Quantity], Shape::Bool, is_integer),
    Signature::member("add", TWO, Shape::Quantity, add),
    Signature::member("add", WITH_INT, Shape::Quantity, add),
    Signature::member("sub", TWO, Shape::Quantity, sub),
    Signature::member("sub", WITH_INT, Shape::Quantity, sub),
];

/// A quantity, with what upstream remembers of how it came about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    value: Quantity,
    form: Form,
    is_computed: bool,
}

/// How upstream holds the number. It takes for an integer what it holds as one, not what is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An int64 and a power of ten that is no fraction.
    Whole,
    /// An int64 and a power of ten below one: `1000m` is no integer.
    Fraction,
    /// A number of any size, which is no integer either.
    Big,
    /// It depends on the text, which we do not have.
    Unknown,
}

/// Whatever its text, upstream holds a smaller whole number of a device as an int64.
const SURELY_WHOLE: i128 = 10_000_000_000_000;

const NANOS_PER_UNIT: i128 = 1_000_000_000;

impl Amount {
    /// A capacity, as an API server would write it.
    pub(crate) const fn of_device(value: Quantity) -> Self {
        let nanos = value.nanos();
        let form = if nanos % NANOS_PER_UNIT != 0 {
            Form::Fraction
        } else if nanos.abs() < SURELY_WHOLE * NANOS_PER_UNIT {
            Form::Whole
        } else {
            Form::Unknown
        };
        Self { value, form, is_computed: false }
    }

    pub(crate) const fn value(self) -> Quantity {
        self.value
    }

    /// Whether it is a sum or a difference.
    pub(crate) const fn is_computed(self) -> bool {
        self.is_computed
    }

    fn parse(text: &str) -> Option<Self> {
        let value = Quantity::parse(text).ok().or_else(|| bare_suffix(text))?;
        Some(Self { value, form: form_of(text), is_computed: false })
    }

    /// The sum, or of a negated one the difference.
    fn combined(self, other: Self, value: Quantity) -> Self {
        let is_zero = |of: Self| of.value == Quantity::ZERO && of.form != Form::Big;
        let form = match (self.form, other.form) {
            (Form::Big, _) | (_, Form::Big) => Form::Big,
            (form, _) if is_zero(other) => form,
            (_, form) if is_zero(self) => form,
            (Form::Whole, Form::Whole) if value.nanos().abs() < SURELY_WHOLE * NANOS_PER_UNIT => Form::Whole,
            (Form::Whole | Form::Fraction, Form::Whole | Form::Fraction)
                if value.nanos().abs() < i128::from(i64::MAX) =>
            {
                Form::Fraction
            }
            _ => Form::Unknown,
        };
        Self { value, form, is_computed: true }
    }

    /// The number if upstream takes it for an integer.
    fn integer(self) -> Result<Option<i64>, EvalError> {
        let nanos = self.value.nanos();
        match self.form {
            Form::Whole => Ok(i64::try_from(nanos / NANOS_PER_UNIT).ok()),
            Form::Fraction | Form::Big => Ok(None),
            Form::Unknown if nanos % NANOS_PER_UNIT != 0 => Ok(None),
            Form::Unknown => Err(EvalError::unsupported("whether so large a quantity is an integer")),
        }
    }
}

/// Upstream reads a text without digits as zero.
fn bare_suffix(text: &str) -> Option<Quantity> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (dots, suffix) = (unsigned.matches('.').count(), unsigned.trim_start_matches('.'));
    let has_digit =
        unsigned.split(['e', 'E']).next().is_some_and(|number| number.contains(|c: char| c.is_ascii_digit()));
    let is_one = dots <= 1 && !text.is_empty() && !has_digit;
    if is_one { Quantity::parse(&format!("0{suffix}")).ok() } else { None }
}

/// After `ParseQuantity` in `apimachinery/pkg/api/resource/quantity.go`: numbers of up to 18 digits are held as int64.
fn form_of(text: &str) -> Form {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let end = unsigned.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len().max(1) as i32;
    if let Some(power) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|binary| *binary == suffix) {
        let precision = 15 - digits - (power as i32 + 1) * 3 - 1;
        return if fraction.is_empty() && precision >= 0 { Form::Whole } else { Form::Big };
    }
    let exponent = match suffix {
        "" => 0,
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other[1..].parse().unwrap_or(0),
    };
    let scale = i32::saturating_sub(exponent, fraction.len() as i32);
    if digits + fraction.len() as i32 > 18 || scale < -9 {
        Form::Big
    } else if scale < 0 {
        Form::Fraction
    } else {
        Form::Whole
    }
}

fn parse<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    match Amount::parse(text) {
        Some(amount) => Ok(Value::Quantity(amount)),
        None => Err(EvalError::failed(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )),
    }
}

fn is_quantity<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(Value::Bool(Amount::parse(text).is_some()))
}

fn one(args: &[Value<'_>]) -> Result<Amount, EvalError> {
    if let [Value::Quantity(amount)] = args { Ok(*amount) } else { Err(EvalError::NoSuchOverload) }
}

fn ordering(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [Value::Quantity(one), Value::Quantity(other)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(one.value.cmp(&other.value))
}

fn sign<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(one(args)?.value.nanos().signum() as i64))
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

fn as_float<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let nanos = one(args)?.value.nanos();
    // Exact while the number of units, or of billionths, fits a double.
    let float = if nanos % NANOS_PER_UNIT == 0 { (nanos / NANOS_PER_UNIT) as f64 } else { nanos as f64 / 1e9 };
    Ok(Value::Double(float))
}

fn as_integer<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let integer = one(args)?.integer()?;
    integer.map(Value::Int).ok_or_else(|| EvalError::failed("cannot convert value to integer"))
}

fn is_integer<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(one(args)?.integer()?.is_some()))
}

/// A quantity, or an int as one.
fn operand(value: &Value<'_>) -> Result<Amount, EvalError> {
    match value {
        Value::Quantity(amount) => Ok(*amount),
        Value::Int(units) => Ok(Amount { value: Quantity::from_units(*units), form: Form::Whole, is_computed: false }),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn add<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = args else { return Err(EvalError::NoSuchOverload) };
    let (one, other) = (operand(one)?, operand(other)?);
    Ok(Value::Quantity(one.combined(other, one.value + other.value)))
}

fn sub<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = args else { return Err(EvalError::NoSuchOverload) };
    let is_smallest = matches!(other, Value::Int(i64::MIN));
    let (one, other) = (operand(one)?, operand(other)?);
    // Upstream negates the int, of which the smallest stays what it is; only a sum that is too small makes it count anew.
    if is_smallest && one.form == Form::Whole && !one.value.is_negative() {
        return Ok(Value::Quantity(one.combined(other, one.value + other.value)));
    }
    Ok(Value::Quantity(one.combined(other, one.value - other.value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_text() {
        for (text, form) in [
            ("1", Form::Whole),
            ("40Gi", Form::Whole),
            ("1k", Form::Whole),
            ("1000m", Form::Fraction),
            ("1.5", Form::Fraction),
            ("1.5k", Form::Whole),
            ("1.5Gi", Form::Big),
            ("100Ti", Form::Big),
            ("999999999999999999", Form::Whole),
            ("9223372036854775807", Form::Big),
            ("0.0000000001", Form::Big),
            ("1e3", Form::Whole),
            ("1e-3", Form::Fraction),
        ] {
            assert_eq!(Amount::parse(text).unwrap().form, form, "{text}");
        }
    }

    #[test]
    fn sums_keep_the_finer_form() {
        let amount = |text| Amount::parse(text).unwrap();
        let sum = |a, b| amount(a).combined(amount(b), amount(a).value + amount(b).value);
        assert_eq!(sum("1", "2").integer(), Ok(Some(3)));
        assert_eq!(sum("500m", "500m").integer(), Ok(None));
        assert_eq!(sum("0", "2").integer(), Ok(Some(2)));
        assert!(Amount::of_device(Quantity::parse("100Ti").unwrap()).integer().is_err());
        assert_eq!(Amount::of_device(Quantity::parse("40Gi").unwrap()).integer(), Ok(Some(40 << 30)));
    }
}
