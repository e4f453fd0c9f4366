//! What tests of caches have in common. The configurations show `$upstream_cache_status` as
//! `X-Cache`.

use crate::{Server, wait_for, wire};

/// The verdict of the cache.
pub fn verdict(response: &wire::Response) -> &str {
    response.header("X-Cache").unwrap_or_default()
}

/// Asks the port `plain` until the answer comes from the cache, which takes a moment after a miss.
#[track_caller]
pub fn wait_for_hit(server: &Server<'_>, target: &str) -> wire::Response {
    wait_for("a hit", || {
        let response = wire::get(server.port("plain"), target);
        (verdict(&response) == "HIT").then_some(response)
    })
}
