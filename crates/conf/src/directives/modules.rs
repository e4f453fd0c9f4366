//! The modules that nginx's packages load with `load_module`, and which of them are built in here.

use super::works;

/// File of a module, without `.so`, and its main directive. Modules not listed are not built
/// in.
const MODULES: &[(&str, &str)] = &[
    ("ngx_http_brotli_filter_module", "brotli"),
    ("ngx_http_brotli_static_module", "brotli_static"),
    ("ngx_http_zstd_filter_module", "zstd"),
    ("ngx_http_zstd_static_module", "zstd_static"),
    ("ndk_http_module", "set_md5"),
    ("ngx_http_set_misc_module", "set_md5"),
    ("ngx_http_headers_more_filter_module", "more_set_headers"),
    ("ngx_http_geoip2_module", "geoip2"),
    ("ngx_http_echo_module", "echo"),
    ("ngx_http_geoip_module", "geoip_country"),
    ("ngx_http_image_filter_module", "image_filter"),
    ("ngx_http_perl_module", "perl"),
    ("ngx_http_xslt_filter_module", "xslt_stylesheet"),
    ("ngx_mail_module", "mail"),
    ("ngx_stream_module", "stream"),
    ("ngx_http_auth_request_module", "auth_request"),
    ("ngx_http_gzip_static_module", "gzip_static"),
    ("ngx_http_realip_module", "real_ip_header"),
    ("ngx_http_secure_link_module", "secure_link"),
    ("ngx_http_slice_module", "slice"),
    ("ngx_http_stub_status_module", "stub_status"),
    ("ngx_http_sub_module", "sub_filter"),
    ("ngx_http_dav_module", "dav_methods"),
    ("ngx_http_flv_module", "flv"),
    ("ngx_http_mp4_module", "mp4"),
    ("ngx_http_addition_module", "add_before_body"),
    ("ngx_http_random_index_module", "random_index"),
    ("ngx_http_gunzip_module", "gunzip"),
    ("ngx_http_v2_module", "http2"),
    ("ngx_otel_module", "otel_trace"),
];

/// Whether the directives of a module work without loading it.
pub(super) fn is_built_in(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let name = file.strip_suffix(".so").unwrap_or(file);
    let known = MODULES.iter().find(|(module, _)| *module == name);
    known.is_some_and(|(_, directive)| works(directive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_files() {
        assert!(is_built_in("modules/ngx_http_auth_request_module.so"));
        assert!(is_built_in("/usr/lib/nginx/modules/ngx_http_v2_module.so"));
        assert!(is_built_in(
            "modules/ngx_http_headers_more_filter_module.so"
        ));
        assert!(is_built_in("modules/ngx_http_geoip2_module.so"));
        assert!(is_built_in("ngx_stream_module.so"));
        assert!(is_built_in("ngx_mail_module.so"));
        assert!(!is_built_in("modules/ngx_http_geoip_module.so"));
        assert!(!is_built_in("modules/made_up.so"));
        assert!(!is_built_in(""));
    }
}
