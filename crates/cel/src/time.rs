//! Points in time and spans, as Go reads and writes them.

use std::fmt;

pub(crate) const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The first second of year 1 and the last of year 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp {
    /// Since 1970.
    seconds: i64,
    nanos: u32,
    /// Seconds east of UTC: how it was written, and is written again.
    offset: i32,
}

/// A date and a time of day somewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// From Sunday, 0.
    pub(crate) weekday: i64,
}

impl Timestamp {
    /// Nothing outside the years 1 to 9999.
    pub(crate) fn new(seconds: i64, nanos: i64, offset: i32) -> Option<Self> {
        let seconds = seconds.checked_add(nanos.div_euclid(NANOS))?;
        let nanos = nanos.rem_euclid(NANOS) as u32;
        SECONDS.contains(&seconds).then_some(Self { seconds, nanos, offset })
    }

    pub(crate) const fn instant(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    pub(crate) const fn millis(self) -> i64 {
        self.nanos as i64 / 1_000_000
    }

    pub(crate) fn plus(self, nanos: i64) -> Option<Self> {
        Self::new(self.seconds.checked_add(nanos / NANOS)?, i64::from(self.nanos) + nanos % NANOS, self.offset)
    }

    /// Nanoseconds since the other.
    pub(crate) fn since(self, other: Self) -> Option<i64> {
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        self.seconds.checked_sub(other.seconds)?.checked_mul(NANOS)?.checked_add(nanos)
    }

    pub(crate) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date(days);
        Civil {
            year,
            month,
            day,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            day_of_year: days - days_to(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// Reads RFC 3339; of a time beyond the range nothing, either.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = (text.get(..10)?, text.get(10..)?.strip_prefix('T')?);
        let number = |text: &str| digits(text);
        let [year, month, day] = [number(date.get(..4)?)?, number(date.get(5..7)?)?, number(date.get(8..)?)?];
        let (time, rest) = (rest.get(..8)?, rest.get(8..)?);
        let [hour, minute, second] = [number(time.get(..2)?)?, number(time.get(3..5)?)?, number(time.get(6..)?)?];
        let separators = [date.get(4..5)?, date.get(7..8)?, time.get(2..3)?, time.get(5..6)?];
        let is_valid = separators == ["-", "-", ":", ":"]
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let (nanos, zone) = fraction(rest)?;
        let offset = offset(zone)?;
        let seconds = days_to(year, month, day) * DAY + hour * 3_600 + minute * 60 + second - offset;
        if is_valid { Self::new(seconds, nanos, offset as i32) } else { None }
    }
}

/// RFC 3339 with as many digits as it needs.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.civil(i64::from(self.offset));
        let Civil { year, month, day, hour, minute, second, .. } = at;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, size) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs());
        write!(f, "{sign}{:02}:{:02}", size / 3_600, size / 60 % 60)
    }
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The nanoseconds behind a second, and what follows them.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(after) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let length = after.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(after.len());
    let (found, rest) = after.split_at(length);
    let nanos = digits(&format!("{found:0<9}")[..9])?;
    (length > 0).then_some((nanos, rest))
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |text: &str| if text.len() == 2 { digits(text) } else { None };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + is_leap(year) as i64,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date: years begin in March here, so that the odd day is at their end.
const fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + (month <= 2) as i64, month, day)
}

/// Reads a span as `1h2m3.5s`, in nanoseconds. After Go's `time.ParseDuration`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    // The size of the smallest span is one more than that of the largest.
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = one_span(rest)?;
        total = total.checked_add(nanos).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// A number with its unit.
fn one_span(text: &str) -> Option<(u64, &str)> {
    let is_digit = |b: u8| b.is_ascii_digit();
    let end = |text: &str| text.bytes().position(|b| !is_digit(b)).unwrap_or(text.len());
    let (whole, mut rest) = text.split_at(end(text));
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at(end(after));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.bytes().position(|b| b == b'.' || is_digit(b)).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= 1 << 63)?;
    // No unit has more than 10^13 nanoseconds, so further digits say nothing.
    let used = &fraction[..fraction.len().min(18)];
    if !used.is_empty() {
        let scale = 10_f64.powi(used.len() as i32);
        nanos += (used.parse::<u64>().ok()? as f64 * (unit as f64 / scale)) as u64;
    }
    (nanos <= 1 << 63).then_some((nanos, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_and_written() {
        for (text, seconds, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2000-02-29T12:00:00Z", 951_825_600, "2000-02-29T12:00:00Z"),
            ("2023-07-14T10:30:45.120Z", 1_689_330_645, "2023-07-14T10:30:45.12Z"),
            ("2023-07-14T12:30:45+02:00", 1_689_330_645, "2023-07-14T12:30:45+02:00"),
            ("2023-07-14T10:30:45-00:00", 1_689_330_645, "2023-07-14T10:30:45Z"),
            ("0001-01-01T00:00:00Z", -62_135_596_800, "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", 253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            let read = Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((read.seconds, read.to_string().as_str()), (seconds, written), "{text}");
        }
        for text in [
            "",
            "2023-02-29T00:00:00Z",
            "2023-01-01",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:00:00",
            "2023-01-01T00:00:00.Z",
            "2023-1-01T00:00:00Z",
            "0000-12-31T00:00:00Z",
            "2023-01-01T00:00:00+1:00",
            "2023-01-01t00:00:00Z",
        ] {
            assert!(Timestamp::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_calendar_comes_back() {
        for days in (-719_162..2_932_896).step_by(13) {
            let (year, month, day) = date(days);
            assert_eq!(days_to(year, month, day), days);
        }
        let civil = Timestamp::parse("2024-12-31T23:59:58Z").unwrap().civil(0);
        assert_eq!((civil.day_of_year, civil.weekday, civil.hour, civil.second), (365, 2, 23, 58));
    }

    #[test]
    fn spans_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1s", Some(NANOS)),
            ("-1.5h", Some(-5_400 * NANOS)),
            ("1h2m3s4ms5us6ns", Some(3_723_004_005_006)),
            (".5s", Some(NANOS / 2)),
            ("1.s", Some(NANOS)),
            ("+5m", Some(300 * NANOS)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("", None),
            ("-", None),
            ("1", None),
            (".s", None),
            ("1d", None),
            ("1 s", None),
            ("99999999h", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
    }
}
