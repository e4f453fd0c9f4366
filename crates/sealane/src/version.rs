//! What `-v`, `-V` and `-h` print.

use crate::paths::{ConfChoice, DEFAULT_CONF, DEFAULT_ERROR_LOG, DEFAULT_PREFIX, Places};

/// Name and version, as `Server` headers and logs have it.
pub(crate) const NAME_AND_VERSION: &str = concat!("sealane/", env!("CARGO_PKG_VERSION"));

/// The answer to `-v`.
pub(crate) const LINE: &str = concat!("sealane version: sealane/", env!("CARGO_PKG_VERSION"), "\n");

/// The compiler.
pub(crate) const COMPILER: &str = env!("SEALANE_RUSTC_VERSION");

/// Modules of nginx that its `configure` has to be asked for, each with a directive of its own.
const MODULES: &[(&str, &str)] = &[
    ("http_addition", "add_before_body"),
    ("http_auth_request", "auth_request"),
    ("http_dav", "dav_methods"),
    ("http_flv", "flv"),
    ("http_gunzip", "gunzip"),
    ("http_gzip_static", "gzip_static"),
    ("http_mp4", "mp4"),
    ("http_random_index", "random_index"),
    ("http_realip", "real_ip_header"),
    ("http_secure_link", "secure_link"),
    ("http_slice", "slice"),
    ("http_ssl", "ssl_certificate"),
    ("http_stub_status", "stub_status"),
    ("http_sub", "sub_filter"),
    ("http_v2", "http2"),
    ("http_v3", "http3"),
];

/// Those whose directives work here, in the notation of nginx's `configure`, for scripts that
/// look for them.
fn modules() -> String {
    let here = MODULES
        .iter()
        .filter(|(_, directive)| sealane_conf::directives::works(directive));
    let options = here.map(|(module, _)| format!("--with-{module}_module"));
    options.collect::<Vec<_>>().join(" ")
}

/// The answer to `-h`, below [`LINE`].
pub(crate) fn help() -> String {
    format!(
        "Usage: sealane [-?hvVtTq] [-s signal] [-p prefix]
               [-e filename] [-c filename] [-g directives]
       sealane doctor [-c filename] [-p prefix] [-g directives] [--json]
       sealane migrate [filename] [-p prefix] [-g directives] [--json]
       sealane ech-key --public-name name filename
       sealane bench ...

Options:
  -?,-h,--help  : this help
  -v,--version  : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {DEFAULT_PREFIX}/)
  -e filename   : set error log file (default: {DEFAULT_ERROR_LOG})
  -c filename   : set configuration file (default: {DEFAULT_CONF})
  -g directives : set global directives out of configuration file

Commands:
  doctor        : what this machine can do for TLS, and what to do about
                  the rest (sealane doctor --help)
  migrate       : what becomes of a configuration of nginx, all of it
                  (sealane migrate --help)
  ech-key       : make a key for Encrypted Client Hello (ssl_ech_file) and
                  print its DNS record
  bench         : load generator and comparison (sealane bench --help)

"
    )
}

/// The answer to `-V`, below [`LINE`].
pub(crate) fn build(places: &Places) -> String {
    let conf = places.conf_file.display();
    let why = match places.conf_choice {
        ConfChoice::Given => "given with -c",
        ConfChoice::Default => "default",
        ConfChoice::Nginx => "nginx's, because there is none below the prefix",
    };
    format!(
        "built by {COMPILER}
built with {}
TLS SNI support enabled
configuration file: {conf} ({why})
configure arguments: --prefix={DEFAULT_PREFIX} --conf-path={DEFAULT_PREFIX}/{DEFAULT_CONF} \
         --error-log-path={DEFAULT_PREFIX}/{DEFAULT_ERROR_LOG} {}\n",
        sealane_tls::library_version(),
        modules()
    )
}
