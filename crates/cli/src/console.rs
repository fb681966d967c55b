//! Standard output and standard error.

use std::io::{self, Write};

use crate::exit::Exit;

/// Writes a result to standard output. A reader that has gone (`| head`) is no error.
///
/// # Errors
/// When standard output takes no more for another reason, such as a full disk.
pub(crate) fn result(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a result to standard output; how that went is how the command ends.
pub(crate) fn last_result(bytes: &[u8]) -> Exit {
    match result(bytes) {
        Ok(()) => Exit::Measured,
        Err(reason) => {
            error(&format!("standard output cannot be written: {reason}"));
            Exit::OutputLost
        }
    }
}

/// Tells of a fault.
pub(crate) fn error(text: &str) {
    line(&format!("error: {text}"));
}

/// Tells of something that is not wrong but matters.
pub(crate) fn warning(text: &str) {
    line(&format!("warning: {text}"));
}

/// Writes a line to standard error. Where that is closed there is nobody to tell.
pub(crate) fn line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
