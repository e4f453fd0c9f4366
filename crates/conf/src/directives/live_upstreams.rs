//! Groups of servers that change while the server runs: nginx's ngx_http_upstream_conf_module and
//! Tengine's ngx_http_dyups_module. `api write=on` is in `status.rs`, `state` in `upstream.rs`.

use super::{Arity, Check, HTTP, LOCATION, Module, ONE, Row, status};
use crate::model::StatusView;

/// No argument.
const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "HTTP: changes of upstreams",
    doc: "Groups of servers that change while the server runs. See \
        [live-upstreams.md](live-upstreams.md). Who reaches such a location decides where requests \
        go: each needs an access rule (`allow`, `auth_basic`, `auth_request` or \
        `ssl_verify_client on`), unless its server listens on loopback addresses and Unix sockets \
        only.",
    rows: &[
        Row::new(
            "upstream_conf",
            LOCATION,
            NONE,
            "",
            "Shows and changes the servers of groups with a `zone` while the server runs, by the \
             arguments of a request: `upstream=NAME`, with `add=`, `remove=` or `id=N`, `server=`, \
             `weight=`, `max_conns=`, `max_fails=`, `fail_timeout=`, `slow_start=`, `route=`, `backup=`, \
             `up=`, `down=`, `drain=`. nginx has replaced it with `api`. See \
             [live-upstreams.md](live-upstreams.md).",
            |b, c| status::view(b, c, StatusView::UpstreamConf),
        ),
        Row::new(
            "dyups_interface",
            LOCATION,
            NONE,
            "",
            "Shows and changes groups of servers while the server runs, as in Tengine: `GET \
             /list`, `GET /detail`, `GET`, `POST` and `DELETE /upstream/NAME`, where the body is \
             what would stand in an `upstream` block. Groups that are not in the configuration \
             are reached by a `proxy_pass` with variables, and outlive a reload. See \
             [live-upstreams.md](live-upstreams.md).",
            |b, c| status::view(b, c, StatusView::Dyups),
        )
        .own(),
        Row::new(
            "dyups_shm_zone_size",
            HTTP,
            ONE,
            "2m",
            "Maximum size of all the texts that groups were made of through `dyups_interface`. \
             Further ones are refused.",
            |b, c| c.size(&mut b.http.dyups_bytes),
        )
        .own(),
        Row::meaningless(
            "dyups_read_msg_timeout",
            HTTP,
            ONE,
            Check::Time,
            "all worker threads share the groups",
        )
        .own(),
        Row::meaningless(
            "dyups_trylock",
            HTTP,
            ONE,
            Check::Flag,
            "a change takes effect at once, and none waits for another process",
        )
        .own(),
    ],
};
