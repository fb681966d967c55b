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

/// Says of a run, `Span` after its start, whether enough has been measured.
type Enough<'a> = Box<dyn FnMut(Span, &Snapshot) -> bool + 'a>;

/// Columns of the narrowest usual terminal, less the one the cursor stands in.
const LINE: usize = 79;

/// Watches over a run for a person.
pub(crate) struct Live<'a> {
    interrupts: &'a Interrupts,
    /// Ends the run before its time.
    enough: Option<Enough<'a>>,
    /// It did.
    ended: bool,
    /// Whether there is a progress line, and the length of the schedule where it is known.
    shown: Option<Option<Span>>,
    label: String,
    before: Progress,
}

impl<'a> Live<'a> {
    /// Watches for `interrupts`, and shows progress where `shown` holds the schedule's length.
    pub(crate) fn new(interrupts: &'a Interrupts, shown: Option<Option<Span>>) -> Self {
        Self {
            interrupts,
            enough: None,
            ended: false,
            shown,
            label: String::new(),
            before: Progress::default(),
        }
    }

    /// Says before its progress what is running.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        self.label = format!("{label}: ");
        self
    }

    /// Ends the schedule as soon as `enough` says so; the drain follows as planned.
    pub(crate) fn until(mut self, enough: impl FnMut(Span, &Snapshot) -> bool + 'a) -> Self {
        self.enough = Some(Box::new(enough));
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
        (self.shown.is_some() || self.enough.is_some()).then_some(RENEW_EVERY)
    }

    fn on_start(&mut self) {
        self.interrupts.0.running.store(true, Ordering::Release);
    }

    fn interrupts(&self) -> usize {
        self.interrupts.count()
    }

    fn is_enough(&self) -> bool {
        self.ended
    }

    fn on_snapshot(&mut self, elapsed: Span, snapshot: &Snapshot) {
        self.ended = self.ended || self.enough.as_mut().is_some_and(|enough| enough(elapsed, snapshot));
        if self.shown.is_none() {
            return;
        }
        let now = Progress::new(&snapshot.recorder, elapsed, None);
        let line = match self.interrupts.count() {
            0 => progress_line(&self.before, &now, self.shown.flatten()),
            _ => "stopping; interrupt again to leave at once".to_owned(),
        };
        let mut line = format!("{}{line}", self.label);
        if !self.label.is_empty() {
            // Where it wrapped, the next one could not take its place.
            line = line.chars().take(LINE).collect();
        }
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        self.before = now;
    }
}
