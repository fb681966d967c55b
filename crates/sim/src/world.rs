//! The simulated machine and network: one clock, a heap of events, connections, a server.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::rc::Rc;

use plimsoll_core::{Span, Timestamp};
use plimsoll_engine::system::{Address, Ready, Received, System, Usage};

use crate::server::{Acceptance, Deed, Net, Server};
use crate::wire::Wire;

/// The world all workers of a simulation live in.
#[derive(Clone)]
pub struct World(Rc<RefCell<Inner>>);

struct Inner {
    now: Timestamp,
    events: BinaryHeap<Reverse<(Timestamp, u64)>>,
    /// Payloads by event number.
    payloads: std::collections::HashMap<u64, Event>,
    next_event: u64,
    connections: Vec<Connection>,
    /// By worker; nobody wakes a worker that has left.
    ready: Vec<VecDeque<Ready>>,
    left: Vec<bool>,
    addresses: Vec<Address>,
    server: Box<dyn Server>,
    wire: Wire,
    net: Net,
    requests: u64,
    /// False while connections are opened before the run.
    started: bool,
}

struct Connection {
    worker: usize,
    key: u64,
    state: State,
    /// What has reached the client and was not read: arrival and bytes.
    inbox: VecDeque<(Timestamp, Vec<u8>)>,
    ended: Option<End>,
    /// What the server has got of a request that is not whole.
    request: Vec<u8>,
    server_open: bool,
    client_open: bool,
    /// Bytes the client may write before it must wait.
    writable: usize,
    /// When the last piece of the server's bytes arrives: pieces keep their order.
    last_arrival: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

enum Event {
    Connected { connection: usize, accepted: bool },
    ToServer { connection: usize, bytes: Vec<u8> },
    ToClient { connection: usize, bytes: Vec<u8> },
    EndToClient { connection: usize, end: End },
    ClientClosed { connection: usize },
    Writable { connection: usize },
    Server(Deed),
}

impl World {
    /// A world at time zero with one server behind `addresses` addresses.
    pub fn new(server: Box<dyn Server>, wire: Wire, addresses: usize) -> Self {
        let address = |i: usize| Address::Tcp(([10, 0, 0, i as u8 + 1], 80).into());
        Self(Rc::new(RefCell::new(Inner {
            now: Timestamp::ZERO,
            events: BinaryHeap::new(),
            payloads: std::collections::HashMap::new(),
            next_event: 0,
            connections: Vec::new(),
            ready: Vec::new(),
            left: Vec::new(),
            addresses: (0..addresses).map(address).collect(),
            server,
            wire,
            net: Net::default(),
            requests: 0,
            started: false,
        })))
    }

    /// The machine of one more worker.
    pub fn machine(&self) -> SimSystem {
        let mut inner = self.0.borrow_mut();
        inner.ready.push(VecDeque::new());
        inner.left.push(false);
        SimSystem { world: self.clone(), worker: inner.ready.len() - 1, worked: Span::ZERO }
    }

    /// The server's addresses.
    pub fn addresses(&self) -> Vec<Address> {
        self.0.borrow().addresses.clone()
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        self.0.borrow().now
    }

    /// How many whole requests have reached the server.
    pub fn requests(&self) -> u64 {
        self.0.borrow().requests
    }

    /// How many connections were ever begun.
    pub fn connections(&self) -> usize {
        self.0.borrow().connections.len()
    }

    /// How many sockets the client has, those included that are being connected.
    pub fn sockets(&self) -> usize {
        self.0.borrow().connections.iter().filter(|c| c.client_open).count()
    }

    /// How many connections the client has open.
    pub fn open_connections(&self) -> usize {
        self.0.borrow().connections.iter().filter(|c| c.client_open && c.state == State::Open).count()
    }

    /// Starts the run's clock: the present becomes time zero, and what is on its way stays so.
    pub fn start(&self) {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        let origin = inner.now;
        let moved = |at: Timestamp| Timestamp::ZERO + at.since_or_zero(origin);
        inner.events =
            inner.events.drain().map(|Reverse((at, number))| Reverse((moved(at), number))).collect();
        for c in &mut inner.connections {
            c.last_arrival = moved(c.last_arrival);
            c.inbox.iter_mut().for_each(|(at, _)| *at = moved(*at));
        }
        (inner.now, inner.started) = (Timestamp::ZERO, true);
    }

    /// A worker has finished: what its sockets would tell, nobody hears.
    pub fn leave(&self, worker: usize) {
        let mut inner = self.0.borrow_mut();
        inner.left[worker] = true;
        inner.ready[worker].clear();
    }

    /// Lets everything arrive that is on its way when the workers are gone.
    pub fn settle(&self) {
        let mut inner = self.0.borrow_mut();
        let end = inner.now + inner.wire.delay;
        inner.happen_until(end);
    }

    /// Lets events happen until a socket of some worker is ready or `until` has come.
    ///
    /// # Panics
    /// When nothing will ever happen: `until` is [`Timestamp::MAX`] and there is no event.
    pub fn advance(&self, until: Timestamp) {
        self.advance_while(until, |ready| ready.iter().all(VecDeque::is_empty));
    }

    fn advance_while(&self, until: Timestamp, calm: impl Fn(&[VecDeque<Ready>]) -> bool) {
        let mut inner = self.0.borrow_mut();
        while calm(&inner.ready) {
            match inner.events.peek() {
                Some(Reverse((at, _))) if *at <= until => inner.happen(),
                _ => {
                    assert!(until != Timestamp::MAX, "nothing will ever happen in this world");
                    inner.now = inner.now.max(until);
                    break;
                }
            }
        }
        // Whoever wakes finds all that has happened by then, a peer's last bytes and its end at once.
        let now = inner.now;
        inner.happen_until(now);
        let late = inner.wire.late_wakes.iter().position(|(at, _)| *at <= now);
        if let Some(place) = late.filter(|_| inner.started) {
            let (_, late) = inner.wire.late_wakes.remove(place);
            inner.happen_until(now + late);
        }
    }

    /// True when a socket of this worker is ready.
    pub fn has_ready(&self, worker: usize) -> bool {
        !self.0.borrow().ready[worker].is_empty()
    }
}

impl Inner {
    fn schedule(&mut self, at: Timestamp, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.payloads.insert(number, event);
        self.events.push(Reverse((at.max(self.now), number)));
    }

    fn after_delay(&mut self, event: Event) {
        self.schedule(self.now + self.wire.delay, event);
    }

    /// The world goes on until `end`, whoever is ready.
    fn happen_until(&mut self, end: Timestamp) {
        while self.events.peek().is_some_and(|Reverse((at, _))| *at <= end) {
            self.happen();
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self) {
        let Some(Reverse((at, number))) = self.events.pop() else { return };
        let Some(event) = self.payloads.remove(&number) else { return };
        self.now = self.now.max(at);
        match event {
            Event::Connected { connection, accepted } => {
                let c = &mut self.connections[connection];
                c.state = if accepted { State::Open } else { State::Refused };
                c.server_open = accepted;
                self.tell(connection, |ready| {
                    ready.writable = true;
                    ready.hang_up |= !accepted;
                });
                if accepted {
                    self.server.accepted(self.now, connection, &mut self.net);
                    self.do_deeds();
                }
            }
            Event::ToServer { connection, bytes } => self.reach_server(connection, &bytes),
            Event::ToClient { connection, bytes } => {
                if self.connections[connection].ended != Some(End::Reset) {
                    self.connections[connection].inbox.push_back((self.now, bytes));
                    self.tell(connection, |ready| ready.readable = true);
                }
            }
            Event::EndToClient { connection, end } => {
                let c = &mut self.connections[connection];
                c.ended = Some(end);
                if end == End::Reset {
                    c.inbox.clear();
                }
                self.tell(connection, |ready| {
                    ready.readable = true;
                    ready.hang_up = true;
                });
            }
            Event::ClientClosed { connection } => {
                if self.connections[connection].server_open {
                    self.connections[connection].server_open = false;
                    self.server.closed(self.now, connection);
                }
            }
            Event::Writable { connection } => {
                self.connections[connection].writable = self.wire.write_bytes;
                self.tell(connection, |ready| ready.writable = true);
            }
            Event::Server(Deed::Wake { tag }) => {
                self.server.wake(self.now, tag, &mut self.net);
                self.do_deeds();
            }
            Event::Server(deed) => self.do_deed(deed),
        }
    }

    fn reach_server(&mut self, connection: usize, bytes: &[u8]) {
        if !self.connections[connection].server_open {
            // Nobody listens there any more: the peer's kernel answers with a reset.
            self.after_delay(Event::EndToClient { connection, end: End::Reset });
            return;
        }
        self.connections[connection].request.extend_from_slice(bytes);
        while let Some(end) =
            self.connections[connection].request.windows(4).position(|four| four == b"\r\n\r\n")
        {
            let request: Vec<u8> = self.connections[connection].request.drain(..end + 4).collect();
            self.requests += 1;
            self.server.request(self.now, connection, &request, &mut self.net);
            self.do_deeds();
        }
        let left = self.connections[connection].request.len();
        if left > 0 && self.connections[connection].server_open {
            self.server.part(self.now, connection, left, &mut self.net);
            self.do_deeds();
        }
    }

    fn do_deeds(&mut self) {
        for (at, deed) in std::mem::take(&mut self.net.actions) {
            self.schedule(at, Event::Server(deed));
        }
    }

    fn do_deed(&mut self, deed: Deed) {
        match deed {
            Deed::Send { connection, bytes } => {
                let (piece, pause) = (self.wire.read_bytes, self.wire.read_pause);
                let mut at = (self.now + self.wire.delay).max(self.connections[connection].last_arrival);
                for (i, bytes) in bytes.chunks(piece.min(bytes.len().max(1))).enumerate() {
                    if i > 0 {
                        at = at + pause;
                    }
                    self.schedule(at, Event::ToClient { connection, bytes: bytes.to_vec() });
                }
                self.connections[connection].last_arrival = at;
            }
            Deed::Close { connection } => {
                self.connections[connection].server_open = false;
                let at = (self.now + self.wire.delay).max(self.connections[connection].last_arrival);
                self.schedule(at, Event::EndToClient { connection, end: End::Closed });
            }
            Deed::Reset { connection } => {
                self.connections[connection].server_open = false;
                let at = (self.now + self.wire.delay).max(self.connections[connection].last_arrival);
                self.schedule(at, Event::EndToClient { connection, end: End::Reset });
            }
            Deed::Wake { .. } => unreachable!("wakes are handled where they happen"),
        }
    }

    /// Makes a connection ready, in one entry however much there is to tell, as epoll does.
    fn tell(&mut self, connection: usize, change: impl FnOnce(&mut Ready)) {
        let c = &self.connections[connection];
        if !c.client_open || self.left[c.worker] {
            return;
        }
        let queue = &mut self.ready[c.worker];
        let place = queue.iter().position(|ready| ready.key == c.key).unwrap_or_else(|| {
            queue.push_back(Ready { key: c.key, readable: false, writable: false, hang_up: false });
            queue.len() - 1
        });
        change(&mut queue[place]);
    }
}

/// One worker's view of the world.
pub struct SimSystem {
    world: World,
    worker: usize,
    /// What readings of the clock took: all the work there is here.
    worked: Span,
}

impl System for SimSystem {
    type Socket = usize;

    fn now(&mut self) -> Timestamp {
        let mut inner = self.world.0.borrow_mut();
        if !inner.wire.reading.is_zero() {
            self.worked += inner.wire.reading;
            let end = inner.now + inner.wire.reading;
            inner.happen_until(end);
        }
        inner.now
    }

    fn wait(&mut self, due: Timestamp, timer: Timestamp) -> io::Result<()> {
        self.world.advance_while(due.min(timer), |ready| ready[self.worker].is_empty());
        Ok(())
    }

    fn next_ready(&mut self) -> Option<Ready> {
        self.world.0.borrow_mut().ready[self.worker].pop_front()
    }

    fn connect(&mut self, address: &Address, key: u64) -> io::Result<usize> {
        let mut inner = self.world.0.borrow_mut();
        let inner = &mut *inner;
        let connection = inner.connections.len();
        inner.connections.push(Connection {
            worker: self.worker,
            key,
            state: State::Connecting,
            inbox: VecDeque::new(),
            ended: None,
            request: Vec::new(),
            server_open: false,
            client_open: true,
            writable: inner.wire.write_bytes,
            last_arrival: Timestamp::ZERO,
        });
        let number = inner.addresses.iter().position(|known| known == address).unwrap_or(0);
        let acceptance = inner.server.connect(inner.now, connection, number);
        if acceptance != Acceptance::Ignore {
            let mut at = inner.now + inner.wire.delay + inner.wire.delay;
            if let Acceptance::Later(span) = acceptance {
                at = at + span;
            }
            inner.schedule(at, Event::Connected { connection, accepted: acceptance != Acceptance::Refuse });
        }
        Ok(connection)
    }

    fn connected(&mut self, socket: &usize) -> io::Result<()> {
        match self.world.0.borrow().connections[*socket].state {
            State::Open => Ok(()),
            State::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            State::Connecting => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn send(&mut self, socket: &mut usize, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.world.0.borrow_mut();
        let c = &mut inner.connections[*socket];
        if c.ended == Some(End::Reset) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if c.writable == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(c.writable);
        if c.writable != usize::MAX {
            c.writable -= count;
            if c.writable == 0 {
                let at = inner.now + inner.wire.write_pause;
                inner.schedule(at, Event::Writable { connection: *socket });
            }
        }
        inner.after_delay(Event::ToServer { connection: *socket, bytes: bytes[..count].to_vec() });
        Ok(count)
    }

    fn receive(&mut self, socket: &mut usize, buffer: &mut [u8]) -> io::Result<Received> {
        let mut inner = self.world.0.borrow_mut();
        let stamps = inner.wire.stamps;
        let c = &mut inner.connections[*socket];
        let (mut bytes, mut stamp) = (0, None);
        while bytes < buffer.len() {
            let Some((at, piece)) = c.inbox.front_mut() else { break };
            let count = piece.len().min(buffer.len() - bytes);
            buffer[bytes..bytes + count].copy_from_slice(&piece[..count]);
            (bytes, stamp) = (bytes + count, stamps.then_some(*at));
            piece.drain(..count);
            if piece.is_empty() {
                c.inbox.pop_front();
            }
        }
        match (bytes, c.ended) {
            (0, None) => Err(io::ErrorKind::WouldBlock.into()),
            (0, Some(End::Reset)) => Err(io::ErrorKind::ConnectionReset.into()),
            _ => Ok(Received { bytes, stamp }),
        }
    }

    fn close(&mut self, socket: usize) {
        let mut inner = self.world.0.borrow_mut();
        inner.connections[socket].client_open = false;
        inner.connections[socket].inbox.clear();
        let (worker, key) = (inner.connections[socket].worker, inner.connections[socket].key);
        inner.ready[worker].retain(|ready| ready.key != key);
        inner.after_delay(Event::ClientClosed { connection: socket });
    }

    fn has_stamps(&self) -> Option<bool> {
        Some(self.world.0.borrow().wire.stamps)
    }

    fn usage(&self) -> Usage {
        Usage { cpu: self.worked, spun: Span::ZERO }
    }
}
