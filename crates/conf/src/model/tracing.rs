//! Traces: the `otel_*` directives.

use super::{List, Origin, Template};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a location does about traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracing {
    /// `otel_trace`: spans are recorded where it evaluates to `on` or `1`.
    pub trace: Option<Template>,
    /// `otel_trace_context`.
    pub propagation: Propagation,
    /// `otel_span_name`; without it the span has the name of the location.
    pub span_name: Option<Template>,
    /// `otel_span_attr` lines.
    pub span_attributes: List<SpanAttribute>,
}

/// `otel_trace_context`: what becomes of `traceparent` and `tracestate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Propagation {
    /// The trace of the client is continued.
    pub extract: bool,
    /// What is requested from others is told about the trace.
    pub inject: bool,
}

/// `otel_span_attr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanAttribute {
    /// Its name.
    pub name: Box<str>,
    /// Its value.
    pub value: Template,
}

/// `otel_exporter`: where spans are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceExporter {
    /// `endpoint`.
    pub endpoint: TraceEndpoint,
    /// `trusted_certificate` (absolute); `None`: what the system trusts.
    pub trusted_certificate: Option<PathBuf>,
    /// `header` lines.
    pub headers: Vec<ExportHeader>,
    /// `interval`: the longest time between two exports; default 5 s.
    pub interval: Duration,
    /// `batch_size`: spans in one export; default 512.
    pub batch_size: usize,
    /// `batch_count`: exports that a worker may have waiting or under way; default 4.
    pub batch_count: usize,
    /// `otel_service_name` and `otel_resource_attr`, in the order of their names.
    pub resource: Vec<(Box<str>, Box<str>)>,
    /// Where the block begins.
    pub origin: Origin,
}

/// `endpoint` of a [`TraceExporter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEndpoint {
    /// As it was written, for messages.
    pub written: Box<str>,
    /// It begins with `https://`.
    pub tls: bool,
    /// Whom to connect to.
    pub address: TraceAddress,
}

/// The address of a [`TraceEndpoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceAddress {
    /// Name or address, and port.
    Tcp {
        /// The host, without brackets.
        host: Box<str>,
        /// The port; gRPC's default is 443.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// `header` of a [`TraceExporter`]. Its value may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportHeader {
    /// Its name, in lower case.
    pub name: Box<str>,
    /// Its value: printable ASCII.
    pub value: Box<str>,
}

impl fmt::Debug for ExportHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExportHeader({}: redacted)", self.name)
    }
}
