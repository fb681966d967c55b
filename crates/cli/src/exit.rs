//! What the exit code says.

use std::process::ExitCode;

/// How the command ended. In the order of precedence: where several apply, the least one is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// SIGINT came; what was measured until then is in the report, marked so.
    Interrupted,
    /// SIGTERM came; as above.
    Terminated,
    /// The command was wrong, and nothing was sent: a faulty flag or scenario, a name that cannot be
    /// resolved, an output that cannot be opened.
    Usage,
    /// No request was answered, so nothing could be measured.
    NothingMeasured,
    /// Measured, but an output could not be written; the report went to standard output instead.
    OutputLost,
    /// The measurement is invalid and `--slo` was given, or it is suspect and `--strict` was.
    Invalid,
    /// A gate failed.
    GateFailed,
    /// A gate could not be decided.
    GateUndecided,
    /// Measured, and every gate passed.
    Measured,
}

/// The exit codes for `--help` and the manual page.
pub(crate) const HELP: &str = "Exit codes, the first that applies:\n  \
    130, 143  interrupted; the report holds what was measured until then\n  \
    2         wrong usage, found before anything was sent\n  \
    4         no request was answered\n  \
    5         measured, but an output could not be written\n  \
    3         the measurement is invalid and --slo was given, or not valid and --strict\n  \
    1         a gate failed\n  \
    3         a gate could not be decided\n  \
    0         measured; every gate passed";

impl Exit {
    /// The code the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            // 128 + the signal's number, as shells do.
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Usage => 2,
            Self::NothingMeasured => 4,
            Self::OutputLost => 5,
            Self::Invalid | Self::GateUndecided => 3,
            Self::GateFailed => 1,
            Self::Measured => 0,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the order of the manual.
    const ALL: [Exit; 9] = [
        Exit::Interrupted,
        Exit::Terminated,
        Exit::Usage,
        Exit::NothingMeasured,
        Exit::OutputLost,
        Exit::Invalid,
        Exit::GateFailed,
        Exit::GateUndecided,
        Exit::Measured,
    ];

    #[test]
    fn the_first_that_applies_is_the_least() {
        assert!(ALL.is_sorted());
        assert_eq!(ALL.map(Exit::code), [130, 143, 2, 4, 5, 3, 1, 3, 0]);
        // An undecided gate hides behind a failed one, a failed one behind an invalid measurement.
        let applying = [Exit::Measured, Exit::GateUndecided, Exit::GateFailed];
        assert_eq!(applying.into_iter().min(), Some(Exit::GateFailed));
        assert_eq!(Exit::Invalid.min(Exit::GateFailed), Exit::Invalid);
    }

    #[test]
    fn the_help_names_every_code() {
        for exit in ALL {
            let code = exit.code().to_string();
            assert!(HELP.split([' ', ',', '\n']).any(|word| word == code), "{code}");
        }
    }
}
