//! One server for each kind of handler, the same for Sealane and for nginx.

use super::origins::Origins;
use sealane_tests::comparison::nginx_version;
use sealane_tests::{Server, Site};

/// What answers `location /`, by the name of its port.
pub(crate) struct Handler {
    pub(crate) name: &'static str,
    /// What stands in for POST in the cases, so that the handler does its work.
    pub(crate) method: &'static str,
    /// What is in the location.
    lines: &'static str,
    /// What is in the server besides.
    beside: &'static str,
}

const fn handler(name: &'static str, method: &'static str, lines: &'static str) -> Handler {
    Handler {
        name,
        method,
        lines,
        beside: "",
    }
}

pub(crate) const HANDLERS: &[Handler] = &[
    handler("static", "GET", "root html;"),
    handler("return", "POST", "return 200 text;"),
    handler("redirect", "GET", "return 301 /elsewhere;"),
    handler("missing", "GET", "root html/nothing;"),
    handler("denied", "POST", "deny all; root html;"),
    handler(
        "passwords",
        "GET",
        "auth_basic here; auth_basic_user_file users; root html;",
    ),
    handler("autoindex", "GET", "autoindex on; root html/list;"),
    handler("status", "GET", "stub_status;"),
    handler(
        "dav",
        "PUT",
        "dav_methods PUT; create_full_put_path on; alias html/dav/$request_id/;",
    ),
    handler("limit_except", "POST", "limit_except GET { deny all; } root html;"),
    handler("buffered", "POST", "proxy_pass http://strict;"),
    handler("buffered_lax", "POST", "proxy_pass http://lax;"),
    handler("buffered_length", "POST", "proxy_pass http://length;"),
    handler(
        "streamed",
        "POST",
        "proxy_request_buffering off; proxy_pass http://strict;",
    ),
    handler(
        "streamed_lax",
        "POST",
        "proxy_request_buffering off; proxy_pass http://lax;",
    ),
    handler(
        "streamed_length",
        "POST",
        "proxy_request_buffering off; proxy_pass http://length;",
    ),
    handler("fastcgi", "POST", "include cgi.conf; fastcgi_pass fastcgi;"),
    handler("uwsgi", "POST", "include cgi.conf; uwsgi_pass uwsgi;"),
    handler("scgi", "POST", "include cgi.conf; scgi_pass scgi;"),
    handler("grpc", "POST", "grpc_pass grpc://http2;"),
    Handler {
        beside: "location = /auth { internal; proxy_pass_request_body off; proxy_set_header Content-Length \"\";
                 proxy_set_header Host $host; proxy_set_header Connection \"\";
                 proxy_set_header X-Id $remote_port-$server_port; proxy_pass http://asked; }",
        ..handler("auth_request", "POST", "auth_request /auth; proxy_pass http://strict;")
    },
    Handler {
        beside: "location = /copy { internal; proxy_pass http://asked; }",
        ..handler("mirror", "POST", "mirror /copy; proxy_pass http://strict;")
    },
    handler(
        "proxy_http_two",
        "POST",
        "proxy_http_version 2; proxy_pass http://http2;",
    ),
];

const CGI: &str = "
    fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param X_ID $remote_port-$server_port;
    uwsgi_param REQUEST_METHOD $request_method; uwsgi_param REQUEST_URI $request_uri;
    uwsgi_param CONTENT_LENGTH $content_length; uwsgi_param X_ID $remote_port-$server_port;
    scgi_param REQUEST_METHOD $request_method; scgi_param REQUEST_URI $request_uri;
    scgi_param CONTENT_LENGTH $content_length; scgi_param X_ID $remote_port-$server_port;";

/// What lies outside of every root.
pub(crate) const SECRET: &str = "what nobody may read";

fn common(origins: &Origins) -> String {
    let mut text = String::from(
        "server_tokens off; keepalive_timeout 5s; keepalive_requests 1000;
         client_header_timeout 2s; client_body_timeout 2s; client_max_body_size 100k;
         lingering_timeout 1s; lingering_time 2s;
         client_body_temp_path temporary/bodies; default_type text/plain; absolute_redirect off;
         proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;
         proxy_set_header X-Id $remote_port-$server_port;
         grpc_set_header X-Id $remote_port-$server_port;
         proxy_next_upstream off; grpc_next_upstream off; fastcgi_next_upstream off;
         uwsgi_next_upstream off; scgi_next_upstream off;\n",
    );
    for (name, port) in origins.ports() {
        // Connections are shared by all cases, for what may be left in them.
        let kept = match name {
            "strict" | "lax" | "length" | "asked" | "http2" => "keepalive 16;",
            _ => "",
        };
        text.push_str(&format!(
            "upstream {name} {{ server 127.0.0.1:{port} max_fails=0; {kept} }}\n"
        ));
    }
    text
}

/// The configuration for the handlers.
fn configuration(origins: &Origins, handlers: &[&Handler]) -> String {
    let mut text = common(origins);
    for Handler {
        name,
        lines,
        beside,
        ..
    } in handlers
    {
        let listen = format!("listen 127.0.0.1:%{name}%; listen 127.0.0.1:%{name}_h% http2;");
        text.push_str(&format!(
            "server {{ {listen} server_name a.test; {beside}
               location = /follower {{ return 299 follower; }}
               location ^~ /forbidden/ {{ deny all; }}
               location / {{ {lines} }} }}
             server {{ {listen} server_name other.test; return 297 other; }}\n"
        ));
    }
    text
}

/// The handlers that nginx has too.
pub(crate) fn known_to_nginx() -> Vec<&'static Handler> {
    // It learnt HTTP/2 towards upstreams late.
    let has_http2 = nginx_version() >= (1, 29, 4);
    HANDLERS
        .iter()
        .filter(|handler| has_http2 || handler.name != "proxy_http_two")
        .collect()
}

fn prepare(site: &Site) {
    site.write("html/t", "a file\n");
    site.write("html/list/t/file", "a file\n");
    site.write("html/forbidden/t", SECRET);
    site.write("html/list/forbidden/t", SECRET);
    site.write("html/dav/file", "a file\n");
    site.write("secret", SECRET);
    site.write("users", "user:{PLAIN}word\n");
    site.write("cgi.conf", CGI);
    // The worker may run as another user.
    for directory in ["html/dav", "temporary"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(site.path(directory), mode).expect("the directory is ours");
    }
}

pub(crate) fn sealane<'s>(site: &'s Site, origins: &Origins) -> Server<'s> {
    prepare(site);
    let all: Vec<_> = HANDLERS.iter().collect();
    site.serve_with(
        "",
        "worker_connections 4096;",
        &configuration(origins, &all),
    )
}

pub(crate) fn nginx<'s>(site: &'s Site, origins: &Origins) -> Server<'s> {
    prepare(site);
    let temporary = ["proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temporary/{name};"))
        .concat();
    let http = configuration(origins, &known_to_nginx());
    let whole = format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 4096; }} http {{ access_log off; {temporary} {http} }}"
    );
    Server::start(site, sealane_tests::Program::Nginx, &whole)
}
