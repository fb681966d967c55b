//! From a plan's endpoint to the addresses that connections try.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use plimsoll_core::plan::{Endpoint, Family};

use crate::system::Address;

/// An endpoint without an address.
#[derive(Debug)]
pub enum ResolveError {
    /// The name could not be looked up.
    Lookup {
        /// The name.
        host: String,
        /// What the machine's resolver said.
        source: io::Error,
    },
    /// The name has addresses, but none of the family wanted.
    NoneOfFamily {
        /// The name.
        host: String,
        /// `-4` or `-6`.
        flag: &'static str,
    },
}

impl std::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lookup { host, source } => write!(
                f,
                "the name '{host}' cannot be resolved ({source}); check its spelling, or give its address with --resolve {host}:PORT:ADDRESS"
            ),
            Self::NoneOfFamily { host, flag } => {
                let family = if *flag == "-4" { "IPv4" } else { "IPv6" };
                write!(f, "'{host}' has no {family} address; leave out {flag}")
            }
        }
    }
}

impl std::error::Error for ResolveError {}

/// All addresses of an endpoint, each once: those the plan gives, else the machine's, in its order.
///
/// # Errors
/// When there is none.
pub fn resolve(endpoint: &Endpoint) -> Result<Vec<Address>, ResolveError> {
    let (host, port, family, given) = match endpoint {
        Endpoint::Unix(path) => return Ok(vec![Address::Unix(path.clone())]),
        Endpoint::Tcp { host, port, family, addresses } => (host, *port, *family, addresses),
    };
    let mut addresses: Vec<SocketAddr> = given.iter().map(|address| (*address, port).into()).collect();
    if addresses.is_empty() {
        let found = (host.as_str(), port).to_socket_addrs();
        let found = found.map_err(|source| ResolveError::Lookup { host: host.clone(), source })?;
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    let (keep, flag): (fn(&SocketAddr) -> bool, _) = match family {
        Family::Any => (|_| true, ""),
        Family::V4 => (SocketAddr::is_ipv4, "-4"),
        Family::V6 => (SocketAddr::is_ipv6, "-6"),
    };
    let any = !addresses.is_empty();
    addresses.retain(keep);
    match (addresses.is_empty(), any) {
        (false, _) => Ok(addresses.into_iter().map(Address::Tcp).collect()),
        (true, true) => Err(ResolveError::NoneOfFamily { host: host.clone(), flag }),
        (true, false) => {
            Err(ResolveError::Lookup { host: host.clone(), source: io::ErrorKind::NotFound.into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, family: Family) -> Result<Vec<Address>, ResolveError> {
        resolve(&Endpoint::Tcp { host: host.into(), port: 80, family, addresses: Vec::new() })
    }

    #[test]
    fn addresses_stand_for_themselves_and_families_are_kept() {
        assert_eq!(tcp("127.0.0.1", Family::Any).unwrap(), [Address::Tcp(([127, 0, 0, 1], 80).into())]);
        let error = tcp("127.0.0.1", Family::V6).unwrap_err().to_string();
        assert!(error.contains("no IPv6 address; leave out -6"), "{error}");
        let error = tcp("no such name", Family::Any).unwrap_err().to_string();
        assert!(
            error.contains("'no such name' cannot be resolved") && error.contains("--resolve"),
            "{error}"
        );
    }
}
