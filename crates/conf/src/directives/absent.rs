//! Modules of nginx that Sealane leaves out on purpose, with what to use instead.

use super::{Arity, HSL, HTTP, LIMIT_EXCEPT, LOCATION, Module, ONE, Row};

const TWO: Arity = Arity::Between(2, 2);

const GEOIP: &str = "it reads GeoIP Legacy databases, which are published no more; `geo` takes a \
                     list of networks, which can be made from today's databases, in a file of its own";

pub(super) const GEOIP_MODULE: Module = Module {
    title: "Left out: GeoIP Legacy",
    doc: "ngx_http_geoip_module.",
    rows: &[
        Row::unsupported("geoip_city", HTTP, Arity::Between(1, 2), GEOIP),
        Row::unsupported("geoip_country", HTTP, Arity::Between(1, 2), GEOIP),
        Row::unsupported("geoip_org", HTTP, Arity::Between(1, 2), GEOIP),
        Row::unsupported("geoip_proxy", HTTP, ONE, GEOIP),
        Row::unsupported("geoip_proxy_recursive", HTTP, ONE, GEOIP).inert(&["off"]),
    ],
};

const IMAGES: &str = "decoders of images have no place in a process that holds private keys; \
                      `proxy_pass` to imgproxy, thumbor or a nginx of its own";

pub(super) const IMAGE_FILTER: Module = Module {
    title: "Left out: images",
    doc: "ngx_http_image_filter_module.",
    rows: &[
        Row::unsupported("image_filter", LOCATION, Arity::Between(1, 3), IMAGES),
        Row::unsupported("image_filter_buffer", HSL, ONE, IMAGES),
        Row::unsupported("image_filter_interlace", HSL, ONE, IMAGES).inert(&["off"]),
        Row::unsupported("image_filter_jpeg_quality", HSL, ONE, IMAGES),
        Row::unsupported("image_filter_sharpen", HSL, ONE, IMAGES),
        Row::unsupported("image_filter_transparency", HSL, ONE, IMAGES).inert(&["off"]),
        Row::unsupported("image_filter_webp_quality", HSL, ONE, IMAGES),
    ],
};

const XSLT: &str = "responses in XML are not transformed; the application, or a service behind \
                    `proxy_pass`, can do it";

pub(super) const XSLT_MODULE: Module = Module {
    title: "Left out: XSLT",
    doc: "ngx_http_xslt_module.",
    rows: &[
        Row::unsupported("xml_entities", HSL, ONE, XSLT),
        Row::unsupported("xslt_last_modified", HSL, ONE, XSLT).inert(&["off"]),
        Row::unsupported("xslt_param", HSL, TWO, XSLT),
        Row::unsupported("xslt_string_param", HSL, TWO, XSLT),
        Row::unsupported("xslt_stylesheet", LOCATION, Arity::AtLeast(1), XSLT),
        Row::unsupported("xslt_types", HSL, Arity::AtLeast(1), XSLT),
    ],
};

const PERL: &str = "scripts are not supported; `map`, `rewrite` and `auth_request` cover many of \
                    their uses, an application behind `proxy_pass` or `fastcgi_pass` the others";

pub(super) const PERL_MODULE: Module = Module {
    title: "Left out: Perl",
    doc: "ngx_http_perl_module.",
    rows: &[
        Row::unsupported("perl", LOCATION | LIMIT_EXCEPT, ONE, PERL),
        Row::unsupported("perl_modules", HTTP, ONE, PERL),
        Row::unsupported("perl_require", HTTP, ONE, PERL),
        Row::unsupported("perl_set", HTTP, TWO, PERL),
    ],
};

const BROWSER: &str = "browsers name each other in User-Agent; `map $http_user_agent $name { ~MSIE old; \
                       default new; }` recognizes what matters to a site";

pub(super) const BROWSER_MODULE: Module = Module {
    title: "Left out: browsers",
    doc: "ngx_http_browser_module.",
    rows: &[
        Row::unsupported("ancient_browser", HSL, Arity::AtLeast(1), BROWSER),
        Row::unsupported("ancient_browser_value", HSL, ONE, BROWSER),
        Row::unsupported("modern_browser", HSL, Arity::Between(1, 2), BROWSER),
        Row::unsupported("modern_browser_value", HSL, ONE, BROWSER),
    ],
};

const DEGRADATION: &str = "it watches the size of nginx's process, and works on Solaris only; \
                           `worker_connections`, `limit_req` and `limit_conn` bound what is taken on";

pub(super) const DEGRADATION_MODULE: Module = Module {
    title: "Left out: degradation",
    doc: "ngx_http_degradation_module.",
    rows: &[
        Row::unsupported("degradation", HTTP, ONE, DEGRADATION),
        Row::unsupported("degrade", HSL, ONE, DEGRADATION),
    ],
};
