//! Subrequests that a request starts: `auth_request`.

use super::{List, Template, Variable};
use std::sync::Arc;

/// `auth_request`: a subrequest decides whether the request may continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRequest {
    /// Its URI as written: no variables, no arguments split off.
    pub uri: Arc<[u8]>,
    /// `auth_request_set` lines, carried out once the subrequest has ended.
    pub set: List<SetVariable>,
}

/// One `auth_request_set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetVariable {
    /// What gets the value: a [`Variable::User`] slot, or one of the
    /// built-in variables that may be set (`$args`, `$limit_rate`).
    pub variable: Variable,
    /// Its value, evaluated in the subrequest (`$upstream_http_...`).
    pub value: Template,
}
