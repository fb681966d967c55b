//! Logging in: who comes, and the proof the server asks for.

use std::io;

use bytes::{BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::setup::{Binding, Setup};

/// A login under way.
///
/// The nonce of SCRAM is the one random number of this crate that has no seed: one that could be guessed
/// would be a hole, and no measured number depends on it.
#[derive(Default)]
pub(super) struct Login {
    /// There is TLS below, and this is what it gives to be tied to.
    tls: Option<Option<Vec<u8>>>,
    scram: Option<ScramSha256>,
    /// A password was sent, or the first part of SCRAM: it is asked for once.
    asked: bool,
    /// The login is tied to TLS.
    bound: bool,
    /// The server has proved that it knows the password too, or asked for none.
    proved: bool,
}

/// Appends the first message.
pub(super) fn startup(setup: &Setup, out: &mut BytesMut) -> io::Result<()> {
    let settings = setup.settings();
    let who = [("user", settings.user.as_str()), ("database", settings.database.as_str())];
    // Texts of SQL and values are UTF-8.
    let encoding = [("client_encoding", "UTF8")];
    let others = settings.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    frontend::startup_message(who.into_iter().chain(encoding).chain(others), out)
}

impl Login {
    /// A login over TLS with what it can be tied to, or without TLS.
    pub(super) fn new(tls: Option<Option<&[u8]>>) -> Self {
        Self { tls: tls.map(|binding| binding.map(<[u8]>::to_vec)), ..Self::default() }
    }

    /// Takes what the server says of authentication, `body` being the whole of it, and writes the answer.
    ///
    /// # Errors
    /// The name of a fault.
    pub(super) fn take(
        &mut self,
        body: &[u8],
        setup: &Setup,
        out: &mut BytesMut,
    ) -> Result<(), &'static str> {
        let settings = setup.settings();
        let password = || settings.password.as_deref().ok_or("password_missing");
        let unwritten = |_: io::Error| "zero_byte_in_login";
        let message = parse(b'R', body)?;
        let asks = matches!(
            message,
            Message::AuthenticationCleartextPassword
                | Message::AuthenticationMd5Password(_)
                | Message::AuthenticationSasl(_)
        );
        if asks && std::mem::replace(&mut self.asked, true) {
            return Err("bad_message");
        }
        match message {
            Message::AuthenticationOk => {
                if self.scram.is_some() && !self.proved {
                    return Err("server_unproved");
                }
                self.proved = true;
            }
            Message::AuthenticationCleartextPassword => {
                self.refuse_unbound(setup)?;
                frontend::password_message(password()?, out).map_err(unwritten)?;
            }
            Message::AuthenticationMd5Password(body) => {
                self.refuse_unbound(setup)?;
                let hash = md5_hash(settings.user.as_bytes(), password()?, body.salt());
                frontend::password_message(hash.as_bytes(), out).map_err(unwritten)?;
            }
            Message::AuthenticationSasl(body) => {
                let mut offered = (false, false);
                let mut mechanisms = body.mechanisms();
                while let Some(mechanism) = mechanisms.next().map_err(|_| "bad_message")? {
                    offered.0 |= mechanism == SCRAM_SHA_256;
                    offered.1 |= mechanism == SCRAM_SHA_256_PLUS;
                }
                let (mechanism, binding) = self.choose(offered, setup)?;
                let scram = ScramSha256::new(password()?, binding);
                frontend::sasl_initial_response(mechanism, scram.message(), out).map_err(unwritten)?;
                self.scram = Some(scram);
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or("bad_message")?;
                scram.update(body.data()).map_err(|_| "bad_scram")?;
                frontend::sasl_response(scram.message(), out).map_err(unwritten)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                let scram = self.scram.as_mut().ok_or("bad_message")?;
                scram.finish(body.data()).map_err(|_| "server_unproved")?;
                self.proved = true;
            }
            _ => return Err("unsupported_authentication"),
        }
        Ok(())
    }

    /// The login is over, and the server is ready.
    ///
    /// # Errors
    /// The name of a fault, where it has not shown what it had to.
    pub(super) fn finish(&self, setup: &Setup) -> Result<(), &'static str> {
        if !self.proved {
            return Err("not_postgres");
        }
        if !self.bound {
            self.refuse_unbound(setup)?;
        }
        Ok(())
    }

    fn refuse_unbound(&self, setup: &Setup) -> Result<(), &'static str> {
        match setup.settings().binding {
            Binding::Require => Err("channel_binding_missing"),
            Binding::Disable | Binding::Prefer => Ok(()),
        }
    }

    /// The mechanism to use of those offered: SCRAM-SHA-256, and the same tied to TLS.
    fn choose(
        &mut self,
        (plain, plus): (bool, bool),
        setup: &Setup,
    ) -> Result<(&'static str, ChannelBinding), &'static str> {
        let wanted = setup.settings().binding != Binding::Disable;
        let hash = self.tls.as_mut().and_then(Option::take).filter(|_| wanted);
        match hash {
            Some(hash) if plus => {
                self.bound = true;
                Ok((SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash)))
            }
            hash => {
                self.refuse_unbound(setup)?;
                if !plain {
                    return Err("unsupported_authentication");
                }
                // Saying that it would have been possible lets the server notice whoever took its
                // offer out of the list (RFC 5802, section 6).
                let possible = hash.is_some();
                let binding =
                    if possible { ChannelBinding::unrequested() } else { ChannelBinding::unsupported() };
                Ok((SCRAM_SHA_256, binding))
            }
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("proved", &self.proved).finish_non_exhaustive()
    }
}

/// Has the library read a message whose body has come.
pub(super) fn parse(tag: u8, body: &[u8]) -> Result<Message, &'static str> {
    let mut whole = BytesMut::with_capacity(body.len() + 5);
    whole.put_u8(tag);
    whole.put_u32(body.len() as u32 + 4);
    whole.put_slice(body);
    Message::parse(&mut whole).ok().flatten().ok_or("bad_message")
}
