//! `plimsoll demo`: the main job in three acts on the embedded target, nothing else needed.
//!
//! Nothing it prints is known beforehand: every line is made of what was measured just now, and an
//! act that did not show what it usually shows says so.

use std::io::IsTerminal;
use std::net::SocketAddr;

use clap::Args;
use plimsoll_core::Span;
use plimsoll_report::RunV1;
use plimsoll_report::format::{number, span};
use plimsoll_report::model::Distribution;
use plimsoll_scenario::{Environment, RunArgs, lower};
use plimsoll_target::{Running, ServiceLaw, Target, TargetConfig};

use crate::exit::Exit;
use crate::live::{Interrupts, Live};
use crate::machine::this_machine;
use crate::{Refusal, console};

/// Flags of `plimsoll demo`: none, it is there to be watched.
#[derive(Debug, Args)]
pub(crate) struct DemoFlags {}

/// What the server takes for a request, one at a time: it can carry 500 a second.
const SERVICE: Span = Span::from_ms(2);
/// The stalls of act 3: in every second and a half the server stands still so long.
const STALL: &str = "every=1500ms,for=300ms";
/// Clients of act 1's runs, and how long each of them lasts.
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const CLOSED_RUN: &str = "1s";
/// The length of the runs of acts 2 and 3.
const OPEN_RUN: &str = "4s";
const STALL_RUN: &str = "4500ms";
/// A closed run counts as more throughput than another from this ratio on.
const GAIN_RATIO: f64 = 1.03;
/// A p99 counts as another from this ratio on.
const LONGER_RATIO: f64 = 1.25;

/// Shows it.
pub(crate) fn demo(_flags: DemoFlags) -> Result<Exit, Refusal> {
    let interrupts = Interrupts::listen()?;
    let mut stage = Stage { interrupts, rows: Vec::new() };
    console::line(&format!(
        "A server that takes {SERVICE} for a request, one at a time, is started on this machine and measured.\n"
    ));
    let told = stage.play()?;
    if let Some(exit) = stage.interrupts.exit() {
        return Ok(exit);
    }
    let mut out = table(&stage.rows);
    out.push('\n');
    out.push_str(&told.join("\n"));
    out.push_str("\n\nYour own server: plimsoll run http://HOST:PORT/ --rate 100/s\n");
    Ok(console::last_result(out.as_bytes()))
}

/// Where the acts play.
struct Stage {
    interrupts: Interrupts,
    rows: Vec<Row>,
}

/// One run, as the table shows it.
struct Row {
    act: u32,
    load: String,
    answered_per_s: f64,
    response: Distribution,
}

impl Row {
    fn p99_ns(&self) -> f64 {
        self.response.percentiles.get("p99").map_or(0.0, |ns| *ns as f64)
    }
}

impl Stage {
    /// All acts; one sentence for each of them.
    fn play(&mut self) -> Result<Vec<String>, Refusal> {
        let steady = server(None)?;
        console::line("act 1 of 3: clients that wait for their answers, more and more of them");
        for clients in CLIENTS {
            let args =
                RunArgs { clients: Some(clients.to_string()), duration: given(CLOSED_RUN), ..to(&steady) };
            let load = format!("closed, {clients} client{}", if clients == 1 { "" } else { "s" });
            self.run(1, load, args)?;
        }
        let peak = self.rows.iter().map(|row| row.answered_per_s).fold(0.0, f64::max);
        let first = tell_of_clients(&self.rows, peak);

        if self.interrupts.count() > 0 {
            return Ok(Vec::new());
        }
        let rate = (peak * 0.75).round().max(1.0);
        console::line(&format!(
            "act 2 of 3: requests on a schedule at 75 % of that peak, {}/s",
            number(rate)
        ));
        for arrivals in ["even", "poisson"] {
            let args = RunArgs {
                rate: Some(rate.to_string()),
                arrivals: given(arrivals),
                duration: given(OPEN_RUN),
                ..to(&steady)
            };
            self.run(2, format!("open, {}/s {arrivals}", number(rate)), args)?;
        }
        let second = self.compare(
            "2. The same rate, another spacing:",
            "random (Poisson) arrivals, as from users who know nothing of each other",
            "even ones",
        );
        drop(steady);
        if self.interrupts.count() > 0 {
            return Ok(Vec::new());
        }

        console::line("act 3 of 3: the server stands still for 300 ms in every 1.5 s");
        let stalling = server(Some(STALL))?;
        let args = RunArgs { clients: given("2"), duration: given(STALL_RUN), ..to(&stalling) };
        self.run(3, "closed, 2 clients, server stalls".to_owned(), args)?;
        let rate = (peak * 0.5).round().max(1.0);
        let args = RunArgs { rate: Some(rate.to_string()), duration: given(STALL_RUN), ..to(&stalling) };
        self.run(3, format!("open, {}/s, server stalls", number(rate)), args)?;
        let third = self.compare(
            "3. A closed loop sends nothing while the server stalls, so it hardly sees the stall;",
            "the open loop, which counts from when each request was due,",
            "the closed loop",
        );
        Ok(vec![first, second, third])
    }

    fn run(&mut self, act: u32, load: String, args: RunArgs) -> Result<(), Refusal> {
        if self.interrupts.count() > 0 {
            return Ok(());
        }
        let lowered =
            lower(&args, &this_machine(), &Environment::default()).map_err(|faults| faults.to_string())?;
        let length = args.duration.as_deref().and_then(|text| text.parse().ok());
        let shown = std::io::stderr().is_terminal();
        let mut live = Live::new(&self.interrupts, shown.then_some(length)).labelled(&load);
        let outcome = plimsoll_engine::run(&lowered.plan, &mut live)?;
        live.clear();
        if self.interrupts.count() > 0 {
            return Ok(());
        }
        let run = RunV1::new(&lowered.plan, &outcome.facts, &outcome.snapshot.recorder, &[0.5, 0.99], &[]);
        let answered_per_s = run.rates.achieved_per_s.unwrap_or(0.0);
        let response =
            run.response_ns.ok_or("the embedded target answered nothing; this machine is too busy")?;
        self.rows.push(Row { act, load, answered_per_s, response });
        Ok(())
    }

    /// The p99 of the last run beside that of the one before it.
    fn compare(&self, opening: &str, last: &str, before: &str) -> String {
        let [.., a, b] = self.rows.as_slice() else { return String::new() };
        let ratio = b.p99_ns() / a.p99_ns();
        let times = if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
        let (a_ns, b_ns) = (span(a.p99_ns()), span(b.p99_ns()));
        if ratio >= LONGER_RATIO {
            format!(
                "{opening}\n   p99 {b_ns} for {last}\n   against {a_ns} for {before}: {times} times as long."
            )
        } else {
            format!(
                "{opening}\n   p99 {b_ns} for {last}\n   against {a_ns} for {before}: not much between them this time; run it again on a quieter machine."
            )
        }
    }
}

/// Where throughput stopped rising, and what more clients brought instead.
fn tell_of_clients(rows: &[Row], peak: f64) -> String {
    let enough = rows.iter().find(|row| row.answered_per_s * GAIN_RATIO >= peak);
    let (Some(enough), Some(last)) = (enough, rows.last()) else { return String::new() };
    let clients = CLIENTS[CLIENTS.len() - 1];
    format!(
        "1. Throughput stopped rising at {}/s with {}; more clients only waited longer.\n   \
         Clients ÷ throughput is the mean response (Little's law): {clients} ÷ {}/s = {}, measured {}.",
        number(peak),
        enough.load.trim_start_matches("closed, "),
        number(last.answered_per_s),
        span(f64::from(clients) / last.answered_per_s * 1e9),
        span(last.response.mean),
    )
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![["act", "load", "answered/s", "mean", "p50", "p99", "max"].map(str::to_owned)];
    for row in rows {
        let percentile =
            |name: &str| row.response.percentiles.get(name).map_or("-".into(), |ns| span(*ns as f64));
        lines.push([
            row.act.to_string(),
            row.load.clone(),
            number(row.answered_per_s),
            span(row.response.mean),
            percentile("p50"),
            percentile("p99"),
            span(row.response.max as f64),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut out = String::new();
    for [act, load, numbers @ ..] in &lines {
        out.push_str(&format!("{act:<w0$}  {load:<w1$}", w0 = widths[0], w1 = widths[1]));
        for (number, width) in numbers.iter().zip(&widths[2..]) {
            out.push_str(&format!("  {number:>width$}"));
        }
        out.push('\n');
    }
    out
}

fn server(stall: Option<&str>) -> Result<Running, Refusal> {
    let config = TargetConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        service: ServiceLaw::Fixed(SERVICE),
        stall: stall.map(str::parse).transpose()?,
        ..TargetConfig::default()
    };
    Ok(Target::start(config)?)
}

fn to(server: &Running) -> RunArgs {
    RunArgs { target: format!("http://{}/", server.address()), ..RunArgs::default() }
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned())
}
