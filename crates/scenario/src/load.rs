//! The model of load: exactly one of them, never one by default.

use plimsoll_core::arrival::{ARRIVAL_FORMS, ArrivalLaw};
use plimsoll_core::plan::{LatePolicy, Load};
use plimsoll_core::profile::{ENDLESS, RateProfile, Stage};
use plimsoll_core::rate::{RATE_FORMS, Rate};
use plimsoll_core::time::{SPAN_FORMS, Span};

use crate::args::RunArgs;
use crate::fault::{Check, LONGEST};

/// The length of a schedule where neither a duration nor a request count was given.
pub(crate) const DEFAULT_DURATION: Span = Span::from_secs(30);

/// The highest rate a plan may ask for, in requests a second: one in 100 ns, beyond what any machine
/// sends over sockets. A higher one is a slip of the pen.
const MAX_RATE_PER_S: u64 = 10_000_000;

/// The most clients of a closed loop. Each costs memory before the first request.
pub const MAX_CLIENTS: u64 = 1_000_000;

/// The clients of `--rate max` where `--connections` does not say.
const CLIENTS_AT_MAX: u32 = 64;

/// What a run without a model of load is answered with.
const THREE_FORMS: &str = "give one of\n  \
    --rate 500                    open loop: 500 requests/s, however slow the answers are\n  \
    --clients 64                  closed loop: 64 clients, each waiting for its answer\n  \
    --users 1000 --think exp:30s  users with think times (not yet supported)";

/// The model of load and what was said about it.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) load: Load,
    /// A closed loop that was asked for as `--rate max`.
    pub(crate) rate_max: bool,
}

/// Reads the model. `connections` is what `--connections` says.
pub(crate) fn model(args: &RunArgs, connections: Option<u64>, check: &mut Check) -> Model {
    exactly_one(args, check);
    let length = Length::read(args, check);
    // Each model given is read, so that the faults of all of them show.
    let open = args.rate.as_deref().filter(|rate| *rate != "max").map(|rate| {
        let value = format!("--rate {rate}");
        let profile = RateProfile::constant(self::rate(rate, check), length.schedule());
        let profile = profile.map_err(|error| check.fault(value, error.to_string(), "round the rate"));
        open_loop(args, profile.ok(), length, check)
    });
    let max = args.rate.as_deref().filter(|rate| *rate == "max").map(|_| {
        let clients = connections.and_then(|n| u32::try_from(n).ok()).unwrap_or(CLIENTS_AT_MAX);
        Model { load: closed_loop(args, clients, length, "--rate max", check), rate_max: true }
    });
    let stages = args.stages.as_deref().map(|text| {
        if args.duration.is_some() {
            check.fault(
                "--stages and --duration",
                "the stages have lengths of their own",
                "leave out --duration",
            );
        }
        open_loop(args, stages(text, check), length, check)
    });
    let clients = args.clients.as_ref().map(|_| {
        let clients = check.count("--clients", args.clients.as_ref(), 1..=MAX_CLIENTS).unwrap_or(1) as u32;
        Model { load: closed_loop(args, clients, length, "--clients", check), rate_max: false }
    });
    let given = [open, max, stages, clients].into_iter().flatten().next();
    given.unwrap_or(Model {
        load: Load::Closed { clients: 1, duration: length.duration, requests: length.requests },
        rate_max: false,
    })
}

/// Reads `--late`, which concerns open loops.
pub(crate) fn late(args: &RunArgs, check: &mut Check) -> LatePolicy {
    let Some(text) = &args.late else { return LatePolicy::Send };
    if text == "send" {
        return LatePolicy::Send;
    }
    match text.strip_prefix("skip:").map(str::parse::<Span>) {
        Some(Ok(span)) if !span.is_zero() && span <= LONGEST => return LatePolicy::Skip(span),
        Some(Ok(span)) if !span.is_zero() => {
            check.fault(
                format!("--late {text}"),
                "is longer than a year, the longest time of a run",
                "give send",
            );
        }
        Some(Ok(_)) => check.fault(
            format!("--late {text}"),
            "would drop every request, since none leaves in the very nanosecond it is due",
            "give a time above 0, such as skip:100ms",
        ),
        Some(Err(_)) => check.fault(
            format!("--late {text}"),
            "has no duration after 'skip:'",
            format!("give {SPAN_FORMS}"),
        ),
        None => check.fault(
            format!("--late {text}"),
            "is not a way to treat late requests",
            "give send, or skip:100ms",
        ),
    }
    LatePolicy::Send
}

/// How long the schedule is.
#[derive(Clone, Copy, Debug)]
struct Length {
    /// `None` where the request count alone ends the run.
    duration: Option<Span>,
    requests: Option<u64>,
}

impl Length {
    fn read(args: &RunArgs, check: &mut Check) -> Self {
        let requests = check.count("--requests", args.requests.as_ref(), 1..=u64::MAX);
        let given =
            check.span_above_zero("--duration", args.duration.as_ref(), "leaves no time to send anything");
        let counted = args.requests.is_some() && args.duration.is_none();
        let duration = if counted { None } else { Some(given.unwrap_or(DEFAULT_DURATION)) };
        Self { duration, requests }
    }

    fn schedule(self) -> Span {
        self.duration.unwrap_or(ENDLESS)
    }
}

fn exactly_one(args: &RunArgs, check: &mut Check) {
    let models = [
        ("--rate", args.rate.is_some()),
        ("--clients", args.clients.is_some()),
        ("--users", args.users.is_some()),
        ("--stages", args.stages.is_some()),
    ];
    let given: Vec<&str> = models.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag).collect();
    match given.as_slice() {
        [] => check.fault("no load", "a run has no load unless you say which", THREE_FORMS),
        [_] => {}
        several => {
            check.fault(several.join(" and "), "a run has exactly one model of load", "keep one of them")
        }
    }
    if args.users.is_some() || args.think.is_some() {
        let flag = if args.users.is_some() { "--users" } else { "--think" };
        check.fault(
            flag,
            "user populations are not yet supported",
            "give --rate for requests that come whatever the server does, or --clients for a closed loop",
        );
    }
}

fn open_loop(args: &RunArgs, profile: Option<RateProfile>, length: Length, check: &mut Check) -> Model {
    let arrivals = arrivals(args, check);
    // The rate or the stages were faulty and that has been said; any profile does to read on.
    let profile = profile.unwrap_or_else(|| {
        RateProfile::constant(Rate::per_second(1), DEFAULT_DURATION).expect("a rate and a length above zero")
    });
    let mean = profile.mean_count();
    if mean < 1.0 && arrivals != ArrivalLaw::Even {
        check.note(format!(
            "only {mean:.3} requests are due on average in {}, so there may be none; give a longer --duration, or --requests",
            profile.length()
        ));
    }
    Model { load: Load::Open { profile, arrivals, requests: length.requests }, rate_max: false }
}

fn closed_loop(args: &RunArgs, clients: u32, length: Length, flag: &str, check: &mut Check) -> Load {
    let open_only =
        [("--arrivals", &args.arrivals), ("--max-in-flight", &args.max_in_flight), ("--late", &args.late)];
    for (name, value) in open_only {
        if let Some(value) = value {
            check.fault(
                format!("{name} {value}"),
                format!("concerns open loops, and {flag} is a closed loop"),
                format!("leave out {name}, or give --rate 500"),
            );
        }
    }
    Load::Closed { clients, duration: length.duration, requests: length.requests }
}

fn rate(text: &str, check: &mut Check) -> Rate {
    let value = format!("--rate {text}");
    let forms = format!("give {RATE_FORMS}, or max for as fast as a closed loop goes");
    match text.parse::<Rate>() {
        Ok(rate) if rate.is_zero() => check.fault(value, "would send nothing", forms),
        Ok(rate) if above_limit(rate) => check.fault(value, above_limit_reason(), forms),
        Ok(rate) => return rate,
        Err(_) => check.fault(value, "is not a rate", forms),
    }
    Rate::per_second(1)
}

fn stages(text: &str, check: &mut Check) -> Option<RateProfile> {
    match text.parse::<RateProfile>() {
        Ok(profile) => {
            let too_fast = |stage: &&Stage| above_limit(stage.from) || above_limit(stage.to);
            if let Some(stage) = profile.stages().iter().find(too_fast) {
                let faster = if above_limit(stage.from) { stage.from } else { stage.to };
                check.fault(
                    format!("--stages {text}"),
                    format!("{faster} {}", above_limit_reason()),
                    "lower it",
                );
            }
            if profile.length() > LONGEST {
                check.fault(format!("--stages {text}"), "is longer than a year", "give at most 8760h in all");
            }
            Some(profile)
        }
        Err(error) => {
            check.fault(
                format!("--stages {text}"),
                error.to_string(),
                "steps and ramps follow each other as in 100/s:30s,100/s..500/s:60s",
            );
            None
        }
    }
}

fn above_limit(rate: Rate) -> bool {
    // requests / per_ns > limit / 10⁹, multiplied out so that nothing is rounded.
    u128::from(rate.requests()) * 1_000_000_000 > u128::from(MAX_RATE_PER_S) * u128::from(rate.per_ns())
}

fn above_limit_reason() -> String {
    format!("is above {MAX_RATE_PER_S}/s, the highest rate a plan may ask for")
}

fn arrivals(args: &RunArgs, check: &mut Check) -> ArrivalLaw {
    let Some(text) = &args.arrivals else { return ArrivalLaw::Poisson };
    text.parse().unwrap_or_else(|_| {
        let law = text.split(':').next().unwrap_or_default();
        let reason = match ["onoff", "mmpp", "pareto", "trace"].contains(&law) {
            true => "is not yet supported",
            false => "is not an arrival law",
        };
        check.fault(format!("--arrivals {text}"), reason, format!("give {ARRIVAL_FORMS}"));
        ArrivalLaw::Poisson
    })
}
