//! When a line is reached at the present rate.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back the rate is taken from.
const WINDOW: Duration = Duration::from_secs(60);
/// Closer samples are left out, so that the memory is bounded and a burst of samples weighs no more than one.
const APART: Duration = Duration::from_millis(900);
/// From less, no rate is taken.
const FEWEST: usize = 9;
/// Beyond this, a forecast says nothing.
const FAR: f64 = 365.0 * 24.0 * 3600.0;

/// Free space over the last minute.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    points: VecDeque<(Duration, u64)>,
}

impl Forecast {
    pub(super) fn note(&mut self, at: Duration, free: u64) {
        if self.points.back().is_some_and(|(last, _)| at.saturating_sub(*last) < APART) {
            return;
        }
        self.points.push_back((at, free));
        // Also what is from before the machine slept.
        while self.points.front().is_some_and(|(first, _)| at.saturating_sub(*first) > WINDOW) {
            self.points.pop_front();
        }
    }

    /// What was noted is of another device, as one that was resized is.
    pub(super) fn forget(&mut self) {
        self.points.clear();
    }

    /// The time until free space is down at `line`; none if it is not falling.
    ///
    /// The rate is that between the medians of the first and the last third of the window: one sample, or one file that
    /// comes or goes, does not turn it. A fall that is no larger than how samples scatter about those medians is noise.
    pub(super) fn until(&self, line: u64) -> Option<Duration> {
        let (_, free) = *self.points.back()?;
        if free <= line {
            return Some(Duration::ZERO);
        }
        if self.points.len() < FEWEST {
            return None;
        }
        let third = self.points.len() / 3;
        let points: Vec<(f64, f64)> =
            self.points.iter().map(|(at, free)| (at.as_secs_f64(), *free as f64)).collect();
        let (first, last) = (&points[..third], &points[points.len() - third..]);
        let middle = |part: &[(f64, f64)]| {
            (median(part.iter().map(|point| point.0)), median(part.iter().map(|point| point.1)))
        };
        let ((begin, before), (end, after)) = (middle(first), middle(last));
        let off = first
            .iter()
            .map(|point| (point.1 - before).abs())
            .chain(last.iter().map(|point| (point.1 - after).abs()));
        let fall = before - after;
        if fall <= 2.0 * median(off) || end <= begin {
            return None;
        }
        let seconds = (free - line) as f64 / (fall / (end - begin));
        (seconds < FAR).then(|| Duration::from_secs_f64(seconds))
    }
}

/// 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(frees: impl IntoIterator<Item = u64>) -> Forecast {
        let mut forecast = Forecast::default();
        for (second, free) in frees.into_iter().enumerate() {
            forecast.note(Duration::from_secs(second as u64), free);
        }
        forecast
    }

    fn seconds(forecast: &Forecast, line: u64) -> Option<u64> {
        forecast.until(line).map(|time| time.as_secs())
    }

    #[test]
    fn a_steady_fall_gives_the_time_to_the_line() {
        let forecast = of((0..60).map(|second| 100_000 - second * 100));
        assert_eq!(seconds(&forecast, 50_000), Some((94_100 - 50_000) / 100));
        assert_eq!(seconds(&forecast, 94_100), Some(0));
    }

    #[test]
    fn what_does_not_fall_has_no_forecast() {
        assert_eq!(of([]).until(0), None);
        assert_eq!(of([5_000; 60]).until(10), None);
        assert_eq!(of((0..60).map(|second| 5_000 + second)).until(10), None);
        // Too short to tell.
        assert_eq!(of((0..8).map(|second| 5_000 - second * 100)).until(10), None);
        // So slow that it says nothing.
        assert_eq!(of((0..60).map(|second| (1 << 50) - second)).until(10), None);
    }

    #[test]
    fn noise_and_single_files_do_not_turn_it() {
        // Up and down by a thousand.
        let noise = (0..60).map(|second| 100_000 + second * 7_919 % 1_000);
        assert_eq!(of(noise).until(10), None);
        // A fall with noise and two samples that are far off.
        let mut fall: Vec<u64> =
            (0..60).map(|s| 1_000_000 - s * 1_000 + s * 7_919 % 3_000).collect();
        fall[3] = 0;
        fall[55] = 5_000_000;
        let at = seconds(&of(fall), 441_000).unwrap();
        assert!((450..=550).contains(&at), "{at}");
        // One file of 64 in the middle of a quiet minute is a rate, as far as anybody can tell, and no more than that.
        let step = (0..60).map(|second| if second < 30 { 10_000 } else { 10_000 - 64 });
        let at = seconds(&of(step), 0).unwrap();
        assert!(at > 3_600, "{at}");
    }

    #[test]
    fn the_memory_is_bounded_and_an_old_minute_forgotten() {
        let mut forecast = Forecast::default();
        for milli in 0..200_000 {
            forecast.note(Duration::from_millis(milli), 1 << 40);
        }
        assert!(forecast.points.len() <= 67, "{}", forecast.points.len());
        forecast.note(Duration::from_secs(10_000), 5);
        assert_eq!(forecast.points.len(), 1);
    }

    proptest! {
        #[test]
        fn no_samples_make_it_panic(points in prop::collection::vec((0_u64..200_000, any::<u64>()), 0..80), line: u64) {
            let mut forecast = Forecast::default();
            for (at, free) in points {
                forecast.note(Duration::from_millis(at), free);
            }
            let _ = forecast.until(line);
        }
    }
}
