//! Modules of nginx that Sealane leaves out on purpose, with alternatives.

use super::{Arity, HSL, HTTP, LIMIT_EXCEPT, LOCATION, Module, ONE, Row, STREAM};

const TWO: Arity = Arity::Between(2, 2);
const TWO_AT_MOST: Arity = Arity::Between(1, 2);

const GEOIP: &str = "it reads GeoIP Legacy databases, which are no longer published; use `geoip2` \
                     with a current database";

pub(super) const GEOIP_MODULE: Module = Module {
    title: "Left out: GeoIP Legacy",
    doc: "ngx_http_geoip_module.",
    rows: &[
        Row::unsupported("geoip_city", HTTP | STREAM, TWO_AT_MOST, GEOIP),
        Row::unsupported("geoip_country", HTTP | STREAM, TWO_AT_MOST, GEOIP),
        Row::unsupported("geoip_org", HTTP | STREAM, TWO_AT_MOST, GEOIP),
        Row::unsupported("geoip_proxy", HTTP, ONE, GEOIP),
        Row::unsupported("geoip_proxy_recursive", HTTP, ONE, GEOIP).inert(&["off"]),
    ],
};

const IMAGES: &str = "a process that holds private keys should not decode images; use `proxy_pass` \
                      to imgproxy, thumbor or a separate nginx";

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

const XSLT: &str = "XML responses are not transformed; use the application or a service behind \
                    `proxy_pass`";

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
                    their uses, and an application behind `proxy_pass` or `fastcgi_pass` covers \
                    the others";

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

const DEGRADATION: &str = "it checks the memory of nginx's process, and works only on Solaris; \
                           `sysguard_mem` turns requests away while the machine lacks memory, \
                           `limit_req` and `limit_conn` limit the load";

pub(super) const DEGRADATION_MODULE: Module = Module {
    title: "Left out: degradation",
    doc: "ngx_http_degradation_module.",
    rows: &[
        Row::unsupported("degradation", HTTP, ONE, DEGRADATION),
        Row::unsupported("degrade", HSL, ONE, DEGRADATION),
    ],
};

/// The variables of ngx_http_geoip_module.
const GEOIP_VARIABLES: [&str; 16] = [
    "geoip_area_code",
    "geoip_city",
    "geoip_city_continent_code",
    "geoip_city_country_code",
    "geoip_city_country_code3",
    "geoip_city_country_name",
    "geoip_country_code",
    "geoip_country_code3",
    "geoip_country_name",
    "geoip_dma_code",
    "geoip_latitude",
    "geoip_longitude",
    "geoip_org",
    "geoip_postal_code",
    "geoip_region",
    "geoip_region_name",
];

/// What to use instead of a variable that one of these modules has.
pub(crate) fn instead_of_variable(name: &str) -> Option<&'static str> {
    GEOIP_VARIABLES.contains(&name).then_some(GEOIP)
}
