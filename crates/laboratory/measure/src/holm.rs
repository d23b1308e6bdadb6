//! Many comparisons at once: which differences are established so that all of them are right.
//!
//! Of twenty comparisons of equals at 95 % one differs by chance. Holm, "A simple sequentially
//! rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979), holds the
//! chance that any at all is wrong, however they depend on each other, and loses less than
//! dividing by their number (Bonferroni).

use crate::student::CONFIDENCE;

/// For each chance that equals differ so much (0 to 1), whether the difference is established
/// among all of them: the chance that one or more are wrong is 5 % at most.
pub fn established(chances: &[f64]) -> Vec<bool> {
    let limit = 1.0 - CONFIDENCE;
    let adjusted = adjusted(chances).into_iter();
    adjusted.map(|chance| chance <= limit).collect()
}

/// The same chances, each as it is among all of them.
fn adjusted(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut least: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        // Where one is not established, none that is likelier by chance is.
        least = least.max(chances[place] * (chances.len() - rank) as f64);
        adjusted[place] = least.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
        }
    }

    /// `p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")` of R, and the same in another order.
    #[test]
    fn chances_are_adjusted_as_by_r() {
        let wanted = [0.05, 0.08, 0.09, 0.09, 0.09];
        near(&adjusted(&[0.01, 0.02, 0.03, 0.04, 0.05]), &wanted);
        let wanted = [0.09, 0.05, 0.09, 0.08, 0.09];
        near(&adjusted(&[0.04, 0.01, 0.05, 0.02, 0.03]), &wanted);
        near(&adjusted(&[0.7, 0.6]), &[1.0, 1.0]);
    }

    /// The usual example of the textbooks: 0.005 and 0.01 keep a fourth and a third of 5 %, 0.03
    /// does not keep the half, and so 0.04 is not looked at.
    #[test]
    fn the_first_that_is_not_established_ends_it() {
        let chances = [0.01, 0.04, 0.03, 0.005];
        assert_eq!(established(&chances), [true, false, false, true]);
        assert_eq!(established(&[0.04]), [true]);
        assert_eq!(established(&[]), [false; 0]);
    }

    /// A third of 5 % is 1.7 %: Bonferroni would establish one of three, Holm establishes all.
    #[test]
    fn it_loses_less_than_dividing_by_their_number() {
        assert_eq!(established(&[0.02, 0.03, 0.01]), [true; 3]);
    }
}
