//! The names of variables: what `$name` may be, and what it stands for.
//!
//! A name is looked up once, when the configuration is read; at run time a
//! template holds a [`Builtin`] (or one of the prefixed kinds of
//! [`Variable`]), never a name.

mod stream;

pub use stream::{STREAM_VARIABLES, StreamVariable, is_shared as is_shared_with_stream};

use crate::model::{ServerKind, Variable};

/// Declares [`Builtin`] with, for every variable, its name in the
/// configuration and one sentence for the manual, so that the three cannot
/// drift apart.
macro_rules! builtins {
    ($($variant:ident $name:literal $doc:literal)*) => {
        /// A variable with a fixed name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Builtin {
            $(#[doc = concat!("`$", $name, "`: ", $doc)] $variant,)*
        }

        /// Every [`Builtin`] with its name and its documentation.
        pub const BUILTINS: &[(&str, Builtin, &str)] = &[
            $(($name, Builtin::$variant, $doc),)*
        ];
    };
}

builtins! {
    // The request line and the URI.
    Request "request" "the request line as the client sent it"
    RequestMethod "request_method" "the method, such as `GET`"
    RequestUri "request_uri" "the URI as sent, with its arguments"
    Uri "uri" "the current URI, normalised; internal redirects change it"
    DocumentUri "document_uri" "the same as `$uri`"
    Args "args" "the arguments of the request line"
    QueryString "query_string" "the same as `$args`"
    IsArgs "is_args" "`?` if the request line has arguments, else empty"
    ServerProtocol "server_protocol" "the protocol of the request, such as `HTTP/1.1`"
    Scheme "scheme" "`http` or `https`"
    Http2 "http2" "`h2` for HTTP/2 over TLS, `h2c` without TLS, else empty"
    Http3 "http3" "`h3` for HTTP/3, `hq` for HTTP/0.9 over QUIC, else empty"
    Quic "quic" "`quic` for a connection of QUIC, else empty"
    Https "https" "`on` for a connection with TLS, else empty"
    Host "host" "host of the request line, else of the Host header, else the server's name"
    RequestPort "request_port" "port of the request line or the Host header"
    IsRequestPort "is_request_port" "`:` if `$request_port` is not empty, else empty"

    // The file.
    DocumentRoot "document_root" "value of `root` or `alias` for the request"
    RealpathRoot "realpath_root" "the absolute path of `$document_root`, symbolic links resolved"
    RequestFilename "request_filename" "path of the file for the request"

    // The request's headers and body.
    ContentLength "content_length" "the Content-Length header of the request"
    ContentType "content_type" "the Content-Type header of the request"
    RequestBody "request_body" "the body of the request, when it was read into memory"
    SliceRange "slice_range" "the piece that `slice` asks for, as the value of a Range header"
    RequestBodyFile "request_body_file" "the temporary file with the body of the request"
    RequestLength "request_length" "bytes of the request: request line, header and body"
    RequestTime "request_time" "seconds since the first bytes of the request, with milliseconds"
    RequestId "request_id" "a random identifier of the request, 32 hexadecimal digits"
    OtelTraceId "otel_trace_id" "identifier of the trace, 32 hexadecimal digits"
    OtelSpanId "otel_span_id" "identifier of the request's own span, 16 hexadecimal digits"
    OtelParentId "otel_parent_id" "identifier of the client's span, where its trace is continued"
    OtelParentSampled "otel_parent_sampled" "`1` if the client records its span, else `0`"
    RequestCompletion "request_completion" "`OK` once the request is complete, else empty"

    // The two ends of the connection.
    RemoteAddr "remote_addr" "address of the client"
    BinaryRemoteAddr "binary_remote_addr" "address of the client, 4 or 16 bytes"
    RemotePort "remote_port" "port of the client"
    RemoteUser "remote_user" "user name of Basic authentication"
    ServerAddr "server_addr" "address that accepted the connection"
    ServerName "server_name" "name of the server that accepted the request"
    ServerPort "server_port" "port that accepted the connection"
    Connection "connection" "serial number of the connection"
    ConnectionRequests "connection_requests" "requests made on this connection so far"
    ConnectionTime "connection_time" "age of the connection in seconds, with milliseconds"
    TcpinfoRtt "tcpinfo_rtt" "the kernel's round-trip time of the connection, microseconds"
    TcpinfoRttvar "tcpinfo_rttvar" "variation of the round-trip time, microseconds"
    TcpinfoSndCwnd "tcpinfo_snd_cwnd" "congestion window, segments"
    TcpinfoRcvSpace "tcpinfo_rcv_space" "receive space, bytes"
    ProxyProtocolAddr "proxy_protocol_addr" "client address of the PROXY protocol header"
    ProxyProtocolPort "proxy_protocol_port" "client port of the PROXY protocol header"
    ProxyProtocolServerAddr "proxy_protocol_server_addr" "server address of the PROXY protocol header"
    ProxyProtocolServerPort "proxy_protocol_server_port" "server port of the PROXY protocol header"
    RealipRemoteAddr "realip_remote_addr" "the client's address before it was replaced"
    RealipRemotePort "realip_remote_port" "the client's port before it was replaced"

    // The response.
    Status "status" "status of the response"
    BodyBytesSent "body_bytes_sent" "bytes of the body sent, without the header"
    BytesSent "bytes_sent" "bytes sent to the client"
    LimitRate "limit_rate" "the rate limit in force, bytes per second"
    LimitReqStatus "limit_req_status" "result of `limit_req`:  `PASSED`, `DELAYED`, `REJECTED`, \
        `DELAYED_DRY_RUN` or `REJECTED_DRY_RUN`"
    LimitConnStatus "limit_conn_status" "result of `limit_conn`:  `PASSED`, `REJECTED` or \
        `REJECTED_DRY_RUN`"
    SecureLink "secure_link" "result of `secure_link` or `secure_link_secret`: `1`, `0` or empty, \
        or the link"
    SecureLinkExpires "secure_link_expires" "expiration time of the link, from the request"
    InvalidReferer "invalid_referer" "`1` if the Referer header is not one of `valid_referers`, else empty"
    ModernBrowser "modern_browser" "`modern_browser_value` if the browser is modern, else empty"
    AncientBrowser "ancient_browser" "`ancient_browser_value` if the browser is ancient, else empty"
    Msie "msie" "`1` if the browser is some version of MSIE, else empty"
    GzipRatio "gzip_ratio" "compression ratio achieved by `gzip`"
    BrotliRatio "brotli_ratio" "the same for `brotli`"
    ZstdRatio "zstd_ratio" "the same for `zstd`"
    TrimBytes "trim_bytes" "bytes by which `trim` has made the page shorter"
    TrimOriginalBytes "trim_original_bytes" "bytes of the page before that"
    ZstdBytesIn "zstd_bytes_in" "bytes that `zstd` has compressed, known once the response is complete"
    ZstdBytesOut "zstd_bytes_out" "bytes that came of them"
    EchoRequestBody "echo_request_body" "the request body, if it was read and is in memory"
    EchoRequestMethod "echo_request_method" "the method of the request, or of the subrequest"
    EchoRequestUri "echo_request_uri" "the current URI, decoded and without arguments"
    EchoCacheableRequestUri "echo_cacheable_request_uri" "the same"
    EchoClientRequestMethod "echo_client_request_method" "the method that the client has sent"
    EchoClientRequestHeaders "echo_client_request_headers" "request line and header lines, with the \
        empty line behind them"
    EchoTimerElapsed "echo_timer_elapsed" "seconds since the request began, or since \
        `echo_reset_timer`"
    EchoResponseStatus "echo_response_status" "the status of the response, once there is one"
    UidGot "uid_got" "name and value of the received `userid` cookie"
    UidSet "uid_set" "name and value of the `userid` cookie that is sent"
    UidReset "uid_reset" "set it to a non-empty value other than `0` to send a new `userid` \
        cookie; empty"
    Pipe "pipe" "`p` for a pipelined request, else `.`"

    // Tunnels.
    ConnectHost "connect_host" "the host that CONNECT names"
    ConnectPort "connect_port" "the port that CONNECT names"
    ConnectAddr "connect_addr" "address and port that a tunnel leads to"
    ProxyConnectConnectTimeout "proxy_connect_connect_timeout" "the time-out in force, in \
        milliseconds; may be set"
    ProxyConnectDataTimeout "proxy_connect_data_timeout" "the time-out in force, in milliseconds; \
        may be set"
    ProxyConnectReadTimeout "proxy_connect_read_timeout" "the same as `$proxy_connect_data_timeout`"
    ProxyConnectSendTimeout "proxy_connect_send_timeout" "without effect; may be set"
    ProxyConnectResolveTime "proxy_connect_resolve_time" "seconds that the look-up of the host of \
        a tunnel took, with milliseconds; `-` if it failed"
    ProxyConnectConnectTime "proxy_connect_connect_time" "the same for the connection"
    ProxyConnectFirstByteTime "proxy_connect_first_byte_time" "the same until the first byte from \
        the other end"
    ProxyConnectResponse "proxy_connect_response" "the response of an open tunnel; may be set"

    // Time and process.
    Msec "msec" "the time in seconds, with milliseconds"
    DateGmt "date_gmt" "the time in UTC, in the format of the SSI command `config timefmt`, or as \
        `Sunday, 22-Nov-2026 18:45:00 GMT`"
    DateLocal "date_local" "the same in local time"
    TimeIso8601 "time_iso8601" "local time in ISO 8601"
    TimeLocal "time_local" "local time in Common Log Format"
    Pid "pid" "process ID of the worker process"
    Hostname "hostname" "name of the machine"
    NginxVersion "nginx_version" "the nginx version that Sealane follows"
    ConnectionsActive "connections_active" "open connections, including idle ones"
    ConnectionsReading "connections_reading" "connections whose request header is being read"
    ConnectionsWriting "connections_writing" "connections with a request being processed"
    ConnectionsWaiting "connections_waiting" "idle keep-alive connections"

    // TLS.
    SslProtocol "ssl_protocol" "protocol of the TLS connection"
    SslCipher "ssl_cipher" "cipher suite of the TLS connection"
    SslCiphers "ssl_ciphers" "cipher suites that the client offers; new sessions only"
    SslCurve "ssl_curve" "group of the key exchange"
    SslCurves "ssl_curves" "groups that the client offers; new sessions only"
    SslSigalgs "ssl_sigalgs" "signature algorithms that the client accepts"
    SslEchStatus "ssl_ech_status" "`SUCCESS` when the client's hello was encrypted and opened, `GREASE` when no key opened it, else `NOT_TRIED`"
    SslEchOuterServerName "ssl_ech_outer_server_name" "server name outside of an encrypted hello that was opened"
    SslJa4 "ssl_ja4" "JA4, a fingerprint of what the client offers"
    SslSigalg "ssl_sigalg" "signature algorithm of the server's certificate"
    SslSessionId "ssl_session_id" "identifier of the TLS session"
    SslSessionReused "ssl_session_reused" "`r` when the session was resumed, else `.`"
    SslServerName "ssl_server_name" "server name that the client asked for (SNI)"
    SslAlpnProtocol "ssl_alpn_protocol" "protocol chosen by ALPN"
    SslEarlyData "ssl_early_data" "`1` while the request may still be a replay (0-RTT), else empty"
    SslEarlyDataVerdict "ssl_early_data_verdict" "result of the early data that the client \
        offered: `accepted`, or the reason for its rejection"
    SslResumption "ssl_resumption" "how the session was resumed: `ticket`, `id`, `opaque` or `store`"
    SslResumptionMiss "ssl_resumption_miss" "why the session that the client offered was not resumed"
    SslHandshakeTime "ssl_handshake_time" "seconds from the client's first byte to the end of the handshake, with microseconds"
    SslHandshakeQueueTime "ssl_handshake_queue_time" "seconds of that spent waiting for a turn, a \
        handshake thread or an accelerator"
    SslKtls "ssl_ktls" "`on` if the kernel encrypts the connection's records, `off` if it never \
        will, `pending` before it takes over"
    SslKtlsReason "ssl_ktls_reason" "why `$ssl_ktls` is not `on`, in one word"
    SslClientCert "ssl_client_cert" "the client's certificate in PEM, continued lines indented"
    SslClientRawCert "ssl_client_raw_cert" "the client's certificate in PEM"
    SslClientEscapedCert "ssl_client_escaped_cert" "the client's certificate in PEM, URL-encoded"
    SslClientFingerprint "ssl_client_fingerprint" "SHA-1 fingerprint of the client's certificate"
    SslClientIDn "ssl_client_i_dn" "issuer of the client's certificate (RFC 2253)"
    SslClientSDn "ssl_client_s_dn" "subject of the client's certificate (RFC 2253)"
    SslClientIDnLegacy "ssl_client_i_dn_legacy" "issuer of the client's certificate, old notation"
    SslClientSDnLegacy "ssl_client_s_dn_legacy" "subject of the client's certificate, old notation"
    SslClientSerial "ssl_client_serial" "serial number of the client's certificate"
    SslClientSigalg "ssl_client_sigalg" "signature algorithm of the client's certificate"
    SslClientVStart "ssl_client_v_start" "start of validity of the client's certificate"
    SslClientVEnd "ssl_client_v_end" "end of validity of the client's certificate"
    SslClientVRemain "ssl_client_v_remain" "days until the client's certificate expires"
    SslClientVerify "ssl_client_verify" "`SUCCESS`, `FAILED:reason` or `NONE`"

    // Handing requests to other servers.
    UpstreamAddr "upstream_addr" "addresses of the upstream servers contacted"
    UpstreamBytesReceived "upstream_bytes_received" "bytes received from the upstream servers"
    UpstreamBytesSent "upstream_bytes_sent" "bytes sent to the upstream servers"
    UpstreamCacheStatus "upstream_cache_status" "`HIT`, `MISS`, `EXPIRED` and so on"
    UpstreamCacheLastModified "upstream_cache_last_modified" "Last-Modified of the cached response"
    UpstreamCacheEtag "upstream_cache_etag" "ETag of the cached response"
    UpstreamCacheAge "upstream_cache_age" "age of the cached response, seconds"
    UpstreamConnectTime "upstream_connect_time" "seconds to connect to the upstream servers"
    UpstreamHeaderTime "upstream_header_time" "seconds until the headers from the upstream servers"
    UpstreamQueueTime "upstream_queue_time" "seconds in the queues of upstreams (`queue`); `-` \
        where the request did not wait"
    UpstreamResponseLength "upstream_response_length" "lengths of the bodies from the upstream \
        servers"
    UpstreamResponseTime "upstream_response_time" "seconds until the last bytes from the upstream \
        servers"
    UpstreamStatus "upstream_status" "status codes of the responses from the upstream servers"
    UpstreamLastServerName "upstream_last_server_name" "name of the upstream server contacted last"
    ProxyHost "proxy_host" "host of `proxy_pass`, with its port unless it is the scheme's"
    ProxyPort "proxy_port" "port of `proxy_pass`, or the scheme's"
    ProxyAddXForwardedFor "proxy_add_x_forwarded_for" "X-Forwarded-For of the request with `$remote_addr` appended"
    ProxyInternalBodyLength "proxy_internal_body_length" "Content-Length of a request to an HTTP server; empty when it has none"
    ProxyInternalChunked "proxy_internal_chunked" "`chunked` for a request to an HTTP server whose length is not known, else empty"
    FastcgiScriptName "fastcgi_script_name" "the URI, with `fastcgi_index` if it ends with a slash, or the first group of `fastcgi_split_path_info`"
    FastcgiPathInfo "fastcgi_path_info" "the second group of `fastcgi_split_path_info`"
    GrpcInternalTrailers "grpc_internal_trailers" "`trailers` if TE of the request has it, else empty"
}

impl Builtin {
    /// Name as the configuration writes it, without the `$`.
    pub fn name(self) -> &'static str {
        // The table is written in the order of the enum, one row per variant.
        BUILTINS[self as usize].0
    }

    /// What the variable stands for, in a few words.
    pub fn documentation(self) -> &'static str {
        BUILTINS[self as usize].2
    }
}

/// Variables whose name continues after a prefix, for the manual.
pub const PREFIXES: &[(&str, &str)] = &[
    ("http_", "a header of the request: lower case, `_` for `-`"),
    ("sent_http_", "a header of the response"),
    ("sent_trailer_", "a trailer of the response"),
    ("arg_", "an argument of the request line"),
    ("cookie_", "a cookie of the request"),
    (
        "upstream_http_",
        "a header field of the upstream server's response",
    ),
    (
        "upstream_trailer_",
        "a trailer of the upstream server's response",
    ),
    ("upstream_cookie_", "a cookie set by the upstream server"),
    (
        "proxy_protocol_tlv_",
        "a TLV of the PROXY protocol header: `alpn`, `authority`, `unique_id`, `ssl`, `netns`, \
         `ssl_version`, `ssl_cn`, `ssl_cipher`, `ssl_sig_alg`, `ssl_key_alg`, `ssl_verify`, or its \
         type as `0x01` (`ssl_0x01`)",
    ),
];

/// Finds the variable called `name` (without the `$`); named captures, which
/// depend on the configuration, are not considered.
///
/// Names are compared in lower case, as nginx does. Those of `stream` are not those of `http`.
pub fn lookup(kind: ServerKind, name: &str) -> Option<Variable> {
    let name = name.to_ascii_lowercase();
    match kind {
        ServerKind::Http => {}
        ServerKind::Stream => return stream::lookup(&name),
        // No directive of `mail` has any.
        ServerKind::Mail => return None,
    }
    if let Some((_, builtin, _)) = BUILTINS.iter().find(|(known, ..)| *known == name) {
        return Some(Variable::Builtin(*builtin));
    }
    // As in nginx nothing may follow: a variable that never has a value.
    let rest = |prefix: &str| name.strip_prefix(prefix).map(Box::<str>::from);
    if let Some(rest) = rest("http_") {
        return Some(Variable::RequestHeader(rest));
    }
    if let Some(rest) = rest("sent_http_") {
        return Some(Variable::ResponseHeader(rest));
    }
    if let Some(rest) = rest("sent_trailer_") {
        return Some(Variable::ResponseTrailer(rest));
    }
    if let Some(rest) = rest("arg_") {
        return Some(Variable::Argument(rest));
    }
    if let Some(rest) = rest("cookie_") {
        return Some(Variable::Cookie(rest));
    }
    if let Some(rest) = rest("upstream_http_") {
        return Some(Variable::UpstreamHeader(rest));
    }
    if let Some(rest) = rest("upstream_trailer_") {
        return Some(Variable::UpstreamTrailer(rest));
    }
    if let Some(rest) = rest("upstream_cookie_") {
        return Some(Variable::UpstreamCookie(rest));
    }
    rest("proxy_protocol_tlv_")
        .filter(|rest| !rest.is_empty())
        .map(Variable::ProxyProtocolTlv)
}

/// The other kind of block that has a variable of this name, which `kind` does not have.
pub(crate) fn other_block(kind: ServerKind, name: &str) -> Option<ServerKind> {
    let mut others = [ServerKind::Http, ServerKind::Stream].into_iter();
    others.find(|other| *other != kind && lookup(*other, name).is_some())
}

/// The known name nearest to an unknown one, if it is near enough to be meant.
pub(crate) fn nearest(kind: ServerKind, name: &str) -> Option<&'static str> {
    let allowed = 1 + name.len() / 5;
    // No distance is less than the difference in length: a long name costs nothing.
    let of_http = || BUILTINS.iter().map(|row| row.0);
    let names: Vec<&'static str> = match kind {
        ServerKind::Http => of_http().collect(),
        ServerKind::Stream => stream::names().collect(),
        ServerKind::Mail => Vec::new(),
    };
    let distances = names
        .into_iter()
        .filter(|known| known.len().abs_diff(name.len()) <= allowed)
        .map(|known| (crate::directives::distance(name, known), known));
    let near = distances.filter(|(distance, _)| *distance <= allowed && *distance < name.len());
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<Variable> {
        super::lookup(ServerKind::Http, name)
    }

    #[test]
    fn every_name_is_found_and_is_its_own_row() {
        for (index, (name, builtin, doc)) in BUILTINS.iter().enumerate() {
            assert_eq!(
                *builtin as usize, index,
                "{name} stands at its variant's place"
            );
            assert_eq!(builtin.name(), *name);
            assert!(!doc.is_empty());
            assert_eq!(lookup(name), Some(Variable::Builtin(*builtin)), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = BUILTINS.iter().map(|row| row.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BUILTINS.len());
    }

    #[test]
    fn prefixed_names_carry_the_rest() {
        assert_eq!(
            lookup("HTTP_User_Agent"),
            Some(Variable::RequestHeader("user_agent".into()))
        );
        assert_eq!(
            lookup("sent_http_etag"),
            Some(Variable::ResponseHeader("etag".into()))
        );
        assert_eq!(
            lookup("sent_trailer_x"),
            Some(Variable::ResponseTrailer("x".into()))
        );
        assert_eq!(lookup("arg_"), Some(Variable::Argument("".into())));
        assert_eq!(lookup("arg_q"), Some(Variable::Argument("q".into())));
        assert_eq!(lookup("cookie_sid"), Some(Variable::Cookie("sid".into())));
        assert_eq!(
            lookup("proxy_protocol_tlv_0x20"),
            Some(Variable::ProxyProtocolTlv("0x20".into()))
        );
        assert_eq!(
            lookup("upstream_http_X_a"),
            Some(Variable::UpstreamHeader("x_a".into()))
        );
        assert_eq!(
            lookup("upstream_trailer_t"),
            Some(Variable::UpstreamTrailer("t".into()))
        );
        assert_eq!(
            lookup("upstream_cookie_sid"),
            Some(Variable::UpstreamCookie("sid".into()))
        );
    }

    #[test]
    fn unknown_names_are_not_found() {
        for name in ["", "foo", "proxy_protocol_tlv_", "hosts", "1"] {
            assert_eq!(lookup(name), None, "{name:?}");
        }
    }
}
