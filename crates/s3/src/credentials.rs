//! The file of credentials that AWS's tools share. It is read again whenever it has changed, so that keys can be renewed while a
//! volume is served.

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Larger files are none.
const BYTES_MAX: u64 = 1 << 20;

/// A profile of the file.
#[derive(Debug)]
pub(crate) struct CredentialsFile {
    path: PathBuf,
    profile: String,
    read: Mutex<Option<(SystemTime, Arc<AwsCredential>)>>,
}

impl CredentialsFile {
    /// The file that the environment names (`AWS_SHARED_CREDENTIALS_FILE`), or `~/.aws/credentials` if it is there; `None` if the
    /// environment has credentials itself, or there is no file.
    pub(crate) fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let others = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
        let named = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        if others.iter().any(|name| variable(name).is_some()) {
            return None;
        }
        let of_home =
            || variable("HOME").map(|home| PathBuf::from(home).join(".aws/credentials")).filter(|p| p.exists());
        let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        Some(Self { path: named.or_else(of_home)?, profile, read: Mutex::default() })
    }

    fn credential(&self) -> Result<Arc<AwsCredential>, String> {
        let found = std::fs::metadata(&self.path).map_err(|e| e.to_string())?;
        let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, credential)) = read.as_ref().filter(|(when, _)| *when == changed) {
            return Ok(Arc::clone(credential));
        }
        if found.len() > BYTES_MAX {
            return Err("it is no file of credentials".to_owned());
        }
        let text = std::fs::read_to_string(&self.path).map_err(|e| e.to_string())?;
        let credential = parse(&text, &self.profile).ok_or_else(|| format!("it has no keys for {:?}", self.profile))?;
        let credential = Arc::new(credential);
        *read = Some((changed, Arc::clone(&credential)));
        Ok(credential)
    }
}

/// The credentials of a profile.
fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let mut is_it = false;
    let [mut key_id, mut secret_key, mut token] = [None, None, None];
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_it = name.trim() == profile;
        } else if let (true, Some((name, value))) = (is_it, line.split_once('=')) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[async_trait::async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.credential().map_err(|why| object_store::Error::Generic {
            store: "S3",
            source: format!("credentials in {}: {why}", self.path.display()).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_and_renewed_keys_are_used() {
        let text = "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b\n[other]\naws_access_key_id=c\n\
                    aws_secret_access_key = d\naws_session_token = e\n";
        let other = parse(text, "other").unwrap();
        assert_eq!((other.key_id.as_str(), other.secret_key.as_str(), other.token.as_deref()), ("c", "d", Some("e")));
        assert!(parse(text, "default").unwrap().token.is_none());
        assert!(parse(text, "none").is_none() && parse("[x]\naws_access_key_id=1", "x").is_none());
        let path = std::env::temp_dir().join(format!("nitro-credentials-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = CredentialsFile { path: path.clone(), profile: "other".to_owned(), read: Mutex::default() };
        assert_eq!(file.credential().unwrap().key_id, "c");
        std::fs::write(&path, text.replace("=c", "=new")).unwrap();
        std::fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(file.credential().unwrap().key_id, "new");
        std::fs::remove_file(&path).unwrap();
        assert!(file.credential().is_err());
    }
}
