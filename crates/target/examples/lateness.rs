//! How late the target is with its answers: drives it at a steady rate over one connection and
//! prints its own account. `cargo run --release --example lateness -- RATE SECONDS SERVICE [STALL]`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_target::{Target, TargetConfig, Workers};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: target\r\n\r\n";

// An example speaks to the person who runs it.
#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rate, seconds, service, stall @ ..] = &arguments[..] else {
        return Err("give a rate, a number of seconds, a service law and, if wanted, a stall".into());
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let target = Target::start(TargetConfig {
        service: service.parse()?,
        workers: Workers::UNLIMITED,
        stall: stall.first().map(|stall| stall.parse()).transpose()?,
        ..TargetConfig::default()
    })?;
    let mut stream = TcpStream::connect(target.address())?;
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    // Answers are read on another thread, so that sending keeps its times.
    let reader = std::thread::spawn(move || {
        let mut buffer = [0u8; 65536];
        while matches!(answers.read(&mut buffer), Ok(1..)) {}
    });
    let start = Instant::now();
    for k in 0..(rate * seconds) as u32 {
        let due = start + Duration::from_secs_f64(f64::from(k) / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(REQUEST)?;
    }
    std::thread::sleep(Duration::from_millis(100));
    println!("{}", serde_json::to_string_pretty(&target.truth()?)?);
    target.stop()?;
    reader.join().map_err(|_| "the reader panicked")?;
    Ok(())
}
