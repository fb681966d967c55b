//! Plans for simulations: one target, one plain GET, and the command line's defaults.

use plimsoll_core::plan::{
    Endpoint, Family, LatePolicy, Load, Operation, Plan, Protocol, RequestFacts, StatusRange, Target,
    WaitStrategy,
};
use plimsoll_core::{ArrivalLaw, RateProfile, Span, Template};

/// A plan for `load`.
pub fn plan(load: Load) -> Plan {
    Plan {
        load,
        warmup: Span::ZERO,
        timeout: Span::from_secs(5),
        connect_timeout: Span::from_secs(5),
        drain: Span::from_secs(5),
        retry: None,
        late: LatePolicy::Send,
        max_in_flight: None,
        connections: 10_000,
        wait: WaitStrategy::Sleep,
        workers: 1,
        seed: 1,
        targets: vec![Target {
            name: "http://sim".into(),
            endpoint: Endpoint::Tcp {
                host: "sim".into(),
                port: 80,
                family: Family::Any,
                addresses: Vec::new(),
            },
            tls: None,
        }],
        operations: vec![Operation {
            name: "get".into(),
            target: 0,
            weight: 1,
            request: Template::parse(b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n", &[]),
            protocol: Protocol::Http1 { head_only: false, close: false },
            success: StatusRange::HTTP,
            facts: RequestFacts::default(),
        }],
        variables: Vec::new(),
    }
}

/// An open loop at `rate` for `length`.
///
/// # Panics
/// When the rate is not one.
pub fn open(rate: &str, arrivals: ArrivalLaw, length: Span) -> Plan {
    let rate = rate.parse().expect("a rate");
    let profile = RateProfile::constant(rate, length).expect("a rate above zero");
    plan(Load::Open { profile, arrivals, requests: None })
}

/// A closed loop of `clients` for `length`, its limit of connections as the command line sets it.
pub fn closed(clients: u32, length: Span) -> Plan {
    let mut plan = plan(Load::Closed { clients, duration: Some(length), requests: None });
    plan.connections = clients.into();
    plan
}
