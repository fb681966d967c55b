//! Knees: where a curve turns. There is no one definition, so a knee is never shown without its method's name.

/// The name of [`largest_power`] in results.
pub const LARGEST_POWER: &str = "largest X/R (Jain 1991)";
/// The name of [`kneedle`] in results.
pub const KNEEDLE: &str = "Kneedle (Satopaa et al. 2011)";

/// The index of the point with the largest power X/R, throughput over response, of `points` (X, R): R. Jain,
/// The Art of Computer Systems Performance Analysis, 1991, section 3.3. `None` without a point whose R is
/// above zero.
pub fn largest_power(points: &[(f64, f64)]) -> Option<usize> {
    let powers = points.iter().enumerate().filter(|(_, (_, r))| *r > 0.0).map(|(at, (x, r))| (at, x / r));
    powers.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// The index of the knee of a rising curve that bends upwards, `points` (x, y) in the order of x: V. Satopaa,
/// J. Albrecht, D. Irwin, B. Raghavan, Finding a "Kneedle" in a Haystack, ICDCS Workshops 2011, with
/// sensitivity 1 and without its smoothing, since there are few points and each is a mean already.
///
/// Both axes are scaled to 0..1 and the curve is turned by half a turn, so that it bends downwards. A local
/// maximum of y − x is a knee when y − x falls below it by the mean distance of the x before it rises above it
/// again. Of several the first, seen from the steep end. `None` where there is none, or fewer than 3 points.
pub fn kneedle(points: &[(f64, f64)]) -> Option<usize> {
    let turned: Vec<(f64, f64)> = points.iter().rev().map(|(x, y)| (-x, -y)).collect();
    concave_knee(&turned).map(|at| points.len() - 1 - at)
}

/// The knee of a rising curve that bends downwards.
fn concave_knee(points: &[(f64, f64)]) -> Option<usize> {
    const SENSITIVITY: f64 = 1.0;
    let scaled = |of: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = points.iter().map(of).collect();
        let (min, max) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        (max > min).then(|| values.iter().map(|v| (v - min) / (max - min)).collect::<Vec<f64>>())
    };
    if points.len() < 3 {
        return None;
    }
    let (x, y) = (scaled(|p| p.0)?, scaled(|p| p.1)?);
    let difference: Vec<f64> = x.iter().zip(&y).map(|(x, y)| y - x).collect();
    let margin = SENSITIVITY / (points.len() - 1) as f64;
    let mut candidate: Option<usize> = None;
    for at in 1..difference.len() {
        let is_maximum = difference[at] > difference[at - 1]
            && difference.get(at + 1).is_some_and(|next| difference[at] >= *next);
        if is_maximum {
            candidate = Some(at);
        } else if candidate.is_some_and(|knee| difference[at] < difference[knee] - margin) {
            return candidate;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_the_papers_own_curve_is_where_the_paper_has_it() {
        // Satopaa et al., figure 2: y = −1/x + 5, ten points, the knee at x = 0.22 of the scaled axis.
        let points: Vec<(f64, f64)> =
            (0..10).map(|i| f64::from(i) / 9.0).map(|x| (x, 5.0 - 1.0 / (x + 0.1))).collect();
        assert!((points[concave_knee(&points).unwrap()].0 - 0.22).abs() < 0.01);
        // Turned by half a turn it bends upwards and has its knee at the turned place.
        let upwards: Vec<(f64, f64)> = points.iter().rev().map(|(x, y)| (1.0 - x, -y)).collect();
        assert!((upwards[kneedle(&upwards).unwrap()].0 - 0.78).abs() < 0.01);
    }

    #[test]
    fn a_straight_line_and_too_few_points_have_no_knee() {
        let line: Vec<(f64, f64)> = (0..8).map(|i| (f64::from(i), 3.0 * f64::from(i))).collect();
        assert_eq!(kneedle(&line), None);
        assert_eq!(kneedle(&[(1.0, 1.0), (2.0, 9.0)]), None);
        assert_eq!(kneedle(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]), None);
    }

    #[test]
    fn power_is_largest_where_clients_first_fill_a_single_server() {
        // One server of 100/s, no think time: R = N/X. One client does it all; more only wait.
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0].map(|n| (100.0, n / 100.0)).to_vec();
        assert_eq!(largest_power(&points), Some(0));
        // Four servers: X rises to 400 with four clients while R stays.
        let points = [(100.0, 0.01), (200.0, 0.01), (400.0, 0.01), (400.0, 0.02)];
        assert_eq!(largest_power(&points), Some(2));
        assert_eq!(largest_power(&[]), None);
    }
}
