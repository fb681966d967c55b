//! Starting and stopping a target.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::TargetConfig;
use crate::io::{self as os, Waker};
use crate::server::{Command, Server};
use crate::tls::Identity;
use crate::truth::Truth;

/// The target, not yet running.
#[derive(Debug)]
pub struct Target;

/// A target at work on a thread of its own; it stops when this is dropped.
pub struct Running {
    address: SocketAddr,
    certificate_pem: Option<String>,
    commands: Sender<Command>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Target {
    /// Starts a target. When this returns, connections are accepted.
    ///
    /// # Errors
    /// Of kind `InvalidInput` when the configuration does not fit together or no certificate can be
    /// made for a name; otherwise what kept the address from being bound, the certificate from
    /// being written or the thread from being started.
    pub fn start(config: TargetConfig) -> std::io::Result<Running> {
        let faults = config.faults();
        if !faults.is_empty() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, faults.join("; ")));
        }
        os::raise_descriptor_limit();
        let (listener, address) = os::listen(config.listen).map_err(|error| {
            let remedy = "give another address with --listen; port 0 takes a free one";
            std::io::Error::new(
                error.kind(),
                format!("cannot listen on {} ({error}); {remedy}", config.listen),
            )
        })?;
        let identity = config.tls.as_ref().map(Identity::new).transpose()?;
        let (tls, certificate_pem) = identity.map(|own| (own.config, own.certificate_pem)).unzip();
        let waker = Arc::new(Waker::new()?);
        let (commands, receiver) = mpsc::channel();
        let server = Server::new(&config, listener, tls, waker.clone(), receiver)?;
        let thread = std::thread::Builder::new().name("target".to_owned()).spawn(move || server.run())?;
        Ok(Running { address, certificate_pem, commands, waker, thread: Some(thread) })
    }
}

impl Running {
    /// The address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its certificate as PEM; `None` for a target without TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.certificate_pem.as_deref()
    }

    /// What the target saw since it was last asked, here or by `GET /truth`. Answered in a stall
    /// too.
    ///
    /// # Errors
    /// When the target has ended by itself; [`Running::stop`] tells why.
    pub fn truth(&self) -> std::io::Result<Truth> {
        let (sender, receiver) = mpsc::channel();
        let ended = |_| std::io::Error::other("the target has ended");
        self.commands.send(Command::Truth(sender)).map_err(|_| ended(mpsc::RecvError))?;
        self.waker.wake();
        receiver.recv().map_err(ended)
    }

    /// True when the target has ended by itself, which only a fault of the machine makes it do.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the target and closes its connections, whatever is under way.
    ///
    /// # Errors
    /// What had ended it before, if something had.
    pub fn stop(mut self) -> std::io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> std::io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // It fails where the thread has ended; joining tells how.
        let _ = self.commands.send(Command::Stop);
        self.waker.wake();
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the target's thread panicked")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

/// How often [`serve`] looks at its stop flag.
const FLAG_INTERVAL: Duration = Duration::from_millis(20);

/// Serves in the foreground until `stop` is set, which a signal handler may do. `ready` is called
/// once, when connections are accepted.
///
/// # Errors
/// As for [`Target::start`] and [`Running::stop`].
pub fn serve(config: TargetConfig, stop: &AtomicBool, ready: impl FnOnce(&Running)) -> std::io::Result<()> {
    let running = Target::start(config)?;
    ready(&running);
    while !stop.load(Ordering::Relaxed) && !running.has_ended() {
        std::thread::sleep(FLAG_INTERVAL);
    }
    running.stop()
}
