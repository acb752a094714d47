//! AWS credentials, region and endpoint from the environment and from `~/.aws`.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::store::options::StoreOptions;

/// The environment as a function, so that tests can supply their own.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process environment; empty values count as unset.
pub(super) fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// S3 settings from the options, the environment and the profile files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Aws {
    pub(super) credentials: Credentials,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// The source of request signatures.
#[derive(Default, PartialEq, Eq)]
pub(super) enum Credentials {
    /// None: requests are unsigned.
    #[default]
    Anonymous,
    /// A static access key.
    Key { id: String, secret: String, token: Option<String> },
    /// A credential service that the environment points to.
    Service,
}

impl std::fmt::Debug for Credentials {
    /// Never shows a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Key { .. } => "Key",
            Self::Service => "Service",
        })
    }
}

/// Finds keys, region and endpoint. An explicitly named profile comes first; then keys in the environment, the default
/// profile, and a service the environment points to. If nothing is found, requests are unsigned: instance metadata
/// services are never probed unasked, which would take many seconds where there are none.
pub(super) fn find(options: &StoreOptions, env: Env<'_>) -> Result<Aws> {
    let named = options.profile.clone();
    let name = named.clone().or_else(|| env("AWS_PROFILE")).unwrap_or_else(|| "default".to_owned());
    let profile = read_profile(&name, env)?;
    if let (Some(asked), None) = (&named, &profile) {
        return Err(Error::usage(format!(
            "there is no profile {asked:?} in ~/.aws/credentials or ~/.aws/config"
        )));
    }
    let profile = profile.unwrap_or_default();
    let from_profile = || -> Option<Credentials> {
        Some(Credentials::Key {
            id: profile.get("aws_access_key_id")?.clone(),
            secret: profile.get("aws_secret_access_key")?.clone(),
            token: profile.get("aws_session_token").cloned(),
        })
    };
    let from_env = || -> Option<Credentials> {
        Some(Credentials::Key {
            id: env("AWS_ACCESS_KEY_ID")?,
            secret: env("AWS_SECRET_ACCESS_KEY")?,
            token: env("AWS_SESSION_TOKEN"),
        })
    };
    let unsigned = options.anonymous
        || (named.is_none() && env("AWS_SKIP_SIGNATURE").is_some_and(|v| matches!(v.as_str(), "true" | "1")));
    let credentials = if unsigned {
        Credentials::Anonymous
    } else if named.is_some() {
        match from_profile() {
            Some(key) => key,
            None => return Err(no_key(&name, &profile)),
        }
    } else if let Some(key) = from_env().or_else(from_profile) {
        key
    } else if service_named(env) {
        Credentials::Service
    } else {
        Credentials::Anonymous
    };
    let said = |names: &[&str], field: &str| {
        let in_env = || names.iter().find_map(|n| env(n));
        let in_profile = || profile.get(field).cloned();
        if named.is_some() { in_profile().or_else(in_env) } else { in_env().or_else(in_profile) }
    };
    Ok(Aws {
        credentials,
        region: options.region.clone().or_else(|| said(&["AWS_REGION", "AWS_DEFAULT_REGION"], "region")),
        endpoint: options
            .endpoint
            .clone()
            .or_else(|| said(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"], "endpoint_url")),
    })
}

/// Whether the environment points to a credential service.
fn service_named(env: Env<'_>) -> bool {
    let all = |names: &[&str]| names.iter().all(|n| env(n).is_some());
    all(&["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])
        || all(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
        || all(&["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
        || all(&["AWS_EC2_METADATA_SERVICE_ENDPOINT"])
        || env("AWS_EC2_METADATA_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("false"))
}

/// Why a named profile provides no key.
fn no_key(name: &str, profile: &HashMap<String, String>) -> Error {
    let other = ["credential_process", "sso_session", "sso_start_url", "role_arn"];
    match other.iter().find(|k| profile.contains_key(**k)) {
        Some(kind) => Error::unsupported(format!(
            "profile {name:?} gets its keys by {kind}, which zaro does not support; \
             `aws configure export-credentials --profile {name} --format env` prints keys it can use"
        )),
        None => Error::usage(format!("profile {name:?} holds no access key")),
    }
}

/// The settings of a profile, from both files; `None` if neither has it.
fn read_profile(name: &str, env: Env<'_>) -> Result<Option<HashMap<String, String>>> {
    let home = env("HOME").or_else(|| env("USERPROFILE")).map(PathBuf::from);
    let file = |variable: &str, default: &str| {
        env(variable).map(PathBuf::from).or_else(|| Some(home.clone()?.join(".aws").join(default)))
    };
    let mut found = None;
    let files = [
        (file("AWS_CONFIG_FILE", "config"), format!("profile {name}")),
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.to_owned()),
    ];
    for (path, section) in files {
        let Some(path) = path else { continue };
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::from(e).within(path.display())),
        };
        for wanted in [section.as_str(), name] {
            if let Some(settings) = section_of(&text, wanted) {
                found.get_or_insert_with(HashMap::new).extend(settings);
                break;
            }
        }
    }
    Ok(found)
}

/// The settings of `[wanted]`; nested ones, which are indented, are left out.
fn section_of(text: &str, wanted: &str) -> Option<HashMap<String, String>> {
    let mut settings = None;
    let mut inside = false;
    for line in text.lines() {
        let bare = line.trim();
        if let Some(name) = bare.strip_prefix('[').and_then(|l| l.split(']').next()) {
            inside = name.split_whitespace().eq(wanted.split_whitespace());
            if inside {
                settings.get_or_insert_with(HashMap::new);
            }
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let (Some((key, value)), Some(map)) = (bare.split_once('='), settings.as_mut())
        {
            map.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(env: &[(&str, &str)], options: &StoreOptions) -> Result<Aws> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".aws")).unwrap();
        std::fs::write(
            dir.path().join(".aws/credentials"),
            "# mine\n[lab]\naws_access_key_id = LABID\naws_secret_access_key=s=/+x\naws_session_token = t\n",
        )
        .unwrap();
        std::fs::write(
            dir.path().join(".aws/config"),
            "[profile lab]\nregion = eu-north-1\nendpoint_url = http://lab:9000\ns3 =\n  region = wrong\n\
             [profile sso]\nsso_session = x\n[default]\nregion=sa-east-1\n",
        )
        .unwrap();
        let home = dir.path().to_str().unwrap().to_owned();
        find(options, &|name| match name {
            "HOME" => Some(home.clone()),
            _ => env.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned()),
        })
    }

    fn profile(name: &str) -> StoreOptions {
        let mut options = StoreOptions::default();
        options.profile = Some(name.into());
        options
    }

    #[test]
    fn a_named_profile_comes_before_the_environment() {
        let env = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "S"), ("AWS_REGION", "here")];
        let aws = setup(&env, &profile("lab")).unwrap();
        let key = Credentials::Key { id: "LABID".into(), secret: "s=/+x".into(), token: Some("t".into()) };
        assert_eq!(
            aws,
            Aws {
                credentials: key,
                region: Some("eu-north-1".into()),
                endpoint: Some("http://lab:9000".into())
            }
        );
        let aws = setup(&env, &StoreOptions::default()).unwrap();
        assert_eq!(aws.credentials, Credentials::Key { id: "E".into(), secret: "S".into(), token: None });
        assert_eq!(aws.region.as_deref(), Some("here"));
    }

    #[test]
    fn without_keys_requests_go_unsigned_unless_the_environment_names_a_service() {
        let aws = setup(&[], &StoreOptions::default()).unwrap();
        assert_eq!((aws.credentials, aws.region.as_deref()), (Credentials::Anonymous, Some("sa-east-1")));
        let aws =
            setup(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")], &StoreOptions::default()).unwrap();
        assert_eq!(aws.credentials, Credentials::Service);
        let mut unsigned = profile("lab");
        unsigned.anonymous = true;
        let aws = setup(&[], &unsigned).unwrap();
        assert_eq!((aws.credentials, aws.region.as_deref()), (Credentials::Anonymous, Some("eu-north-1")));
    }

    #[test]
    fn a_profile_that_gives_no_key_is_an_error_when_it_was_asked_for() {
        assert_eq!(setup(&[], &profile("nobody")).unwrap_err().kind(), crate::ErrorKind::Usage);
        assert_eq!(setup(&[], &profile("sso")).unwrap_err().kind(), crate::ErrorKind::Unsupported);
        assert!(setup(&[("AWS_PROFILE", "nobody")], &StoreOptions::default()).is_ok());
    }
}
