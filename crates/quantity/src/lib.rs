//! Amounts as Kubernetes writes them.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
const LARGEST_BINARY: u128 = i64::MAX as u128 * NANOS_PER_UNIT as u128;
/// The digits of [`Quantity::LARGEST`] in nanos.
const MOST_DIGITS: u32 = 38;
/// Decimal digits that one step of the long multiplication in [`binary_nanos`] takes.
const CHUNK: usize = 19;
const CHUNK_BASE: u128 = 10_u128.pow(CHUNK as u32);

/// A Kubernetes resource quantity, exact to a billionth of a unit.
///
/// Finer amounts are rounded up (away from zero), and those with a binary suffix are at most 2^63-1 units, as upstream has it. Other
/// amounts have no limit upstream; here they are cut down to [`LARGEST`](Self::LARGEST). Sums are exact: round with
/// [`milli`](Self::milli) or [`value`](Self::value) after adding, never before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: i128,
}

/// Names the text and says what a quantity looks like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: write a number with an optional suffix, such as 500m, 2, 1.5Gi or 1e3")]
pub struct QuantityError {
    /// Cut to 64 characters.
    pub text: String,
}

enum Scale {
    /// Times ten to this power.
    Decimal(i64),
    /// Times two to this power, at most 60.
    Binary(u32),
}

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0 };
    /// 10^29 units, less a billionth of one.
    pub const LARGEST: Self = Self { nanos: 10_i128.pow(MOST_DIGITS) - 1 };

    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT }
    }

    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * NANOS_PER_MILLI }
    }

    pub const fn from_nanos(nanos: i128) -> Self {
        Self { nanos }
    }

    /// Reads a quantity: sign, digits with an optional fraction, then one of the suffixes n u m k M G T P E, Ki to Ei,
    /// or an exponent such as e3. After `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`.
    ///
    /// Unlike upstream, a text without any digit is refused.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::read(text).ok_or_else(|| QuantityError { text: text.chars().take(64).collect() })
    }

    fn read(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let size = match read_suffix(suffix)? {
            Scale::Decimal(exponent) => decimal_nanos(whole, fraction, exponent),
            Scale::Binary(shift) => binary_nanos(whole, fraction, shift),
        };
        let nanos = size.min(Self::LARGEST.nanos.unsigned_abs()) as i128;
        Some(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// Thousandths of a unit, rounded up (away from zero), at most `i64::MAX`.
    pub fn milli(self) -> i64 {
        round_up(self.nanos, NANOS_PER_MILLI)
    }

    /// Whole units, rounded up (away from zero), at most `i64::MAX`.
    pub fn value(self) -> i64 {
        round_up(self.nanos, NANOS_PER_UNIT)
    }

    /// Billionths of a unit, exactly.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The text that the API has for it, such as `10Gi`, `1500m` or `3k`.
    ///
    /// In which format the amount was written is not kept: it is the shorter one, and decimal where both are as short. For each format the
    /// text is that of `Quantity.String()` upstream.
    pub fn canonical(self) -> String {
        let decimal = self.decimal();
        let binary = self.binary().filter(|binary| binary.len() < decimal.len());
        binary.unwrap_or(decimal)
    }

    /// The largest suffix with which it is a whole number.
    fn decimal(self) -> String {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let (number, times) = divided(self.nanos, 1_000, SUFFIXES.len() - 1);
        format!("{number}{}", SUFFIXES[times])
    }

    /// `None` for what no binary suffix can say, and what is no multiple of 1024: that is written in decimal format upstream too, as long as it is whole.
    fn binary(self) -> Option<String> {
        const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let is_within = self.nanos.unsigned_abs() <= LARGEST_BINARY;
        if self.nanos == 0 || self.nanos % NANOS_PER_UNIT != 0 || !is_within {
            return None;
        }
        let (number, times) = divided(self.nanos / NANOS_PER_UNIT, 1_024, SUFFIXES.len() - 1);
        (times > 0).then(|| format!("{number}{}", SUFFIXES[times]))
    }
}

/// `number` divided by `by` as long as that leaves no rest, and how many times.
const fn divided(mut number: i128, by: i128, at_most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < at_most && number % by == 0 {
        number /= by;
        times += 1;
    }
    (number, times)
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Its exact amount as a decimal number of units.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanos.unsigned_abs();
        let (units, rest) = (size / NANOS_PER_UNIT as u128, size % NANOS_PER_UNIT as u128);
        let sign = if self.nanos < 0 { "-" } else { "" };
        if rest == 0 {
            return write!(f, "{sign}{units}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{sign}{units}.{}", digits.trim_end_matches('0'))
    }
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    let size = nanos.unsigned_abs().div_ceil(unit.unsigned_abs());
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if nanos < 0 { -size } else { size }
}

fn read_suffix(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => Scale::Decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// Nanos of `whole.fraction * 10^exponent`: the decimal point moves by the exponent and nine, and what lies behind it rounds up.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> u128 {
    let leading = whole.len() - whole.trim_start_matches('0').len();
    let more = if leading == whole.len() { fraction.len() - fraction.trim_start_matches('0').len() } else { 0 };
    let mut digits =
        whole.bytes().chain(fraction.bytes()).skip(leading + more).map(|b| u128::from(b - b'0')).peekable();
    if digits.peek().is_none() {
        return 0;
    }
    let point = whole.len() as i64 - (leading + more) as i64;
    let wanted = exponent.saturating_add(point).saturating_add(9);
    if wanted > i64::from(MOST_DIGITS) {
        return u128::MAX;
    }
    let mut nanos = 0;
    for _ in 0..wanted.max(0) {
        nanos = nanos * 10 + digits.next().unwrap_or(0);
    }
    nanos + u128::from(digits.any(|d| d != 0))
}

/// Nanos of `whole.fraction * 2^shift`, by long multiplication of the fraction from its end.
fn binary_nanos(whole: &str, fraction: &str, shift: u32) -> u128 {
    let mut units: u128 = 0;
    for digit in whole.bytes() {
        units = units * 10 + u128::from(digit - b'0');
        if units << shift > i64::MAX as u128 {
            return LARGEST_BINARY;
        }
    }
    let (mut carry, mut rest, mut finer) = (0, 0, false);
    for chunk in fraction.as_bytes().chunks(CHUNK).rev() {
        let digits = chunk.iter().fold(0, |sum, d| sum * 10 + u128::from(d - b'0'));
        let aligned = digits * 10_u128.pow((CHUNK - chunk.len()) as u32);
        let product = (aligned << shift) + carry;
        finer |= rest != 0;
        rest = product % CHUNK_BASE;
        carry = product / CHUNK_BASE;
    }
    let per_nano = CHUNK_BASE / NANOS_PER_UNIT as u128;
    let up = rest % per_nano != 0 || finer;
    (((units << shift) + carry) * NANOS_PER_UNIT as u128 + rest / per_nano + u128::from(up)).min(LARGEST_BINARY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_read_and_rounded_as_upstream() {
        let max = i64::MAX;
        for (text, milli, value) in [
            ("0", 0, 0),
            ("1", 1_000, 1),
            ("+1", 1_000, 1),
            ("-1", -1_000, -1),
            ("-1.0001", -1_001, -2),
            ("100m", 100, 1),
            ("0.1", 100, 1),
            (".5", 500, 1),
            ("1.", 1_000, 1),
            ("1.G", 1_000_000_000_000, 1_000_000_000),
            ("1n", 1, 1),
            ("1u", 1, 1),
            ("1500u", 2, 1),
            ("0.1n", 1, 1),
            ("1e-30", 1, 1),
            ("0e30", 0, 0),
            ("12e6", 12_000_000_000, 12_000_000),
            ("1E3", 1_000_000, 1_000),
            ("1E+3", 1_000_000, 1_000),
            ("1E", max, 1_000_000_000_000_000_000),
            ("1k", 1_000_000, 1_000),
            ("1Ki", 1_024_000, 1_024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("0.000000001Ki", 1, 1),
            ("200Mi", 209_715_200_000, 209_715_200),
            ("8Ei", max, max),
            ("7Ei", max, 8_070_450_532_247_928_832),
            ("9223372036854775807", max, max),
            ("9223372036854775808", max, max),
            ("100E", max, max),
            ("1e999", max, max),
            ("00000000000000000000000000000000000000000000000000001", 1_000, 1),
            ("0.00000000000000000000000000000000000000000001Ei", 1, 1),
        ] {
            let q = Quantity::parse(text).unwrap();
            assert_eq!((q.milli(), q.value()), (milli, value), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_text_that_is_no_quantity() {
        for text in [
            "", "1.5.3", ".", "-", "+", "1K", "1ki", "1 Gi", "1e", "1e1.5", "1mi", "m", "abc", "1e3k", "0x1", "1_0",
            "١",
        ] {
            let error = Quantity::parse(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!(Quantity::parse(&"9".repeat(200).replace('9', "x")).unwrap_err().text.len(), 64);
    }

    #[test]
    fn an_amount_is_written_as_upstream_in_the_shorter_of_its_formats() {
        for (text, want) in [
            ("0", "0"),
            ("-0", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("0.0025", "2500u"),
            ("1n", "1n"),
            ("-1.0001", "-1000100u"),
            ("1", "1"),
            ("1000", "1k"),
            ("1e3", "1k"),
            ("1234", "1234"),
            ("12e6", "12M"),
            ("2E", "2E"),
            ("1Ki", "1Ki"),
            ("1.5Gi", "1536Mi"),
            ("10Gi", "10Gi"),
            ("-10Gi", "-10Gi"),
            ("1000Gi", "1000Gi"),
            ("1024k", "1024k"),
            ("128G", "128G"),
            ("7Ei", "7Ei"),
            ("0.5Ki", "512"),
            ("1025", "1025"),
            ("100E", "100E"),
            ("9Ei", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("-1e60", "-99999999999999999999999999999999999999n"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().canonical(), want, "{text}");
        }
    }

    #[test]
    fn sums_are_exact_before_rounding() {
        let half = Quantity::parse("0.5m").unwrap();
        assert_eq!(half.milli() + half.milli(), 2);
        assert_eq!((half + half).milli(), 1);
        assert_eq!((half + Quantity::from_milli(2)).to_string(), "0.0025");
    }

    /// Decimal digits, least significant first: slow and plain.
    struct Naive(Vec<u8>);

    impl Naive {
        fn of(digits: &str) -> Self {
            Self(digits.bytes().rev().map(|b| b - b'0').collect())
        }

        fn times(mut self, factor: u32) -> Self {
            let mut carry = 0;
            for digit in &mut self.0 {
                let product = u32::from(*digit) * factor + carry;
                *digit = (product % 10) as u8;
                carry = product / 10;
            }
            while carry > 0 {
                self.0.push((carry % 10) as u8);
                carry /= 10;
            }
            self
        }

        /// Drops the `behind` lowest digits, rounding up, and cuts at `i64::MAX`.
        fn ceil(self, behind: usize) -> i64 {
            let low = self.0.iter().take(behind).any(|d| *d != 0);
            let mut high = self.0.iter().skip(behind).rev().skip_while(|d| **d == 0);
            let mut sum: i128 = 0;
            for digit in high.by_ref() {
                sum = sum * 10 + i128::from(*digit);
                if sum > i128::from(i64::MAX) {
                    return i64::MAX;
                }
            }
            i64::try_from(sum + i128::from(low)).unwrap_or(i64::MAX)
        }
    }

    fn naive(whole: &str, fraction: &str, suffix: &str, thousandths: bool) -> i64 {
        let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|s| *s == suffix);
        let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix).unwrap_or(0);
        let mut number = Naive::of(&format!("{whole}{fraction}"));
        for _ in 0..10 * binary {
            number = number.times(2);
        }
        // From here on in units of 10^-(fraction + 9): n is 0, the bare number 9.
        let zeros = decimal.map_or(9, |p| 3 * p);
        let mut scaled = Naive([vec![0; zeros], number.0].concat());
        // More than nano precision rounds up first, then the rest.
        let nano_rest = scaled.0.iter().take(fraction.len()).any(|d| *d != 0);
        scaled.0.drain(..fraction.len().min(scaled.0.len()));
        if nano_rest {
            let one = scaled.0.iter().position(|d| *d != 9).unwrap_or(scaled.0.len());
            if one == scaled.0.len() {
                scaled.0.push(0);
            }
            scaled.0[one] += 1;
            scaled.0[..one].fill(0);
        }
        let capped = Naive(scaled.0.clone()).ceil(9) == i64::MAX;
        if capped { i64::MAX } else { scaled.ceil(if thousandths { 6 } else { 9 }) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn agrees_with_arithmetic_on_paper(
            whole in "[0-9]{1,24}", fraction in "[0-9]{0,45}",
            suffix in prop::sample::select(vec!["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        ) {
            let q = Quantity::parse(&format!("{whole}.{fraction}{suffix}")).unwrap();
            prop_assert_eq!(q.value(), naive(&whole, &fraction, suffix, false));
            prop_assert_eq!(q.milli(), naive(&whole, &fraction, suffix, true));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn the_canonical_text_means_the_same_amount(
            units in -i64::MAX..=i64::MAX, nanos in 0..NANOS_PER_UNIT, zeros in 0_u32..19, shift in 0_u32..60,
        ) {
            let decimal = units / 10_i64.pow(zeros) * 10_i64.pow(zeros);
            let binary = (units / (1 << shift)) << shift;
            let fine = i128::from(units / 2) * NANOS_PER_UNIT + nanos;
            let large = fine * 1_000_000_000;
            for q in [Quantity::from_units(decimal), Quantity::from_units(binary)].into_iter().chain([fine, large].map(Quantity::from_nanos)) {
                prop_assert_eq!(Quantity::parse(&q.canonical()).unwrap(), q);
            }
        }

        #[test]
        fn an_exponent_moves_the_point(whole in 1_u32..1_000_000, exponent in -20_i64..20) {
            let with = Quantity::parse(&format!("{whole}e{exponent}")).unwrap();
            let digits = format!("{whole:0>40}{}", "0".repeat(40));
            let point = (40 + exponent) as usize;
            let plain = Quantity::parse(&format!("{}.{}", &digits[..point], &digits[point..])).unwrap();
            prop_assert_eq!(with, plain);
        }
    }
}
