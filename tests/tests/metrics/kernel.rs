//! Who seals the records of TLS connections: the kernel, or why not.

use super::*;

/// Whatever the kernel can do.
pub(super) const REFUSED: &[Move] = &[
    ("sealane_kernel_tls_refused_connections_total", By(4)),
    (
        "sealane_kernel_tls_refused_connections_total{reason=\"disabled\"}",
        By(1),
    ),
    (
        "sealane_kernel_tls_refused_connections_total{reason=\"not_tcp\"}",
        By(1),
    ),
    (
        "sealane_kernel_tls_refused_connections_total{reason=\"protocol\"}",
        By(1),
    ),
    (
        "sealane_kernel_tls_refused_connections_total{reason=\"suite\"}",
        By(1),
    ),
    ("sealane_kernel_tls_connections_total", By(0)),
];

const SITE: &str = "
    ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key;
    ssl_protocols TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers HIGH:@SECLEVEL=0;
    server { listen 127.0.0.1:%tls% ssl; listen unix:%site%/tls.sock ssl; ssl_ktls on; root html; }
    server { listen 127.0.0.1:%off% ssl; ssl_ktls off; root html; }
    server { listen 127.0.0.1:%auto% ssl; root html; }
    server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }";

/// A request by `openssl s_client`, to its end.
#[track_caller]
fn ask(options: &str) {
    let mut arguments = vec!["s_client", "-ign_eof"];
    arguments.extend(options.split(' '));
    let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let outcome = command("openssl", &arguments, request).success();
    assert!(outcome.text().contains(" 200 OK"), "{}", outcome.text());
}

#[test]
fn connections_are_counted_by_why_the_kernel_does_not_seal() {
    let site = mixed_site();
    let server = site.serve(SITE);
    let watch = Watch::start(&server);
    let (tls, off) = (server.port("tls"), server.port("off"));
    ask(&format!("-connect 127.0.0.1:{off}"));
    ask(&format!("-unix {}", site.path("tls.sock").display()));
    ask(&format!(
        "-connect 127.0.0.1:{tls} -tls1_1 -cipher DEFAULT@SECLEVEL=0"
    ));
    ask(&format!(
        "-connect 127.0.0.1:{tls} -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA"
    ));
    watch.saw(REFUSED);
}

#[test]
fn what_the_kernel_can_do_is_counted_as_the_doctor_says() {
    let site = mixed_site();
    let server = site.serve(SITE);
    let watch = Watch::start(&server);
    ask(&format!("-connect 127.0.0.1:{}", server.port("tls")));
    ask(&format!("-connect 127.0.0.1:{}", server.port("auto")));
    if doctor()["kernel_tls"]["usable"] == true {
        // The file is small: only `ssl_ktls on` has it sealed by the kernel.
        watch.saw(&[
            ("sealane_kernel_tls_connections_total", By(1)),
            (
                "sealane_kernel_tls_refused_connections_total{reason=\"small_response\"}",
                By(1),
            ),
        ]);
    } else {
        server.wait_for_log("kernel TLS is not used");
        watch.saw(&[
            ("sealane_kernel_tls_connections_total", By(0)),
            ("sealane_kernel_tls_refused_connections_total", By(2)),
        ]);
    }
}
