//! Assigns clients to servers by consistent hashing.
//!
//! Handles the hash and the weighted rendezvous score (Thaler and Ravishankar 1998; weights after
//! Schindler and Schomaker 2005). A server's score for a client depends on that server alone, so
//! losing one moves only its own clients, and nothing need be stored.
//!
//! Uses only integers and the four basic operations of IEEE 754, which round alike everywhere: two
//! hosts, or two builds, send a client to the same server.

use std::net::IpAddr;

/// Returns the key of a client: the same in every process and on every host.
///
/// An IPv4 address mapped into IPv6 has the key of the IPv4 address. Clients without an address
/// (those of Unix sockets) share one key, and so one server.
pub fn key_of(client: Option<IpAddr>) -> u64 {
    match client.map(|ip| ip.to_canonical()) {
        None => hash(&[]),
        Some(IpAddr::V4(ip)) => hash(&ip.octets()),
        Some(IpAddr::V6(ip)) => hash(&ip.octets()),
    }
}

/// FNV-1a, then a finalizer, because FNV alone leaves its high bits poor on short inputs.
pub fn hash(bytes: &[u8]) -> u64 {
    let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Finalizer of MurmurHash3 (64 bits): each input bit flips each output bit half of the time.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// Returns the distance of the client of `key` from the server of `seed`, if less than `limit`.
///
/// The distance is an exponential variate of rate `weight`: each of several is the smallest with a
/// probability equal to its share of the weights. Therefore the nearest server is the client's.
pub(crate) fn distance_below(limit: f64, key: u64, seed: u64, weight: f64) -> Option<f64> {
    // 52 bits and a half, so that neither 0 nor 1 can result.
    let fraction = ((mix(key ^ seed) >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    // -ln x is never below 1 - x: this saves most logarithms when there are many servers.
    if (1.0 - fraction) / weight >= limit {
        return None;
    }
    Some(-natural_logarithm(fraction) / weight).filter(|distance| *distance < limit)
}

/// artanh x = x + x³/3 + x⁵/5 + …
const ARTANH: [f64; 9] = {
    let mut coefficients = [0.0; 9];
    let mut term = 0;
    while term < coefficients.len() {
        coefficients[term] = 1.0 / (2 * term + 1) as f64;
        term += 1;
    }
    coefficients
};

/// Returns the logarithm of a normal number above 0, to about 12 digits.
///
/// `f64::ln` is not used because platforms differ in its last bit.
fn natural_logarithm(number: f64) -> f64 {
    const EXPONENT_BIAS: i32 = 1023;
    const FRACTION_BITS: u32 = 52;
    let bits = number.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32 - EXPONENT_BIAS;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let mantissa = f64::from_bits(fraction | (EXPONENT_BIAS as u64) << FRACTION_BITS);
    // ln m = 2 artanh((m - 1) / (m + 1)); bringing m from [1, 2) to [0.75, 1.5) keeps it short.
    let (mantissa, exponent) = match mantissa {
        m if m >= 1.5 => (m / 2.0, exponent + 1),
        m => (m, exponent),
    };
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let horner = |sum: f64, coefficient: &f64| sum * square + coefficient;
    let series = ARTANH.iter().rev().fold(0.0, horner);
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for number in [1e-300, 1e-16, 0.1, 0.5, 0.749, 0.75, 0.999_999, 1.0, 1.49, 1.5, 7.0] {
            let error = (natural_logarithm(number) - f64::ln(number)).abs();
            assert!(error < 1e-11 * f64::ln(number).abs().max(1.0), "{number}: {error}");
        }
    }

    /// A change of these numbers would send clients to other servers after an upgrade.
    #[test]
    fn keys_never_change() {
        let key = |text: &str| key_of(Some(text.parse().unwrap()));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_eq!(key("192.0.2.1"), 0x8039_3182_6a22_88ea);
        assert_eq!(key("2001:db8::1"), 0x8dec_2b2d_0b0e_530f);
        assert_eq!(key_of(None), 0xefd0_1f60_ba99_2926);
    }
}
