//! Amounts as people write them, and the time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Thousandths of a core as `500m` or `2`.
pub(super) fn cpu(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Bytes in the largest binary unit that leaves at least 1, one decimal at most, as `1.5Gi`.
pub(super) fn bytes(amount: i64) -> String {
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponent = (0..6).rev().find(|e| amount >> (10 * (e + 1)) > 0);
    let Some(exponent) = exponent else { return amount.to_string() };
    let unit = 1_i64 << (10 * (exponent + 1));
    // Rounded down: what is free is never made larger than it is.
    match (amount / unit, i128::from(amount % unit) * 10 / i128::from(unit)) {
        (whole, 0) => format!("{whole}{}", UNITS[exponent]),
        (whole, tenth) => format!("{whole}.{tenth}{}", UNITS[exponent]),
    }
}

/// An amount of the resource `name` with its unit.
pub(super) fn amount(name: &str, amount: i64) -> String {
    match name {
        "cpu" => cpu(amount),
        "memory" | "ephemeral-storage" => bytes(amount),
        name if name.starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

/// Now, in microseconds of Unix time; 0 for a clock before 1970.
pub(super) fn now_unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!((cpu(500).as_str(), cpu(2000).as_str(), cpu(0).as_str()), ("500m", "2", "0"));
        let table = [(0, "0"), (512, "512"), (1024, "1Ki"), (1536, "1.5Ki"), (8 << 30, "8Gi"), (i64::MAX, "7.9Ei")];
        for (amount, want) in table {
            assert_eq!(bytes(amount), want);
        }
    }
}
