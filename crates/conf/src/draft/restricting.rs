//! What restricts access, as written on a level.

use crate::model::{Access, AddressRules, AuthBasic, Satisfy, Template};
use std::sync::Arc;
use std::time::Duration;

/// `allow`, `deny`, `auth_basic`, limits and the like, as said on a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct RestrictingDraft {
    pub(crate) addresses: Option<Arc<AddressRules>>,
    pub(crate) satisfy: Option<Satisfy>,
    pub(crate) auth_basic: Option<Template>,
    pub(crate) auth_basic_user_file: Option<Template>,
    pub(crate) auth_delay: Option<Duration>,
}

impl RestrictingDraft {
    /// The access phase, unless `auth_request` is all there is to it.
    pub(crate) fn access(&self, has_auth_request: bool) -> Option<Arc<Access>> {
        let realm = self.auth_basic.as_ref();
        let realm = realm.filter(|realm| realm.as_literal() != Some(b"off"));
        let basic = realm
            .zip(self.auth_basic_user_file.as_ref())
            .map(|(realm, user_file)| AuthBasic {
                realm: realm.clone(),
                user_file: user_file.clone(),
            });
        let satisfy = self.satisfy.unwrap_or_default();
        let auth_delay = self.auth_delay.unwrap_or_default();
        let changes_auth_request = satisfy == Satisfy::Any || !auth_delay.is_zero();
        let asks = self.addresses.is_some()
            || basic.is_some()
            || (has_auth_request && changes_auth_request);
        asks.then(|| {
            Arc::new(Access {
                addresses: self.addresses.clone(),
                basic,
                satisfy,
                auth_delay,
            })
        })
    }
}
