//! Keys that a provider of OpenSSL computes with, in the provider's process.

use sealane_keys::deposit::{Deposited, DepositedKey};
use sealane_keys::{OpenKeys, OpenedKey};
use sealane_provider::{Engine, EngineOptions, Provider, ProviderOptions};
use sealane_tls::PublicKey;
use sealane_tls::accelerator::Report;
use std::sync::{Mutex, PoisonError};

/// Opens keys of one provider.
pub(super) struct Providers {
    options: ProviderOptions,
    engine: EngineOptions,
    report: Report,
    /// Once the provider was loaded.
    loaded: Mutex<Option<Loaded>>,
}

struct Loaded {
    provider: Provider,
    engine: Engine,
}

impl Providers {
    pub(super) fn new(
        options: ProviderOptions,
        engine: EngineOptions,
        report: Report,
    ) -> Providers {
        Providers {
            options,
            engine,
            report,
            loaded: Mutex::default(),
        }
    }
}

impl OpenKeys for Providers {
    fn open(&self, deposited: &Deposited) -> Result<OpenedKey, String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: sealane_provider::ProviderError| error.to_string();
        let loaded = match &mut *loaded {
            Some(loaded) => loaded,
            none => {
                let provider = Provider::load(&self.options).map_err(failed)?;
                let engine = Engine::start(&provider, self.engine, self.report.clone());
                let engine = engine.map_err(failed)?;
                none.insert(Loaded { provider, engine })
            }
        };
        let passphrase = deposited.passwords().first();
        let key = match deposited.key() {
            DepositedKey::Pem(pem) => loaded.provider.key_from_pem(pem, passphrase),
            DepositedKey::Uri(uri) => {
                let uri = uri.strip_prefix("store:").unwrap_or(uri);
                loaded.provider.key_from_uri(uri, passphrase)
            }
        };
        let key = key.map_err(failed)?;
        let public = PublicKey::from_spki_der(key.public_der());
        let public = public.map_err(|error| error.to_string())?;
        OpenedKey::of_device(loaded.engine.accelerator(key), &public)
    }
}
