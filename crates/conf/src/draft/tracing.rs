//! `otel_*` as written.

use crate::model::{
    ExportHeader, List, Origin, Propagation, SpanAttribute, Template, TraceEndpoint, TraceExporter,
    Tracing,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `otel_*` of a level from `http` down.
#[derive(Debug, Default, Clone)]
pub(crate) struct TracingDraft {
    pub(crate) trace: Option<Template>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) span_name: Option<Template>,
    pub(crate) span_attributes: Option<List<SpanAttribute>>,
}

impl TracingDraft {
    /// What holds; `None` where nothing is recorded or passed on.
    pub(crate) fn finish(&self) -> Option<Arc<Tracing>> {
        let propagation = self.propagation.unwrap_or_default();
        if self.trace.is_none() && propagation == Propagation::default() {
            return None;
        }
        Some(Arc::new(Tracing {
            trace: self.trace.clone(),
            propagation,
            span_name: self.span_name.clone(),
            span_attributes: self.span_attributes.clone().unwrap_or_default(),
        }))
    }
}

/// `otel_exporter`, `otel_service_name` and `otel_resource_attr`.
#[derive(Debug, Default)]
pub(crate) struct TraceExporterDraft {
    pub(crate) endpoint: Option<TraceEndpoint>,
    pub(crate) trusted_certificate: Option<PathBuf>,
    pub(crate) headers: Vec<ExportHeader>,
    pub(crate) interval: Option<Duration>,
    pub(crate) batch_size: Option<u64>,
    pub(crate) batch_count: Option<u64>,
    pub(crate) service_name: Option<Box<str>>,
    pub(crate) resource: BTreeMap<Box<str>, Box<str>>,
    pub(crate) origin: Option<Origin>,
}

impl TraceExporterDraft {
    /// The exporter, if there is a block.
    pub(crate) fn finish(self) -> Option<Arc<TraceExporter>> {
        let (endpoint, origin) = (self.endpoint?, self.origin?);
        let mut resource = self.resource;
        match self.service_name {
            Some(name) => {
                resource.insert("service.name".into(), name);
            }
            None => {
                resource
                    .entry("service.name".into())
                    .or_insert_with(|| "unknown_service:nginx".into());
            }
        }
        let size = |value: Option<u64>, default: usize| {
            value.map_or(default, |value| {
                usize::try_from(value).unwrap_or(usize::MAX)
            })
        };
        Some(Arc::new(TraceExporter {
            endpoint,
            trusted_certificate: self.trusted_certificate,
            headers: self.headers,
            interval: self.interval.unwrap_or(Duration::from_secs(5)),
            batch_size: size(self.batch_size, 512),
            batch_count: size(self.batch_count, 4),
            resource: resource.into_iter().collect(),
            origin,
        }))
    }
}
