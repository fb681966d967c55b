//! The searches against simulated servers: plain functions with noise by seed, whose limits are known.

use plimsoll_core::Span;
use plimsoll_core::random::{Sequence, Stream};
use plimsoll_stats::Interval;
use plimsoll_stats::search::{
    Figure, Peak, PeakSearch, PeakTrial, RateBounds, RateSearch, RateTrial, Standing, Stop, Verdict,
};

/// The interval's half width in these tests, and the standard error that belongs to it at 95 %.
const HALF_WIDTH: f64 = 0.02;
const ERROR: f64 = HALF_WIDTH / 1.96;

/// `rate` measured with noise.
fn measured(rate: f64, noise: &mut Sequence) -> Figure {
    let value = rate * (1.0 + ERROR * noise.normal());
    Figure {
        value,
        interval: Some(Interval { low: value * (1.0 - HALF_WIDTH), high: value * (1.0 + HALF_WIDTH) }),
    }
}

/// Runs the sweep against `server`, which says for clients what is measured; returns the clients tried.
fn sweep(clients_max: u32, mut server: impl FnMut(u32) -> (Figure, Standing)) -> (Vec<u32>, Option<Peak>) {
    let mut search = PeakSearch::new(clients_max);
    let mut tried = Vec::new();
    while let Some(step) = search.next() {
        assert!(tried.len() < 40, "the sweep does not end: {tried:?}");
        tried.push(step.clients);
        let (rate_per_s, standing) = server(step.clients);
        search.record(PeakTrial { clients: step.clients, rate_per_s, standing });
    }
    (tried, search.answer())
}

fn exact(value: f64) -> Figure {
    Figure { value, interval: Some(Interval { low: value * 0.999, high: value * 1.001 }) }
}

#[test]
fn a_sweep_ends_after_two_doublings_without_gain_and_measures_the_best_again() {
    // 100/s for each client up to four.
    let (tried, peak) = sweep(1 << 20, |n| (exact(100.0 * f64::from(n.min(4))), Standing::Usable));
    assert_eq!(tried, [1, 2, 4, 8, 16, 4]);
    let peak = peak.unwrap();
    assert_eq!((peak.clients, peak.rate_per_s.value, peak.stop), (4, 400.0, Stop::Plateau));
    assert!(peak.confirmed && !peak.is_lower_bound);
}

#[test]
fn the_peak_is_the_second_figure_and_not_the_luckier_first_one() {
    let mut calls = 0;
    let (_, peak) = sweep(64, |n| {
        calls += 1;
        // The fourth trial is lucky; when it is measured again it is not.
        let rate = if n == 8 && calls == 4 { 450.0 } else { 100.0 * f64::from(n.min(4)) };
        (exact(rate), Standing::Usable)
    });
    let peak = peak.unwrap();
    assert_eq!((peak.clients, peak.rate_per_s.value), (8, 400.0));
}

#[test]
fn a_gain_needs_two_percent_and_an_interval_above_none() {
    /// What the second and third trial are measured to be, as ratios to the first of 100/s, with the half
    /// width of the intervals; and how many clients the peak has in the end.
    const TABLE: [(f64, f64, f64, u32); 6] = [
        // Two percent exactly, and sure.
        (1.02, 1.02, 0.001, 2),
        // Sure, and too little.
        (1.019, 1.019, 0.001, 1),
        // Enough, and not sure: √2 · 3 % > ln 1.03.
        (1.03, 1.03, 0.03, 1),
        // Two small steps that are a gain together: each is held against the best, not the one before.
        (1.015, 1.03, 0.001, 4),
        // Fewer is never a gain.
        (0.5, 0.5, 0.001, 1),
        (1.5, 1.0, 0.001, 2),
    ];
    for (second, third, half, clients) in TABLE {
        let (_, peak) = sweep(1 << 10, |n| {
            let value = 100.0
                * match n {
                    1 => 1.0,
                    2 => second,
                    _ => third,
                };
            let interval = Some(Interval { low: value * (1.0 - half), high: value * (1.0 + half) });
            (Figure { value, interval }, Standing::Usable)
        });
        assert_eq!(peak.unwrap().clients, clients, "{second} {third} {half}");
    }
    // Without intervals the middle alone decides.
    let (tried, _) =
        sweep(1 << 10, |n| (Figure { value: 100.0 * f64::from(n.min(2)), interval: None }, Standing::Usable));
    assert_eq!(tried, [1, 2, 4, 8, 2]);
}

#[test]
fn the_servers_connection_limit_ends_the_sweep() {
    let (tried, peak) = sweep(1 << 20, |n| {
        let standing = if n <= 100 {
            Standing::Usable
        } else {
            Standing::Connections { established: 100, wanted: n.into() }
        };
        (exact(100.0 * f64::from(n)), standing)
    });
    assert_eq!(tried, [1, 2, 4, 8, 16, 32, 64, 128, 64]);
    let peak = peak.unwrap();
    assert_eq!((peak.clients, peak.stop), (64, Stop::Connections { established: 100 }));
}

#[test]
fn where_the_generator_was_always_the_limit_the_answer_is_a_lower_bound() {
    let (_, peak) = sweep(1 << 10, |n| (exact(100.0 * f64::from(n.min(8))), Standing::Generator));
    let peak = peak.unwrap();
    assert!(peak.is_lower_bound);
    assert_eq!((peak.clients, peak.rate_per_s.value), (8, 800.0));
}

#[test]
fn a_trial_that_the_generator_limited_is_never_the_peak() {
    /// Clients at which the generator is the limit, and what follows: a bound or a peak, at which clients.
    const TABLE: [(&[u32], bool, u32); 5] = [
        (&[1, 2], false, 4),
        // The same rate with more clients, and the generator had room: the server's.
        (&[4], false, 8),
        // From the plateau on: nothing says that the server could not do more.
        (&[4, 8, 16], true, 4),
        // Nor do doublings that the generator held back.
        (&[8, 16], true, 4),
        (&[16], true, 4),
    ];
    for (limited, is_lower_bound, clients) in TABLE {
        let (_, peak) = sweep(1 << 10, |n| {
            let standing = if limited.contains(&n) { Standing::Generator } else { Standing::Usable };
            (exact(100.0 * f64::from(n.min(4))), standing)
        });
        let peak = peak.unwrap();
        assert_eq!((peak.is_lower_bound, peak.clients), (is_lower_bound, clients), "{limited:?}");
    }
}

#[test]
fn a_useless_trial_loses_no_other() {
    let standings = [Standing::Failures { success_ratio: 0.4 }, Standing::NothingAnswered];
    for standing in standings {
        let (tried, peak) = sweep(1 << 10, |n| {
            (exact(100.0 * f64::from(n)), if n >= 8 { standing } else { Standing::Usable })
        });
        assert_eq!(tried, [1, 2, 4, 8, 16, 4], "{standing:?}");
        assert_eq!(peak.unwrap().clients, 4, "{standing:?}");
    }
    let (tried, peak) = sweep(1 << 10, |n| {
        (exact(100.0 * f64::from(n)), if n >= 4 { Standing::Interrupted } else { Standing::Usable })
    });
    let peak = peak.unwrap();
    assert_eq!((tried, peak.clients, peak.confirmed), (vec![1, 2, 4], 2, false));
    assert_eq!(peak.stop, Stop::Interrupted);
    let (tried, peak) = sweep(1 << 10, |_| (exact(0.0), Standing::NothingAnswered));
    assert_eq!((tried, peak), (vec![1], None));
}

#[test]
fn the_most_clients_are_tried_and_said_to_be_the_end() {
    let (tried, peak) = sweep(6, |n| (exact(100.0 * f64::from(n)), Standing::Usable));
    assert_eq!(tried, [1, 2, 4, 6, 6]);
    assert_eq!(peak.unwrap().stop, Stop::ClientsMax);
}

#[test]
fn the_peak_of_a_noisy_scalable_server_is_found_within_its_noise() {
    // Universal Scalability Law with its peak of 618/s at √(0.95/0.001) = 31 clients: doublings lose little.
    let law = |n: f64| 40.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0));
    let peak_per_s = [8.0, 16.0, 32.0, 64.0].map(law).into_iter().fold(0.0, f64::max);
    let mut off = Vec::new();
    for seed in 0..200 {
        let mut noise = Sequence::new(Stream::new(seed, "usl"));
        let (_, peak) = sweep(1 << 12, |n| (measured(law(n.into()), &mut noise), Standing::Usable));
        off.push(peak.unwrap().rate_per_s.value / peak_per_s - 1.0);
    }
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    // Without a second measurement the mean would be above the truth; the sweep may stop one doubling short.
    assert!(mean.abs() < 0.03, "{mean}");
    assert!(off.iter().all(|off| off.abs() < 0.12), "{off:?}");
}

#[test]
fn a_second_figure_is_not_biased_upwards_and_the_best_of_a_plateau_would_be() {
    let (mut first, mut second) = (0.0, 0.0);
    const RUNS: u64 = 2_000;
    for seed in 0..RUNS {
        let mut noise = Sequence::new(Stream::new(seed, "plateau"));
        let mut best: f64 = 0.0;
        let (_, peak) = sweep(1 << 12, |_| {
            let figure = measured(100.0, &mut noise);
            best = best.max(figure.value);
            (figure, Standing::Usable)
        });
        first += best / RUNS as f64;
        second += peak.unwrap().rate_per_s.value / RUNS as f64;
    }
    assert!(first > 100.5, "{first}");
    assert!((second - 100.0).abs() < 4.0 * ERROR * 100.0 / (RUNS as f64).sqrt(), "{second}");
}

const LEAST: Span = Span::from_secs(2);
const MOST: Span = Span::from_secs(8);

/// Runs `search` against `server`; returns what was tried.
fn look(search: &mut RateSearch, mut server: impl FnMut(f64, Span) -> Verdict) -> Vec<(f64, Span)> {
    let mut tried = Vec::new();
    while let Some(step) = search.next() {
        assert!(tried.len() < 100, "the search does not end: {tried:?}");
        tried.push((step.rate_per_s, step.length));
        let verdict = server(step.rate_per_s, step.length);
        search.record(RateTrial { rate_per_s: step.rate_per_s, length: step.length, verdict });
    }
    tried
}

fn below(limit: f64) -> impl FnMut(f64, Span) -> Verdict {
    move |rate, _| if rate < limit { Verdict::Met } else { Verdict::Missed }
}

/// Both bounds.
fn bounds(search: &RateSearch) -> (f64, f64) {
    let RateBounds { low_per_s, high_per_s, .. } = search.answer();
    (low_per_s.unwrap(), high_per_s.unwrap())
}

#[test]
fn the_limit_lies_between_the_bounds_which_are_two_percent_apart() {
    for limit in [0.3, 7.0, 99.0, 101.0, 640.0, 5_000.0] {
        let mut search = RateSearch::new(10.0, None, LEAST, MOST);
        look(&mut search, below(limit));
        let (low, high) = bounds(&search);
        assert!(low < limit && limit <= high && high <= low * 1.02, "{limit}: {low} {high}");
        assert!(search.answer().complete);
    }
}

#[test]
fn the_search_doubles_until_it_misses_and_then_halves_the_bracket() {
    let mut search = RateSearch::new(100.0, None, LEAST, MOST);
    let tried: Vec<f64> = look(&mut search, below(500.0)).iter().map(|(rate, _)| *rate).collect();
    assert_eq!(tried[..6], [100.0, 200.0, 400.0, 800.0, 600.0, 500.0]);
}

#[test]
fn an_objective_that_is_never_met_has_no_lower_bound_and_the_search_ends() {
    let mut search = RateSearch::new(100.0, None, LEAST, MOST);
    let tried = look(&mut search, |_, _| Verdict::Missed);
    assert_eq!(tried.len(), 7, "{tried:?}");
    let answer = search.answer();
    assert_eq!((answer.low_per_s, answer.high_per_s), (None, Some(100.0 / 64.0)));
}

#[test]
fn no_rate_is_tried_at_or_above_what_the_server_is_known_not_to_sustain() {
    let mut search = RateSearch::new(400.0, Some(500.0), LEAST, MOST);
    let tried = look(&mut search, |_, _| Verdict::Met);
    assert!(tried.iter().all(|(rate, _)| *rate < 500.0), "{tried:?}");
    let answer = search.answer();
    assert!(answer.low_per_s.unwrap() >= 500.0 / 1.02 && answer.high_per_s.is_none(), "{answer:?}");
}

#[test]
fn what_is_known_already_is_not_tried_again() {
    let mut search = RateSearch::new(100.0, Some(1_000.0), LEAST, MOST);
    for (rate_per_s, verdict) in
        [(100.0, Verdict::Met), (500.0, Verdict::Met), (700.0, Verdict::Missed), (900.0, Verdict::Missed)]
    {
        search.know(RateTrial { rate_per_s, length: LEAST, verdict });
    }
    let tried = look(&mut search, below(620.0));
    assert!(tried.iter().all(|(rate, _)| (500.0..700.0).contains(rate)), "{tried:?}");
    assert_eq!(tried[0].0, 600.0);
}

#[test]
fn an_undecided_trial_is_run_twice_as_long_up_to_the_longest_and_then_left_between_the_bounds() {
    // Nothing can be said of rates from 440/s to 460/s in 8 s; near them it takes 4 s.
    let mut search = RateSearch::new(400.0, Some(800.0), LEAST, MOST);
    let tried = look(&mut search, |rate, length| match rate {
        r if (440.0..=460.0).contains(&r) => Verdict::Undecided,
        r if (430.0..=470.0).contains(&r) && length < Span::from_secs(4) => Verdict::Undecided,
        r if r < 440.0 => Verdict::Met,
        _ => Verdict::Missed,
    });
    let answer = search.answer();
    let (low, high) = bounds(&search);
    assert!(low < 440.0 && 440.0 <= low * 1.02 * 1.02, "{answer:?}");
    assert!(high > 460.0 && high <= 460.0 * 1.02 * 1.02, "{answer:?}");
    let (least, greatest) = answer.undecided_per_s.unwrap();
    assert!(least >= 440.0 && greatest <= 460.0 && answer.complete, "{answer:?}");
    let first = tried.windows(2).find(|pair| pair[0].0 == pair[1].0).unwrap()[0].0;
    let lengths: Vec<Span> = tried.iter().filter(|(r, _)| *r == first).map(|(_, length)| *length).collect();
    assert!((2..=3).contains(&lengths.len()) && lengths[1] == Span::from_secs(4), "{tried:?}");
}

#[test]
fn rates_too_low_for_enough_samples_do_not_lead_the_search_downwards() {
    // p99 of fewer than 500 requests says nothing; the limit is 600/s.
    let mut search = RateSearch::new(500.0, Some(1_000.0), LEAST, MOST);
    let server = |rate: f64, length: Span| match rate {
        r if r * length.as_secs_f64() < 500.0 => Verdict::Undecided,
        r if r < 600.0 => Verdict::Met,
        _ => Verdict::Missed,
    };
    for rate_per_s in [10.0, 50.0, 700.0, 900.0] {
        search.know(RateTrial { rate_per_s, length: MOST, verdict: server(rate_per_s, MOST) });
    }
    let tried = look(&mut search, server);
    assert!(tried.iter().all(|(rate, _)| *rate > 50.0), "{tried:?}");
    let (low, high) = bounds(&search);
    assert!(low < 600.0 && high >= 600.0 && high <= low * 1.02);
}

#[test]
fn where_nothing_can_be_decided_the_search_says_so_and_ends() {
    let mut search = RateSearch::new(50.0, Some(100.0), LEAST, MOST);
    let tried = look(&mut search, |_, _| Verdict::Undecided);
    let answer = search.answer();
    assert_eq!((answer.low_per_s, answer.high_per_s), (None, None));
    assert!(answer.complete && answer.undecided_per_s.is_some() && tried.len() < 12, "{tried:?}");
}

#[test]
fn where_the_generator_cannot_make_the_load_there_is_no_upper_bound() {
    let mut search = RateSearch::new(100.0, None, LEAST, MOST);
    look(&mut search, |rate, _| if rate < 900.0 { Verdict::Met } else { Verdict::Invalid });
    let answer = search.answer();
    assert_eq!(answer.high_per_s, None);
    let (low, generator) = (answer.low_per_s.unwrap(), answer.generator_per_s.unwrap());
    assert!(low < 900.0 && generator >= 900.0 && generator <= low * 1.02, "{answer:?}");
}

#[test]
fn contradictions_are_resolved_for_the_lower_rate() {
    let mut search = RateSearch::new(100.0, None, LEAST, MOST);
    for (rate_per_s, verdict) in [(100.0, Verdict::Met), (200.0, Verdict::Missed), (201.0, Verdict::Met)] {
        search.know(RateTrial { rate_per_s, length: LEAST, verdict });
    }
    assert_eq!(bounds(&search), (100.0, 200.0));
}

#[test]
fn the_limit_of_an_mm1_queue_is_found_within_its_noise() {
    // μ = 200/s, p99 < 100 ms: λ* = μ − ln(100)/0.1 s = 153.9/s. A trial of n requests sees p99 with a
    // relative error of about 10/√(n_eff), n_eff = n(1 − ρ)²/(1 + ρ)².
    let limit = 200.0 - 100f64.ln() / 0.1;
    let mut within = 0;
    for seed in 0..100 {
        let mut noise = Sequence::new(Stream::new(seed, "mm1"));
        let mut search = RateSearch::new(20.0, Some(200.0), LEAST, MOST);
        look(&mut search, |rate, length| {
            let rho: f64 = rate / 200.0;
            let n_eff = rate * length.as_secs_f64() * ((1.0 - rho) / (1.0 + rho)).powi(2);
            let error = 10.0 / (100f64.ln() * n_eff.sqrt());
            let p99 = 100f64.ln() / (200.0 - rate) * (error * noise.normal()).exp();
            let (low, high) = (p99 * (-1.96 * error).exp(), p99 * (1.96 * error).exp());
            match 0.1 {
                bound if high < bound => Verdict::Met,
                bound if low > bound => Verdict::Missed,
                _ => Verdict::Undecided,
            }
        });
        let answer = search.answer();
        let low = answer.low_per_s.unwrap_or(0.0);
        let high = answer.high_per_s.unwrap_or(200.0);
        assert!(low < high, "{answer:?}");
        within += u32::from(low <= limit && limit <= high);
    }
    // Each interval is wrong once in forty on either side, and a search asks several times.
    assert!(within >= 80, "{within} of 100");
}
