//! A hash that is the same in every process and every build.

/// FNV-1a of 64 bits. Its low bits tell similar texts hardly apart.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, fold)
}
