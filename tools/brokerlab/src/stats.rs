//! Durations, and what is said of many of them.

use std::fmt;
use std::time::Duration;

/// The most samples that are kept; beyond, each takes the place of a random one, so that they stay a fair sample.
const KEPT: usize = 200_000;

/// Durations of one kind.
#[derive(Clone, Debug)]
pub struct Times {
    kept: Vec<u32>,
    count: u64,
    most: Duration,
    chance: fastrand::Rng,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            count: 0,
            most: Duration::ZERO,
            chance: fastrand::Rng::with_seed(1),
        }
    }
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.most = self.most.max(took);
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if self.kept.len() < KEPT {
            self.kept.push(micros);
        } else {
            let place = self.chance.u64(..self.count);
            if let Some(kept) =
                usize::try_from(place).ok().and_then(|place| self.kept.get_mut(place))
            {
                *kept = micros;
            }
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for micros in &other.kept {
            self.add(Duration::from_micros(u64::from(*micros)));
        }
        self.most = self.most.max(other.most);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    #[must_use]
    pub fn most(&self) -> Duration {
        self.most
    }

    /// The duration that `percent` of them do not exceed; zero if there are none.
    #[must_use]
    pub fn at(&self, percent: f64) -> Duration {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank within the samples kept"
        )]
        let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
        let micros = sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0);
        Duration::from_micros(u64::from(micros))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("none");
        }
        let (half, p99) = (Millis(self.at(50.0)), Millis(self.at(99.0)));
        write!(f, "{} times, p50 {half}, p99 {p99}, at most {}", self.count, Millis(self.most))
    }
}

/// A duration, as milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1000.0;
        if millis < 10.0 { write!(f, "{millis:.2} ms") } else { write!(f, "{millis:.0} ms") }
    }
}

/// Bytes, as MiB.
#[derive(Clone, Copy, Debug)]
pub struct Mib(pub u64);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} MiB", self.0 >> 20, ((self.0 & 0xf_ffff) * 10) >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let mut times = Times::default();
        for millis in 1..=100 {
            times.add(Duration::from_millis(millis));
        }
        assert_eq!(times.at(50.0), Duration::from_millis(50));
        assert_eq!(times.at(99.0), Duration::from_millis(99));
        assert_eq!(times.at(100.0), Duration::from_millis(100));
        assert_eq!(times.most(), Duration::from_millis(100));
        assert_eq!(Times::default().at(99.0), Duration::ZERO);
    }
}
