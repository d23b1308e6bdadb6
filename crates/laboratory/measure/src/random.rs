//! Generates random numbers that repeat with the seed. Not for secrets.

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub struct SplitMix {
    /// The state; before the first draw, the seed.
    pub state: u64,
}

/// Expected count from which a sum of many small chances is drawn as a normal number: the shares of
/// the tails then differ by less than one in a hundred.
const NORMAL_FROM: f64 = 60.0;

impl SplitMix {
    /// Makes a different sequence for each thread of each seed.
    pub fn of_thread(seed: u64, thread: u16) -> Self {
        let mut seeded = Self { state: seed };
        let first = seeded.draw();
        let mut own = Self { state: first ^ u64::from(thread).wrapping_mul(0xd134_2543_de82_ef95) };
        Self { state: own.draw() }
    }

    /// Draws the next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a share above 0, up to 1.
    pub fn share(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws the wait for an event that happens once per unit of time on average.
    pub fn exponential(&mut self) -> f64 {
        -self.share().ln()
    }

    /// Draws an index below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.draw() >> 11) as f64 / (1u64 << 53) as f64 * count as f64) as usize
    }

    /// Draws how many of `count` trials succeed if each does with that chance.
    pub fn binomial(&mut self, count: u64, chance: f64) -> u64 {
        if chance > 0.5 {
            return count - self.binomial(count, 1.0 - chance);
        }
        let mean = count as f64 * chance;
        if mean <= 0.0 {
            return 0;
        }
        if mean > NORMAL_FROM {
            let drawn = mean + (mean * (1.0 - chance)).sqrt() * self.normal();
            return (drawn.round().max(0.0) as u64).min(count);
        }
        // Waits between successes, counted in trials: geometric numbers.
        let scale = (-chance).ln_1p();
        let (mut tried, mut found) = (0.0, 0);
        loop {
            tried += (self.share().ln() / scale).floor() + 1.0;
            if tried > count as f64 {
                return found;
            }
            found += 1;
        }
    }

    /// Draws a normal number with mean 0 and deviation 1, by the polar form of Box and Muller's
    /// transformation (Marsaglia and Bray, 1964).
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.share() - 1.0, 2.0 * self.share() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean and the variance of counts are those of the formula, few or many.
    #[test]
    fn counts_by_chance_have_their_mean_and_variance() {
        for (count, chance) in [(40, 0.1), (10_000, 0.002), (10_000, 0.3), (500, 0.9)] {
            let mut random = SplitMix { state: 7 };
            let drawn: Vec<f64> =
                (0..20_000).map(|_| random.binomial(count, chance) as f64).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance =
                drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
            let wanted = count as f64 * chance;
            assert!((mean / wanted - 1.0).abs() < 0.02, "{count} {chance}: {mean}");
            let spread = wanted * (1.0 - chance);
            assert!((variance / spread - 1.0).abs() < 0.06, "{count} {chance}: {variance}");
        }
    }

    #[test]
    fn no_place_is_preferred() {
        let mut random = SplitMix { state: 1 };
        let mut places = [0u32; 3];
        (0..30_000).for_each(|_| places[random.below(3)] += 1);
        assert!(places.iter().all(|count| (9_700..10_300).contains(count)), "{places:?}");
    }
}
