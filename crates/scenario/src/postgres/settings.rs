//! The settings of a PostgreSQL connection and where each comes from: the URL, or else its `PG*` variable,
//! or else a default (PostgreSQL documentation, "Parameter Key Words", "Environment Variables" and "SSL
//! Support").

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use plimsoll_core::plan::ChannelBinding;
use plimsoll_core::time::Span;

use super::connection::{after_scheme, parts, several_hosts, shown};
use super::password::{Wanted, find};
use crate::args::RunArgs;
use crate::environment::{Environment, SOCKET_DIRECTORIES};
use crate::fault::{Check, LONGEST};
use crate::url::{Host, Refusal, parse_port};

/// The port of a server that says nothing else.
pub(super) const DEFAULT_PORT: u16 = 5432;

/// The keywords that mean something here, and their environment variables.
const KEYWORDS: [(&str, &str); 15] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("application_name", "PGAPPNAME"),
    ("fallback_application_name", ""),
    ("options", "PGOPTIONS"),
];

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host(Host),
    /// A socket, and the directory it is in.
    Socket {
        path: PathBuf,
        directory: String,
    },
}

/// `sslmode`, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TlsMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

const TLS_MODES: [(&str, TlsMode); 5] = [
    ("disable", TlsMode::Disable),
    ("prefer", TlsMode::Prefer),
    ("require", TlsMode::Require),
    ("verify-ca", TlsMode::VerifyCa),
    ("verify-full", TlsMode::VerifyFull),
];

/// `sslrootcert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RootsNamed {
    /// The roots this machine trusts.
    System,
    /// Those in a file.
    File {
        path: String,
        /// The URL names it, not the environment.
        by_url: bool,
    },
}

/// Everything the URL and its surroundings say.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) place: Place,
    /// The address that stands in for what the machine would say of the host.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<Vec<u8>>,
    pub(super) database: String,
    pub(super) tls_mode: TlsMode,
    pub(super) roots: Option<RootsNamed>,
    pub(super) channel_binding: ChannelBinding,
    pub(super) application_name: String,
    pub(super) options: Option<String>,
    pub(super) connect_timeout: Option<Span>,
}

/// Without the password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("place", &self.place)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// The values that were given.
struct Given<'a> {
    url: Vec<(String, String)>,
    environment: &'a Environment,
}

/// A value, and what to call it in a message: `sslmode=x` or `PGSSLMODE=x`.
struct Found {
    value: String,
    label: String,
    by_url: bool,
}

impl Given<'_> {
    fn find(&self, keyword: &str) -> Option<Found> {
        if let Some((_, value)) = self.url.iter().rev().find(|(other, _)| other == keyword) {
            return Some(Found { value: value.clone(), label: format!("{keyword}={value}"), by_url: true });
        }
        let (_, variable) = KEYWORDS.iter().find(|(other, _)| *other == keyword)?;
        let value = self.environment.variable(variable)?;
        Some(Found { value: value.to_owned(), label: format!("{variable}={value}"), by_url: false })
    }

    fn value(&self, keyword: &str) -> Option<String> {
        self.find(keyword).map(|found| found.value)
    }

    /// Reads the value of `keyword`; a fault where `read` refuses it.
    fn read<T>(
        &self,
        keyword: &str,
        check: &mut Check,
        read: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<T> {
        let found = self.find(keyword)?;
        read(&found.value).map_err(|refusal| check.fault(found.label, refusal.reason, refusal.remedy)).ok()
    }

    /// Says which keywords mean nothing here.
    fn refuse_unknown(&self, check: &mut Check) {
        let service = self.environment.variable("PGSERVICE").map(|_| "PGSERVICE");
        let service =
            service.or(self.url.iter().any(|(keyword, _)| keyword == "service").then_some("service"));
        if let Some(label) = service {
            check.fault(
                label,
                "service files are not read",
                "write host, port, dbname and user into the URL, and leave it out",
            );
        }
        let known =
            |keyword: &str| keyword == "service" || KEYWORDS.iter().any(|(other, _)| *other == keyword);
        for (keyword, _) in self.url.iter().filter(|(keyword, _)| !known(keyword)) {
            let all: Vec<&str> = KEYWORDS.iter().map(|(keyword, _)| *keyword).collect();
            // Its value is not shown: it may be a password under a misspelt keyword.
            check.fault(
                format!("{keyword}=…"),
                "is not a connection parameter known here",
                format!("give one of {}", all.join(", ")),
            );
        }
    }
}

impl Settings {
    /// Reads the settings of the URL that goes on with `rest` after its scheme; `None` where there is no
    /// saying where to connect.
    pub(super) fn read(
        rest: &str,
        args: &RunArgs,
        environment: &Environment,
        check: &mut Check,
    ) -> Option<Self> {
        let url = parts(rest)
            .map_err(|refusal| check.fault(format!("'{}'", shown(rest)), refusal.reason, refusal.remedy))
            .ok()?;
        let given = Given { url, environment };
        given.refuse_unknown(check);
        let port = given.read("port", check, |text| match text.contains(',') {
            true => Err(several_hosts()),
            false => parse_port(text),
        });
        let port = port.unwrap_or(DEFAULT_PORT);
        let address = given.read("hostaddr", check, |text| match text.parse::<IpAddr>() {
            Ok(address) => Ok(address),
            Err(_) if text.contains(',') => Err(several_hosts()),
            Err(_) => Err(Refusal::new("is not an address", "give an IPv4 or IPv6 address, or host=NAME")),
        });
        let place = place(&given, args, address, port, check)?;
        let user = given.value("user").or_else(|| environment.user.clone()).unwrap_or_else(|| {
            check.fault(
                "user",
                "is not given, and this system has no name for you",
                "write postgres://USER@HOST/",
            );
            String::new()
        });
        let database = given.value("dbname").unwrap_or_else(|| user.clone());
        let password = given.value("password").or_else(|| {
            let host = given.value("host").or_else(|| address.map(|address| address.to_string()));
            let host = match &place {
                Place::Socket { directory, .. } if SOCKET_DIRECTORIES.contains(&directory.as_str()) => None,
                Place::Socket { directory, .. } => Some(directory.clone()),
                Place::Host(_) => host,
            };
            let host = host.as_deref().unwrap_or("localhost");
            let port = port.to_string();
            find(
                environment.password_file.as_deref()?,
                Wanted { host, port: &port, database: &database, user: &user },
            )
        });
        let roots = given.find("sslrootcert").map(|found| match found.value.as_str() {
            "system" => RootsNamed::System,
            path => RootsNamed::File { path: path.to_owned(), by_url: found.by_url },
        });
        let tls_mode = tls_mode(&given, roots.as_ref(), check);
        given.read("sslnegotiation", check, |text| match text {
            "postgres" => Ok(()),
            _ => Err(Refusal::new("is not supported", "give postgres, or leave it out")),
        });
        let channel_binding = given.read("channel_binding", check, channel_binding);
        let application_name = ["application_name", "fallback_application_name"];
        Some(Self {
            place,
            address,
            port,
            password: password.filter(|password| !password.is_empty()).map(String::into_bytes),
            user,
            database,
            tls_mode,
            roots,
            channel_binding: channel_binding.unwrap_or(ChannelBinding::Prefer),
            application_name: application_name
                .iter()
                .find_map(|keyword| given.value(keyword))
                .unwrap_or_else(|| "plimsoll".to_owned()),
            options: given.value("options"),
            connect_timeout: given.read("connect_timeout", check, connect_timeout),
        })
    }
}

/// Where the server is: `--unix-socket`, the host that was given, a socket that is there, or this machine.
fn place(
    given: &Given<'_>,
    args: &RunArgs,
    address: Option<IpAddr>,
    port: u16,
    check: &mut Check,
) -> Option<Place> {
    let in_directory = |directory: &str| {
        let directory = directory.strip_suffix('/').filter(|left| !left.is_empty()).unwrap_or(directory);
        let path = Path::new(directory).join(format!(".s.PGSQL.{port}"));
        Place::Socket { path, directory: directory.to_owned() }
    };
    if let Some(path) = &args.unix_socket {
        let is_socket = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".s.PGSQL."));
        let directory = path.parent().map(|parent| parent.to_string_lossy().into_owned());
        return Some(match directory.filter(|_| is_socket) {
            Some(directory) => Place::Socket { path: path.clone(), directory },
            None => in_directory(&path.to_string_lossy()),
        });
    }
    if let Some(found) = given.find("host") {
        if found.value.starts_with('/') && address.is_none() {
            return Some(in_directory(&found.value));
        }
        let host = match found.value.as_str() {
            several if several.contains(',') => Err(several_hosts()),
            address if address.contains(':') => Host::parse(&format!("[{address}]")),
            name => Host::parse(name),
        };
        return host
            .map(Place::Host)
            .map_err(|refusal| check.fault(found.label, refusal.reason, refusal.remedy))
            .ok();
    }
    let mut sockets = SOCKET_DIRECTORIES.iter().map(|directory| in_directory(directory));
    let exists = |place: &Place| match place {
        Place::Socket { path, .. } => given.environment.sockets.contains(path),
        Place::Host(_) => false,
    };
    let host = match address {
        Some(IpAddr::V6(address)) => format!("[{address}]"),
        Some(IpAddr::V4(address)) => address.to_string(),
        None => match sockets.find(exists) {
            Some(place) => return Some(place),
            None => "localhost".to_owned(),
        },
    };
    // An address, or the one name: both can be read.
    Host::parse(&host).map(Place::Host).ok()
}

fn tls_mode(given: &Given<'_>, roots: Option<&RootsNamed>, check: &mut Check) -> TlsMode {
    let mode = given.read("sslmode", check, |text| {
        let known = TLS_MODES.iter().find(|(name, _)| *name == text);
        let names = TLS_MODES.map(|(name, _)| name).join(", ");
        match known {
            // libpq: a public authority signs for anybody, so only the name tells servers apart.
            Some((_, mode)) if *mode < TlsMode::VerifyFull && roots == Some(&RootsNamed::System) => {
                Err(Refusal::new("is too weak for sslrootcert=system", "give verify-full"))
            }
            Some((_, mode)) => Ok(*mode),
            None if text == "allow" => Err(Refusal::new(
                "is not supported, since connections of one run could differ",
                format!("give one of {names}"),
            )),
            None => Err(Refusal::new("is not a TLS mode", format!("give one of {names}"))),
        }
    });
    let default = match roots {
        Some(RootsNamed::System) => TlsMode::VerifyFull,
        _ => TlsMode::Prefer,
    };
    mode.unwrap_or(default)
}

fn channel_binding(text: &str) -> Result<ChannelBinding, Refusal> {
    match text {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => Err(Refusal::new("is not a way of channel binding", "give disable, prefer or require")),
    }
}

/// Whole seconds; zero and less wait without a limit, as far as there is none.
fn connect_timeout(text: &str) -> Result<Span, Refusal> {
    let refusal = || Refusal::new("is not a number of whole seconds up to a year", "give one, such as 10");
    let seconds: i64 = text.trim().parse().map_err(|_| refusal())?;
    match u64::try_from(seconds) {
        Err(_) | Ok(0) => Ok(LONGEST),
        Ok(seconds) if seconds <= LONGEST_SECONDS => Ok(Span::from_secs(seconds)),
        Ok(_) => Err(refusal()),
    }
}

/// [`LONGEST`] in seconds.
const LONGEST_SECONDS: u64 = 365 * 86_400;

/// The file of root certificates that the run's URL or environment names, where they are looked at.
pub(crate) fn root_certificates_named(target: &str, environment: &Environment) -> Option<String> {
    let given = Given { url: parts(after_scheme(target)?).ok()?, environment };
    let unused = given.value("sslmode").is_none_or(|mode| mode == "disable" || mode == "prefer");
    given.value("sslrootcert").filter(|path| !unused && path != "system")
}

/// The password file of the run: `passfile`, `PGPASSFILE`, or `.pgpass` in the directory `home`.
pub(crate) fn password_file(target: &str, environment: &Environment, home: Option<&Path>) -> Option<PathBuf> {
    let given = Given { url: parts(after_scheme(target)?).ok()?, environment };
    given.value("passfile").map(PathBuf::from).or_else(|| Some(home?.join(".pgpass")))
}
