//! The messages of OTLP that are sent and received (`opentelemetry/proto/collector/trace/v1`).
//!
//! Only fields that are used are declared; protobuf skips others.

use prost::{Enumeration, Message, Oneof};
use sealane_server::{Attribute, AttributeValue, Span};

/// The call that takes spans.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<ExportTracePartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTracePartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// `Span`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(enumeration = "SpanKind", tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
enum SpanKind {
    Unspecified = 0,
    Server = 2,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(enumeration = "StatusCode", tag = "3")]
    code: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
enum StatusCode {
    Unset = 0,
    Error = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3, 5")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(message, tag = "5")]
    List(ArrayValue),
}

#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

/// The span is recorded.
const SAMPLED: u32 = 1;
/// It is known whether its parent is in another process, and it is.
const PARENT_IS_REMOTE: u32 = 3 << 8;

impl KeyValue {
    /// An attribute that is text.
    pub(super) fn text(key: &str, value: &str) -> KeyValue {
        KeyValue {
            key: key.to_owned(),
            value: Some(Value::Text(value.to_owned()).into()),
        }
    }
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> AnyValue {
        AnyValue { value: Some(value) }
    }
}

impl From<Attribute> for KeyValue {
    fn from(attribute: Attribute) -> KeyValue {
        let value = match attribute.value {
            AttributeValue::Text(text) => Value::Text(text),
            AttributeValue::Number(number) => Value::Number(number),
            AttributeValue::List(text) => Value::List(ArrayValue {
                values: vec![Value::Text(text).into()],
            }),
        };
        KeyValue {
            key: attribute.name.into_owned(),
            value: Some(value.into()),
        }
    }
}

impl From<Span> for SpanMessage {
    fn from(span: Span) -> SpanMessage {
        let parent = span.parent.map(|id| id.as_bytes().to_vec());
        SpanMessage {
            trace_id: span.trace.as_bytes().to_vec(),
            span_id: span.id.as_bytes().to_vec(),
            trace_state: span.state,
            flags: match parent {
                Some(_) => SAMPLED | PARENT_IS_REMOTE,
                None => SAMPLED,
            },
            parent_span_id: parent.unwrap_or_default(),
            name: span.name,
            kind: SpanKind::Server.into(),
            start_time_unix_nano: span.start_ns,
            end_time_unix_nano: span.end_ns,
            attributes: span.attributes.into_iter().map(KeyValue::from).collect(),
            status: span.failed.then_some(Status {
                code: StatusCode::Error.into(),
            }),
        }
    }
}
