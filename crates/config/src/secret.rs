//! What is shown of a configuration: never a secret.

use serde_json::Value;

/// The values of keys that contain one of these words are secret.
const SECRET: [&str; 6] = ["secret", "password", "passwd", "token", "tls_key", "chap"];
/// Parameters of a URL whose names contain one of these words are secret, too.
const SECRET_IN_URL: [&str; 4] = ["key", "sig", "credential", "auth"];
/// What is shown instead of a secret.
pub const LEFT_OUT: &str = "(left out)";

/// Replaces the values of secret keys, at any depth, and the secrets in URLs.
pub fn redact(value: &mut Value) {
    if let Value::Object(table) = value {
        for (_, value) in table.iter_mut().filter(|(key, _)| is_secret(key)) {
            *value = LEFT_OUT.into();
        }
    }
    each_value(value, redact);
    redact_url_of(value);
}

/// Replaces the secrets in URLs, at any depth.
pub fn redact_urls(value: &mut Value) {
    each_value(value, redact_urls);
    redact_url_of(value);
}

fn each_value(value: &mut Value, change: fn(&mut Value)) {
    match value {
        Value::Object(table) => table.values_mut().for_each(change),
        Value::Array(all) => all.iter_mut().for_each(change),
        _ => {}
    }
}

fn redact_url_of(value: &mut Value) {
    if let Value::String(text) = value
        && let Some(shown) = without_secrets(text)
    {
        *text = shown;
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET.iter().any(|secret| key.contains(secret))
}

fn is_secret_in_url(name: &str) -> bool {
    let lower = name.to_lowercase();
    is_secret(name) || SECRET_IN_URL.iter().any(|secret| lower.contains(secret))
}

/// A URL without the user and the password before its host, and without secret parameters; `None`: there are none.
fn without_secrets(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(end_of_authority(rest));
    let host = authority.rsplit_once('@').map(|(_, host)| format!("{LEFT_OUT}@{host}"));
    let query = path.split_once('?').map(|(path, query)| {
        let shown = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_secret_in_url(name) => format!("{name}={LEFT_OUT}"),
            _ => pair.to_owned(),
        });
        format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
    });
    let is_same = host.is_none() && query.as_deref().is_none_or(|query| query == path);
    let shown = || format!("{scheme}://{}{}", host.as_deref().unwrap_or(authority), query.as_deref().unwrap_or(path));
    (!is_same).then(shown)
}

/// Where the host with its port ends. A secret before the host may contain a slash, although RFC 3986 has it written as %2F.
fn end_of_authority(rest: &str) -> usize {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (before, behind) = rest.split_at(end);
    let is_port = |text: &str| text.is_empty() || text.contains(']') || text.bytes().all(|byte| byte.is_ascii_digit());
    if before.contains('@') || before.rsplit_once(':').is_none_or(|(_, port)| is_port(port)) {
        return end;
    }
    let path_end = behind.find(['?', '#']).unwrap_or(behind.len());
    match behind[..path_end].rfind('@') {
        Some(at) => end + at + 1 + behind[at + 1..].find(['/', '?', '#']).unwrap_or(behind.len() - at - 1),
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_secrets_are_left_out() {
        let mut table = json!({"server": {"tls_key": "/k.pem", "http_token": "x", "listen": ["a"]}, "volume": {"v": {"chap_secret": "y"}}});
        redact(&mut table);
        assert_eq!(
            table,
            json!({"server": {"tls_key": LEFT_OUT, "http_token": LEFT_OUT, "listen": ["a"]}, "volume": {"v": {"chap_secret": LEFT_OUT}}})
        );
    }

    #[test]
    fn secrets_in_urls_are_left_out() {
        let mut table = json!({
            "a": "s3://AKIA:very/secret@bucket/x", "b": ["http://user:pw@[::1]:80/p?region=eu&access_key=k#f"], "c": "nbd://host/x?a=b",
            "d": "file:/a@b", "e": "http://u@h", "f": "http://h:80/a@b", "g": "http://[::1]/a@b",
        });
        redact(&mut table);
        let text = table.to_string();
        for secret in ["AKIA", "pw", "=k", "u@h"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        assert_eq!(table["b"][0], format!("http://{LEFT_OUT}@[::1]:80/p?region=eu&access_key={LEFT_OUT}"));
        assert_eq!(table["a"], format!("s3://{LEFT_OUT}@bucket/x"));
        assert_eq!((&table["c"], &table["d"]), (&json!("nbd://host/x?a=b"), &json!("file:/a@b")));
        assert_eq!((&table["f"], &table["g"]), (&json!("http://h:80/a@b"), &json!("http://[::1]/a@b")));
    }
}
