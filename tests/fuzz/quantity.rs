//! Quantities against arithmetic on decimal texts: slow, plain, and without any bound on size.

use crate::choices::Choices;
use berth_core::model::Quantity;

/// With a binary suffix, and without.
const LARGEST: [u128; 2] = [i64::MAX as u128 * 1_000_000_000, 10_u128.pow(38) - 1];
const SUFFIXES: [(&str, i64, u32); 16] = [
    ("", 0, 0),
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
];

pub(crate) fn target(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let text = draw(&mut choices);
    let read = compare(&text);
    let other = draw(&mut choices);
    if let (Some(a), Some(b)) = (read, compare(&other)) {
        let (x, y) = (Quantity::parse(&text).unwrap(), Quantity::parse(&other).unwrap());
        assert_eq!(x.cmp(&y), a.cmp(&b), "{text:?} and {other:?}");
        assert_eq!((x + y).to_string(), shown(a.saturating_add(b)), "{text:?} + {other:?}");
    }
}

/// Reads `text` both ways and compares whatever can be asked of a quantity.
fn compare(text: &str) -> Option<i128> {
    let nanos = reference(text);
    match (Quantity::parse(text), nanos) {
        (Ok(read), Some(nanos)) => {
            assert_eq!(read.to_string(), shown(nanos), "{text:?}");
            assert_eq!(read.milli(), ceil(nanos, 1_000_000), "milli of {text:?}");
            assert_eq!(read.value(), ceil(nanos, 1_000_000_000), "value of {text:?}");
            assert_eq!(read.is_negative(), nanos < 0, "{text:?}");
            assert_eq!(Quantity::parse(&read.to_string()), Ok(read), "{text:?} there and back");
        }
        (Err(error), None) => {
            let cut: String = text.chars().take(64).collect();
            assert!(error.to_string().starts_with(&format!("{cut:?} is not a quantity")), "{error}");
        }
        (read, nanos) => panic!("{text:?}: read as {read:?}, on paper {nanos:?}"),
    }
    nanos
}

/// Mostly texts that look like quantities, else anything.
fn draw(choices: &mut Choices<'_>) -> String {
    const DIGITS: [char; 12] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '9', '0'];
    const NEARLY: [char; 24] = [
        '0', '1', '9', '.', '+', '-', 'e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P', ' ', '_', ',', 'x',
        '\u{661}', '\u{0}',
    ];
    match choices.below(8) {
        7 => String::from_utf8_lossy(choices.rest()).into_owned(),
        6 => choices.text(&NEARLY, 12),
        _ => {
            let sign = choices.pick(&["", "", "", "-", "+"]);
            let whole = choices.text(&DIGITS, 24);
            let point = choices.pick(&["", "."]);
            let fraction = if point.is_empty() { String::new() } else { choices.text(&DIGITS, 40) };
            let suffix = if choices.one_in(4) {
                format!("{}{}{}", choices.pick(&["e", "E"]), choices.pick(&["", "-", "+"]), choices.text(&DIGITS, 22))
            } else {
                choices.pick(&SUFFIXES).0.to_owned()
            };
            format!("{sign}{whole}{point}{fraction}{suffix}")
        }
    }
}

/// Billionths of a unit, rounded away from zero and cut at 2^63-1 units, or at 10^29 without a binary suffix; none where the text is no quantity.
fn reference(text: &str) -> Option<i128> {
    let (negative, rest) = match text.chars().next()? {
        '-' => (true, &text[1..]),
        '+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    if number.matches('.').count() > 1 || !number.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (power_of_ten, power_of_two) = match SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        Some((_, ten, two)) => (*ten, *two),
        None => (suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?, 0),
    };
    let fraction = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let mut digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).map(|d| d - b'0').collect();
    for _ in 0..power_of_two {
        double(&mut digits);
    }
    let largest = LARGEST[usize::from(power_of_two == 0)];
    let size = shifted(&digits, i128::from(power_of_ten) + 9 - fraction as i128).min(largest) as i128;
    Some(if negative { -size } else { size })
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let twice = *digit * 2 + carry;
        (*digit, carry) = (twice % 10, twice / 10);
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// The number `digits` times ten to the power `by`, rounded up.
fn shifted(digits: &[u8], by: i128) -> u128 {
    let digits: Vec<u8> = digits.iter().copied().skip_while(|d| *d == 0).collect();
    let length = digits.len() as i128 + by;
    if digits.is_empty() {
        return 0;
    }
    if length > 38 {
        return u128::MAX;
    }
    let kept = length.clamp(0, digits.len() as i128) as usize;
    let zeros = (length - kept as i128).max(0) as usize;
    let whole = digits[..kept].iter().copied().chain(std::iter::repeat_n(0, zeros));
    let size = whole.fold(0_u128, |sum, digit| sum * 10 + u128::from(digit));
    size + u128::from(digits[kept..].iter().any(|d| *d != 0))
}

fn ceil(nanos: i128, unit: i128) -> i64 {
    let size = i64::try_from((nanos.abs() + unit - 1) / unit).unwrap_or(i64::MAX);
    if nanos < 0 { -size } else { size }
}

fn shown(nanos: i128) -> String {
    let size = nanos.unsigned_abs();
    let (units, rest) = (size / 1_000_000_000, size % 1_000_000_000);
    let sign = if nanos < 0 { "-" } else { "" };
    let text = format!("{sign}{units}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
