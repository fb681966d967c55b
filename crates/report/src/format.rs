//! Numbers for people: the same everywhere, whatever the locale of the machine.

use plimsoll_core::Span;

/// A whole number with its digits in threes: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A span given in nanoseconds, to 3 significant digits in the unit that suits it: `850 ns`,
/// `12.3 µs`, `1.50 ms`, `60.0 s`; whole seconds from 1,000 s on.
pub fn span(ns: f64) -> String {
    if ns < 999.5 {
        return format!("{ns:.0} ns");
    }
    let mut value = ns / 1e3;
    for unit in ["µs", "ms", "s"] {
        // 999.5 would be rounded up to 1,000, which belongs to the next unit.
        if value < 999.5 || unit == "s" {
            let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            if value >= 999.5 {
                return format!("{} s", count(value.round() as u64));
            }
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1e3;
    }
    unreachable!("seconds take any value")
}

/// A span that somebody chose, without the zeros that a measured one would keep: `5 s`, `1.5 ms`.
pub fn given_span(ns: u64) -> String {
    let text = Span::from_ns(ns).to_string().replace("us", "µs");
    let unit = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..unit], &text[unit..])
}

/// A rate or another number to at least 4 significant digits: `0.1`, `12.35`, `1,234.5`, `98,765`.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 9_999.95 => 0,
        v if v >= 99.995 => 1,
        v if v >= 9.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    let part = part.trim_end_matches('0');
    if part.is_empty() { whole } else { format!("{whole}.{part}") }
}

/// A ratio in percent: `99.87 %`. Only 1 is `100 %` and only 0 is `0 %`: what lies next to them keeps
/// as many digits as it takes to tell (down to one in ten billion).
pub fn percent(ratio: f64) -> String {
    let mut text = String::new();
    for decimals in 2..=8 {
        text = format!("{:.decimals$}", ratio * 100.0);
        let rounded = text.parse().unwrap_or(ratio * 100.0);
        if (rounded < 100.0 || ratio >= 1.0) && (rounded > 0.0 || ratio <= 0.0) {
            break;
        }
    }
    format!("{} %", trim_zeros(&text))
}

/// A number of bytes: `512 B`, `1.50 MB` (powers of 1,000).
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let decimals = if unit == "B" || value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1e3;
    }
    format!("{} TB", number(value))
}

/// The name of quantile `q` in texts: `p99.9`.
pub fn percentile_label(q: f64) -> String {
    // Nine decimals hide that 0.07 · 100 is 7.000000000000001.
    format!("p{}", trim_zeros(&format!("{:.9}", q * 100.0)))
}

/// The name of quantile `q` in results: `p99_9`.
pub fn percentile_name(q: f64) -> String {
    percentile_label(q).replace('.', "_")
}

/// The quantile that a name of [`percentile_name`] stands for; `None` for other names.
pub fn quantile_of(name: &str) -> Option<f64> {
    // Read as a ratio at once: 99.9 divided by 100 is not the number nearest to 0.999.
    let q: f64 = format!("{}e-2", name.strip_prefix('p')?.replace('_', ".")).parse().ok()?;
    (0.0..=1.0).contains(&q).then_some(q)
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_in_threes() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn spans_have_three_digits_and_never_a_thousand_of_a_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.4, "999 ns"),
            (999.5, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (99_960.0, "100 µs"),
            (999_499.0, "999 µs"),
            (999_500.0, "1.00 ms"),
            (9_996_000.0, "10.0 ms"),
            (1.5e9, "1.50 s"),
            (999.6e9, "1,000 s"),
            (u64::MAX as f64, "18,446,744,074 s"),
        ] {
            assert_eq!(span(ns), text);
        }
        assert_eq!(
            (given_span(5_000_000_000), given_span(1_500_000)),
            ("5 s".to_owned(), "1.5 ms".to_owned())
        );
        assert_eq!(given_span(100_000_000_000), "100 s");
    }

    #[test]
    fn numbers_keep_four_digits_and_no_idle_zeros() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (9.9996, "10"),
            (12.345, "12.35"),
            (1_234.56, "1,234.6"),
            (99.996, "100"),
            (9_999.96, "10,000"),
            (1e6, "1,000,000"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn only_all_is_100_percent_and_only_nothing_is_0() {
        for (ratio, text) in [
            (1.0, "100 %"),
            (0.999_999, "99.9999 %"),
            (0.9987, "99.87 %"),
            (0.5, "50 %"),
            (0.000_001, "0.0001 %"),
            (0.0, "0 %"),
        ] {
            assert_eq!(percent(ratio), text);
        }
    }

    #[test]
    fn bytes_are_counted_in_thousands() {
        for (n, text) in [(0, "0 B"), (999, "999 B"), (1_500, "1.50 kB"), (12_345_678, "12.3 MB")] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn pct_07_percentiles_are_labelled_as_they_were_asked_for() {
        for (q, label, name) in [
            (0.5, "p50", "p50"),
            (0.999, "p99.9", "p99_9"),
            (0.9999, "p99.99", "p99_99"),
            (0.99999, "p99.999", "p99_999"),
            (0.07, "p7", "p7"),
            (0.0099, "p0.99", "p0_99"),
        ] {
            assert_eq!((percentile_label(q).as_str(), percentile_name(q).as_str()), (label, name));
            assert_eq!(quantile_of(name), Some(q));
        }
        assert_eq!((quantile_of("max"), quantile_of("p"), quantile_of("p101")), (None, None, None));
    }
}
