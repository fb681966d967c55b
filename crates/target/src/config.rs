//! What the target is asked to be: plain values, read from the command line's words.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::law::ServiceLaw;
use crate::stall::Stall;

/// Everything a target is told before it starts.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The law of the service times.
    pub service: ServiceLaw,
    /// How many requests are served at a time.
    pub workers: Workers,
    /// How many requests may wait beside those in service; one more is answered 503 at once.
    pub queue: usize,
    /// Stretches in which the target does nothing at all; `None` for never.
    pub stall: Option<Stall>,
    /// Share of requests answered 500 when their service is done.
    pub error: Ratio,
    /// Share of requests whose connection is closed, without an answer, when their service is done.
    pub close: Ratio,
    /// Share of requests whose connection is reset (RST) when their service is done.
    pub reset: Ratio,
    /// Length of the body of a 200 answer in bytes, before compression; at most [`MOST_BODY_BYTES`].
    pub body_bytes: usize,
    /// Compress that body for clients that accept gzip.
    pub gzip: bool,
    /// Speak TLS, with a certificate made at the start; `None` for plain text.
    pub tls: Option<TlsConfig>,
    /// Keep the processor busy while anything is in service, in place of sleeping. The service
    /// times stay those of the law, on the wall clock; the target has one thread, so however many
    /// the workers, it is one processor that is kept busy.
    pub busy: bool,
    /// Seed of the service times and of which requests go wrong.
    pub seed: u64,
}

/// How the target speaks TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// Names and addresses the certificate is valid for besides localhost, 127.0.0.1 and ::1.
    pub names: Vec<String>,
    /// File to which the certificate is written as PEM, for clients to trust.
    pub certificate_out: Option<PathBuf>,
}

/// The bound of the waiting room unless `--queue` sets another.
pub const DEFAULT_QUEUE: usize = 1_000_000;

/// The most requests in service at a time, and what `--workers inf` stands for: no load that one
/// machine can make tells it from infinity.
pub const MOST_WORKERS: usize = 1_000_000;

/// The longest body of an answer: 64 MiB, held in memory once (twice with gzip).
pub const MOST_BODY_BYTES: usize = 64 << 20;

impl Default for TargetConfig {
    /// One worker that needs no time, on a free port of the loopback address: a server that is
    /// as fast as it can be.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            service: ServiceLaw::Fixed(plimsoll_core::Span::ZERO),
            workers: Workers::ONE,
            queue: DEFAULT_QUEUE,
            stall: None,
            error: Ratio::ZERO,
            close: Ratio::ZERO,
            reset: Ratio::ZERO,
            body_bytes: 2,
            gzip: false,
            tls: None,
            busy: false,
            seed: 1,
        }
    }
}

impl TargetConfig {
    /// What does not fit together, every fault at once; empty when all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let sum = self.error.as_f64() + self.close.as_f64() + self.reset.as_f64();
        if sum > 1.0 + 1e-9 {
            faults.push(format!(
                "errors ({}), closes ({}) and resets ({}) add up to more than 100%; lower one of them",
                self.error, self.close, self.reset
            ));
        }
        if self.body_bytes > MOST_BODY_BYTES {
            faults.push(format!(
                "a body of {} bytes is longer than the limit of {MOST_BODY_BYTES}; give a shorter one",
                self.body_bytes
            ));
        }
        faults
    }
}

/// A part of the configuration was not in one of its forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    text: String,
    wanted: &'static str,
    forms: &'static str,
}

impl ConfigError {
    pub(crate) fn new(text: &str, wanted: &'static str, forms: &'static str) -> Self {
        Self { text: text.to_owned(), wanted, forms }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}; give {}", self.text, self.wanted, self.forms)
    }
}

impl std::error::Error for ConfigError {}

/// How many requests are served at a time: from 1 to [`MOST_WORKERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers(usize);

impl Workers {
    /// A single server.
    pub const ONE: Self = Self(1);
    /// As many as there are requests: nobody waits.
    pub const UNLIMITED: Self = Self(MOST_WORKERS);

    /// The number, [`MOST_WORKERS`] for `inf`.
    pub const fn count(self) -> usize {
        self.0
    }
}

/// The forms of a number of workers, for error messages.
pub const WORKERS_FORMS: &str = "a whole number from 1 to 1000000, or inf";

impl FromStr for Workers {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = if text == "inf" { Some(MOST_WORKERS) } else { text.parse().ok() };
        number
            .filter(|number| (1..=MOST_WORKERS).contains(number))
            .map(Self)
            .ok_or_else(|| ConfigError::new(text, "a number of workers", WORKERS_FORMS))
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED { f.write_str("inf") } else { write!(f, "{}", self.0) }
    }
}

/// A share, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(f64);

impl Ratio {
    /// None of them.
    pub const ZERO: Self = Self(0.0);

    /// The share as a number from 0 to 1.
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

/// The forms of a share, for error messages.
pub const RATIO_FORMS: &str = "a percentage such as 1% or a number from 0 to 1 such as 0.01";

impl FromStr for Ratio {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        number
            .parse::<f64>()
            .ok()
            .map(|number| number / whole)
            .filter(|ratio| (0.0..=1.0).contains(ratio))
            .map(Self)
            .ok_or_else(|| ConfigError::new(text, "a share", RATIO_FORMS))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to a ten-thousandth of a percent, to hide the binary fraction's tail.
        write!(f, "{}%", (self.0 * 1e6).round() / 1e4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_percentages_or_numbers() {
        for (text, ratio) in
            [("1%", 0.01), ("0.01", 0.01), ("0", 0.0), ("100%", 1.0), ("1", 1.0), ("0.1%", 0.001)]
        {
            assert_eq!(text.parse::<Ratio>(), Ok(Ratio(ratio)), "{text}");
        }
        for text in ["", "%", "101%", "1.5", "-1%", "NaN", "inf", "1 %", "one"] {
            let error = text.parse::<Ratio>().expect_err(text).to_string();
            assert!(error.contains("1% or"), "{error}");
        }
        assert_eq!(Ratio(0.001).to_string(), "0.1%");
    }

    #[test]
    fn workers_are_a_number_or_inf() {
        assert_eq!("inf".parse::<Workers>(), Ok(Workers::UNLIMITED));
        assert_eq!("3".parse::<Workers>().map(Workers::count), Ok(3));
        for text in ["", "0", "-1", "1000001", "many", "1.5"] {
            let error = text.parse::<Workers>().expect_err(text).to_string();
            assert!(error.contains("or inf"), "{error}");
        }
    }

    #[test]
    fn every_fault_of_a_configuration_is_named_at_once() {
        assert!(TargetConfig::default().faults().is_empty());
        let config = TargetConfig {
            error: Ratio(0.7),
            close: Ratio(0.4),
            body_bytes: MOST_BODY_BYTES + 1,
            ..TargetConfig::default()
        };
        let faults = config.faults();
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("70%") && faults[1].contains("67108865"), "{faults:?}");
    }
}
