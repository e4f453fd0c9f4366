//! Active health checks: `health_check` and `match` as in nginx's commercial edition, `check` and
//! its relatives as in Tengine.

use super::{GroupRef, Http, LocationConf, Origin, Pass, Template};
use crate::regex::Regex;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Most `health_check`s of a group of servers; `check` is one more.
pub const MAX_HEALTH_CHECKS: usize = 31;

impl Http {
    /// The `health_check`s of a group of servers, with their locations, in order.
    pub fn health_checks(
        &self,
        group: GroupRef,
    ) -> impl Iterator<Item = (&Arc<LocationConf>, &Arc<HealthCheck>)> {
        let own = move |conf: &&Arc<LocationConf>| {
            conf.pass.as_ref().and_then(Pass::group) == Some(group)
        };
        let locations = self.locations().filter(own);
        locations.flat_map(|conf| conf.health_checks.iter().map(move |check| (conf, check)))
    }
}

/// `health_check` of a location: the servers of its group are asked again and again.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// `interval=`; default 5 s.
    pub interval: Duration,
    /// `jitter=`: each wait is longer by a random part of it; default 0.
    pub jitter: Duration,
    /// `fails=`: consecutive failures after which a server is unhealthy; default 1.
    pub fails: u32,
    /// `passes=`: consecutive successes after which it is healthy again; default 1.
    pub passes: u32,
    /// `mandatory`: a new server gets no requests before it has passed.
    pub mandatory: bool,
    /// What is asked.
    pub question: HealthQuestion,
    /// `match=`: an index into [`super::Http::response_matches`]; without one, a status from 200 to
    /// 399 is right.
    pub expect: Option<usize>,
    /// `port=`: asked there instead of the server's own port.
    pub port: Option<u16>,
    /// `keepalive_time=`: how long one connection carries checks; by default each has its own.
    pub keepalive_time: Option<Duration>,
    /// `shared`: one node asks for all.
    pub shared: bool,
    /// Where it is written.
    pub origin: Origin,
}

/// What a `health_check` asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthQuestion {
    /// `uri=`; default `/`. A GET request in the protocol of the location.
    Uri(Box<[u8]>),
    /// `type=grpc`: gRPC's health checking protocol.
    Grpc {
        /// `grpc_service=`; empty for the server as a whole.
        service: Box<[u8]>,
        /// `grpc_status=`: the status that servers without that protocol answer with.
        status: Option<u32>,
    },
}

/// A `match` block: a response must pass every test.
#[derive(Debug, Clone)]
pub struct ResponseMatch {
    /// Its name.
    pub name: Box<str>,
    /// `status`; by default any status is right.
    pub status: Option<StatusTest>,
    /// `header` lines.
    pub headers: Vec<HeaderTest>,
    /// `body` lines.
    pub bodies: Vec<TextTest>,
    /// `require`: variables that must be neither empty nor `0`.
    pub require: Vec<Template>,
}

/// `status [!] CODE|FIRST-LAST ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTest {
    /// `!`: none of them.
    pub negated: bool,
    /// The codes.
    pub codes: Vec<RangeInclusive<u16>>,
}

impl StatusTest {
    /// Whether a status passes.
    pub fn allows(&self, status: u16) -> bool {
        self.codes.iter().any(|codes| codes.contains(&status)) != self.negated
    }
}

/// `header ...`.
#[derive(Debug, Clone)]
pub struct HeaderTest {
    /// The name of the field.
    pub name: Box<[u8]>,
    /// What it must be like.
    pub test: HeaderRule,
}

/// What a header field must be like.
#[derive(Debug, Clone)]
pub enum HeaderRule {
    /// `header NAME`.
    Present,
    /// `header ! NAME`.
    Absent,
    /// `header NAME = VALUE` and the like; a missing field fails unless the test is negated.
    Value(TextTest),
}

/// `=`, `!=`, `~`, `~*`, `!~`, `!~*` and what they compare with.
#[derive(Debug, Clone)]
pub struct TextTest {
    /// `!=`, `!~`, `!~*`.
    pub negated: bool,
    /// What it is compared with.
    pub pattern: TextPattern,
}

/// See [`TextTest`].
#[derive(Debug, Clone)]
pub enum TextPattern {
    /// The whole value.
    Equal(Box<[u8]>),
    /// A regular expression somewhere in it.
    Regex(Regex),
}

impl TextTest {
    /// Whether a text passes. One that the expression gives up on does not.
    pub fn allows(&self, text: &[u8]) -> bool {
        match &self.pattern {
            TextPattern::Equal(value) => (**value == *text) != self.negated,
            TextPattern::Regex(regex) => {
                let found = regex.is_match(text);
                found.is_ok_and(|found| found != self.negated)
            }
        }
    }
}

/// Tengine's `check` of an `upstream`, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `interval=` in milliseconds; default 30 s.
    pub interval: Duration,
    /// `fall=`: consecutive failures after which a server is down; default 5.
    pub fall: u32,
    /// `rise=`: consecutive successes after which it is up; default 2.
    pub rise: u32,
    /// `timeout=` in milliseconds; default 1 s.
    pub timeout: Duration,
    /// `default_down=`: a new server is down until it has passed; default true.
    pub default_down: bool,
    /// `type=`; default `tcp`.
    pub kind: CheckKind,
    /// `port=`: asked there instead of the server's own port.
    pub port: Option<u16>,
    /// `check_http_send`: what is sent; default `GET / HTTP/1.0` and an empty line.
    pub send: Box<[u8]>,
    /// `check_http_expect_alive`: classes of status codes that are right, a bit for each from 1xx
    /// to 5xx; default 2xx and 3xx.
    pub alive: u8,
    /// `check_keepalive_requests`: checks over one connection; default 1.
    pub keepalive_requests: u32,
    /// `check_fastcgi_param` lines; `None` for Tengine's own.
    pub fastcgi_params: Option<Vec<CheckParam>>,
    /// `shared`: one node asks for all.
    pub shared: bool,
}

/// `check_fastcgi_param`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckParam {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

/// `type=` of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    /// A connection can be opened.
    Tcp,
    /// A status line of HTTP/1.
    Http,
    /// A TLS handshake, without a look at the certificate.
    SslHello,
    /// The greeting of MySQL.
    Mysql,
    /// CPing and CPong.
    Ajp,
    /// A FastCGI response.
    FastCgi,
}

impl CheckKind {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            CheckKind::Tcp => "tcp",
            CheckKind::Http => "http",
            CheckKind::SslHello => "ssl_hello",
            CheckKind::Mysql => "mysql",
            CheckKind::Ajp => "ajp",
            CheckKind::FastCgi => "fastcgi",
        }
    }

    /// All of them.
    pub const ALL: [CheckKind; 6] = [
        CheckKind::Tcp,
        CheckKind::Http,
        CheckKind::SslHello,
        CheckKind::Mysql,
        CheckKind::Ajp,
        CheckKind::FastCgi,
    ];
}

/// How `check_status` shows what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckFormat {
    /// A page.
    Html,
    /// Values separated by commas.
    Csv,
    /// JSON.
    Json,
}
