//! A server that says exactly what a test wants, byte for byte, on threads of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::HANG;

/// The shortest answer that is whole and lets the connection live.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The server; it accepts no more when this is dropped.
pub(crate) struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    connections: AtomicU64,
    ended: AtomicU64,
    requests: Mutex<Vec<Vec<u8>>>,
}

impl Scripted {
    /// Has `script` talk to every connection to a free port of 127.0.0.1, each on its own thread.
    pub(crate) fn start(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a free port"), None, script)
    }

    /// As [`Scripted::start`], inside TLS.
    pub(crate) fn tls(config: ServerConfig, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::on(listener, Some(Arc::new(config)), script)
    }

    /// Answers every request with `answer`.
    pub(crate) fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |peer| {
            while peer.request().is_some() {
                peer.send(answer);
            }
        })
    }

    /// Reads everything and never says anything.
    pub(crate) fn silent() -> Self {
        Self::start(|peer| while peer.request().is_some() {})
    }

    /// As [`Scripted::start`], on `listener`.
    pub(crate) fn on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared::default());
        let (script, inside) = (Arc::new(script), Arc::clone(&shared));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if inside.stop.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                inside.connections.fetch_add(1, Ordering::AcqRel);
                let (script, shared, tls) = (Arc::clone(&script), Arc::clone(&inside), tls.clone());
                std::thread::spawn(move || {
                    let mut peer = Peer::new(stream, tls, Arc::clone(&shared));
                    script(&mut peer);
                    drop(peer);
                    shared.ended.fetch_add(1, Ordering::AcqRel);
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL with `path`, which begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Connections of those that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// Every request read so far, head and body, in the order in which they were whole.
    pub(crate) fn requests(&self) -> Vec<Vec<u8>> {
        self.shared.requests.lock().expect("no thread panics with it").clone()
    }

    /// The number of those.
    pub(crate) fn request_count(&self) -> u64 {
        self.shared.requests.lock().expect("no thread panics with it").len() as u64
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// One connection, seen from the server.
pub(crate) struct Peer {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    /// Requests read from this connection.
    pub(crate) read: u64,
    ahead: Vec<u8>,
    shared: Arc<Shared>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Peer {
    fn new(socket: TcpStream, tls: Option<Arc<ServerConfig>>, shared: Arc<Shared>) -> Self {
        socket.set_read_timeout(Some(HANG)).expect("above zero");
        socket.set_nodelay(true).expect("a TCP socket");
        let inner = socket.try_clone().expect("a descriptor");
        let stream: Box<dyn Stream> = match tls {
            Some(config) => {
                let session = ServerConnection::new(config).expect("a sound configuration");
                Box::new(StreamOwned::new(session, inner))
            }
            None => Box::new(inner),
        };
        Self { stream, socket, read: 0, ahead: Vec::new(), shared }
    }

    /// Reads a whole request; `None` when the client has gone.
    pub(crate) fn request(&mut self) -> Option<Vec<u8>> {
        let head = self.head()?;
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = text.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.map_or(0, |length| length.trim().parse().expect("a number"));
        self.fill(head.len() + length)?;
        let request: Vec<u8> = self.ahead.drain(..head.len() + length).collect();
        self.read += 1;
        self.shared.requests.lock().expect("no thread panics with it").push(request.clone());
        Some(request)
    }

    /// Reads up to the end of a head and leaves it where it is; `None` when the client has gone.
    pub(crate) fn head(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                return Some(self.ahead[..end + 4].to_vec());
            }
            self.fill(self.ahead.len() + 1)?;
        }
    }

    /// Reads what comes first, whatever it is; `None` when the client has gone.
    pub(crate) fn first_bytes(&mut self) -> Option<()> {
        self.fill(self.ahead.len() + 1)
    }

    /// Reads so many bytes; `None` when the client has gone before.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        self.fill(bytes)?;
        Some(self.ahead.drain(..bytes).collect())
    }

    /// Reads, and does nothing with it, until the client has gone.
    pub(crate) fn wait_for_the_end(&mut self) {
        while self.fill(self.ahead.len() + 1).is_some() {
            self.ahead.clear();
        }
    }

    /// Sends `bytes`. That the client has gone shows on the next read.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// Says that nothing follows, and waits for the client to go.
    pub(crate) fn close(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        self.wait_for_the_end();
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(&mut self) {
        sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).expect("a TCP socket");
        // The reset goes out when the last descriptor is closed, which ours are when the script ends.
    }

    fn fill(&mut self, bytes: usize) -> Option<()> {
        let mut part = [0; 16 * 1024];
        while self.ahead.len() < bytes {
            match self.stream.read(&mut part) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.ahead.extend_from_slice(&part[..count]),
            }
        }
        Some(())
    }
}

/// A listening socket that takes a number of connections into its queue, and answers no further SYN.
pub(crate) struct BlackHole {
    /// Open as long as this is.
    _listener: OwnedFd,
    address: SocketAddr,
    filling: Vec<TcpStream>,
}

impl BlackHole {
    /// One at `address` that lets `room` connections (at least one) be established, and nobody
    /// accepts them.
    pub(crate) fn with_room(address: SocketAddr, room: i32) -> Self {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&listener, &address).expect("a free address");
        // The kernel takes one more than it is told.
        listen(&listener, room - 1).expect("a bound socket");
        let address = TcpListener::from(listener.as_fd().try_clone_to_owned().expect("a descriptor"))
            .local_addr()
            .expect("a bound socket");
        Self { _listener: listener, address, filling: Vec::new() }
    }

    /// One on a free port of 127.0.0.1 that answers no SYN at all.
    pub(crate) fn full() -> Self {
        Self::full_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// One at `address` that answers no SYN at all.
    pub(crate) fn full_at(address: SocketAddr) -> Self {
        let mut this = Self::with_room(address, 1);
        // Full when a connection is not taken at once; loopback needs microseconds.
        while let Ok(stream) = TcpStream::connect_timeout(&this.address, Duration::from_millis(200)) {
            this.filling.push(stream);
        }
        this
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
