//! Texts from the configuration, as echo-nginx-module sends them.

use super::Template;

/// What a location answers with.
#[derive(Debug, Clone, PartialEq)]
pub struct Echo {
    /// `echo_status`; default 200.
    pub status: u16,
    /// What is done, in order.
    pub steps: Box<[EchoStep]>,
}

/// One step of an [`Echo`].
#[derive(Debug, Clone, PartialEq)]
pub enum EchoStep {
    /// `echo`: the text with its line end.
    Text(Template),
    /// `echo_duplicate`: how often, and what.
    Repeat(u64, Template),
    /// `echo_sleep`: seconds.
    Sleep(Template),
    /// `echo_flush`.
    Flush,
    /// `echo_reset_timer`.
    ResetTimer,
    /// `echo_read_request_body`.
    ReadRequestBody,
    /// `echo_request_body`.
    RequestBody,
    /// `echo_location`: what another location answers, by its URI and arguments.
    Location(Template, Template),
    /// `echo_exec`: another location answers, by its URI or name and arguments.
    Exec(Template, Template),
}

/// Texts around a body.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoAround {
    /// `echo_before_body`.
    pub before: Box<[Template]>,
    /// `echo_after_body`.
    pub after: Box<[Template]>,
}
