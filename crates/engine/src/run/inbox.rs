//! Commands to a worker, read between its turns.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use plimsoll_stats::Recorder;

/// The most commands that wait for a worker. One snapshot at a time, an end and two interrupts is all a run
/// ever has.
const MOST: usize = 4;

/// What a worker can be told.
#[derive(Debug)]
pub(super) enum Command {
    /// Hand over what was recorded, and go on with this empty recorder.
    Snapshot(Box<Recorder>),
    /// Let nothing more become due, and drain as planned.
    End,
    /// Let nothing more become due, and drain briefly.
    Stop,
    /// Wait for nothing more.
    Abort,
}

/// The overseer's end: sends commands and wakes the worker.
#[derive(Debug)]
pub(super) struct Post {
    commands: SyncSender<Command>,
    pending: Arc<AtomicBool>,
    bell: UnixStream,
}

/// The worker's end.
#[derive(Debug)]
pub(super) struct Inbox {
    commands: Receiver<Command>,
    pending: Arc<AtomicBool>,
    ear: UnixStream,
}

/// A channel; [`Inbox::ear`] becomes readable when it has something.
pub(super) fn channel() -> io::Result<(Post, Inbox)> {
    let (sender, commands) = sync_channel(MOST);
    let (bell, ear) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    ear.set_nonblocking(true)?;
    let pending = Arc::new(AtomicBool::new(false));
    let post = Post { commands: sender, pending: Arc::clone(&pending), bell };
    Ok((post, Inbox { commands, pending, ear }))
}

impl Post {
    /// Sends `command`; gives it back where the worker is gone or has too many waiting.
    pub(super) fn send(&self, command: Command) -> Result<(), Command> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(command) | TrySendError::Disconnected(command) => command,
        })?;
        self.pending.store(true, Ordering::Release);
        // A bell that is full of unheard rings wakes the worker with the first of them.
        let _ = (&self.bell).write(&[1]);
        Ok(())
    }
}

impl Inbox {
    /// Becomes readable with every command.
    pub(super) fn ear(&self) -> &UnixStream {
        &self.ear
    }

    /// The next command, where there is one. Costs one load where there is none.
    #[inline]
    pub(super) fn next(&self) -> Option<Command> {
        if !self.pending.load(Ordering::Acquire) {
            return None;
        }
        self.commands.try_recv().ok().or_else(|| {
            self.pending.store(false, Ordering::Release);
            // Emptied, so that there is always room for the ring that makes it readable anew.
            while (&self.ear).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            // One may have come between the look and the flag.
            self.commands.try_recv().ok()
        })
    }
}
