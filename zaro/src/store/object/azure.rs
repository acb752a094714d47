//! Azure Blob Storage containers. Azure has no suffix ranges, so those take two requests.

use object_store::azure::{MicrosoftAzureBuilder, split_sas};

use super::ProviderParts;
use super::profile::Env;
use super::transport::{Connector, host_of, no_retry};
use crate::error::{Error, Result};
use crate::store::options::StoreOptions;

/// Variables that hold credentials or name a service that provides them; any complete group counts.
const SIGNS: &[&[&str]] = &[
    &["AZURE_STORAGE_ACCOUNT_KEY"],
    &["AZURE_STORAGE_ACCESS_KEY"],
    &["AZURE_STORAGE_MASTER_KEY"],
    &["AZURE_STORAGE_SAS_KEY"],
    &["AZURE_STORAGE_SAS_TOKEN"],
    &["AZURE_STORAGE_TOKEN"],
    &["AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET"],
    &["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"],
    &["AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"],
    &["IDENTITY_ENDPOINT"],
    &["MSI_ENDPOINT"],
];

pub(super) fn connect(
    account: Option<&str>,
    container: &str,
    sas: Option<&str>,
    options: &StoreOptions,
    env: Env<'_>,
) -> Result<ProviderParts> {
    if container.is_empty() {
        return Err(Error::usage("the address names no container"));
    }
    let account = account
        .map(str::to_owned)
        .or_else(|| options.account.clone())
        .or_else(|| env("AZURE_STORAGE_ACCOUNT_NAME"))
        .or_else(|| env("AZURE_STORAGE_ACCOUNT"));
    let Some(account) = account else {
        return Err(Error::usage(
            "which storage account? Set option account or AZURE_STORAGE_ACCOUNT_NAME, or write \
             abfss://container@account.dfs.core.windows.net/path",
        ));
    };
    let in_env = SIGNS.iter().any(|names| names.iter().all(|n| env(n).is_some()));
    let signed = !options.anonymous && (in_env || sas.is_some());
    let wrong = |e: object_store::Error| Error::usage("invalid Azure settings").with_source(e);
    let mut builder = match (signed, sas) {
        (false, _) => MicrosoftAzureBuilder::new().with_skip_signature(true),
        (true, Some(sas)) => {
            MicrosoftAzureBuilder::new().with_sas_authorization(split_sas(sas).map_err(wrong)?)
        }
        (true, None) => MicrosoftAzureBuilder::from_env(),
    };
    builder = builder
        .with_account(&account)
        .with_container_name(container)
        .with_allow_http(true)
        .with_retry(no_retry())
        .with_http_connector(Connector::new(options)?);
    let endpoint = options.endpoint.clone().or_else(|| env("AZURE_STORAGE_ENDPOINT"));
    let own = endpoint.is_none();
    let host = match endpoint {
        Some(endpoint) => {
            let host = host_of(&endpoint);
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
            host
        }
        None => format!("{account}.blob.core.windows.net:443"),
    };
    Ok(ProviderParts {
        name: format!("az://{account}/{container}"),
        host,
        region: String::new(),
        client: builder.build().map_err(wrong)?.into(),
        relocate: None,
        suffix_ranges: false,
        signed,
        own,
    })
}
