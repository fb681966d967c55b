//! Where results go: flags, and files that are open before anything is sent.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};

use crate::Refusal;
use crate::console;
use crate::exit::Exit;
use crate::placed::{attach, placed};

/// Output flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    #[command(flatten)]
    files: Files,
    /// Print the result as JSON on standard output, in place of text
    #[arg(long)]
    json: bool,
    /// Print no text report and no progress
    ///
    /// Warnings and errors still go to standard error, --json still to standard output, -o to its file.
    #[arg(short, long)]
    quiet: bool,
    /// Show no live progress
    ///
    /// Progress goes to standard error, and only when that is a terminal.
    #[arg(long)]
    no_progress: bool,
}

/// A form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Text,
    /// JSON for programs
    Json,
}

/// Outputs, open.
#[derive(Debug)]
pub(crate) struct Output {
    /// What goes to standard output; `None` for nothing.
    pub(crate) stdout: Option<Format>,
    /// Files, in the order given.
    pub(crate) files: Vec<OpenFile>,
    /// Whether live progress may be shown; it is when standard error is a terminal.
    pub(crate) progress: bool,
}

/// A file that can be written to. What it held before is still there: only the result takes its place.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Its path, for messages.
    pub(crate) path: PathBuf,
    /// The form the result takes in it.
    pub(crate) format: Format,
    /// Itself.
    pub(crate) file: File,
}

impl OutputFlags {
    /// Opens every file, unless there are `faults` already: what will not take place leaves no files behind.
    ///
    /// # Errors
    /// All faults there are, those of files naming the path and the reason.
    pub(crate) fn open(&self, mut faults: Vec<String>) -> Result<Output, Refusal> {
        if !faults.is_empty() {
            return Err(faults.join("\n").into());
        }
        let stdout = match (self.json, self.quiet) {
            (true, _) => Some(Format::Json),
            (false, true) => None,
            (false, false) => Some(Format::Text),
        };
        let wanted = &self.files.0;
        for (i, file) in wanted.iter().enumerate() {
            if wanted[..i].iter().any(|before| before.path == file.path) {
                let path = file.path.display();
                faults.push(format!("-o {path}: is given twice, and the second result would replace the first; give another path"));
            }
        }
        let files = wanted.iter().filter_map(|file| file.open(&mut faults)).collect();
        if !faults.is_empty() {
            return Err(faults.join("\n").into());
        }
        Ok(Output { stdout, files, progress: !self.quiet && !self.no_progress })
    }
}

impl Output {
    /// Writes the result, which `render` gives in any form, everywhere it is wanted. What cannot be written to
    /// its file goes to standard output, so that nothing measured is lost.
    pub(crate) fn write(&mut self, render: &dyn Fn(Format) -> Vec<u8>) -> Exit {
        let mut exit = Exit::Measured;
        for file in &mut self.files {
            if let Err(error) = file.replace(&render(file.format)) {
                console::error(&format!(
                    "-o {}: cannot be written: {error}; the result follows on standard output",
                    file.path.display()
                ));
                exit = exit.min(Exit::OutputLost).min(console::last_result(&render(file.format)));
            }
        }
        if let Some(format) = self.stdout {
            exit = exit.min(console::last_result(&render(format)));
        }
        exit
    }
}

impl OpenFile {
    /// Puts `bytes` in the place of what the file held.
    ///
    /// # Errors
    /// As writing does.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A pipe or a device cannot be cut to a length, and holds nothing to be cut off.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(bytes)
    }
}

/// `-o FILE`, with the `--format` that follows it.
#[derive(Clone, Debug)]
struct Files(Vec<WantedFile>);

#[derive(Clone, Debug)]
struct WantedFile {
    path: PathBuf,
    format: Option<Format>,
}

impl WantedFile {
    fn open(&self, faults: &mut Vec<String>) -> Option<OpenFile> {
        let format = match self.format.map_or_else(|| format_by_ending(&self.path), Ok) {
            Ok(format) => format,
            Err(fault) => {
                faults.push(fault);
                return None;
            }
        };
        // Not truncated: should the run come to nothing, the last result is not lost with it.
        match File::options().write(true).create(true).truncate(false).open(&self.path) {
            Ok(file) => Some(OpenFile { path: self.path.clone(), format, file }),
            Err(error) => {
                faults.push(format!(
                    "-o {}: cannot be opened for writing: {error}; give a path that can be written to",
                    self.path.display()
                ));
                None
            }
        }
    }
}

fn format_by_ending(path: &Path) -> Result<Format, String> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("json") => Ok(Format::Json),
        Some(later @ ("csv" | "xml" | "html")) => Err(format!(
            "-o {}: results cannot be written as {later} yet; give --format text or --format json",
            path.display()
        )),
        _ => Ok(Format::Text),
    }
}

// By hand: which --format belongs to which -o is told by their places on the command line, of which
// derived code knows nothing.
impl Args for Files {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help("Write the result to FILE as well; may be given again")
            .long_help(
                "Write the result to FILE as well; may be given again\n\nFILE is opened before anything is sent, \
                 so that a path that cannot be written to costs no run. Its form is that of the --format that \
                 follows, or else goes by its ending: JSON for .json, text for others.",
            );
        let format = Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .action(ArgAction::Append)
            .value_parser(value_parser!(Format))
            .hide_possible_values(true)
            .help("The form of the -o before it: text or json");
        command.arg(file).arg(format)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Files {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut files: Vec<(usize, WantedFile)> = placed::<PathBuf>(matches, "output")
            .map(|(place, path)| (place, WantedFile { path, format: None }))
            .collect();
        attach(
            matches,
            "format",
            &mut files,
            |file| &mut file.format,
            "--format is given twice for one -o; keep one of them",
            "--format has no -o before it; write -o FILE --format FORMAT, or --json for standard output",
        )?;
        Ok(Self(files.into_iter().map(|(_, file)| file).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(arguments: &[&str]) -> Result<Vec<(String, Option<Format>)>, String> {
        let matches = Files::augment_args(Command::new("test").no_binary_name(true))
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        let files = Files::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(files.0.into_iter().map(|file| (file.path.display().to_string(), file.format)).collect())
    }

    #[test]
    fn a_format_belongs_to_the_file_before_it() {
        let arguments = ["-o", "a", "--format", "json", "-o", "b", "-o", "c", "--format=text"];
        let expected = [("a", Some(Format::Json)), ("b", None), ("c", Some(Format::Text))];
        assert_eq!(files(&arguments).unwrap(), expected.map(|(path, format)| (path.to_owned(), format)));
        assert!(files(&["--format", "json", "-o", "a"]).unwrap_err().contains("no -o before it"));
        assert!(files(&["-o", "a", "--format", "json", "--format", "text"]).unwrap_err().contains("twice"));
        assert!(files(&["-o", "a", "--format", "csv"]).unwrap_err().contains("text, json"));
    }

    #[test]
    fn without_a_format_the_ending_decides() {
        for (path, format) in [("a.json", Format::Json), ("a.JSON", Format::Json), ("a.txt", Format::Text)] {
            assert_eq!(format_by_ending(Path::new(path)), Ok(format), "{path}");
        }
        assert_eq!(format_by_ending(Path::new("/dev/stderr")), Ok(Format::Text));
        for later in ["a.csv", "a.html", "a.xml"] {
            assert!(format_by_ending(Path::new(later)).unwrap_err().contains("--format text"), "{later}");
        }
    }

    #[test]
    fn a_file_keeps_what_it_holds_until_the_result_and_a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old.json");
        std::fs::write(&path, "old").unwrap();
        let mut faults = Vec::new();
        let missing = directory.path().join("missing/new.json");
        let mut open = |path: &Path| WantedFile { path: path.to_owned(), format: None }.open(&mut faults);
        let mut file = open(&path).unwrap();
        assert!(open(&missing).is_none());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        file.replace(b"n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"n");
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("missing/new.json") && faults[0].contains("No such file"), "{faults:?}");
    }
}
