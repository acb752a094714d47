//! Who may see which source. Checked before anything is looked up, for every route alike.
//!
//! Without a credential, a hidden source does not exist. With one that is unknown or has expired, every answer is 401:
//! a reader whose token runs out in the middle must not take what it can no longer see for chunks that were never
//! written.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use hyper::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;
use zaro::manifest::Time;
use zaro::{Error, Result};

use crate::answer::Fault;
use crate::request::Request;

/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;

/// The tokens of a server; by default it has none, and credentials mean nothing to it.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Option<Vec<Token>>);

struct Token {
    secret: String,
    /// The names it opens; `*` for all.
    names: Vec<String>,
    /// When it ends, in seconds since 1970.
    until: Option<i64>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("names", &self.names).finish_non_exhaustive()
    }
}

/// What the credential of a request opens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access<'a> {
    /// There is none.
    Anonymous,
    /// These names; `*` for all.
    Names(&'a [String]),
}

impl Access<'_> {
    /// Whether a hidden source of this name may be seen.
    pub(crate) fn opens(self, name: &str) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Names(names) => names.iter().any(|one| one == "*" || one == name),
        }
    }
}

impl Tokens {
    /// Reads a file: per line a token, the names it opens (`*` for all), and perhaps `until=TIME`; `#` begins a comment.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let named = |e: Error| e.within(format!("tokens in {}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(e.into()))?;
        Self::parse(&text).map_err(named)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut out = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = line.split('#').next().unwrap_or("").split_whitespace();
            let Some(secret) = words.next() else { continue };
            let bad = |what: &str| Error::usage(format!("line {number}: {what}"));
            if secret.len() < SHORTEST {
                return Err(bad("the token is shorter than 16 characters"));
            }
            let (mut names, mut until) = (Vec::new(), None);
            for word in words {
                match word.strip_prefix("until=") {
                    Some(time) => {
                        let time = Time::parse(time).or_else(|_| Time::parse(&format!("{time}T00:00:00Z")));
                        until =
                            Some(time.map_err(|_| bad("until= is not a time such as 2027-01-01T00:00:00Z"))?);
                    }
                    None => names.push(word.to_owned()),
                }
            }
            if names.is_empty() {
                return Err(bad("the token opens nothing; add names, or * for all"));
            }
            out.push(Token {
                secret: secret.to_owned(),
                names,
                until: until.map(|time| time.millis() / 1000),
            });
        }
        Ok(Self(Some(out)))
    }

    /// What a request's credential opens; a 401 if it has one that is not valid.
    pub(crate) fn access(&self, request: &Request) -> std::result::Result<Access<'_>, Fault> {
        let (Some(tokens), Some(given)) = (&self.0, credential(request)) else {
            return Ok(Access::Anonymous);
        };
        let given = given.ok_or_else(Fault::unauthorized)?;
        // All are compared, each in the same time whatever it begins with.
        let mut found = None;
        for token in tokens {
            if bool::from(token.secret.as_bytes().ct_eq(given.as_bytes())) {
                found = Some(token);
            }
        }
        match found {
            Some(token) if token.until.is_none_or(|until| now() < until) => Ok(Access::Names(&token.names)),
            _ => Err(Fault::unauthorized()),
        }
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(i64::MAX)
}

/// The token of a request: `Authorization: Bearer`, `token` as the archive's clients send it, the password of `Basic`
/// for those that know nothing else, or `token=` in the query for links. `Some(None)` if it cannot be read.
fn credential(request: &Request) -> Option<Option<String>> {
    let Some(header) = request.headers.get(AUTHORIZATION) else {
        return request.query.get("token").map(|token| Some(token.to_owned()));
    };
    let read = || {
        let (scheme, value) = header.to_str().ok()?.trim().split_once(' ')?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" => Some(value.trim().to_owned()),
            "basic" => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(value.trim()).ok()?;
                Some(String::from_utf8(bytes).ok()?.split_once(':')?.1.to_owned())
            }
            _ => None,
        }
    };
    Some(read())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;
    use hyper::header::HeaderValue;

    const FILE: &str = "# who\n0123456789abcdef brain ocean # a person\nfedcba9876543210 *\n\nold-old-old-old-old * until=2020-01-01\n";

    fn asked(header: Option<&str>, target: &str) -> Request {
        let mut request = Request::new(Method::GET, target);
        if let Some(value) = header {
            request.headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        request
    }

    #[test]
    fn a_bad_credential_is_401_and_none_is_nobody() {
        let tokens = Tokens::parse(FILE).unwrap();
        let opens = |header: Option<&str>, target: &str, name: &str| {
            tokens
                .access(&asked(header, target))
                .map(|access| access.opens(name))
                .map_err(|fault| fault.status.as_u16())
        };
        assert_eq!(opens(None, "/", "brain"), Ok(false));
        assert_eq!(opens(Some("Bearer 0123456789abcdef"), "/", "brain"), Ok(true));
        assert_eq!(opens(Some("Bearer 0123456789abcdef"), "/", "other"), Ok(false));
        assert_eq!(opens(Some("token fedcba9876543210"), "/", "other"), Ok(true));
        // user:fedcba9876543210
        assert_eq!(opens(Some("Basic dXNlcjpmZWRjYmE5ODc2NTQzMjEw"), "/", "x"), Ok(true));
        assert_eq!(opens(None, "/?token=fedcba9876543210", "x"), Ok(true));
        for bad in [
            "Bearer 0123456789abcdeF",
            "Bearer",
            "Bearer ",
            "Digest x",
            "Basic !!",
            "Bearer old-old-old-old-old",
        ] {
            assert_eq!(opens(Some(bad), "/", "brain"), Err(401), "{bad}");
        }
        assert_eq!(opens(None, "/?token=wrong", "x"), Err(401));
        assert!(Tokens::default().access(&asked(Some("Bearer anything-at-all-here"), "/")).is_ok());
        assert!(Tokens::parse("short *").is_err() && Tokens::parse("0123456789abcdef").is_err());
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }
}
