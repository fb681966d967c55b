//! Where messages begin and end. Bodies that nobody reads are skipped where they lie.

use postgres_protocol::message::backend::Header;

/// The most bytes of a message's body that are kept. Errors may be longer: what comes behind is of no use.
pub const MAX_KEPT_BYTES: usize = 8 * 1024;

/// A tag and a length.
pub(super) const HEADER_BYTES: usize = 5;

/// The messages that may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// Those of logging in.
    Login,
    /// Those that follow it.
    Exchange,
}

/// A whole message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) tag: u8,
    /// Empty where nobody reads it.
    pub(super) body: &'a [u8],
}

/// The stream of messages.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The message under way; `None` between messages.
    current: Option<Current>,
    /// A header, or a body that is wanted, as far as it came in pieces.
    kept: Vec<u8>,
    /// What `kept` held was handed out.
    handed_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    tag: u8,
    /// Bytes of the body that have not come yet.
    left: usize,
    /// Of those, how many are kept.
    wanted: usize,
}

impl Frames {
    /// Takes bytes off the front of `rest` until a message is whole; `None` when all were taken.
    ///
    /// # Errors
    /// The name of a fault, when what comes is no message that may come now.
    #[inline]
    pub(super) fn next<'s, 'b: 's>(
        &'s mut self,
        rest: &mut &'b [u8],
        wants: Wants,
    ) -> Result<Option<Message<'s>>, &'static str> {
        if self.handed_out {
            self.kept.clear();
            self.handed_out = false;
        }
        let current = match self.current {
            Some(current) => current,
            None => match self.take_header(rest, wants)? {
                Some(current) => current,
                None => return Ok(None),
            },
        };
        let Current { tag, left, wanted } = current;
        if rest.len() >= left {
            let (body, after) = rest.split_at(left);
            *rest = after;
            self.current = None;
            let body = if self.kept.is_empty() {
                &body[..wanted]
            } else {
                self.kept.extend_from_slice(&body[..wanted]);
                self.handed_out = true;
                &self.kept
            };
            return Ok(Some(Message { tag, body }));
        }
        let kept = rest.len().min(wanted);
        self.kept.extend_from_slice(&rest[..kept]);
        self.current = Some(Current { tag, left: left - rest.len(), wanted: wanted - kept });
        *rest = &[];
        Ok(None)
    }

    /// Takes a header, or as much of it as there is.
    fn take_header(&mut self, rest: &mut &[u8], wants: Wants) -> Result<Option<Current>, &'static str> {
        let header = if self.kept.is_empty() && rest.len() >= HEADER_BYTES {
            let header = Header::parse(rest);
            *rest = &rest[HEADER_BYTES..];
            header
        } else {
            let taken = rest.len().min(HEADER_BYTES - self.kept.len());
            self.kept.extend_from_slice(&rest[..taken]);
            *rest = &rest[taken..];
            // The tag alone says whether this can be a message: what is none may have no length.
            if let Some(tag) = self.kept.first() {
                bytes_kept(*tag, wants)?;
            }
            let header = Header::parse(&self.kept);
            if self.kept.len() == HEADER_BYTES {
                self.kept.clear();
            }
            header
        };
        let header = header.map_err(|_| unfit(wants))?;
        let Some(header) = header else { return Ok(None) };
        let left = usize::try_from(header.len() - 4).map_err(|_| unfit(wants))?;
        let most = bytes_kept(header.tag(), wants)?;
        if left > most && wants == Wants::Login && header.tag() != b'E' && most > 0 {
            return Err(unfit(wants));
        }
        Ok(Some(Current { tag: header.tag(), left, wanted: left.min(most) }))
    }
}

/// How many bytes of the body of a message with this tag are of use.
fn bytes_kept(tag: u8, wants: Wants) -> Result<usize, &'static str> {
    match (tag, wants) {
        // Error, ready for a query.
        (b'E' | b'Z', _) => Ok(MAX_KEPT_BYTES),
        // Notice, setting, notification.
        (b'N' | b'S' | b'A', _) => Ok(0),
        // Authentication, key for cancelling.
        (b'R' | b'K', Wants::Login) => Ok(MAX_KEPT_BYTES),
        // Parsed, bound, closed, row, command complete, empty query, row description, no data, parameter
        // description, portal suspended, the messages of COPY.
        (
            b'1' | b'2' | b'3' | b'D' | b'C' | b'I' | b'T' | b'n' | b't' | b's' | b'd' | b'c' | b'G' | b'H'
            | b'W',
            Wants::Exchange,
        ) => Ok(0),
        _ => Err(unfit(wants)),
    }
}

/// What it is called when something else comes.
fn unfit(wants: Wants) -> &'static str {
    match wants {
        Wants::Login => "not_postgres",
        Wants::Exchange => "bad_message",
    }
}
