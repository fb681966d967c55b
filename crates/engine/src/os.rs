//! The real machine: monotonic clock, epoll or kqueue, TCP and Unix sockets with kernel receive
//! time stamps, and the wait strategies.

mod clock;
pub mod limits;
#[cfg(target_os = "linux")]
#[path = "os/epoll.rs"]
mod poller;
#[cfg(not(target_os = "linux"))]
#[path = "os/kqueue.rs"]
mod poller;
mod receive;
mod wait;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use plimsoll_core::Timestamp;
use plimsoll_core::plan::WaitStrategy;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};

pub use clock::{Clock, monotonic_ns, thread_cpu};
pub use poller::Poller;
pub use wait::Calibration;

use crate::system::{Address, Ready, Received, System, Usage};
use receive::WallClock;

/// A write on a broken connection is an error, not a signal. macOS has it as a mark of the socket.
#[cfg(target_os = "linux")]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: SendFlags = SendFlags::empty();

/// A connection.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    key: u64,
    /// A socket in the file system: without stamps, and told to be writable each time the peer reads.
    is_unix: bool,
}

/// The real machine, as one worker sees it.
#[derive(Debug)]
pub struct Os {
    clock: Clock,
    poller: Poller,
    waiter: wait::Waiter,
    /// The map from the kernel's stamps to the run's clock; `None` where stamps are not used.
    wall: Option<WallClock>,
    /// Reads without and with a stamp.
    reads: [u64; 2],
}

impl Os {
    /// The machine with its clock at zero now.
    ///
    /// `calibration` says how late this machine wakes from sleep; `stamps` whether the kernel's
    /// receive time stamps are wanted (they are used where there are any).
    ///
    /// # Errors
    /// When no poller can be made.
    pub fn new(strategy: WaitStrategy, calibration: Calibration, stamps: bool) -> io::Result<Self> {
        wait::sleep_exactly();
        Ok(Self {
            clock: Clock::new(monotonic_ns()),
            poller: Poller::new()?,
            waiter: wait::Waiter::new(strategy, calibration),
            wall: (stamps && receive::SUPPORTED).then(WallClock::new),
            reads: [0; 2],
        })
    }

    /// Puts the clock's zero at `origin_ns` of [`monotonic_ns`]: the run's common start.
    pub fn set_origin(&mut self, origin_ns: u64) {
        self.clock = Clock::new(origin_ns);
        if let Some(wall) = &mut self.wall {
            wall.restart();
        }
    }

    /// Wakes this worker's wait when `descriptor` can be read; it turns up as `key`.
    ///
    /// # Errors
    /// When the poller refuses it.
    pub fn watch(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        self.poller.add(descriptor, key)
    }
}

impl System for Os {
    type Socket = Socket;

    #[inline]
    fn now(&mut self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn wait(&mut self, due: Timestamp, timer: Timestamp) -> io::Result<()> {
        let now = self.clock.now();
        let mut timer = timer;
        if let Some(wall) = &mut self.wall {
            // However long the wait, the map is not older than its time when an answer ends it.
            timer = timer.min(wall.renew(now));
        }
        self.waiter.wait(&mut self.clock, &mut self.poller, now, due, timer)
    }

    #[inline]
    fn next_ready(&mut self) -> Option<Ready> {
        self.poller.next_ready()
    }

    fn connect(&mut self, address: &Address, key: u64) -> io::Result<Socket> {
        let family = match address {
            Address::Tcp(tcp) if tcp.is_ipv4() => AddressFamily::INET,
            Address::Tcp(_) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let descriptor = stream_socket(family)?;
        let is_unix = family == AddressFamily::UNIX;
        let begun = match address {
            Address::Tcp(tcp) => {
                set_tcp_nodelay(&descriptor, true)?;
                rustix::net::connect(&descriptor, tcp)
            }
            Address::Unix(path) => rustix::net::connect(&descriptor, &SocketAddrUnix::new(path)?),
        };
        match begun {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        if self.wall.is_some() && (is_unix || !receive::ask_for_stamps(&descriptor)) {
            self.wall = None;
        }
        // After connecting, so that the first edge tells the end of it and nothing before.
        self.poller.add(&descriptor, key)?;
        Ok(Socket { descriptor, key, is_unix })
    }

    fn connected(&mut self, socket: &Socket) -> io::Result<()> {
        socket_error(&socket.descriptor)??;
        // Each request would otherwise be followed by a wake-up of no use, when the server has read it.
        if socket.is_unix {
            self.poller.watch_writes(&socket.descriptor, socket.key, false)?;
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(&socket.descriptor, bytes, SEND_FLAGS) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                if socket.is_unix {
                    self.poller.watch_writes(&socket.descriptor, socket.key, true)?;
                }
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> io::Result<Received> {
        let socket = &socket.descriptor;
        match &self.wall {
            None => {
                let (bytes, _) = rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty())?;
                self.reads[0] += u64::from(bytes > 0);
                Ok(Received { bytes, stamp: None })
            }
            Some(wall) => {
                let (bytes, wall_ns) = receive::receive_stamped(socket, buffer)?;
                let stamp = wall_ns.and_then(|ns| self.clock.at_monotonic(wall.to_monotonic_ns(ns)));
                self.reads[usize::from(stamp.is_some())] += u64::from(bytes > 0);
                Ok(Received { bytes, stamp })
            }
        }
    }

    fn close(&mut self, socket: Socket) {
        self.poller.remove(&socket.descriptor);
        drop(socket);
    }

    fn has_stamps(&self) -> Option<bool> {
        let [without, with] = self.reads;
        (without + with > 0).then_some(without * 100 <= with)
    }

    fn usage(&self) -> Usage {
        Usage { cpu: thread_cpu(), spun: self.waiter.spun() }
    }
}

#[cfg(target_os = "linux")]
fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

#[cfg(not(target_os = "linux"))]
fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::empty(), None)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::net::sockopt::set_socket_nosigpipe(&socket, true)?;
    Ok(socket)
}
