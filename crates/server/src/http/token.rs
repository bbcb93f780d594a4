//! The token that allows actions.

use crate::files;
use crate::serve::Served;
use hyper::HeaderMap;
use hyper::header;
use nitro_console::error::Error;
use nitro_console::logging::Repeats;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};

/// The length of a token, in characters.
const TOKEN_CHARS_MIN: usize = 16;
const TOKEN_CHARS_MAX: usize = 1024;
/// After a wrong token, no token is checked for this time.
const PAUSE: Duration = Duration::from_secs(1);
/// Requests that wait for a check; more are refused.
const WAITING_MAX: usize = 8;

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
    /// Too many requests wait for a check.
    Busy,
}

/// Checks tokens one at a time. A wrong one delays the next check: a delay of its own answer alone could be avoided by
/// disconnecting, since the right token is answered at once.
pub(super) struct Gate {
    token: Token,
    opens: Mutex<Instant>,
    places: Semaphore,
    served: Arc<Served>,
    refused: Repeats,
}

impl Gate {
    pub(super) fn new(token: Token, served: Arc<Served>) -> Self {
        let opens = Mutex::new(Instant::now());
        Self { token, opens, places: Semaphore::new(WAITING_MAX), served, refused: Repeats::default() }
    }

    pub(super) async fn check(&self, given: &[u8]) -> Verdict {
        let Ok(_place) = self.places.try_acquire() else { return Verdict::Busy };
        let mut opens = self.opens.lock().await;
        sleep_until(*opens).await;
        if self.token.is(given) {
            return Verdict::Right;
        }
        *opens = Instant::now() + PAUSE;
        self.served.http_wrong_tokens.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.refused.next() {
            tracing::warn!("HTTP: refused an action with a wrong token{left_out}");
        }
        Verdict::Wrong
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
}
