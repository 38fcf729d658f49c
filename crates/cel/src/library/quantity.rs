//! Kubernetes quantities.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Shape, Signature};
use crate::value::Value;
use berth_quantity::Quantity;
use std::cmp::Ordering;
use std::sync::Arc;

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

/// A quantity in a value: small, since values are moved around all the time.
#[derive(Debug, Clone)]
pub(crate) enum Held<'a> {
    OfDevice(&'a Quantity),
    Own(Arc<Amount>),
}

impl Held<'_> {
    pub(crate) fn value(&self) -> Quantity {
        match self {
            Self::OfDevice(value) => **value,
            Self::Own(amount) => amount.value,
        }
    }

    /// Whether it is a sum or a difference.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self, Self::Own(amount) if amount.is_computed)
    }

    fn amount(&self) -> Amount {
        match self {
            Self::OfDevice(value) => Amount::of_device(**value),
            Self::Own(amount) => **amount,
        }
    }
}

/// How upstream holds the number. It takes for an integer what it holds as one, not what is one, and computes with what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// This many times a power of ten.
    Small { count: i64, scale: i32 },
    /// A number of any size, which is never an integer.
    Big,
    /// It depends on the text, which we do not have.
    Unknown,
}

/// Whatever its text, upstream holds a smaller whole number of a device as an int64.
const SURELY_SMALL: i128 = 10_000_000_000_000;

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The power of ten of a billionth.
const NANO: i32 = -9;

impl Form {
    /// Of a capacity, as an API server would write it.
    fn of_device(nanos: i128) -> Self {
        if nanos % NANOS_PER_UNIT == 0 && nanos.abs() >= SURELY_SMALL * NANOS_PER_UNIT {
            return Self::Unknown;
        }
        // Fractions are written in thousandths, millionths or billionths.
        let scale =
            [0, -3, -6].into_iter().find(|scale| nanos % 10_i128.pow((scale - NANO) as u32) == 0).unwrap_or(NANO);
        let count = nanos / 10_i128.pow((scale - NANO) as u32);
        i64::try_from(count).map_or(Self::Unknown, |count| Self::Small { count, scale })
    }

    /// After `int64Amount.Add` in `apimachinery/pkg/api/resource/amount.go`: what does not fit an int64 becomes big.
    fn plus(self, other: Self) -> Self {
        let (a, b) = match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => return Self::Unknown,
            (Self::Small { count: a, scale }, Self::Small { count: b, scale: other_scale }) => {
                ((a, scale), (b, other_scale))
            }
            _ => return Self::Big,
        };
        if b.0 == 0 {
            return self;
        }
        if a.0 == 0 {
            return other;
        }
        let scale = a.1.min(b.1);
        let sum = scaled(a.0, a.1 - scale).zip(scaled(b.0, b.1 - scale)).and_then(|(a, b)| a.checked_add(b));
        sum.map_or(Self::Big, |count| Self::Small { count, scale })
    }

    /// The smallest int64 stays what it is.
    const fn negated(self) -> Self {
        match self {
            Self::Small { count, scale } => Self::Small { count: count.wrapping_neg(), scale },
            other => other,
        }
    }
}

fn scaled(count: i64, scale: i32) -> Option<i64> {
    count.checked_mul(10_i64.checked_pow(scale as u32)?)
}

impl Amount {
    fn of_device(value: Quantity) -> Self {
        Self { value, form: Form::of_device(value.nanos()), is_computed: false }
    }

    fn held<'a>(self) -> Value<'a> {
        Value::Quantity(Held::Own(Arc::new(self)))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = Quantity::parse(text).ok().or_else(|| bare_suffix(text))?;
        Some(Self { value, form: form_of(text), is_computed: false })
    }

    /// What upstream gets if it gets `exact` by counting with any number of digits, and holds the result like this.
    fn computed(form: Form, exact: Quantity) -> Self {
        let value = match form {
            Form::Small { count, scale } if (NANO..=0).contains(&scale) => {
                Quantity::from_nanos(i128::from(count) * 10_i128.pow((scale - NANO) as u32))
            }
            _ => exact,
        };
        Self { value, form, is_computed: true }
    }

    /// Fails for an amount that may have been cut down: upstream computes with any number of digits.
    fn exact<'a>(self) -> Evaluated<'a> {
        if self.value.nanos().unsigned_abs() < Quantity::LARGEST.nanos().unsigned_abs() {
            Ok(self.held())
        } else {
            Err(EvalError::unsupported("a quantity of 10^29 or more"))
        }
    }

    /// The number if upstream takes it for an integer.
    fn integer(self) -> Result<Option<i64>, EvalError> {
        match self.form {
            Form::Small { count, scale } if scale >= 0 => Ok(scaled(count, scale)),
            Form::Small { .. } | Form::Big => Ok(None),
            Form::Unknown if self.value.nanos() % NANOS_PER_UNIT != 0 => Ok(None),
            Form::Unknown => Err(EvalError::unsupported("whether so large a quantity is an integer")),
        }
    }

    /// As upstream, with the errors of its multiplication.
    fn float(self) -> f64 {
        let nanos = self.value.nanos();
        match self.form {
            Form::Small { count, scale: 0 } => count as f64,
            Form::Small { count, scale } => count as f64 * format!("1e{scale}").parse::<f64>().unwrap_or(1.0),
            _ if nanos % NANOS_PER_UNIT == 0 => (nanos / NANOS_PER_UNIT) as f64,
            _ => nanos as f64 * 1e-9,
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
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let end = unsigned.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len().max(1) as i32;
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|binary| *binary == suffix);
    let (precision, scale) = match (binary, decimal(suffix)) {
        (Some(power), _) if fraction.is_empty() => (15 - digits - (power as i32 + 1) * 3 - 1, 0),
        (Some(_), _) => (-1, 0),
        (None, exponent) => (18 - digits - fraction.len() as i32, exponent.saturating_sub(fraction.len() as i32)),
    };
    if precision < 0 || scale < NANO {
        return Form::Big;
    }
    let unit = 1_i64 << (binary.map_or(0, |power| power + 1) * 10);
    let count = format!("0{whole}{fraction}").parse::<i64>().ok().and_then(|count| count.checked_mul(unit));
    count.map_or(Form::Big, |count| Form::Small { count: sign * count, scale })
}

/// The power of ten of a suffix.
fn decimal(suffix: &str) -> i32 {
    match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other.get(1..).and_then(|exponent| exponent.parse().ok()).unwrap_or(0),
    }
}

fn parse<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Text(text)] = args else { return Err(EvalError::NoSuchOverload) };
    match Amount::parse(text) {
        Some(amount) => amount.exact(),
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
    if let [Value::Quantity(held)] = args { Ok(held.amount()) } else { Err(EvalError::NoSuchOverload) }
}

fn ordering(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    let [Value::Quantity(one), Value::Quantity(other)] = args else { return Err(EvalError::NoSuchOverload) };
    Ok(one.value().cmp(&other.value()))
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
    Ok(Value::Double(one(args)?.float()))
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
        Value::Quantity(held) => Ok(held.amount()),
        Value::Int(units) => {
            let form = Form::Small { count: *units, scale: 0 };
            Ok(Amount { value: Quantity::from_units(*units), form, is_computed: false })
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn operands(args: &[Value<'_>]) -> Result<[Amount; 2], EvalError> {
    let [one, other] = args else { return Err(EvalError::NoSuchOverload) };
    Ok([operand(one)?, operand(other)?])
}

fn add<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = operands(args)?;
    Amount::computed(one.form.plus(other.form), one.value + other.value).exact()
}

fn sub<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let [one, other] = operands(args)?;
    Amount::computed(one.form.plus(other.form.negated()), one.value - other.value).exact()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn small(count: i64, scale: i32) -> Form {
        Form::Small { count, scale }
    }

    #[test]
    fn the_form_follows_the_text() {
        for (text, form) in [
            ("1", small(1, 0)),
            ("0", small(0, 0)),
            ("-3", small(-3, 0)),
            ("40Gi", small(40 << 30, 0)),
            ("1k", small(1, 3)),
            ("1000m", small(1000, -3)),
            ("1.5", small(15, -1)),
            ("1.5k", small(15, 2)),
            ("1.5Gi", Form::Big),
            ("100Ti", Form::Big),
            ("999999999999999999", small(999_999_999_999_999_999, 0)),
            ("9223372036854775807", Form::Big),
            ("0.0000000001", Form::Big),
            ("1e3", small(1, 3)),
            ("1e-3", small(1, -3)),
        ] {
            assert_eq!(Amount::parse(text).unwrap().form, form, "{text}");
        }
    }

    #[test]
    fn upstream_computes_with_what_it_holds() {
        let amount = |text| Amount::parse(text).unwrap();
        let sum = |a, b| Amount::computed(amount(a).form.plus(amount(b).form), amount(a).value + amount(b).value);
        assert_eq!(sum("1", "2").integer(), Ok(Some(3)));
        assert_eq!(sum("500m", "500m").integer(), Ok(None));
        assert_eq!(sum("0", "2").integer(), Ok(Some(2)));
        assert_eq!(sum("1k", "1").integer(), Ok(Some(1001)));
        let smallest = operand(&Value::Int(i64::MIN)).unwrap();
        let wrapped = Amount::computed(amount("1").form.plus(smallest.form.negated()), Quantity::ZERO);
        assert_eq!(wrapped.integer(), Ok(Some(i64::MIN + 1)));
        assert!(wrapped.value.is_negative());
        assert!(Amount::of_device(Quantity::parse("100Ti").unwrap()).integer().is_err());
        assert_eq!(Amount::of_device(Quantity::parse("40Gi").unwrap()).integer(), Ok(Some(40 << 30)));
        assert_eq!(Amount::of_device(Quantity::parse("1.5").unwrap()).form, small(1500, -3));
    }
}
