//! The chunked coding (RFC 9112, section 7.1): counts the data and finds the end, keeps nothing.

/// Longest line with a chunk's size, in bytes, extensions included and its CRLF left out.
pub const MAX_CHUNK_LINE_BYTES: u32 = 4096;

/// Most bytes of trailer lines after the last chunk.
pub const MAX_TRAILER_BYTES: u32 = 64 * 1024;

/// Where in a chunked body we are.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// The size read so far; in the data, how much of it is still to come.
    size: u64,
    /// Bytes so far of the size's line, later of the trailers.
    line_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    /// After the size: space, extensions.
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a line after the last chunk.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { state: State::SizeStart, size: 0, line_bytes: 0 }
    }

    /// Takes bytes and adds those of the data to `body_bytes`: how many were taken once the body
    /// is whole, `None` when all were and more must come.
    pub(super) fn take(&mut self, bytes: &[u8], body_bytes: &mut u64) -> Result<Option<usize>, &'static str> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if let State::Data = self.state {
                let taken = (bytes.len() - at).min(usize::try_from(self.size).unwrap_or(usize::MAX));
                at += taken;
                *body_bytes += taken as u64;
                self.size -= taken as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            at += 1;
            if let State::EndLf = self.state {
                return if *byte == b'\n' { Ok(Some(at)) } else { Err("bad_trailer") };
            }
            self.state = self.after(*byte)?;
        }
        Ok(None)
    }

    /// The state that follows a byte of the framing.
    fn after(&mut self, byte: u8) -> Result<State, &'static str> {
        Ok(match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.count_line(MAX_CHUNK_LINE_BYTES, "chunk_line_too_long")?;
                if self.size >> 60 != 0 {
                    return Err("chunk_too_large");
                }
                // A letter's low four bits are 1 for 'a' and 'A'.
                let digit = if byte.is_ascii_digit() { byte - b'0' } else { (byte & 0x0f) + 9 };
                self.size = self.size << 4 | u64::from(digit);
                State::Size
            }
            (State::Size | State::Extension, b'\r') => State::SizeLf,
            (State::Size, b' ' | b'\t' | b';') => {
                self.count_line(MAX_CHUNK_LINE_BYTES, "chunk_line_too_long")?;
                State::Extension
            }
            // A quoted string may hold a semicolon but no line's end, so quotes need no care.
            (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_line(MAX_CHUNK_LINE_BYTES, "chunk_line_too_long")?;
                State::Extension
            }
            (State::SizeStart | State::Size | State::Extension, _) => return Err("bad_chunk_size"),
            (State::SizeLf, b'\n') => {
                self.line_bytes = 0;
                if self.size == 0 { State::TrailerStart } else { State::Data }
            }
            (State::SizeLf, _) => return Err("bad_chunk_size"),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::SizeStart,
            (State::DataCr | State::DataLf, _) => return Err("bad_chunk_end"),
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::TrailerName, b':') | (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_line(MAX_TRAILER_BYTES, "trailers_too_large")?;
                State::TrailerValue
            }
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::TrailerName, byte) if super::is_token_byte(byte) => {
                self.count_line(MAX_TRAILER_BYTES, "trailers_too_large")?;
                State::TrailerName
            }
            (State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf, _) => {
                return Err("bad_trailer");
            }
            (State::Data | State::EndLf, _) => unreachable!("`take` keeps these two to itself"),
        })
    }

    fn count_line(&mut self, limit: u32, fault: &'static str) -> Result<(), &'static str> {
        self.line_bytes += 1;
        if self.line_bytes > limit { Err(fault) } else { Ok(()) }
    }
}
