//! Durations as Go writes them: `1h15m30.5s`, `-5s`, `250us`.

use super::node::{ImportError, Node};
use berth_api::Duration;

/// Units with their length in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest that a profile can write: six digits of hours.
const LONGEST_MILLIS: u64 = 999_999 * 3_600_000;

/// Reads a duration that is not negative, in whole milliseconds, rounded up.
pub(super) fn read(node: &Node<'_>) -> Result<Duration, ImportError> {
    let text = node.text()?;
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if text.starts_with('-') && nanos(&text[1..]).is_some_and(|n| n > 0) {
        return Err(node.bad(format!("{text:?} is negative"), "write 0s or more"));
    }
    let millis = nanos(unsigned.strip_prefix('-').unwrap_or(unsigned)).map(|n| n.div_ceil(1_000_000));
    let millis = millis.and_then(|m| u64::try_from(m).ok()).filter(|m| *m <= LONGEST_MILLIS);
    let millis = millis.ok_or_else(|| {
        node.bad(format!("{text:?} is not a duration"), "write numbers with units, such as 500ms, 10s or 1m30s")
    })?;
    Ok(Duration::from_millis(millis))
}

fn nanos(text: &str) -> Option<u128> {
    if text == "0" {
        return Some(0);
    }
    if text.is_empty() {
        return None;
    }
    let (mut rest, mut total) = (text, 0u128);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, u128::from(*length))?)?;
        rest = tail;
    }
    Some(total)
}

/// `number`, which may have a fraction, times `length`, rounded down.
fn scaled(number: &str, length: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.contains('.') {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let part = digits(fraction)?.checked_mul(length)? / 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    digits(whole)?.checked_mul(length)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_text(text: &str) -> Result<Duration, ImportError> {
        read(&Node::root(&json!(text)))
    }

    #[test]
    fn reads_what_go_reads() {
        let table = [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("+5s", 5_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1h15m30.918s", 4_530_918),
            ("250us", 1),
            ("2500µs", 3),
            ("600s", 600_000),
        ];
        for (text, millis) in table {
            assert_eq!(read_text(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.2.3s", ".s", "1d", "1s5", "99999999999999999999h", "1000000h"] {
            assert!(read_text(text).is_err(), "{text}");
        }
    }
}
