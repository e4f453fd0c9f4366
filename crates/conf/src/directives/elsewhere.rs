//! Directives of modules that are not part of nginx's HTTP server: those of its other servers, of
//! its commercial edition, of Tengine and of modules by others. Each is refused by name, with an
//! alternative, so that operators need not find out what an "unknown directive" was.
//!
//! They have no rows: contexts and numbers of arguments do not matter for directives that cannot be
//! used.

/// The directives of a module, or of several that one answer does for.
pub struct Elsewhere {
    /// Their owner, as in a message after "belongs to".
    pub module: &'static str,
    /// Names, or patterns with one `*`.
    pub names: &'static [&'static str],
    /// What to use instead, or why there is nothing.
    pub instead: &'static str,
}

/// The module that a directive without a row is of.
pub fn owner(name: &[u8]) -> Option<&'static Elsewhere> {
    let name = std::str::from_utf8(name).ok()?;
    let has = |module: &&Elsewhere| module.names.iter().any(|pattern| matches(pattern, name));
    ELSEWHERE.iter().find(has)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

/// Every such module, in the order of the manual. The first whose pattern fits is the answer.
pub const ELSEWHERE: &[Elsewhere] = &[
    // nginx's packages that are no part of its source.
    Elsewhere {
        module: "njs (JavaScript)",
        names: &["js_*"],
        instead: SCRIPTS,
    },
    Elsewhere {
        module: "the OpenTracing module or another one for OpenTelemetry",
        names: &["opentracing*", "opentelemetry*"],
        instead: "traces are exported as nginx's own module does it: see `otel_exporter` and \
                  `otel_trace`",
    },
    Elsewhere {
        module: "early versions of HTTP/3 in nginx",
        names: &[
            "http3_push",
            "http3_push_preload",
            "http3_max_concurrent_pushes",
        ],
        instead: "server push was dropped; remove the line",
    },
    // The commercial edition.
    Elsewhere {
        module: "nginx's commercial edition (authentication)",
        names: &["auth_jwt*", "auth_oidc", "auth_require", "oidc_provider"],
        instead: "use `auth_request` with a service such as oauth2-proxy",
    },
    Elsewhere {
        module: "nginx's commercial edition (status)",
        names: &["session_log*", "status", "status_format"],
        instead: "`api` answers with connections, zones, upstreams and caches as JSON, `console` \
                  shows them as a page",
    },
    Elsewhere {
        module: "nginx's commercial edition (tunnels)",
        names: &["tunnel_allow_upstream", "tunnel_bind_dynamic"],
        instead: "`tunnel_allow_ports` and `tunnel_allow_addresses` say where tunnels may lead",
    },
    Elsewhere {
        module: "nginx's commercial edition (servers of upstreams)",
        names: &[
            "health_check*",
            "zone_sync*",
            "sticky_cookie_insert",
            "proxy_session_drop",
            "*_allow_upstream",
            "*_bind_dynamic",
            "*_request_dynamic",
        ],
        instead: "`health_check` with `match` takes failing servers out of use; `sticky` keeps a \
                  client on the same server, with `sync` and `upstream_store` on all nodes; \
                  `resolve` follows the addresses of a name",
    },
    Elsewhere {
        module: "nginx's commercial edition (key-value store)",
        names: &["keyval", "keyval_zone", "num_map"],
        instead: "use `map` with an included file, and reload when it changes",
    },
    Elsewhere {
        module: "nginx's commercial edition (streaming)",
        names: &["f4f", "f4f_*", "hls", "hls_*", "mp4_limit_rate*"],
        instead: "create the segments with a packager such as ffmpeg and serve the files; \
                  `limit_rate` limits the rate",
    },
    Elsewhere {
        module: "nginx's commercial edition",
        names: &[
            "internal_redirect",
            "mgmt",
            "proxy_protocol_tlv*",
            "license_token",
            "usage_report",
            "memcached_force_ranges",
            "app_protect*",
        ],
        instead: "there is no equivalent",
    },
    // Tengine.
    Elsewhere {
        module: "modules that change pages (Tengine and others)",
        names: &[
            "footer_if",
            "strip",
            "slice_header*",
            "slice_footer*",
            "append_header",
        ],
        instead: "`trim` and `footer` change pages; the rest is better done when the site is built",
    },
    Elsewhere {
        module: "modules for status pages",
        names: &["stream_server_traffic_status*", "json_status*"],
        instead: "`status_zone` names what is counted together; `metrics` is for Prometheus, \
                  `api` answers with JSON, `console` is a page",
    },
    Elsewhere {
        module: "Tengine (health checks)",
        names: &["check_*"],
        instead: "`check`, `check_http_send`, `check_http_expect_alive` and `check_status` work, see \
                  `docs/health-checks.md`; `check interval=TIME` says how often servers are asked",
    },
    Elsewhere {
        module: "Tengine (upstreams)",
        names: &[
            "dyups_upstream_conf",
            "dyups_read_msg_log",
            "upsync*",
            "upstream_show",
            "consistent_hash",
            "dynamic_resolve",
            "dubbo_upstream_error_info",
            "session_sticky_header",
            "ingress_gateway*",
        ],
        instead: "`server NAME resolve` follows changes of a name's addresses, `hash KEY \
                  consistent` is the consistent hash, `dyups_interface` and `api write=on` change \
                  servers while the server runs, and `include` in `upstream` brings them from a file",
    },
    Elsewhere {
        module: "Tengine (overload)",
        names: &["limit_tcp*", "limit_upstream*", "max_connections_*"],
        instead: "use `worker_connections`, `limit_req`, `limit_conn` and `max_conns` to limit the \
                  load",
    },
    Elsewhere {
        module: "Tengine",
        names: &[
            "ssl_async_*",
            "xudp*",
            "debug_pool",
            "debug_conn",
            "debug_timer",
            "error_page_redefine",
            "tfs_*",
        ],
        instead: "there is no equivalent; for accelerators, see `ssl_async` and `sealane doctor`",
    },
    Elsewhere {
        module: "Tengine (XQUIC)",
        names: &["xquic*"],
        instead: "write `listen 443 quic;`; `http3*` and `quic_*` have the settings",
    },
    Elsewhere {
        module: "Tengine (client certificates)",
        names: &["ssl_verify_client_exception"],
        instead: "write `ssl_verify_client optional`, and `if ($ssl_client_verify != SUCCESS) { \
                  return 403; }` in locations that need a certificate",
    },
    Elsewhere {
        module: "Tengine (expiry by type)",
        names: &["expires_by_types"],
        instead: "`map $sent_http_content_type $NAME { TYPE TIME; ... }` and `expires $NAME`",
    },
    Elsewhere {
        module: "earlier versions of Tengine",
        names: &["dso"],
        instead: "remove the block: modules are built in",
    },
    Elsewhere {
        module: "Intel's asynch_mode_nginx",
        names: &["*ssl_asynch", "ssl_zerocopy_sendfile", "ssl_skip_*"],
        instead: "`ssl_async on` (the default is `auto`) moves private key operations off the \
                  worker thread, and `ssl_accelerator` performs them",
    },
    // Modules by others.
    Elsewhere {
        module: "lua-nginx-module",
        names: &[
            "lua_*",
            "*_by_lua",
            "*_by_lua_block",
            "*_by_lua_file",
            "*_by_lua_no_postpone",
        ],
        instead: SCRIPTS,
    },
    Elsewhere {
        module: "set-misc and the development kit (beyond what works here)",
        names: &[
            "set_encode_base32",
            "set_decode_base32",
            "set_base32_*",
            "set_misc_*",
            "set_murmur2*",
            "set_md5_*",
            "set_sha1_*",
            "set_quote_pgsql_str",
            "set_hashed_upstream",
            "set_form_input*",
            "set_iconv",
            "set_cconv_*",
            "set_pinyin_*",
            "set_cookie_flag",
            "set_from_accept_language",
            "set_lang*",
            "lang_*",
            "upstream_list",
            "array_*",
            "lower",
            "upper",
            "let",
            "eval",
            "eval_*",
            "encrypted_session_*",
            "set_decrypt_session",
            "set_encrypt_session",
            "iconv_*",
            "sorted_querysting_*",
            "url_encoding_*",
        ],
        instead: "`map`, `set` and captures of regular expressions compute values; `$request_id` \
                  is a random value, and `proxy_cookie_flags` sets cookie flags",
    },
    Elsewhere {
        module: "echo-nginx-module (loops, other methods, and waiting that blocks)",
        names: &["echo_*"],
        instead: "`echo`, `echo_sleep`, `echo_location` and `echo_exec` work; `mirror` sends a \
                  request elsewhere with its method and body",
    },
    Elsewhere {
        module: "modules that read other geolocation databases (IP2Location)",
        names: &["ip2location_*", "ip2proxy_*"],
        instead: "`geoip2` reads databases in MaxMind's format (.mmdb), which these providers have, \
                  too",
    },
    Elsewhere {
        module: "ModSecurity and other application firewalls",
        names: &[
            "modsecurity*",
            "ModSecurity*",
            "pool_context_hash_size",
            "SecRulesEnabled",
            "SecRulesDisabled",
            "BasicRule",
            "CheckRule",
            "MainRule",
            "DeniedUrl",
            "LearningMode",
            "LibInjection*",
            "basic_rule",
            "check_rule",
            "main_rule",
            "denied_url",
            "learning_mode",
            "libinjection_*",
            "rules_enabled",
            "rules_disabled",
            "naxsi_*",
            "waf*",
            "testcookie*",
            "ip_blocker",
        ],
        instead: "requests are not checked for attacks; run the firewall in front of this server \
                  or behind it",
    },
    Elsewhere {
        module: "modules for external authentication",
        names: &[
            "auth_pam*",
            "auth_ldap*",
            "ldap_server",
            "auth_gss*",
            "auth_digest*",
            "auth_spnego*",
            "shib_*",
            "form_auth*",
            "sssd_info*",
            "cas_*",
            "g2o*",
        ],
        instead: "use `auth_request` with an authentication service, or `auth_basic` with a \
                  password file",
    },
    Elsewhere {
        module: "Phusion Passenger",
        names: &["passenger_*", "rails_*", "rack_env", "union_station_*"],
        instead: "run `passenger start` (Passenger Standalone), puma or gunicorn as a service, and \
                  `proxy_pass` to its socket",
    },
    Elsewhere {
        module: "nginx-clojure",
        names: &[
            "jvm_*",
            "*_handler_code",
            "*_handler_name",
            "*_handler_property",
            "*_handler_type",
            "handler_*",
            "handlers_lazy_init",
            "header_filter_code",
            "header_filter_name",
            "header_filter_property",
            "header_filter_type",
            "body_filter_code",
            "body_filter_name",
            "body_filter_property",
            "body_filter_type",
            "always_read_body",
            "auto_upgrade_ws",
            "max_balanced_tcp_connections",
            "shared_map",
            "write_page_size",
        ],
        instead: SCRIPTS,
    },
    Elsewhere {
        module: "PageSpeed",
        names: &["pagespeed", "pagespeed_*", "ModPagespeed*"],
        instead: "pages are not rewritten; optimize images and scripts when the site is built, and \
                  serve them compressed with `gzip_static`",
    },
    Elsewhere {
        module: "nginx-rtmp-module and other modules for video",
        names: &[
            "rtmp",
            "rtmp_*",
            "rtmpt_proxy*",
            "vod",
            "vod_*",
            "video_thumbextractor*",
            "ngx_hls_audio_track*",
        ],
        instead: "use a media server for live video; serve its playlists and segments as files or \
                  with `proxy_pass`",
    },
    Elsewhere {
        module: "modules that push messages",
        names: &["nchan_*", "push_*"],
        instead: "use a message server behind `proxy_pass`, with WebSocket or server-sent events",
    },
    Elsewhere {
        module: "modules that query databases",
        names: &[
            "redis_*",
            "redis2_*",
            "memc_*",
            "enhanced_memcached_*",
            "srcache_*",
            "postgres_*",
            "drizzle_*",
            "rds_*",
            "mongo*",
            "gridfs*",
            "tnt_*",
            "sphinx2_*",
            "slowfs_*",
            "selective_cache_purge_*",
            "hash_key",
            "php_session_*",
        ],
        instead: "use an application behind `proxy_pass` or `fastcgi_pass` to query databases",
    },
    Elsewhere {
        module: "modules that store uploads and files elsewhere",
        names: &[
            "upload_*",
            "track_uploads",
            "report_uploads",
            "limit_upload_rate*",
            "mogilefs_*",
            "ngx_fastdfs_module",
            "aws_*",
            "dav_ext_*",
            "file_in_unzip*",
        ],
        instead: "`client_body_in_file_only` passes an upload to the application as a file, \
                  `dav_methods PUT DELETE MKCOL COPY MOVE` stores files, and `proxy_pass` \
                  connects to object stores",
    },
    Elsewhere {
        module: "modules that change responses",
        names: &[
            "subs_*",
            "replace_filter*",
            "xss_*",
            "md5_filter",
            "types_filter*",
            "sass_*",
            "small_light*",
            "circle_gif*",
            "summarizer_*",
            "dynamic_etags",
            "subrange",
            "unzip*",
            "html_sanitize*",
        ],
        instead: "change pages when the site is built, or in the application",
    },
    Elsewhere {
        module: "fancyindex",
        names: &["fancyindex", "fancyindex_*"],
        instead: "`autoindex` lists directories, also as JSON and XML for custom pages",
    },
    Elsewhere {
        module: "modules that count and log",
        names: &[
            "accounting*",
            "statsd_*",
            "sflow*",
            "log_zmq_*",
            "access_log_bypass_if",
            "rrd_graph*",
            "notice",
            "notice_type",
        ],
        instead: "`access_log` with a format, a condition (`if=`) and syslog exports all of it for \
                  analysis",
    },
    Elsewhere {
        module: "load balancing modules",
        names: &[
            "fair",
            "upstream_fair_*",
            "ketama_chash",
            "sticky_no_fallback",
            "jdomain",
            "supervisord*",
            "dynamic_upstream",
        ],
        instead: "`least_conn`, `random two` and `hash KEY consistent` select a server, and \
                  `server NAME resolve` follows changes of a name's addresses",
    },
    Elsewhere {
        module: "modules for other protocols",
        names: &["ajp_*", "websockify_*", "uwsgi_bind_*", "ngx_link_func_*"],
        instead: "`proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, `scgi_pass` and `grpc_pass` connect \
                  to applications; `proxy_pass` supports WebSocket",
    },
    Elsewhere {
        module: "other modules for TLS",
        names: &[
            "ssl_ct*",
            "ssl_session_ticket_key_*",
            "ocsp_proxy",
            "ocsp_cache_timeout",
            "openssl_*_minimum",
            "ssl_engine_*",
        ],
        instead: "certificates embed their transparency timestamps (SCTs); `sealane -V` shows the \
                  TLS library",
    },
    Elsewhere {
        module: "other third-party modules",
        names: &[
            "response",
            "response_type",
            "internal_redirect_if*",
            "rdns*",
            "lua_file",
        ],
        instead: "`return`, `rewrite`, `map` and `error_page` cover most of what they do",
    },
    // Removed by nginx long ago.
    Elsewhere {
        module: "earlier versions of nginx",
        names: &["spdy_*"],
        instead: "SPDY is obsolete; use `http2 on`",
    },
    Elsewhere {
        module: "earlier versions of nginx",
        names: &["limit_zone"],
        instead: "use `limit_conn_zone KEY zone=NAME:SIZE`",
    },
    Elsewhere {
        module: "nginx on other systems",
        names: &[
            "acceptex_read",
            "post_acceptex",
            "iocp_threads",
            "kqueue_*",
            "devpoll_*",
            "eventport_*",
        ],
        instead: "remove it: it does nothing on Linux",
    },
];

const SCRIPTS: &str = "scripts are not supported; `map`, `rewrite` and `auth_request` cover many \
                       of their uses, an application behind `proxy_pass` the others";
