//! The natural logarithm as upstream's runtime computes it: the platform's own may differ in the last bit.

/// The natural logarithm of a number from 1 on. After FreeBSD's `e_log.c`, whose series Go's `math.Log` uses.
pub(super) fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let (fraction, exponent) = halve(x);
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2
        * (6.666_666_666_666_735e-1
            + s4 * (2.857_142_874_366_239e-1 + s4 * (1.818_357_216_161_805e-1 + s4 * 1.479_819_860_511_658_6e-1)));
    let even = s4 * (3.999_999_999_940_942e-1 + s4 * (2.222_219_843_214_978_4e-1 + s4 * 1.531_383_769_920_937_3e-1));
    let half_square = 0.5 * f * f;
    let rest = (half_square - (s * (half_square + (odd + even)) + exponent * LN2_LOW)) - f;
    exponent * LN2_HIGH - rest
}

/// `x` as a fraction from √½ to √2 and a power of two.
fn halve(x: f64) -> (f64, f64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let fraction = f64::from_bits(bits & MANTISSA | 0.5_f64.to_bits());
    let exponent = ((bits >> 52) & 0x7ff) as f64 - 1022.0;
    if fraction < std::f64::consts::FRAC_1_SQRT_2 { (fraction * 2.0, exponent - 1.0) } else { (fraction, exponent) }
}

#[cfg(test)]
mod tests {
    use super::ln;

    /// What Go 1.26 gives on amd64.
    #[test]
    fn every_bit_is_as_upstream() {
        for (x, bits) in [(2.0, 0x3fe6_2e42_fefa_39ef), (4.0, 0x3ff6_2e42_fefa_39ef), (5002.0, 0x4021_0901_f6dc_84b9)] {
            assert_eq!(ln(x).to_bits(), bits, "ln {x}");
        }
        let fold = |hash: u64, n: u32| hash.wrapping_mul(31).wrapping_add(ln(f64::from(n)).to_bits());
        assert_eq!((1..=10_002).fold(0, fold), 0x3537_5dcf_1d9d_de87);
    }
}
