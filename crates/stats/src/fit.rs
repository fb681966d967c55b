//! The Universal Scalability Law, fitted to a closed sweep.
//!
//! X(N) = λN / (1 + σ(N − 1) + κN(N − 1)): N clients, λ the rate of one, σ what they lose by waiting for each
//! other (contention), κ what they lose by agreeing with each other (coherency). N. J. Gunther, Guerrilla
//! Capacity Planning, 2007.

/// Fewer points leave too little beyond the three parameters.
pub const POINTS_MIN: usize = 6;
/// Steps of the refinement; it stops by itself after a handful.
const STEPS_MAX: usize = 200;

/// A fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalabilityFit {
    /// The rate of one client, a second.
    pub lambda_per_s: f64,
    /// Contention, ≥ 0.
    pub sigma: f64,
    /// Coherency, ≥ 0.
    pub kappa: f64,
    /// The share of the rates' variation that it explains; 1 is all.
    pub r_squared: f64,
}

impl ScalabilityFit {
    /// Fits `points` (clients, rate a second) by least squares of the rates, σ and κ not below zero. `None`
    /// for fewer than [`POINTS_MIN`] different numbers of clients, or rates that are not above zero.
    pub fn new(points: &[(f64, f64)]) -> Option<Self> {
        let mut clients: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        clients.sort_by(f64::total_cmp);
        clients.dedup();
        if clients.len() < POINTS_MIN || points.iter().any(|(n, x)| *n < 1.0 || *x <= 0.0) {
            return None;
        }
        let start = linearised(points)?;
        let [lambda_per_s, sigma, kappa] = refined(points, start);
        let mean = points.iter().map(|(_, x)| x).sum::<f64>() / points.len() as f64;
        let spread: f64 = points.iter().map(|(_, x)| (x - mean) * (x - mean)).sum();
        let left = squares(points, [lambda_per_s, sigma, kappa]);
        let r_squared = if spread > 0.0 { 1.0 - left / spread } else { 1.0 };
        Some(Self { lambda_per_s, sigma, kappa, r_squared })
    }

    /// The rate it gives for `clients`.
    pub fn rate_per_s(&self, clients: f64) -> f64 {
        law([self.lambda_per_s, self.sigma, self.kappa], clients)
    }

    /// The clients at which the rate is highest, √((1 − σ)/κ), at least 1; `None` where it rises for ever.
    pub fn peak_clients(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| libm::sqrt(((1.0 - self.sigma) / self.kappa).max(1.0)))
    }

    /// The highest rate, or the one that is approached for ever (λ/σ); `None` where nothing bounds it.
    pub fn peak_rate_per_s(&self) -> Option<f64> {
        match self.peak_clients() {
            Some(clients) => Some(self.rate_per_s(clients)),
            None => (self.sigma > 0.0).then(|| self.lambda_per_s / self.sigma),
        }
    }
}

fn law([lambda, sigma, kappa]: [f64; 3], n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

fn squares(points: &[(f64, f64)], parameters: [f64; 3]) -> f64 {
    points.iter().map(|(n, x)| (x - law(parameters, *n)) * (x - law(parameters, *n))).sum()
}

/// A start: N/X = a + b(N − 1) + cN(N − 1) is linear in a = 1/λ, b = σ/λ, c = κ/λ. Weighed with X⁴/N², since
/// an error of X is one of N/X magnified by N/X². Of the fits in which σ, κ, both or neither are held at zero,
/// the best that has none below zero.
fn linearised(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    let mut best: Option<[f64; 3]> = None;
    for (with_sigma, with_kappa) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (n, x) in points {
            let row = [
                1.0,
                (n - 1.0) * f64::from(u8::from(with_sigma)),
                n * (n - 1.0) * f64::from(u8::from(with_kappa)),
            ];
            let weight = x.powi(4) / (n * n);
            add_row(&mut matrix, &mut right, row, n / x, weight);
        }
        hold_empty(&mut matrix);
        let Some([a, b, c]) = solve(matrix, right) else { continue };
        if a <= 0.0 || b < 0.0 || c < 0.0 {
            continue;
        }
        let candidate = [1.0 / a, b / a, c / a];
        if best.is_none_or(|best| squares(points, candidate) < squares(points, best)) {
            best = Some(candidate);
        }
    }
    best
}

/// Levenberg's and Marquardt's steps on the rates themselves (Marquardt, An algorithm for least-squares
/// estimation of nonlinear parameters, 1963); what would fall below zero is put at zero and tried again.
fn refined(points: &[(f64, f64)], start: [f64; 3]) -> [f64; 3] {
    let mut at = start;
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (n, x) in points {
            let divisor = 1.0 + at[1] * (n - 1.0) + at[2] * n * (n - 1.0);
            let value = law(at, *n);
            let row = [n / divisor, -value * (n - 1.0) / divisor, -value * n * (n - 1.0) / divisor];
            add_row(&mut matrix, &mut right, row, x - value, 1.0);
        }
        // A parameter that stands at zero and is pushed below stays there.
        for k in 1..3 {
            if at[k] == 0.0 && right[k] < 0.0 {
                (0..3).for_each(|i| (matrix[k][i], matrix[i][k]) = (0.0, 0.0));
                right[k] = 0.0;
            }
        }
        (0..3).for_each(|k| matrix[k][k] *= 1.0 + damping);
        hold_empty(&mut matrix);
        let Some(step) = solve(matrix, right) else { break };
        let next = [at[0] + step[0], (at[1] + step[1]).max(0.0), (at[2] + step[2]).max(0.0)];
        let (before, after) = (squares(points, at), squares(points, next));
        if after <= before && next[0] > 0.0 {
            let done = before - after <= before * 1e-14;
            (at, damping) = (next, damping / 10.0);
            if done {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    at
}

/// Adds one weighed observation to the normal equations.
fn add_row(matrix: &mut [[f64; 3]; 3], right: &mut [f64; 3], row: [f64; 3], value: f64, weight: f64) {
    for i in 0..3 {
        right[i] += weight * row[i] * value;
        for k in 0..3 {
            matrix[i][k] += weight * row[i] * row[k];
        }
    }
}

/// A parameter that no equation speaks of keeps the value zero.
fn hold_empty(matrix: &mut [[f64; 3]; 3]) {
    for (k, row) in matrix.iter_mut().enumerate() {
        if row.iter().all(|value| *value == 0.0) {
            row[k] = 1.0;
        }
    }
}

/// Solves three linear equations by elimination with pivots; `None` where they have no one solution. Rows are
/// scaled first, since the parameters differ by many powers of ten.
fn solve(mut matrix: [[f64; 3]; 3], mut right: [f64; 3]) -> Option<[f64; 3]> {
    let scale: [f64; 3] = std::array::from_fn(|k| libm::sqrt(matrix[k][k]));
    if scale.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
        return None;
    }
    for i in 0..3 {
        right[i] /= scale[i];
        for k in 0..3 {
            matrix[i][k] /= scale[i] * scale[k];
        }
    }
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-13 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (above, pivot_right) = (matrix[column], right[column]);
        for row in column + 1..3 {
            let factor = matrix[row][column] / above[column];
            matrix[row].iter_mut().zip(above).for_each(|(value, above)| *value -= factor * above);
            right[row] -= factor * pivot_right;
        }
    }
    let mut solution = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|k| matrix[row][k] * solution[k]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    Some(std::array::from_fn(|k| solution[k] / scale[k]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|n| (n, law([lambda, sigma, kappa], n))).to_vec()
    }

    #[test]
    fn spec_sdm91_is_fitted_as_the_usl_package_does() {
        // SPEC SDM91 throughput of a SUN SPARCcenter 2000, from Gunther 2007; the R package usl (Gunther and
        // Moeding) gives γ 89.9952, α 0.0277285, β 0.000104365 and a peak at 96.51956 clients. A search over
        // a grid refined to 1e-12 gives the same, with a peak of 1883.90.
        let points = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        let fit = ScalabilityFit::new(&points).unwrap();
        assert!((fit.lambda_per_s - 89.99523).abs() < 1e-3, "{fit:?}");
        assert!((fit.sigma - 0.0277285).abs() < 1e-6 && (fit.kappa - 1.043655e-4).abs() < 1e-9, "{fit:?}");
        assert!((fit.r_squared - 0.9895615).abs() < 1e-6, "{fit:?}");
        assert!((fit.peak_clients().unwrap() - 96.51956).abs() < 1e-2);
        assert!((fit.peak_rate_per_s().unwrap() - 1883.90).abs() < 1e-2);
    }

    #[test]
    fn exact_points_give_their_own_parameters_back() {
        for (lambda, sigma, kappa) in
            [(100.0, 0.05, 1e-3), (5e5, 0.3, 0.0), (0.2, 0.0, 1e-4), (7.0, 0.0, 0.0)]
        {
            let fit = ScalabilityFit::new(&sweep(lambda, sigma, kappa)).unwrap();
            assert!((fit.lambda_per_s / lambda - 1.0).abs() < 1e-6, "{fit:?}");
            assert!((fit.sigma - sigma).abs() < 1e-6 && (fit.kappa - kappa).abs() < 1e-8, "{fit:?}");
            assert!(fit.r_squared > 1.0 - 1e-9, "{fit:?}");
        }
    }

    #[test]
    fn neither_parameter_falls_below_zero() {
        // Rates that grow faster than the clients: σ would have to be negative.
        let faster = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n: f64| (n, 10.0 * n.powf(1.1)));
        let fit = ScalabilityFit::new(&faster).unwrap();
        assert!(fit.sigma >= 0.0 && fit.kappa >= 0.0 && fit.r_squared < 1.0, "{fit:?}");
    }

    #[test]
    fn what_bounds_the_rate_follows_from_the_parameters() {
        let saturating = ScalabilityFit::new(&sweep(100.0, 0.2, 0.0)).unwrap();
        // λ/σ, where κ is all but zero.
        assert!((saturating.peak_rate_per_s().unwrap() - 500.0).abs() < 1.0, "{saturating:?}");
        let linear = ScalabilityFit { lambda_per_s: 1.0, sigma: 0.0, kappa: 0.0, r_squared: 1.0 };
        assert_eq!((linear.peak_clients(), linear.peak_rate_per_s()), (None, None));
    }

    #[test]
    fn too_few_points_or_no_rate_give_no_fit() {
        assert_eq!(ScalabilityFit::new(&sweep(100.0, 0.1, 0.0)[..5]), None);
        let mut repeated = sweep(100.0, 0.1, 0.0)[..5].to_vec();
        repeated.extend_from_within(..);
        assert_eq!(ScalabilityFit::new(&repeated), None);
        let mut silent = sweep(100.0, 0.1, 0.0);
        silent[6].1 = 0.0;
        assert_eq!(ScalabilityFit::new(&silent), None);
    }
}
