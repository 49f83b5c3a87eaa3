//! Medians and quartiles. Pure.

/// What several rounds gave, in order of size.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    /// `None` of no rounds.
    pub(crate) fn new(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self(values))
    }

    /// Between two rounds in proportion, so that few rounds have quartiles too.
    fn at(&self, share: f64) -> f64 {
        let place = (self.0.len() - 1) as f64 * share;
        let (low, high) = (self.0[place.floor() as usize], self.0[place.ceil() as usize]);
        low + (high - low) * place.fract()
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    pub(crate) fn quartiles(&self) -> (f64, f64) {
        (self.at(0.25), self.at(0.75))
    }
}

/// The value below which a share of them is, of values in any order.
pub(crate) fn percentile(values: &mut [u32], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let at = ((values.len() - 1) as f64 * share).round() as usize;
    f64::from(*values.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_of_the_sorted_rounds() {
        let rounds = Rounds::new(vec![5.0, 1.0, 3.0, 2.0, 4.0, f64::NAN]).unwrap();
        assert_eq!((rounds.median(), rounds.quartiles()), (3.0, (2.0, 4.0)));
        let rounds = Rounds::new(vec![1.0, 2.0]).unwrap();
        assert_eq!((rounds.median(), rounds.quartiles()), (1.5, (1.25, 1.75)));
        assert!(Rounds::new(vec![]).is_none());
    }

    #[test]
    fn percentiles_are_of_any_order() {
        let mut values: Vec<u32> = (0..=100).rev().collect();
        assert_eq!(percentile(&mut values, 0.5), 50.0);
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert!(percentile(&mut [], 0.5).is_nan());
    }
}
