//! Times, copies, connections, workers and percentiles: the settings beside the model of load.

use plimsoll_core::plan::{DEFAULT_CONNECTIONS, DEFAULT_TIMEOUT, Load, Retry, WaitStrategy};
use plimsoll_core::time::Span;

use crate::args::{Machine, RunArgs};
use crate::fault::Check;

/// Descriptors that are not left to connections: standard streams, output files, pollers and what the
/// system library opens to resolve names.
pub const DESCRIPTORS_KEPT: u64 = 64;

/// The most connections of an open loop against PostgreSQL.
const DEFAULT_POSTGRES_CONNECTIONS: u64 = 10;

const DEFAULT_COPIES: u32 = 3;

/// The most copies of one request. More would be an attack, not a retry.
const MAX_COPIES: u64 = 100;

/// The most threads. Beyond it they only cost memory.
const MAX_WORKERS: u64 = 1_024;

const DEFAULT_PERCENTILES: &str = "50,75,90,95,99,99.9,99.99";

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warmup: Span,
    pub(crate) timeout: Span,
    pub(crate) connect_timeout: Span,
    pub(crate) drain: Span,
}

pub(crate) fn times(args: &RunArgs, check: &mut Check) -> Times {
    let warmup = check.span("--warmup", args.warmup.as_ref()).unwrap_or(Span::ZERO);
    let timeout = check.span("--timeout", args.timeout.as_ref()).unwrap_or(DEFAULT_TIMEOUT);
    let zero = "leaves no time to connect";
    let connect_timeout = check
        .span_above_zero("--connect-timeout", args.connect_timeout.as_ref(), zero)
        .unwrap_or(DEFAULT_TIMEOUT);
    let drain = check.span("--drain", args.drain.as_ref());
    if !timeout.is_zero() {
        return Times { warmup, timeout, connect_timeout, drain: drain.unwrap_or(timeout) };
    }
    // A drain as long as no timeout would never end.
    if drain.is_none() {
        check.note(format!(
            "without a timeout, answers are waited for {DEFAULT_TIMEOUT} after the schedule's end; --drain sets another time"
        ));
    }
    Times { warmup, timeout: Span::MAX, connect_timeout, drain: drain.unwrap_or(DEFAULT_TIMEOUT) }
}

pub(crate) fn retry(args: &RunArgs, timeout: Span, check: &mut Check) -> Option<Retry> {
    let zero = "would send all copies at once";
    let after = check.span_above_zero("--retry", args.retry.as_ref(), zero);
    let copies = check.count("--retry-copies", args.retry_copies.as_ref(), 2..=MAX_COPIES);
    if let (None, Some(copies)) = (&args.retry, &args.retry_copies) {
        check.fault(
            format!("--retry-copies {copies}"),
            "without --retry no copy is sent",
            "add --retry with the wait before a copy, such as --retry 200ms",
        );
    }
    let after = after?;
    if after >= timeout {
        check.fault(
            format!("--retry {after}"),
            format!("is not below the timeout of {timeout}, which would end the request before any copy"),
            "give a shorter --retry or a longer --timeout",
        );
    }
    // In range of u32: at most MAX_COPIES.
    Some(Retry { after, copies: copies.map_or(DEFAULT_COPIES, |copies| copies as u32) })
}

/// The descriptors this process may have open, and the connections they allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    limit: u64,
    /// At least 1.
    connections: u64,
}

impl Descriptors {
    pub(crate) fn of(machine: &Machine, check: &mut Check) -> Self {
        let limit = machine.descriptor_limit;
        let connections = limit.saturating_sub(DESCRIPTORS_KEPT);
        if connections > 0 {
            return Self { limit, connections };
        }
        check.fault(
            format!("descriptor limit {limit}"),
            format!("leaves no connection beside the {DESCRIPTORS_KEPT} that this program needs itself"),
            format!("raise it with ulimit -n to {DESCRIPTORS_KEPT} and one for each connection wanted"),
        );
        // That has been said; every count of connections would only say it again.
        Self { limit, connections: u64::MAX }
    }

    fn too_few(self) -> String {
        format!("the descriptor limit of {} allows {}", self.limit, self.connections)
    }
}

/// What `--connections` says.
pub(crate) fn connections_asked(args: &RunArgs, descriptors: Descriptors, check: &mut Check) -> Option<u64> {
    let asked = check.count("--connections", args.connections.as_ref(), 1..=u64::from(u32::MAX))?;
    if asked > descriptors.connections {
        check.fault(
            format!("--connections {asked}"),
            descriptors.too_few(),
            format!("raise it (ulimit -n {}) or give fewer", asked + DESCRIPTORS_KEPT),
        );
        return None;
    }
    Some(asked)
}

/// The most connections of an open loop that says nothing else. A PostgreSQL server has a process for each,
/// and 100 in all unless told otherwise.
pub(crate) const fn default_connections(postgres: bool) -> u64 {
    if postgres { DEFAULT_POSTGRES_CONNECTIONS } else { DEFAULT_CONNECTIONS }
}

/// The most connections open at once; `default` is for an open loop.
pub(crate) fn connections(
    asked: Option<u64>,
    load: &Load,
    retry: Option<Retry>,
    default: u64,
    descriptors: Descriptors,
    check: &mut Check,
) -> u64 {
    let Load::Closed { clients, .. } = load else {
        return asked.unwrap_or(default.min(descriptors.connections));
    };
    let clients = u64::from(*clients);
    if let Some(asked) = asked {
        if asked < clients {
            check.note(format!(
                "{clients} clients share {asked} connections, so some always wait for one (blocked); leave out --connections to give each its own"
            ));
        }
        return asked;
    }
    let copies = retry.map_or(1, |retry| u64::from(retry.copies));
    let wanted = clients * copies;
    if wanted > descriptors.connections {
        check.fault(
            format!("--clients {clients}"),
            format!("need {wanted} connections, and {}", descriptors.too_few()),
            format!("raise it (ulimit -n {}) or give fewer clients", wanted + DESCRIPTORS_KEPT),
        );
    }
    wanted
}

pub(crate) fn max_in_flight(args: &RunArgs, check: &mut Check) -> Option<u64> {
    check.count("--max-in-flight", args.max_in_flight.as_ref(), 1..=u64::MAX)
}

/// The number of threads: half the processors, but never so many that one of them would be left without
/// a client, with fewer than two connections, or without its part of the requests in flight.
pub(crate) fn workers(
    args: &RunArgs,
    load: &Load,
    connections: u64,
    max_in_flight: Option<u64>,
    machine: &Machine,
    check: &mut Check,
) -> u32 {
    let clients = match load {
        Load::Closed { clients, .. } => u64::from(*clients),
        Load::Open { .. } => u64::MAX,
    };
    let most = clients.min(connections / 2).min(max_in_flight.unwrap_or(u64::MAX)).clamp(1, MAX_WORKERS);
    let asked = check.count("--workers", args.workers.as_ref(), 1..=MAX_WORKERS);
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        check.note(format!(
            "{most} in place of {asked} workers: never more than clients, half the connections or --max-in-flight"
        ));
    }
    let wanted = asked.unwrap_or(u64::from(machine.cpus / 2)).max(1);
    // In range of u32: at most MAX_WORKERS.
    wanted.min(most) as u32
}

pub(crate) fn seed(args: &RunArgs, check: &mut Check) -> u64 {
    check.count("--seed", args.seed.as_ref(), 0..=u64::MAX).unwrap_or(1)
}

pub(crate) fn wait(args: &RunArgs, check: &mut Check) -> WaitStrategy {
    match args.wait.as_deref() {
        None | Some("auto") => WaitStrategy::Auto,
        Some("spin") => WaitStrategy::Spin,
        Some("sleep") => WaitStrategy::Sleep,
        Some(other) => {
            check.fault(format!("--wait {other}"), "is not a wait strategy", "give auto, spin or sleep");
            WaitStrategy::Auto
        }
    }
}

/// Quantiles to report, rising and each once.
pub(crate) fn quantiles(args: &RunArgs, check: &mut Check) -> Vec<f64> {
    let text = args.percentiles.as_deref().unwrap_or(DEFAULT_PERCENTILES);
    let mut quantiles: Vec<f64> = text.split(',').filter_map(|part| quantile(part.trim(), check)).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    quantiles
}

fn quantile(text: &str, check: &mut Check) -> Option<f64> {
    let decimal = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // The point is moved in the text and read once, so that 99.9 is the number nearest to 0.999; a
    // division would miss it by one unit in the last place, and with it the rank in a thousand.
    let quantile = format!("{text}e-2").parse::<f64>().ok().filter(|_| decimal);
    match quantile {
        Some(quantile) if quantile > 0.0 && quantile < 1.0 => {
            if quantile < 0.01 {
                check.note(format!(
                    "percentile {text} is p{text}, a value below which almost nothing lies; percentiles run from 0 to 100, so p99 is 99"
                ));
            }
            Some(quantile)
        }
        _ => {
            check.fault(
                format!("--percentiles {text}"),
                "is not a percentile above 0 and below 100",
                "give a list such as 50,90,99,99.9 (the extremes are always reported)",
            );
            None
        }
    }
}
