//! A target in the foreground: `cargo run --release --example serve -- service=exp:5ms workers=2`.
//!
//! Words `name=value` set what the flags of `plimsoll target` of the same name set; `gzip`, `tls`
//! and `busy` stand alone. Ends on a line, or the end, of standard input.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_target::config::{TargetConfig, TlsConfig};

static STOP: AtomicBool = AtomicBool::new(false);

// An example speaks to the person who runs it.
#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = TargetConfig::default();
    for word in std::env::args().skip(1) {
        match word.split_once('=').unwrap_or((&word, "")) {
            ("listen", value) => config.listen = value.parse()?,
            ("service", value) => config.service = value.parse()?,
            ("workers", value) => config.workers = value.parse()?,
            ("queue", value) => config.queue = value.parse()?,
            ("stall", value) => config.stall = Some(value.parse()?),
            ("error", value) => config.error = value.parse()?,
            ("close", value) => config.close = value.parse()?,
            ("reset", value) => config.reset = value.parse()?,
            ("body", value) => config.body_bytes = value.parse()?,
            ("seed", value) => config.seed = value.parse()?,
            ("gzip", "") => config.gzip = true,
            ("busy", "") => config.busy = true,
            ("tls", "") => config.tls = Some(TlsConfig::default()),
            _ => return Err(format!("'{word}' is none of the words").into()),
        }
    }
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        STOP.store(true, Ordering::Relaxed);
    });
    plimsoll_target::serve(config, &STOP, |running| println!("listening on {}", running.address()))?;
    Ok(())
}
