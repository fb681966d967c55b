//! What queueing theory says of a server: closed forms, as oracles for the simulation and as reference curves
//! in reports. λ is the arrival rate, μ the service rate of one server, both a second; times are in seconds.

/// M/M/1: the mean response 1/(μ − λ), in seconds.
pub fn mm1_mean(lambda: f64, mu: f64) -> f64 {
    1.0 / (mu - lambda)
}

/// M/M/1: the q-quantile of the response, which is exponential with rate μ − λ.
pub fn mm1_quantile(lambda: f64, mu: f64, q: f64) -> f64 {
    -libm::log(1.0 - q) / (mu - lambda)
}

/// M/D/1: the mean response, a wait of ρ/(2μ(1 − ρ)) (Pollaczek–Khinchine) and the service 1/μ.
pub fn md1_mean(lambda: f64, mu: f64) -> f64 {
    let rho = lambda / mu;
    rho / (2.0 * mu * (1.0 - rho)) + 1.0 / mu
}

/// M/D/1: the q-quantile of the response, in seconds, for 0 < q < 1.
///
/// The wait's distribution by Franx (A simple solution for the M/D/c waiting time distribution, Operations
/// Research Letters 29, 2001), whose terms are all positive; Erlang's own formula of 1909 has alternating ones
/// that cancel each other at high load. With D = 1/μ and kD the next multiple of D above x,
///
/// P(W ≤ x) = e^(−λ(kD−x)) · Σ_{j<k} Q(k−1−j) (λ(kD−x))^j / j!
///
/// where Q(m) is the probability of at most m requests waiting, of at most m + 1 in the system.
///
/// Near saturation the line is long: the work grows with 1/(1 − ρ), and the sums lose as many digits.
///
/// # Panics
/// When the server is not stable (λ ≥ μ), or λ or μ is not above zero.
pub fn md1_quantile(lambda: f64, mu: f64, q: f64) -> f64 {
    assert!(0.0 < lambda && lambda < mu, "a queue of utilisation {} has no quantiles", lambda / mu);
    let waiting = Md1::new(lambda / mu, q);
    // In units of D the wait is found by halving: the distribution rises from 1 − ρ at zero.
    let (mut low, mut high) = (0.0, (waiting.at_most.len() - 1) as f64);
    if waiting.probability(0.0) >= q {
        return 1.0 / mu;
    }
    while high - low > 1e-9 * (1.0 + low) {
        let middle = (low + high) / 2.0;
        if waiting.probability(middle) < q { low = middle } else { high = middle }
    }
    (high + 1.0) / mu
}

/// M/M/c: the mean response, the wait by Erlang's C formula and the service 1/μ.
pub fn mmc_mean(lambda: f64, mu: f64, c: usize) -> f64 {
    let load = lambda / mu;
    let servers = c as f64;
    // Erlang B by its stable recursion B(k) = aB(k−1) / (k + aB(k−1)), then C from B.
    let b = (1..=c).fold(1.0, |b, k| load * b / (k as f64 + load * b));
    let wait_probability = b / (1.0 - load / servers * (1.0 - b));
    wait_probability / (servers * mu - lambda) + 1.0 / mu
}

/// Probabilities below this change no sum of them that is a quantile's.
const NOTHING: f64 = 1e-18;

/// The waiting line of an M/D/1 queue.
struct Md1 {
    rho: f64,
    /// P(at most m wait), by m, until it is above the quantile wanted.
    at_most: Vec<f64>,
}

impl Md1 {
    fn new(rho: f64, q: f64) -> Self {
        // Arrivals during one service are Poisson with mean ρ: above[k] = P(more than k arrive).
        let none = libm::exp(-rho);
        let mut above = Vec::new();
        let (mut term, mut sum) = (none, none);
        for k in 1.. {
            above.push((1.0 - sum).max(0.0));
            term *= rho / f64::from(k);
            sum += term;
            if term < NOTHING {
                break;
            }
        }
        let above_or_nothing = |k: usize| above.get(k).copied().unwrap_or(0.0);
        // The number in the system as departures leave it, by cuts between levels: what goes down from j + 1
        // to j balances what goes up across; every term is positive.
        let mut in_system = vec![1.0 - rho];
        let mut at_most = Vec::new();
        let mut sum = 1.0 - rho;
        while at_most.last().is_none_or(|p| *p < q) {
            let j = in_system.len() - 1;
            // No service sees so many arrive that it is crossed from further down.
            let least = (j + 2).saturating_sub(above.len()).max(1);
            let up: f64 = (least..=j).map(|i| in_system[i] * above[j + 1 - i]).sum();
            let next = (in_system[0] * above_or_nothing(j) + up) / none;
            in_system.push(next);
            sum += next;
            at_most.push(sum);
        }
        // The wait for which k − 1 may be in line needs one level more.
        at_most.push(1.0_f64.min(sum));
        Self { rho, at_most }
    }

    /// P(W ≤ x), x in units of the service time.
    fn probability(&self, x: f64) -> f64 {
        let k = x.floor() + 1.0;
        let left = self.rho * (k - x);
        let mut weight = libm::exp(-left);
        let mut sum = 0.0;
        for j in 0..k as usize {
            if weight < NOTHING {
                break;
            }
            let m = (k as usize - 1 - j).min(self.at_most.len() - 1);
            sum += self.at_most[m] * weight;
            weight *= left / (j + 1) as f64;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_agree_where_they_must() {
        // One server: Erlang C is ρ and M/M/c is M/M/1. Two servers at a = 1: C = 1/3 (tables).
        assert!((mmc_mean(70.0, 100.0, 1) - mm1_mean(70.0, 100.0)).abs() < 1e-12);
        assert!((mmc_mean(1.0, 1.0, 2) - (1.0 / 3.0 + 1.0)).abs() < 1e-12);
        // M/D/1 waits half as long as M/M/1.
        let wait = |response: f64| response - 0.01;
        assert!((wait(md1_mean(70.0, 100.0)) * 2.0 - wait(mm1_mean(70.0, 100.0))).abs() < 1e-12);
        assert!((mm1_quantile(50.0, 100.0, 0.5) - libm::log(2.0) / 50.0).abs() < 1e-12);
    }

    /// Erlang's formula for the wait of M/D/1 (1909), good for short waits:
    /// P(W ≤ x) = (1 − ρ) Σ_{k ≤ x} (ρ(k − x))^k / k! · e^(−ρ(k − x)), x in service times.
    fn erlang(rho: f64, x: f64) -> f64 {
        let mut sum = 0.0;
        for k in 0..=x.floor() as u32 {
            let z = rho * (f64::from(k) - x);
            let factorial: f64 = (1..=k).map(f64::from).product();
            sum += z.powi(k as i32) / factorial * (-z).exp();
        }
        (1.0 - rho) * sum
    }

    #[test]
    fn an_md1_queue_has_the_quantiles_of_erlangs_formula() {
        for rho in [0.1, 0.5, 0.8, 0.95] {
            for x in [0.3, 1.0, 1.5, 2.7, 4.2, 6.9] {
                let q = erlang(rho, x);
                if q > 1.0 - 1e-8 {
                    // So close to 1 the digits of q itself do not tell one wait from the next.
                    continue;
                }
                let found = md1_quantile(rho, 1.0, q) - 1.0;
                assert!((found - x).abs() < 1e-6, "ρ {rho}: q {q} is {x}, found {found}");
            }
        }
    }

    /// In heavy traffic (1 − ρ)·W is about exponential with mean 1/2 (Kingman 1961); that leaves a few
    /// parts in a thousand at ρ = 0.999. The decay rate θ is exact at any load. With 2,000 levels for the median
    /// alone, it takes sums over what is not zero to be done within a test.
    #[test]
    fn an_md1_queue_near_saturation_waits_as_heavy_traffic_does() {
        for rho in [0.999, 0.9999] {
            let [p50, p99] = [0.5, 0.99].map(|q| md1_quantile(rho, 1.0, q) - 1.0);
            let scaled = 2.0 * (1.0 - rho);
            assert!((scaled * p50 / 2.0f64.ln() - 1.0).abs() < 5e-3, "ρ {rho}: p50 {p50}");
            assert!((scaled * p99 / 100.0f64.ln() - 1.0).abs() < 5e-3, "ρ {rho}: p99 {p99}");
            let theta = 50.0f64.ln() / (p99 - p50);
            assert!((rho * (theta.exp() - 1.0) / theta - 1.0).abs() < 1e-6, "ρ {rho}: {theta}");
        }
    }

    #[test]
    fn an_md1_queue_keeps_its_order_and_scale_at_high_load() {
        // Who is served at once waits for nothing: at ρ = 0.1 those are 90 %.
        assert_eq!(md1_quantile(50.0, 500.0, 0.5), 0.002);
        // The mean is the area above the distribution: Σ over quantiles at the middles of equal shares.
        for rho in [0.3, 0.9, 0.97] {
            let shares = 2_000;
            let middles = (0..shares).map(|i| (f64::from(i) + 0.5) / f64::from(shares));
            let mean = middles.map(|q| md1_quantile(rho, 1.0, q)).sum::<f64>() / f64::from(shares);
            assert!((mean / md1_mean(rho, 1.0) - 1.0).abs() < 2e-3, "ρ {rho}: {mean}");
        }
        // Known tail: P(W > x) falls as e^(−θx), θ being the root of ρ(e^θ − 1) = θ; at ρ = 0.9 0.20715.
        let theta =
            (0.001f64 / 0.0001).ln() / (md1_quantile(0.9, 1.0, 0.9999) - md1_quantile(0.9, 1.0, 0.999));
        assert!((0.9 * (theta.exp() - 1.0) - theta).abs() < 1e-5, "{theta}");
    }
}
