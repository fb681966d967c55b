//! `plimsoll target`: the embedded server with known behaviour, in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use plimsoll_target::config::DEFAULT_QUEUE;
use plimsoll_target::{Ratio, ServiceLaw, Stall, TargetConfig, TlsConfig, Workers, serve};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::Exit;
use crate::{Refusal, console};

/// Flags of `plimsoll target`.
#[derive(Debug, Args)]
pub(crate) struct TargetFlags {
    /// Address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9100", value_parser = address)]
    listen: SocketAddr,
    /// Service time: exp:5ms (default), fixed:1ms or others.
    ///
    /// exp:5ms and fixed:5ms have that mean; lognormal:5ms,cv=2 has a standard deviation of twice its mean;
    /// bimodal:1ms,100ms,p=1% takes the second time for 1 % of requests.
    #[arg(long, value_name = "LAW", default_value = "exp:5ms", hide_default_value = true)]
    service: ServiceLaw,
    /// Requests served at a time, or inf for all.
    #[arg(long, value_name = "N", default_value = "1")]
    workers: Workers,
    /// Requests that may wait; beyond them 503.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUEUE)]
    queue: usize,
    /// Stand still: every=5s,for=500ms.
    ///
    /// In every period of 5 s, counted from the start, the last 500 ms are frozen: nothing is read, progressed
    /// or answered. Service goes on where it stood.
    #[arg(long, value_name = "STALL")]
    stall: Option<Stall>,
    /// Share of requests answered 500, such as 1%.
    #[arg(long, value_name = "SHARE", default_value = "0", hide_default_value = true)]
    error: Ratio,
    /// Share of requests whose connection is closed.
    ///
    /// Without an answer, when their service is done.
    #[arg(long, value_name = "SHARE", default_value = "0", hide_default_value = true)]
    close: Ratio,
    /// Share of requests whose connection is reset.
    #[arg(long, value_name = "SHARE", default_value = "0", hide_default_value = true)]
    reset: Ratio,
    /// Length of an answer's body in bytes.
    #[arg(long, value_name = "BYTES", default_value = "2")]
    body: usize,
    /// Compress the body for clients that accept gzip.
    #[arg(long)]
    gzip: bool,
    /// Speak TLS with a certificate of its own.
    #[arg(long)]
    tls: bool,
    /// Write that certificate to a PEM file.
    ///
    /// For clients to trust: plimsoll run https://… --cacert FILE.
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate: Option<PathBuf>,
    /// Burn processor time in place of sleeping.
    #[arg(long)]
    busy: bool,
    /// Seed of service times and faults.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// Serves until a signal comes.
pub(crate) fn target(flags: TargetFlags) -> Result<Exit, Refusal> {
    let config = TargetConfig {
        listen: flags.listen,
        service: flags.service,
        workers: flags.workers,
        queue: flags.queue,
        stall: flags.stall,
        error: flags.error,
        close: flags.close,
        reset: flags.reset,
        body_bytes: flags.body,
        gzip: flags.gzip,
        tls: flags.tls.then(|| TlsConfig { names: Vec::new(), certificate_out: flags.certificate }),
        busy: flags.busy,
        seed: flags.seed,
    };
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    serve(config, &stop, |running| {
        console::line(&format!("listening on {scheme}://{}/, until interrupted", running.address()));
    })?;
    // An interrupt is how this command ends when all is well.
    Ok(Exit::Measured)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "give an address and a port, such as 127.0.0.1:9100 or [::1]:9100".to_owned())
}
