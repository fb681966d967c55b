//! Plans for simulations: one target, one plain GET, and the command line's defaults.

use plimsoll_core::plan::{Load, Operation, Plan, Target, WaitStrategy};
use plimsoll_core::{ArrivalLaw, RateProfile, Span, Template};

/// A plan for `load`.
pub fn plan(load: Load) -> Plan {
    let request = Template::parse(b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n", &[]);
    Plan {
        wait: WaitStrategy::Sleep,
        ..Plan::new(load, Target::tcp("sim", 80), Operation::http1("get", request))
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

/// A closed loop of `clients` for `length`.
pub fn closed(clients: u32, length: Span) -> Plan {
    plan(Load::Closed { clients, duration: Some(length), requests: None })
}
