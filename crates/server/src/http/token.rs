//! The token that allows actions.

use crate::serve::Served;
use hyper::HeaderMap;
use hyper::header;
use nitro_console::error::Error;
use nitro_device::net::Peer;
use nitro_files as files;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// The length of a token, in characters.
const TOKEN_CHARS_MIN: usize = 16;
const TOKEN_CHARS_MAX: usize = 1024;
/// Wrong tokens of a peer within [`PAUSE`] before it is told to slow down.
const WRONG_MAX: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// Wrong tokens that are noted for it.
const NOTED_MAX: usize = 1024;

/// The token. It is never part of a message.
pub(crate) struct Token(Vec<u8>);

impl Token {
    /// Reads the file of the token, which must be accessible only to its owner.
    ///
    /// # Errors
    /// It cannot be read, others can access it, or its content is no token.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = files::read_secret(path, TOKEN_CHARS_MAX as u64 + 2)?;
        let token = text.trim();
        let refuse =
            |why: &str| Err(Error::new(path.display(), why).or("write one line, such as from openssl rand -hex 24"));
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("the token has other characters than letters, digits and punctuation");
        }
        if token.len() < TOKEN_CHARS_MIN {
            return refuse("the token has less than 16 characters");
        }
        Ok(Self(token.as_bytes().to_vec()))
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

/// The token in a request: `Authorization: Bearer TOKEN`, once.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = only.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    /// It is wrong, and so were several of the same peer a moment ago.
    WrongAgain,
}

/// Checks tokens. The right one is always accepted at once, whatever else is sent: a token of 16 characters or more cannot
/// be guessed by trying, so that wrong ones are only counted, and a peer that sends many is told so.
pub(super) struct Gate {
    token: Token,
    wrong: RefCell<WrongPeers>,
    served: Arc<Served>,
}

impl Gate {
    pub(super) fn new(token: Token, served: Arc<Served>) -> Self {
        Self { token, wrong: RefCell::default(), served }
    }

    pub(super) fn check(&self, given: &[u8], peer: Peer) -> Verdict {
        if self.token.is(given) {
            return Verdict::Right;
        }
        self.served.http_wrong_tokens.fetch_add(1, Ordering::Relaxed);
        match self.wrong.borrow_mut().are_few(peer, Instant::now()) {
            true => {
                tracing::warn!("HTTP: refused an action with a wrong token");
                Verdict::Wrong
            }
            false => Verdict::WrongAgain,
        }
    }
}

/// The peers of the wrong tokens within the last [`PAUSE`], in the order of time.
#[derive(Debug, Default)]
struct WrongPeers(VecDeque<(Peer, Instant)>);

impl WrongPeers {
    /// Whether this is one of the first wrong tokens of a peer within [`PAUSE`]; notes it then.
    fn are_few(&mut self, peer: Peer, now: Instant) -> bool {
        while self.0.front().is_some_and(|(_, since)| now.duration_since(*since) >= PAUSE) {
            self.0.pop_front();
        }
        // A peer for which there is no room is treated as one that has sent many.
        if self.0.len() >= NOTED_MAX || self.0.iter().filter(|(known, _)| *known == peer).count() >= WRONG_MAX {
            return false;
        }
        self.0.push_back((peer, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_token_is_given_once_as_bearer() {
        let given = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(given(&["Bearer abc"]), Some(b"abc".to_vec()));
        assert_eq!(given(&["bearer  abc "]), Some(b"abc".to_vec()));
        for bad in [&[][..], &["abc"], &["Basic YTpi"], &["Bearer"], &["Bearer abc", "Bearer abc"]] {
            assert_eq!(given(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token(b"0123456789abcdef".to_vec());
        assert!(token.is(b"0123456789abcdef"));
        for bad in [&b""[..], b"0123456789abcde", b"0123456789abcdeg", b"0123456789abcdef0"] {
            assert!(!token.is(bad));
        }
    }

    #[test]
    fn a_peer_with_many_wrong_tokens_is_told_and_few_are_noted() {
        let (mut wrong, begun) = (WrongPeers::default(), Instant::now());
        let host = |number: u32| Peer::Host(std::net::Ipv4Addr::from(number).into());
        assert!((0..WRONG_MAX).all(|_| wrong.are_few(host(1), begun)));
        assert!(!wrong.are_few(host(1), begun) && wrong.are_few(host(2), begun));
        let few = (10..1 << 12).filter(|number| wrong.are_few(host(*number), begun + PAUSE / 2)).count();
        assert_eq!((few, wrong.0.len()), (NOTED_MAX - WRONG_MAX - 1, NOTED_MAX));
        assert!(wrong.are_few(host(1), begun + PAUSE));
    }
}
