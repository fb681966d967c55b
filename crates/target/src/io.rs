//! The operating system: clock, epoll, sockets, limits. Everything above is free of system calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use plimsoll_core::{Span, Timestamp};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};

pub(crate) use rustix::event::epoll::EventFlags as Interest;

/// Connections the kernel holds ready for `accept`; it takes the smaller of this and its own limit.
const BACKLOG: i32 = 4096;

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// Monotonic time since the target's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    #[inline]
    pub(crate) fn now(self) -> Timestamp {
        Timestamp::from_ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// An epoll instance; level-triggered, so what is not taken up in one turn comes again.
pub(crate) struct Poller(OwnedFd);

/// The events of one wait.
pub(crate) struct Events(Vec<epoll::Event>);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(crate) fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), interest)?)
    }

    pub(crate) fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, epoll::EventData::new_u64(token), interest)?)
    }

    /// Waits until something is ready or `timeout` is over; `None` waits for ever.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Span>) -> io::Result<()> {
        let Events(events) = events;
        events.clear();
        let timeout = timeout.map(timespec);
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS))
    }

    /// Token and readiness of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Interest)> {
        self.0.iter().map(|event| (event.data.u64(), event.flags))
    }
}

/// A descriptor by which another thread ends a wait.
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn wake(&self) {
        // It can only fail when the counter stands at its end, and then the wait ends as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8][..]);
    }

    /// Waits for a wake-up alone, at most for `timeout`.
    pub(crate) fn wait(&self, timeout: Span) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A listening socket and the address it got.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    net::sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// What came of an attempt to accept a connection.
pub(crate) enum Accepted {
    Socket(OwnedFd),
    /// None waits.
    None,
    /// No descriptor or memory for it; it goes on waiting.
    Exhausted,
}

pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Accepted> {
    loop {
        match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                // Fails only on a connection that is gone already, which reading will show.
                let _ = net::sockopt::set_tcp_nodelay(&socket, true);
                return Ok(Accepted::Socket(socket));
            }
            Err(Errno::AGAIN) => return Ok(Accepted::None),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                return Ok(Accepted::Exhausted);
            }
            // Faults of the one connection that was next (accept(2), "Error handling").
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::PERM,
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads once; 0 is the end.
pub(crate) fn read(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut *buffer))?)
}

/// Writes two pieces at once; no signal where the peer is gone.
pub(crate) fn write(socket: &OwnedFd, head: &[u8], body: &[u8]) -> io::Result<usize> {
    let pieces = [IoSlice::new(head), IoSlice::new(body)];
    let pieces = &pieces[..if body.is_empty() { 1 } else { 2 }];
    Ok(rustix::io::retry_on_intr(|| {
        net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
    })?)
}

/// Says that nothing more is sent (FIN).
pub(crate) fn shut_writing(socket: &OwnedFd) {
    // Fails only where the peer is gone.
    let _ = net::shutdown(socket, Shutdown::Write);
}

/// Closes with a reset (RST) in place of the orderly end.
pub(crate) fn reset(socket: OwnedFd) {
    // With a lingering time of zero close discards what is unsent and resets (tcp(7), SO_LINGER).
    let _ = net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
}

/// Raises this process's soft limit of descriptors to the hard one, so that thousands of
/// connections can be open.
pub(crate) fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    // Where it is refused the old limit stays, and what it costs is counted (accept failures).
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Makes this thread's sleeps end when they should: the kernel otherwise adds 50 µs.
pub(crate) fn sharpen_timers() {
    // Not every kernel allows it; calibration then sees the slack.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// True when the machine has a second processor, so that spinning takes nothing from the client
/// that is waited for. This counts the machine's processors, not those this thread is pinned to:
/// pinning the target to one and the client to another is the way to measure.
pub(crate) fn has_spare_processor() -> bool {
    match std::fs::read_to_string("/sys/devices/system/cpu/online") {
        Ok(list) => list.trim().contains(['-', ',']),
        Err(_) => std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
    }
}

fn timespec(span: Span) -> Timespec {
    let second = 1_000_000_000;
    // Both fit: 2^64 ns are 18 billion seconds, a nanosecond part is below one billion.
    Timespec { tv_sec: (span.as_ns() / second) as i64, tv_nsec: (span.as_ns() % second) as i64 }
}
