//! Two oracles for the whole worker: every response equals a sample-path recursion to the
//! nanosecond, and the recursion agrees with the closed forms of queueing theory.

use plimsoll_core::{ArrivalLaw, Sample, Span, Timestamp};
use plimsoll_sim::plans::{closed, open};
use plimsoll_sim::queue::{Queue, Service, ServiceTimes};
use plimsoll_sim::theory::{batch_means, kiefer_wolfowitz, lindley, mean, quantile};
use plimsoll_sim::{Run, Simulation};
use plimsoll_stats::queueing::{md1_mean, md1_quantile, mm1_mean, mm1_quantile, mmc_mean};

/// Requests of one run: the long set takes a million, the quick one what a second allows.
const REQUESTS: u64 = if cfg!(feature = "long") { 1_000_000 } else { 60_000 };
/// Each server's mean service time: 1 ms, so μ = 1000/s.
const SERVICE: Span = Span::from_ms(1);
const MU: f64 = 1000.0;
/// Parts for batch means: each of them hundreds of times as long as the queue's memory.
const BATCHES: usize = 40;

/// Runs Poisson arrivals at `rho` of the capacity of `servers` servers.
fn simulate(rho: f64, service: Service, servers: usize, seed: u64) -> Run {
    let per_second = (rho * MU * servers as f64).round() as u64;
    let length = Span::from_secs(REQUESTS / per_second);
    let mut plan = open(&format!("{per_second}/s"), ArrivalLaw::Poisson, length);
    // As many connections and as much time as the queue may ever ask for.
    (plan.connections, plan.seed) = (1_000_000, seed);
    (plan.timeout, plan.drain) = (Span::MAX, Span::from_secs(3600));
    let queue = Queue::new(service, servers, 7);
    Simulation::new(plan, queue).run()
}

fn arrivals(samples: &[Sample]) -> Vec<Timestamp> {
    samples.iter().map(|sample| sample.due).collect()
}

/// Every sample against the recursion, and the recursion as seconds.
fn check_path(run: &Run, service: Service, servers: usize) -> Vec<f64> {
    let samples = run.by_seq();
    assert!(samples.len() as u64 > REQUESTS * 9 / 10, "{} requests", samples.len());
    let services: Vec<Span> = ServiceTimes::new(service, 7).take(samples.len()).collect();
    let expected = match servers {
        1 => lindley(&arrivals(&samples), &services),
        c => kiefer_wolfowitz(&arrivals(&samples), &services, c),
    };
    for (sample, expected) in samples.iter().zip(&expected) {
        assert_eq!(sample.response(), *expected, "request {}", sample.seq);
        assert_eq!(sample.schedule_lag() + sample.blocked(), Span::ZERO, "request {}", sample.seq);
    }
    expected.iter().map(|span| span.as_secs_f64()).collect()
}

fn agrees(what: &str, (value, error): (f64, f64), theory: f64) {
    assert!((value - theory).abs() <= 4.0 * error, "{what}: {value} ± {error}, theory says {theory}");
}

#[test]
fn an_mm1_queue_answers_as_lindley_and_theory_say() {
    for rho in [0.5, 0.7, 0.9] {
        let service = Service::Exponential(SERVICE);
        let responses = check_path(&simulate(rho, service, 1, 11), service, 1);
        agrees(&format!("mean at ρ {rho}"), batch_means(&responses, BATCHES, mean), mm1_mean(rho * MU, MU));
        let p99 = batch_means(&responses, BATCHES / 2, quantile(0.99));
        agrees(&format!("p99 at ρ {rho}"), p99, mm1_quantile(rho * MU, MU, 0.99));
    }
}

#[test]
fn an_md1_queue_answers_as_lindley_and_theory_say() {
    for rho in [0.5, 0.7, 0.9] {
        let service = Service::Fixed(SERVICE);
        let responses = check_path(&simulate(rho, service, 1, 12), service, 1);
        agrees(&format!("mean at ρ {rho}"), batch_means(&responses, BATCHES, mean), md1_mean(rho * MU, MU));
        let p99 = batch_means(&responses, BATCHES / 2, quantile(0.99));
        agrees(&format!("p99 at ρ {rho}"), p99, md1_quantile(rho * MU, MU, 0.99));
    }
}

#[test]
fn an_mmc_queue_answers_as_kiefer_wolfowitz_and_theory_say() {
    for (rho, c) in [(0.5, 2), (0.7, 3), (0.9, 4)] {
        let service = Service::Exponential(SERVICE);
        let responses = check_path(&simulate(rho, service, c, 13), service, c);
        let theory = mmc_mean(rho * MU * c as f64, MU, c);
        agrees(&format!("mean of {c} servers at ρ {rho}"), batch_means(&responses, BATCHES, mean), theory);
    }
}

#[test]
fn n_clients_of_one_server_wait_n_service_times_each() {
    // The closed cycle: every client queues behind all others, so X = 1/S and R = N·S, and
    // Little's law N = X·R holds to the nanosecond.
    let run = Simulation::new(closed(8, Span::from_secs(2)), Queue::new(Service::Fixed(SERVICE), 1, 1)).run();
    let steady = run.samples.iter().filter(|sample| sample.due > Timestamp::ZERO);
    assert!(steady.clone().all(|sample| sample.response() == Span::from_ms(8)));
    assert_eq!(run.samples.len(), 2000 + 7, "one answer a millisecond, and seven more in the drain");
    let in_flight = run.recorder.in_flight_mean(Span::from_secs(2)).unwrap();
    assert!((in_flight - 8.0).abs() < 1e-9, "{in_flight}");
}

#[test]
fn answers_of_the_warm_up_inside_the_window_are_in_its_rates() {
    // 8 clients at a server of 1 ms answer once a millisecond, warm-up or not.
    let plan = plimsoll_core::Plan { warmup: Span::from_ms(100), ..closed(8, Span::from_secs(2)) };
    let run = Simulation::new(plan, Queue::new(Service::Fixed(SERVICE), 1, 1)).run();
    let (counts, carried) = (run.recorder.counts(), run.recorder.carried());
    assert_eq!(counts.answered_in_window + carried.answered, 2000);
    assert_eq!((carried.answered, carried.ok, carried.sent), (8, 8, 0));
}

#[test]
fn a_run_replays_exactly_and_another_seed_differs() {
    let run = |seed| simulate(0.7, Service::Exponential(SERVICE), 1, seed).samples;
    let first = run(5);
    assert_eq!(first, run(5));
    assert_ne!(first[..100], run(6)[..100]);
}

#[test]
fn one_two_and_seven_workers_send_the_same_stream_and_get_the_same_answers() {
    let run = |workers| {
        let mut plan = open("700/s", ArrivalLaw::Poisson, Span::from_secs(10));
        (plan.workers, plan.warmup) = (workers, Span::from_secs(1));
        Simulation::new(plan, Queue::new(Service::Exponential(SERVICE), 1, 3)).run()
    };
    let one = run(1);
    for workers in [2, 7] {
        let many = run(workers);
        assert_eq!(one.by_seq(), many.by_seq(), "{workers} workers");
        assert_eq!(one.recorder.counts(), many.recorder.counts(), "{workers} workers");
        assert_eq!(one.recorder.warmup(), many.recorder.warmup(), "{workers} workers");
    }
}
