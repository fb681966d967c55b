//! What goes on while a run runs: interrupts, and the progress line.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_core::Span;
use plimsoll_engine::Watch;
use plimsoll_report::{Progress, progress_line};
use plimsoll_stats::Snapshot;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

/// How often the progress line is renewed.
const RENEW_EVERY: Duration = Duration::from_millis(500);

/// The interrupts that have come to this process.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// A run is under way, which takes the first two interrupts to end in order.
    running: AtomicBool,
    count: AtomicUsize,
    /// The first one's signal; 0 before there is any.
    first: AtomicUsize,
}

impl Interrupts {
    /// Counts SIGINT and SIGTERM from now on. Before a run has started the second one ends the process
    /// at once, since there is nothing to lose; while it runs and its result is written, the third does.
    ///
    /// # Errors
    /// When the system does not let it.
    pub(crate) fn listen() -> io::Result<Self> {
        let this = Self(Arc::default());
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let state = Arc::clone(&this.0);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let _ = state.first.compare_exchange(0, signal as usize, Ordering::AcqRel, Ordering::Acquire);
                let before = state.count.fetch_add(1, Ordering::AcqRel);
                let patience = if state.running.load(Ordering::Acquire) { 2 } else { 1 };
                if before >= patience {
                    std::process::exit(128 + signal);
                }
            }
        })?;
        Ok(this)
    }

    /// How many have come.
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// The exit that they ask for; `None` where none came.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.0.first.load(Ordering::Acquire) as i32 {
            0 => None,
            SIGTERM => Some(Exit::Terminated),
            _ => Some(Exit::Interrupted),
        }
    }
}

/// Watches over a run for a person.
pub(crate) struct Live<'a> {
    interrupts: &'a Interrupts,
    /// Whether there is a progress line, and the length of the schedule where it is known.
    shown: Option<Option<Span>>,
    label: String,
    before: Progress,
}

impl<'a> Live<'a> {
    /// Watches for `interrupts`, and shows progress where `shown` holds the schedule's length.
    pub(crate) fn new(interrupts: &'a Interrupts, shown: Option<Option<Span>>) -> Self {
        Self { interrupts, shown, label: String::new(), before: Progress::default() }
    }

    /// Says before its progress what is running.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        self.label = format!("{label}: ");
        self
    }

    /// Takes the progress line away.
    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Watch for Live<'_> {
    fn snapshot_every(&self) -> Option<Duration> {
        self.shown.map(|_| RENEW_EVERY)
    }

    fn on_start(&mut self) {
        self.interrupts.0.running.store(true, Ordering::Release);
    }

    fn interrupts(&self) -> usize {
        self.interrupts.count()
    }

    fn on_snapshot(&mut self, elapsed: Span, snapshot: &Snapshot) {
        let now = Progress::new(&snapshot.recorder, elapsed, None);
        let line = match self.interrupts.count() {
            0 => progress_line(&self.before, &now, self.shown.flatten()),
            _ => "stopping; interrupt again to leave at once".to_owned(),
        };
        let _ = write!(io::stderr(), "\r\x1b[2K{}{line}", self.label);
        self.before = now;
    }
}
