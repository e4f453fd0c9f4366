//! Location level: merging, defaults, and the tree of locations.

use super::servers::inherit;
use super::{caching, passes};
use crate::build::Build;
use crate::call::Fault;
use crate::directives::CONTENT_MAX_FILE_BYTES;
use crate::draft::{
    AccessLogDraft, CacheZone, FilesDraft, HeaderInherit, LocationBlock, LocationDraft,
    ScriptDraft, TrafficZoneDraft,
};
use crate::input::Options;
use crate::model::{
    AccessLog, AddHeader, AuthRequest, Autoindex, AutoindexFormat, ContentHandler, Dav, DavMethods,
    ErrorLog, Expires, FilesAt, IfModifiedSince, KeepaliveDisable, LimitExcept, LingeringClose,
    List, Location, LocationConf, Locations, LogFileCache, LogTarget, Matcher, Mp4, OpenFileCache,
    RealIp, Script, ServerTokens, TempPath, Template, Types,
};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of file contents kept when `open_file_cache` is on and
/// `open_file_cache_content` is not set.
const DEFAULT_CONTENT_BYTES: u64 = 16 << 20;

const SECOND: Duration = Duration::from_secs(1);

/// nginx's default of `resolver_timeout`.
pub(super) const RESOLVER_TIMEOUT: Duration = Duration::from_secs(30);

/// What every location starts from.
pub(super) struct Inherited<'o> {
    pub(super) options: &'o Options,
    /// `client_body_temp_path` when no level has one.
    pub(super) client_body_temp_path: Arc<TempPath>,
    /// Error logs of the main context.
    pub(super) main_logs: List<ErrorLog>,
    /// Every zone of cached responses.
    pub(super) cache_zones: &'o [CacheZone],
    /// What of `vhost_traffic_status` belongs to `http`.
    pub(super) traffic: &'o TrafficZoneDraft,
}

/// The `http` level with the access log that holds when none is written.
pub(super) fn with_log_defaults(mut location: LocationDraft, b: &Build<'_>) -> LocationDraft {
    if location.access_logs.is_unset() {
        let logs = b.http.log_formats.first().map(|combined| AccessLog {
            target: LogTarget::File(b.options.access_log.clone()),
            path: None,
            format: Arc::clone(combined),
            buffer_bytes: None,
            flush: None,
            gzip: None,
            condition: None,
            ratio: None,
        });
        location.access_logs.logs = logs.into_iter().collect();
    }
    location
}

/// Access logs as they are where `cache` is the level's `open_log_file_cache`.
fn with_cache(logs: &List<AccessLog>, cache: Option<LogFileCache>) -> List<AccessLog> {
    if cache.is_none() || logs.iter().all(|log| log.path.is_none()) {
        return logs.clone();
    }
    let mut logs: Vec<AccessLog> = logs.iter().cloned().collect();
    for log in &mut logs {
        if let LogTarget::Paths(paths) = &mut log.target {
            paths.cache = cache;
        }
    }
    logs.into()
}

impl AccessLogDraft {
    fn is_unset(&self) -> bool {
        !self.off && self.logs.is_empty()
    }
}

impl LocationDraft {
    /// Takes what is not set from the outer level. Lists are replaced as a
    /// whole; `try_files`, `stub_status`, `proxy_pass` and the like apply
    /// only where they are written.
    pub(super) fn inherit(&mut self, outer: &LocationDraft) {
        self.passing.inherit(&outer.passing);
        self.body_filters.inherit(&outer.body_filters);
        self.restricting.inherit(&outer.restricting);
        let (browsers, outer_browsers) = (&mut self.browsers, &outer.browsers);
        let (tracing, outer_tracing) = (&mut self.tracing, &outer.tracing);
        inherit!(tracing, outer_tracing; trace propagation span_name span_attributes);
        let (concat, outer_concat) = (&mut self.concat, &outer.concat);
        inherit!(&mut self.echo, &outer.echo; status steps);
        inherit!(concat, outer_concat; enabled types unique max_files delimiter ignore_file_error);
        let (sysguard, outer_sysguard) = (&mut self.sysguard, &outer.sysguard);
        inherit!(sysguard, outer_sysguard; enabled load cpu swap free response_time all interval
            log_level);
        let (counted, outer_counted) = (&mut self.req_status, &outer.req_status);
        inherit!(counted, outer_counted; zones bypass lazy fields);
        inherit!(&mut self.traffic, &outer.traffic; enabled bypass filter by_host filters
            bucket_bounds_ms ignored_classes format callback sum_key average);
        inherit!(browsers, outer_browsers; modern ancient modern_value ancient_value);
        inherit!(self, outer;
            purge_format purge_legacy_status files_at index rewrite_log uninitialized_variable_warn autoindex autoindex_exact_size autoindex_localtime autoindex_format
            autoindex_max_entries
            internal gzip_vary error_pages hides_session recursive_error_pages types default_type etag
            if_modified_since max_ranges expires add_header_inherit add_trailer_inherit
            server_tokens server_tag server_info server_admin chunked_transfer_encoding msie_padding msie_refresh absolute_redirect
            server_name_in_redirect port_in_redirect sendfile sendfile_max_chunk output_buffers
            open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors
            open_file_cache_content disable_symlinks tcp_nodelay limit_rate limit_rate_after
            subrequest_output_buffer
            postpone_output client_max_body client_body_buffer client_body_timeout
            client_body_temp_path client_body_in_file_only client_body_in_single_buffer send_timeout
            real_ip_from real_ip_header real_ip_recursive auth_request auth_request_set mirrors
            mirror_request_body post_action early_hints resolver resolver_timeout send_proxy_protocol
            http2_chunk_size random_index slice mp4_buffer_size mp4_max_buffer_size mp4_start_key_frame dav_methods dav_access min_delete_depth create_full_put_path
            keepalive_timeout keepalive_header keepalive_requests keepalive_time
            keepalive_min_timeout keepalive_disable lingering_close lingering_time
            lingering_timeout reset_timedout_connection open_log_file_cache error_logs log_not_found log_subrequest max_subrequests);
        if self.access_logs.is_unset() {
            self.access_logs = outer.access_logs.clone();
        }
        inherit_headers(
            &mut self.add_headers,
            &outer.add_headers,
            self.add_header_inherit,
        );
        inherit_headers(
            &mut self.add_trailers,
            &outer.add_trailers,
            self.add_trailer_inherit,
        );
        prepend(&mut self.response_changes, &outer.response_changes);
        prepend(&mut self.request_changes, &outer.request_changes);
    }
}

/// What is done on outer levels is done first.
fn prepend<T: Clone>(own: &mut List<T>, outer: &List<T>) {
    if own.is_empty() {
        own.clone_from(outer);
    } else if !outer.is_empty() {
        *own = outer.iter().chain(&*own).cloned().collect();
    }
}

impl LocationDraft {
    /// A block without its own name, such as `if`, answers as the location that it is in,
    /// unless it overrides that. `try_files` applies only outside.
    fn stay_in(&mut self, location: &LocationDraft) {
        self.stub_status |= location.stub_status;
        if self.status_zone.is_none() {
            self.status_zone.clone_from(&location.status_zone);
        }
        if self.passing.answers.is_none() {
            self.content_handler = self.content_handler.or(location.content_handler);
            if self.req_status.shown.is_none() {
                self.req_status.shown.clone_from(&location.req_status.shown);
            }
            if self.purge.is_none() {
                self.purge.clone_from(&location.purge);
            }
        }
        self.passing.stay_in(&location.passing);
    }
}

/// What the rewrite module does before a location is looked for.
pub(super) fn server_script(script: &ScriptDraft) -> Option<Arc<Script>> {
    finished(script, Vec::new())
}

fn finished(script: &ScriptDraft, blocks: Vec<Arc<LocationConf>>) -> Option<Arc<Script>> {
    (!script.ops.is_empty()).then(|| {
        Arc::new(Script {
            ops: script.ops.clone().into(),
            blocks: blocks.into(),
        })
    })
}

fn inherit_headers(
    own: &mut Option<List<AddHeader>>,
    outer: &Option<List<AddHeader>>,
    mode: Option<HeaderInherit>,
) {
    match (mode.unwrap_or(HeaderInherit::On), own.as_mut(), outer) {
        (HeaderInherit::Off, ..) | (HeaderInherit::On, Some(_), _) | (_, _, None) => {}
        (_, None, Some(_)) => own.clone_from(outer),
        (HeaderInherit::Merge, Some(own), Some(outer)) => {
            *own = own.iter().chain(outer).cloned().collect();
        }
    }
}

impl Inherited<'_> {
    /// The locations of one level. `outer` is merged already.
    pub(super) fn tree(
        &self,
        blocks: &[LocationBlock],
        outer: &LocationDraft,
    ) -> Result<Locations, Fault> {
        let mut locations = Locations::default();
        let mut sorted: Vec<&LocationBlock> = Vec::new();
        for block in blocks {
            let mut draft = block.location.clone();
            caching::check_purge_location(&draft)?;
            draft.inherit(outer);
            passes::check(&draft.passing)?;
            draft.restricting.check()?;
            let conf = LocationConf {
                pass: passes::pass(self, &draft.passing)?,
                auto_redirect: draft.passing.auto_redirect,
                script: self.script(&block.script, &draft, &block.name)?,
                limit_except: self.limit_except(block, &draft)?,
                ..self.finish(&draft, &block.name)
            };
            let location = Arc::new(Location {
                matcher: block.matcher.clone(),
                conf: Arc::new(conf),
                children: self.tree(&block.children, &draft)?,
            });
            match &block.matcher {
                Matcher::Exact(_) => {
                    sorted.push(block);
                    locations.exact.push(location);
                }
                Matcher::Prefix { .. } => {
                    sorted.push(block);
                    locations.prefix.push(location);
                }
                Matcher::Regex(_) => locations.regex.push(location),
                Matcher::Named(_) => locations.named.push(location),
            }
        }
        check_duplicates(sorted)?;
        locations
            .exact
            .sort_by(|a, b| uri(&a.matcher).cmp(uri(&b.matcher)));
        locations
            .prefix
            .sort_by(|a, b| uri(&a.matcher).cmp(uri(&b.matcher)));
        Ok(locations)
    }

    /// What the rewrite module does in a location; the settings of each `if` start from the
    /// location's, which are already merged.
    fn script(
        &self,
        script: &ScriptDraft,
        location: &LocationDraft,
        name: &str,
    ) -> Result<Option<Arc<Script>>, Fault> {
        let mut blocks = Vec::with_capacity(script.blocks.len());
        for block in &script.blocks {
            let mut draft = block.clone();
            draft.inherit(location);
            draft.stay_in(location);
            passes::check(&draft.passing)?;
            draft.restricting.check()?;
            blocks.push(Arc::new(LocationConf {
                pass: passes::pass(self, &draft.passing)?,
                ..self.finish(&draft, name)
            }));
        }
        Ok(finished(script, blocks))
    }

    /// The settings for methods other than those of `limit_except`. As in nginx these are the
    /// location's, but without its `if`s, rewriting and `try_files`.
    fn limit_except(
        &self,
        block: &LocationBlock,
        location: &LocationDraft,
    ) -> Result<Option<Arc<LimitExcept>>, Fault> {
        let Some(limited) = &block.limit_except else {
            return Ok(None);
        };
        let mut draft = limited.location.clone();
        draft.inherit(location);
        draft.passing.stay_in(&location.passing);
        passes::check(&draft.passing)?;
        draft.restricting.check()?;
        Ok(Some(Arc::new(LimitExcept {
            methods: limited.methods.clone(),
            conf: Arc::new(LocationConf {
                pass: passes::pass(self, &draft.passing)?,
                ..self.finish(&draft, &block.name)
            }),
        })))
    }

    /// Defaults for everything that no level has set; no request is passed on.
    pub(super) fn finish(&self, draft: &LocationDraft, name: &str) -> LocationConf {
        let (files_at, alias_prefix_bytes) = self.files(draft);
        let millis = Duration::from_millis;
        LocationConf {
            name: name.into(),
            pass: None,
            auto_redirect: false,
            files_at,
            alias_prefix_bytes,
            index: index(draft),
            try_files: draft.try_files.clone(),
            script: None,
            rewrite_log: draft.rewrite_log.unwrap_or(false),
            uninitialized_variable_warn: draft.uninitialized_variable_warn.unwrap_or(true),
            autoindex: autoindex(draft),
            autoindex_max_entries: number(draft.autoindex_max_entries, 100_000),
            stub_status: draft.stub_status,
            status_zone: draft.status_zone.clone(),
            content_handler: draft.content_handler,
            health_checks: draft.health_checks.clone().into(),
            mp4: mp4(draft),
            slice_bytes: draft.slice.unwrap_or(0),
            random_index: draft.random_index.unwrap_or(false),
            traffic: draft.traffic.counted(self.traffic),
            traffic_show: draft.traffic.shown(draft.content_handler),
            purge: caching::purge_location(self.cache_zones, draft),
            purge_answers: caching::purge_answers(draft),
            concat: draft.concat.finish(),
            req_status: draft.req_status.counted(),
            req_status_show: draft.req_status.shown(),
            sysguard: draft.sysguard.finish(),
            echo: draft.echo.finish(),
            dav: dav(draft),
            internal: draft.internal.unwrap_or(false),
            static_codings: draft.body_filters.compression.static_codings(),
            gzip_vary: draft.gzip_vary.unwrap_or(false),
            gzip_clients: draft.body_filters.compression.gzip_clients(),
            body_filters: draft.body_filters.build(),
            error_pages: draft.error_pages.clone().unwrap_or_default(),
            hides_session: draft.hides_session,
            recursive_error_pages: draft.recursive_error_pages.unwrap_or(false),
            types: draft.types.clone().unwrap_or_else(default_types),
            default_type: default_type(draft),
            etag: draft.etag.unwrap_or(true),
            if_modified_since: draft.if_modified_since.unwrap_or(IfModifiedSince::Exact),
            max_ranges: draft.max_ranges.map(saturated),
            expires: draft.expires.clone().unwrap_or(Expires::Off),
            add_headers: draft.add_headers.clone().unwrap_or_default(),
            add_trailers: draft.add_trailers.clone().unwrap_or_default(),
            server_info: draft.server_info.unwrap_or(false),
            server_admin: draft.server_admin.clone(),
            response_changes: draft.response_changes.clone(),
            request_changes: draft.request_changes.clone(),
            server_tokens: server_tokens(draft),
            chunked_transfer_encoding: draft.chunked_transfer_encoding.unwrap_or(true),
            msie_padding: draft.msie_padding.unwrap_or(true),
            msie_refresh: draft.msie_refresh.unwrap_or(false),
            absolute_redirect: draft.absolute_redirect.unwrap_or(true),
            server_name_in_redirect: draft.server_name_in_redirect.unwrap_or(false),
            port_in_redirect: draft.port_in_redirect.unwrap_or(true),
            sendfile: draft.sendfile.unwrap_or(false),
            sendfile_max_chunk_bytes: draft.sendfile_max_chunk.unwrap_or(2 << 20),
            output_buffers: draft.output_buffers.unwrap_or((2, 32 << 10)),
            open_file_cache: open_file_cache(draft),
            disable_symlinks: draft.disable_symlinks.clone().flatten(),
            tcp_nodelay: draft.tcp_nodelay.unwrap_or(true),
            limit_rate: draft.limit_rate.clone(),
            limit_rate_after: draft.limit_rate_after.clone(),
            subrequest_output_buffer_bytes: draft.subrequest_output_buffer.unwrap_or(4 << 10),
            postpone_output_bytes: draft.postpone_output.unwrap_or(1460),
            client_max_body_bytes: draft.client_max_body.unwrap_or(1 << 20),
            client_body_buffer_bytes: draft.client_body_buffer.unwrap_or(8 << 10),
            client_body_timeout: draft.client_body_timeout.unwrap_or(60 * SECOND),
            client_body_temp_path: self.client_body_temp_path(draft),
            client_body_in_file_only: draft.client_body_in_file_only.unwrap_or_default(),
            client_body_in_single_buffer: draft.client_body_in_single_buffer.unwrap_or(false),
            real_ip: real_ip(draft),
            tracing: draft.tracing.finish(),
            auth_request: auth_request(draft),
            access: draft.restricting.access(has_auth_request(draft)),
            limits: draft.restricting.limits(),
            secure_link: draft.restricting.secure_link(),
            valid_referers: draft.restricting.valid_referers.clone(),
            browsers: draft.browsers.finish(),
            userid: draft.restricting.userid.finish(),
            limit_except: None,
            mirrors: draft.mirrors.clone().unwrap_or_default(),
            mirror_request_body: draft.mirror_request_body.unwrap_or(true),
            post_action: draft.post_action.clone().flatten(),
            early_hints: draft.early_hints.clone().unwrap_or_default(),
            resolver: draft.resolver.clone(),
            resolver_timeout: draft.resolver_timeout.unwrap_or(RESOLVER_TIMEOUT),
            send_proxy_protocol: draft.send_proxy_protocol.unwrap_or_default(),
            http2_chunk_bytes: saturated(draft.http2_chunk_size.unwrap_or(8 << 10)),
            send_timeout: draft.send_timeout.unwrap_or(60 * SECOND),
            keepalive_timeout: draft.keepalive_timeout.unwrap_or(75 * SECOND),
            keepalive_header: draft.keepalive_header.filter(|header| !header.is_zero()),
            keepalive_requests: draft.keepalive_requests.unwrap_or(1000),
            keepalive_time: draft.keepalive_time.unwrap_or(3600 * SECOND),
            keepalive_min_timeout: draft.keepalive_min_timeout.unwrap_or(millis(0)),
            keepalive_disable: keepalive_disable(draft),
            lingering_close: draft.lingering_close.unwrap_or(LingeringClose::On),
            lingering_time: draft.lingering_time.unwrap_or(30 * SECOND),
            lingering_timeout: draft.lingering_timeout.unwrap_or(5 * SECOND),
            reset_timedout_connection: draft.reset_timedout_connection.unwrap_or(false),
            access_logs: match draft.access_logs.off {
                true => List::default(),
                false => with_cache(&draft.access_logs.logs, draft.open_log_file_cache.flatten()),
            },
            error_logs: draft
                .error_logs
                .clone()
                .unwrap_or_else(|| self.main_logs.clone()),
            log_not_found: draft.log_not_found.unwrap_or(true),
            log_subrequest: draft.log_subrequest.unwrap_or(false),
            max_subrequests: number(draft.max_subrequests, 10_000),
        }
    }

    fn client_body_temp_path(&self, draft: &LocationDraft) -> Arc<TempPath> {
        let written = draft.client_body_temp_path.as_ref();
        Arc::clone(written.unwrap_or(&self.client_body_temp_path))
    }

    fn files(&self, draft: &LocationDraft) -> (FilesAt, Option<usize>) {
        match &draft.files_at {
            Some(FilesDraft::Root(path)) => (FilesAt::Root(path.clone()), None),
            Some(FilesDraft::Alias(path, replaced)) => (FilesAt::Alias(path.clone()), *replaced),
            None => {
                let html = self.options.under_prefix(Path::new("html"));
                (
                    FilesAt::Root(Template::literal(html.as_os_str().as_bytes())),
                    None,
                )
            }
        }
    }
}

fn uri(matcher: &Matcher) -> &[u8] {
    match matcher {
        Matcher::Exact(uri) => uri,
        Matcher::Prefix { prefix, .. } => prefix,
        Matcher::Regex(_) | Matcher::Named(_) => &[],
    }
}

/// No two exact and no two prefix locations of one level may be equal.
fn check_duplicates(mut blocks: Vec<&LocationBlock>) -> Result<(), Fault> {
    let exact = |block: &LocationBlock| matches!(block.matcher, Matcher::Exact(_));
    // Exact ones come before the prefix of the same text, as nginx sorts them.
    blocks.sort_by(|a, b| {
        uri(&a.matcher)
            .cmp(uri(&b.matcher))
            .then_with(|| exact(b).cmp(&exact(a)))
    });
    for pair in blocks.windows(2) {
        if uri(&pair[0].matcher) == uri(&pair[1].matcher) && exact(pair[0]) == exact(pair[1]) {
            let message = format!("duplicate location \"{}\"", pair[1].name);
            return Err(Fault::earlier(&pair[1].origin, message));
        }
    }
    Ok(())
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn real_ip(draft: &LocationDraft) -> Option<Arc<RealIp>> {
    let from = draft.real_ip_from.clone()?;
    Some(Arc::new(RealIp {
        from,
        header: draft.real_ip_header.clone().unwrap_or_default(),
        recursive: draft.real_ip_recursive.unwrap_or(false),
    }))
}

fn auth_request(draft: &LocationDraft) -> Option<AuthRequest> {
    let uri = draft.auth_request.clone().flatten()?;
    let set = draft.auth_request_set.clone().unwrap_or_default();
    Some(AuthRequest { uri, set })
}

fn has_auth_request(draft: &LocationDraft) -> bool {
    matches!(draft.auth_request, Some(Some(_)))
}

fn number(set: Option<u64>, default: u32) -> u32 {
    set.map_or(default, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn default_type(draft: &LocationDraft) -> Box<str> {
    let written = draft.default_type.clone();
    written.unwrap_or_else(|| "text/plain".into())
}

/// What names the server: `server_tag`, else `server_tokens`.
fn server_tokens(draft: &LocationDraft) -> ServerTokens {
    match &draft.server_tag {
        Some(tag) => ServerTokens::Text(tag.clone()),
        None => draft.server_tokens.clone().unwrap_or(ServerTokens::On),
    }
}

fn keepalive_disable(draft: &LocationDraft) -> KeepaliveDisable {
    draft.keepalive_disable.unwrap_or(KeepaliveDisable {
        msie6: true,
        safari: false,
    })
}

fn index(draft: &LocationDraft) -> List<Template> {
    let default = || vec![Template::literal("index.html")].into();
    draft.index.clone().unwrap_or_else(default)
}

fn autoindex(draft: &LocationDraft) -> Option<Autoindex> {
    draft.autoindex.unwrap_or(false).then(|| Autoindex {
        exact_size: draft.autoindex_exact_size.unwrap_or(true),
        localtime: draft.autoindex_localtime.unwrap_or(false),
        format: draft.autoindex_format.unwrap_or(AutoindexFormat::Html),
    })
}

fn mp4(draft: &LocationDraft) -> Option<Arc<Mp4>> {
    (draft.content_handler == Some(ContentHandler::Mp4)).then(|| {
        Arc::new(Mp4 {
            buffer_bytes: draft.mp4_buffer_size.unwrap_or(512 << 10),
            max_buffer_bytes: draft.mp4_max_buffer_size.unwrap_or(10 << 20),
            start_key_frame: draft.mp4_start_key_frame.unwrap_or(false),
        })
    })
}

fn dav(draft: &LocationDraft) -> Option<Arc<Dav>> {
    let methods = draft
        .dav_methods
        .filter(|methods| *methods != DavMethods::default())?;
    Some(Arc::new(Dav {
        methods,
        access: draft.dav_access.unwrap_or(0o600),
        min_delete_depth: draft.min_delete_depth.unwrap_or(0),
        create_full_put_path: draft.create_full_put_path.unwrap_or(false),
    }))
}

fn open_file_cache(draft: &LocationDraft) -> Option<OpenFileCache> {
    let (max, inactive) = draft.open_file_cache.flatten()?;
    let default = (DEFAULT_CONTENT_BYTES, CONTENT_MAX_FILE_BYTES);
    let (content_bytes, content_max_file_bytes) = draft.open_file_cache_content.unwrap_or(default);
    Some(OpenFileCache {
        max,
        inactive,
        valid: draft.open_file_cache_valid.unwrap_or(60 * SECOND),
        min_uses: saturated(draft.open_file_cache_min_uses.unwrap_or(1)),
        errors: draft.open_file_cache_errors.unwrap_or(false),
        content_bytes,
        content_max_file_bytes,
    })
}

/// What nginx knows without any `types`.
fn default_types() -> Arc<Types> {
    let known = [
        ("html", "text/html"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
    ];
    let by_extension = known.map(|(extension, media_type)| (extension.into(), media_type.into()));
    Arc::new(Types {
        by_extension: by_extension.into(),
    })
}
