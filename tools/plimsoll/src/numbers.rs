//! Sizes and counts as people write them.

/// `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 record`, `12,345 records`.
pub(crate) fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{} {one}s", thousands(number)),
    }
}

/// `512 B`, `1.2 MiB`; one decimal below 100 of a unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // A tenth of a unit rounds up to the next unit at 1023.95 of it.
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// `part` of `whole` in whole percent, rounded down: `0%`, `<1%`, `42%`; a dash where there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let hundredth = |part: u128| part * 100 / u128::from(whole.max(1));
    match (part, whole) {
        (_, 0) => "-".to_owned(),
        (0, _) => "0%".to_owned(),
        _ => match hundredth(part.into()) {
            0 => "<1%".to_owned(),
            percent => format!("{percent}%"),
        },
    }
}

/// `part` of `whole` to a ten-thousandth, for programs; `None` where there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0)
}

/// `count` per second, for at least a millisecond, so that a short run gives no absurd number.
pub(crate) fn rate(count: u64, seconds: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float to int cast saturates"
    )]
    let rate = (count as f64 / seconds.max(0.001)).round() as u64;
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes_carry_into_the_next_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1_258_291, "1.2 MiB"),
            (64 << 20, "64 MiB"),
            ((1 << 20) - 1, "1 MiB"),
            ((1 << 30) - 1, "1 GiB"),
            (150 << 30, "150 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_and_never_of_nothing() {
        let cases =
            [(0, 5, "0%"), (1, 1000, "<1%"), (199, 200, "99%"), (3, 2, "150%"), (0, 0, "-")];
        for (part, whole, text) in cases {
            assert_eq!(percent(part, whole), text, "{part} of {whole}");
        }
        assert_eq!(percent(u64::MAX, u64::MAX), "100%");
        assert_eq!((share(1, 3), share(1, 0)), (Some(0.3333), None));
    }

    #[test]
    fn a_rate_of_no_time_is_finite() {
        assert_eq!(rate(5, 0.0), 5000);
        assert_eq!(rate(45_000, 2.0), 22_500);
    }
}
