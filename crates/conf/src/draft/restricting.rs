//! Access restrictions, as written on a level.

use crate::call::Fault;
use crate::model::{
    Access, AddressRules, AuthBasic, ConnectionLimit, LimitConnections, LimitRequests, LimitZone,
    Limits, List, LogLevel, RequestLimit, Satisfy, SecureLink, Template, UserId, UserIdExpires,
    UserIdMode, ValidReferers, Variable, Whitelist,
};
use std::sync::Arc;
use std::time::Duration;

/// `allow`, `deny`, `auth_basic`, limits and the like, as set on a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct RestrictingDraft {
    pub(crate) addresses: Option<Arc<AddressRules>>,
    pub(crate) satisfy: Option<Satisfy>,
    pub(crate) auth_basic: Option<Template>,
    pub(crate) auth_basic_user_file: Option<Template>,
    pub(crate) auth_delay: Option<Duration>,
    pub(crate) limit_req: Option<List<RequestLimit>>,
    pub(crate) limit_req_whitelist: Option<Arc<Whitelist>>,
    pub(crate) limit_req_status: Option<u64>,
    pub(crate) limit_req_log_level: Option<LogLevel>,
    pub(crate) limit_req_dry_run: Option<bool>,
    pub(crate) limit_conn: Option<List<ConnectionLimit>>,
    pub(crate) limit_conn_status: Option<u64>,
    pub(crate) limit_conn_log_level: Option<LogLevel>,
    pub(crate) limit_conn_dry_run: Option<bool>,
    pub(crate) secure_link: Option<Template>,
    pub(crate) secure_link_md5: Option<Template>,
    pub(crate) secure_link_secret: Option<Box<[u8]>>,
    pub(crate) valid_referers: Option<Arc<ValidReferers>>,
    pub(crate) userid: UserIdDraft,
}

/// `userid` and its options. `Some(None)`: off, or none.
#[derive(Debug, Default, Clone)]
pub(crate) struct UserIdDraft {
    pub(crate) mode: Option<Option<UserIdMode>>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) domain: Option<Option<Box<[u8]>>>,
    pub(crate) path: Option<Box<[u8]>>,
    pub(crate) expires: Option<Option<UserIdExpires>>,
    pub(crate) flags: Option<Vec<&'static str>>,
    pub(crate) mark: Option<Option<u8>>,
    pub(crate) p3p: Option<Option<Box<[u8]>>>,
    pub(crate) service: Option<u64>,
    /// `$uid_reset`, where a mode is.
    pub(crate) reset: Option<Variable>,
}

impl UserIdDraft {
    /// What holds; `None` when it is off.
    pub(crate) fn finish(&self) -> Option<Arc<UserId>> {
        let mode = self.mode.flatten()?;
        let name = self.name.clone();
        let path = self.path.clone();
        Some(Arc::new(UserId {
            mode,
            name: name.unwrap_or_else(|| "uid".into()),
            domain: self.domain.clone().flatten(),
            path: path.unwrap_or_else(|| b"/"[..].into()),
            expires: self.expires.flatten(),
            flags: self.flags.clone().unwrap_or_default(),
            mark: self.mark.flatten(),
            p3p: self.p3p.clone().flatten(),
            // nginx keeps the lower half of the number.
            service: self.service.map(|service| service as u32),
            reset: self.reset.clone()?,
        }))
    }
}

/// A zone of `limit_req` or `limit_conn`, maybe only used so far.
#[derive(Debug)]
pub(crate) struct LimitZoneDraft {
    pub(crate) name: Box<str>,
    pub(crate) zone: Option<LimitZone>,
}

/// What a zone is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitUse {
    Requests,
    Connections,
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

    /// What is limited; `None` when nothing is.
    pub(crate) fn limits(&self) -> Option<Arc<Limits>> {
        const STATUS: u16 = 503;
        // It was checked to lie between 400 and 599.
        let status = |given: Option<u64>| given.map_or(STATUS, |status| status as u16);
        let limits = self.limit_req.as_ref();
        let limits = limits.filter(|limits| !limits.is_empty()); // "off"
        let requests = limits.map(|limits| LimitRequests {
            limits: limits.clone(),
            whitelist: self.limit_req_whitelist.clone(),
            status: status(self.limit_req_status),
            log_level: self.limit_req_log_level.unwrap_or(LogLevel::Error),
            dry_run: self.limit_req_dry_run.unwrap_or(false),
        });
        let connections = self.limit_conn.as_ref().map(|limits| LimitConnections {
            limits: limits.clone(),
            status: status(self.limit_conn_status),
            log_level: self.limit_conn_log_level.unwrap_or(LogLevel::Error),
            dry_run: self.limit_conn_dry_run.unwrap_or(false),
        });
        (requests.is_some() || connections.is_some()).then(|| {
            Arc::new(Limits {
                requests,
                connections,
            })
        })
    }

    /// `secure_link` with `secure_link_md5`, or `secure_link_secret`.
    pub(crate) fn secure_link(&self) -> Option<Arc<SecureLink>> {
        if let Some(secret) = &self.secure_link_secret {
            return Some(Arc::new(SecureLink::Secret(secret.clone())));
        }
        let (value, of) = (self.secure_link.clone()?, self.secure_link_md5.clone()?);
        Some(Arc::new(SecureLink::Hash { value, of }))
    }

    /// What nginx checks when it merges a level.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.secure_link_secret.is_some()
            && (self.secure_link.is_some() || self.secure_link_md5.is_some())
        {
            return Err(Fault::new(
                "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"",
            ));
        }
        let lacks_names = |referers: &ValidReferers| {
            (referers.none || referers.blocked)
                && !referers.server_names
                && referers.hosts.is_empty()
        };
        if self.valid_referers.as_deref().is_some_and(lacks_names) {
            return Err(Fault::whole(
                "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" \
                 directive without any valid referer",
            ));
        }
        Ok(())
    }
}
