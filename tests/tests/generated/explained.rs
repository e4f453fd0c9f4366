//! Differences that are there on purpose, or because the nginx of Debian 12 (1.22) is older than
//! the one whose behaviour counts.

use crate::requests::Body;
use crate::servers::{Difference, Seen};
use sealane_tests::comparison::nginx_version;
use std::collections::BTreeSet;

/// What is the same in both as far as it matters.
struct Rule {
    reason: &'static str,
    /// What the configuration contains if this is the reason.
    needs: &'static str,
    /// Whether it is about this request and these answers.
    applies: fn(&Difference, &[Seen; 2]) -> bool,
    /// Takes out of what was seen what need not be equal.
    take_out: fn(&mut Seen),
}

const RULES: &[Rule] = &[
    Rule {
        reason: "the name of the server is in its pages, whose lengths are logged",
        needs: "",
        applies: |Difference { request, .. }, seen| {
            let pages = seen.each_ref().map(own_pages);
            // That of a HEAD is not seen.
            let is_head = request.method == "HEAD" && status(&seen[0]) >= 300;
            pages[0] == pages[1]
                && (pages[0] > 0 || is_head)
                && is_longer(seen, "length=", 2 * pages[0].max(1))
                && is_longer(seen, "bytes=", 2 * pages[0])
        },
        take_out: |seen| without(seen, &["length=", "bytes="]),
    },
    Rule {
        reason: "$request_length of HTTP/2 is that of the head as text, in nginx that of the frame",
        needs: "",
        applies: |difference, [ours, theirs]| {
            let request = &difference.request;
            let (frame, body) = (request.block(&difference.id).len(), request.body_bytes());
            let [ours, theirs] = [ours, theirs].map(|seen| number(seen, "asked="));
            request.version == 2
                && ours > theirs
                && (theirs == Some(frame) || theirs == Some(frame + body))
        },
        take_out: |seen| without(seen, &["asked="]),
    },
    Rule {
        reason: "a body in chunks that nobody read has no length, in nginx it has none of them left",
        needs: "",
        applies: |Difference { request, .. }, [ours, theirs]| {
            matches!(request.body, Body::Chunked(_))
                && matches!(logged(ours, "body="), Some("" | "-"))
                && logged(theirs, "body=") == Some("0")
        },
        take_out: |seen| without(seen, &["body="]),
    },
    Rule {
        reason: "nginx measures a text, then writes it, by when a map in it has changed the captures",
        needs: "$map_",
        applies: |Difference { configuration, .. }, _| {
            let mut lines = configuration.lines();
            lines.any(|line| {
                let captures = ["$1", "$2", "$seg", "$v2"];
                let maps = ["$map_uri", "$map_both", "$map_method"];
                let first = captures.iter().filter_map(|name| line.find(name)).min();
                let last = maps.iter().filter_map(|name| line.rfind(name)).max();
                matches!((first, last), (Some(first), Some(last)) if first < last)
            })
        },
        take_out: everything,
    },
    Rule {
        reason: "nginx reads no header fields behind a request line that it refuses",
        needs: "",
        // Without the field by which its line would be found.
        applies: |_, [ours, theirs]| {
            let is_refused = |line: &String| line.contains("|status=400|");
            status(ours) == 400
                && status(theirs) == 400
                && theirs.log.is_empty()
                && ours.log.iter().all(is_refused)
        },
        take_out: |seen| seen.log.clear(),
    },
    Rule {
        reason: "the length of a listing is known and told, nginx sends it in chunks",
        needs: "",
        applies: |_, [ours, theirs]| {
            let has = |seen: &Seen, name| header(seen, name).is_some();
            has(ours, "content-length")
                && !has(theirs, "content-length")
                && header(theirs, "content-type").is_some_and(|kind| {
                    ["text/html", "text/xml", "application/json"]
                        .iter()
                        .any(|known| kind.starts_with(known))
                })
        },
        take_out: |seen| {
            without(seen, &["length=", "bytes=", "te=", "conn="]);
            without_headers(seen, &["content-length", "transfer-encoding", "connection"]);
        },
    },
    Rule {
        reason: "a connection that is closed without an answer is not kept, which nginx does not log",
        needs: "",
        applies: |_, seen| seen.iter().all(|seen| status(seen) == 0),
        take_out: |seen| without(seen, &["conn="]),
    },
    Rule {
        reason: "after a rewrite there is still a file under an alias, in nginx there is none",
        needs: "alias",
        applies: |_, [_, theirs]| logged(theirs, "file=").is_some_and(|file| file.len() < 2),
        take_out: |seen| without(seen, &["file="]),
    },
    Rule {
        reason: "a worker of nginx ends by a signal where a URI is shorter than what an alias replaces",
        needs: "alias",
        applies: |_, [ours, theirs]| {
            status(ours) == 500 && theirs.response.is_none() && theirs.log.is_empty()
        },
        take_out: everything,
    },
    Rule {
        reason: "nginx takes what is behind its URI in memory when that lacks the slash of an alias",
        needs: "alias",
        applies: |_, seen| {
            seen.iter().all(|seen| {
                status(seen) == 301
                    && header(seen, "location").is_some_and(|to| {
                        to.split('?').next().is_some_and(|path| path.ends_with('/'))
                    })
            }) && (logged(&seen[1], "root=").is_some_and(|root| root.ends_with('/'))
                || logged(&seen[1], "file=").is_some_and(|file| {
                    let is_odd = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER;
                    file.contains(is_odd)
                }))
        },
        take_out: |seen| {
            without(
                seen,
                &["length=", "map=", "seg=", "file=", "root=", "bytes="],
            )
        },
    },
    Rule {
        reason: "a page without `?` brings no arguments or empty ones in nginx, as memory happens to be",
        needs: "",
        applies: |Difference { configuration, .. }, seen| {
            let mut lines = configuration.lines().map(str::trim_start);
            let is_page = lines.any(|line| {
                line.starts_with("try_files ")
                    || line.starts_with("error_page ") && line.contains('$')
            });
            let args = seen.each_ref().map(|seen| logged(seen, "args="));
            is_page && args.iter().all(|args| matches!(args, Some("" | "-")))
        },
        take_out: |seen| without(seen, &["args="]),
    },
    Rule {
        reason: "an old nginx has no ranges of what gzip_static sends",
        needs: "gzip_static",
        applies: |_, seen| {
            let has = |seen: &Seen| header(seen, "accept-ranges").is_some();
            is_old()
                && has(&seen[0])
                && !has(&seen[1])
                && seen
                    .iter()
                    .all(|seen| header(seen, "content-encoding") == Some("gzip"))
        },
        take_out: |seen| without_headers(seen, &["accept-ranges"]),
    },
    Rule {
        reason: "an old nginx has no ranges of what gzip_static sends, and answers them in full",
        needs: "gzip_static",
        applies: |Difference { request, .. }, seen| {
            is_old()
                && request.headers.iter().any(|(name, _)| name == "Range")
                && matches!(status(&seen[0]), 206 | 416)
                && status(&seen[1]) == 200
                && header(&seen[1], "content-encoding") == Some("gzip")
        },
        take_out: everything,
    },
    Rule {
        reason: "of a body in chunks that is too large is counted what came, in nginx none of it",
        needs: "client_max_body_size",
        applies: |Difference { request, .. }, [ours, theirs]| {
            matches!(request.body, Body::Chunked(_))
                && ours.log.concat().contains("|status=413|")
                && number(ours, "asked=") > number(theirs, "asked=")
        },
        take_out: |seen| without(seen, &["asked="]),
    },
    Rule {
        reason: "nginx reads the body before it sees that there is no upstream of this name",
        needs: "proxy_pass http://$",
        applies: |Difference { request, .. }, seen| {
            request.body != Body::None
                && seen.iter().all(|seen| matches!(status(seen), 500 | 502))
                && number(&seen[0], "asked=") < number(&seen[1], "asked=")
        },
        take_out: |seen| without(seen, &["asked=", "body="]),
    },
    Rule {
        reason: "nginx does not name the character set of a page for a 412, as it has named that of the file",
        needs: "charset ",
        applies: |Difference { configuration, .. }, [ours, theirs]| {
            configuration.contains("error_page 412")
                && header(ours, "content-type")
                    .and_then(|kind| kind.split_once("; charset="))
                    .is_some_and(|(kind, _)| header(theirs, "content-type") == Some(kind))
        },
        take_out: |seen| {
            without(seen, &["type="]);
            without_headers(seen, &["content-type"]);
        },
    },
    Rule {
        reason: "nginx adds headers twice to a 416, those of the file and those of the page",
        needs: "",
        applies: |_, seen| {
            let fields = |seen: &Seen| -> BTreeSet<String> {
                let response = seen.response.as_ref();
                let names = [
                    "x-a",
                    "x-b",
                    "x-s",
                    "etag",
                    "cache-control",
                    "expires",
                    "set-cookie",
                    "p3p",
                ];
                let lines = response.map_or("", |response| &response.head).lines();
                let added =
                    lines.filter(|line| names.contains(&line.split(':').next().unwrap_or("")));
                added.map(str::to_owned).collect()
            };
            // Ours are among theirs.
            seen.iter().all(|seen| status(seen) == 416)
                && fields(&seen[0]).is_subset(&fields(&seen[1]))
        },
        take_out: |seen| {
            without_between(seen, "|a=", "|range=");
            without(seen, &["cc=", "etag="]);
            without_headers(
                seen,
                &[
                    "x-a",
                    "x-b",
                    "x-s",
                    "etag",
                    "cache-control",
                    "expires",
                    "set-cookie",
                    "p3p",
                ],
            );
        },
    },
    Rule {
        reason: "a variable that was decoded and would break the request line of an upstream is refused",
        needs: "",
        applies: |difference, seen| {
            let breaking = ["%20", "%00", "%0a", "%0d", "%7f", "sp ace"];
            let own = difference
                .request
                .target
                .split('?')
                .next()
                .unwrap_or_default();
            is_refused_here_only(difference, seen) && breaking.iter().any(|text| own.contains(text))
        },
        take_out: everything,
    },
    Rule {
        reason: "what a rewrite makes of a URI and would break the request line of an upstream is refused",
        needs: "sp ace",
        applies: is_refused_here_only,
        take_out: everything,
    },
    Rule {
        reason: "arguments that were set and would break the request line of an upstream are refused",
        needs: "set $args",
        applies: is_refused_here_only,
        take_out: everything,
    },
    Rule {
        reason: "an old nginx knows the first of two headers with one name only",
        needs: "add_header X-A",
        applies: |_, seen| {
            let is_twice = |seen: &Seen| {
                let response = seen.response.as_ref();
                response.is_some_and(|response| response.head.matches("\nx-a: ").count() > 1)
            };
            is_old() && seen.iter().all(is_twice)
        },
        take_out: |seen| without_between(seen, "|a=", "|range="),
    },
    Rule {
        reason: "what is asked for in a cycle is known for each turn, in nginx for the first",
        needs: "index $uri/",
        applies: |_, seen| seen.iter().all(|seen| status(seen) == 500),
        take_out: |seen| {
            without(
                seen,
                &["uri=", "map=", "seg=", "file=", "length=", "bytes="],
            )
        },
    },
    Rule {
        reason: "nginx waits behind an answer whose rate is limited, and the client has gone by then",
        needs: "set $limit_rate",
        applies: |_, [ours, theirs]| {
            logged(ours, "done=") == Some("OK") && matches!(logged(theirs, "done="), Some("" | "-"))
        },
        take_out: |seen| without(seen, &["done=", "conn="]),
    },
    Rule {
        reason: "how a text that is searched is cut into chunks is counted",
        needs: "sub_filter",
        applies: |_, seen| {
            seen.iter()
                .all(|seen| header(seen, "transfer-encoding") == Some("chunked"))
        },
        take_out: |seen| without(seen, &["bytes="]),
    },
    Rule {
        reason: "nginx puts the cookies of HTTP/2 behind the other header fields",
        needs: "",
        applies: |Difference { request, .. }, _| {
            let cookie = |(name, _): &(String, String)| name == "Cookie";
            request.version == 2 && request.headers.iter().any(cookie)
        },
        take_out: |seen| {
            if let Some(response) = &mut seen.response {
                let text = response.text();
                let mut lines: Vec<&str> = text.split('\n').collect();
                lines.sort_unstable();
                response.body = lines.join("\n").into_bytes();
            }
        },
    },
    Rule {
        reason: "what an upstream sent although nobody wanted it is counted as received",
        needs: "",
        applies: |Difference { request, .. }, [ours, _]| {
            request.method == "HEAD" || status(ours) == 416
        },
        take_out: |seen| without(seen, &["got="]),
    },
    Rule {
        reason: "an upstream's answer keeps its type when it becomes a 204, and its body is received",
        needs: "",
        applies: |_, seen| {
            let is_passed = |seen: &Seen| header(seen, "x-echo").is_some();
            seen.iter()
                .all(|seen| status(seen) == 204 && is_passed(seen))
        },
        take_out: |seen| {
            without(seen, &["type=", "got="]);
            without_headers(seen, &["content-type"]);
        },
    },
    Rule {
        reason: "boundaries between parts are chosen at random, and counted by nginx",
        needs: "",
        applies: |_, seen| seen.iter().all(|seen| status(seen) == 206),
        take_out: |seen| without(seen, &["type=", "length=", "bytes="]),
    },
    Rule {
        reason: "what is packed on the way is packed by another library, whose lengths are logged",
        needs: "gzip",
        applies: |_, seen| {
            seen.iter().all(|seen| {
                header(seen, "content-encoding") == Some("gzip")
                    && header(seen, "content-length").is_none()
            })
        },
        take_out: |seen| without(seen, &["bytes="]),
    },
    Rule {
        reason: "nginx says that it keeps a connection, but closes it, when no location has been entered",
        needs: "keepalive_timeout 0",
        applies: |_, [ours, theirs]| {
            header(ours, "connection") == Some("close")
                && header(theirs, "connection") == Some("keep-alive")
        },
        take_out: |seen| {
            without(seen, &["conn="]);
            without_headers(seen, &["connection"]);
        },
    },
    Rule {
        reason: "$invalid_referer stays in nginx what it was where it was asked for first",
        needs: "$invalid_referer",
        applies: |_, seen| {
            let bad = seen.each_ref().map(|seen| logged(seen, "bad="));
            bad.iter().all(|bad| matches!(bad, Some("" | "-" | "1")))
        },
        take_out: |seen| without(seen, &["bad="]),
    },
    Rule {
        reason: "nginx ends the request of a 412 as one that has failed",
        needs: "",
        applies: |Difference {
                      request,
                      configuration,
                      ..
                  },
                  seen| {
            let names = ["If-Unmodified-Since", "If-Match"];
            let mut headers = request.headers.iter();
            headers.any(|(name, _)| names.contains(&name.as_str()))
                // Or what an `error_page` has made of it.
                && (configuration.contains("error_page 412")
                    || seen.iter().all(|seen| logged(seen, "status=") == Some("412")))
                && matches!(logged(&seen[1], "done="), Some("" | "-"))
        },
        take_out: |seen| without(seen, &["done=", "conn="]),
    },
];

/// Why the two do not do the same, if that is as it should be; empty if it is not.
pub(crate) fn explained(difference: &Difference) -> Vec<&'static str> {
    let mut seen = difference.seen.clone();
    let mut reasons = Vec::new();
    for rule in RULES {
        let configuration = &difference.configuration;
        if !configuration.contains(rule.needs) || !(rule.applies)(difference, &difference.seen) {
            continue;
        }
        let before = seen.clone();
        for one in &mut seen {
            (rule.take_out)(one);
        }
        if seen != before {
            reasons.push(rule.reason);
        }
        if seen[0] == seen[1] {
            return reasons;
        }
    }
    Vec::new()
}

fn status(seen: &Seen) -> u16 {
    seen.response.as_ref().map_or(0, |response| response.status)
}

fn logged<'s>(seen: &'s Seen, name: &str) -> Option<&'s str> {
    let mut parts = seen.log.first()?.split('|');
    parts.find_map(|part| part.strip_prefix(name))
}

fn header<'s>(seen: &'s Seen, name: &str) -> Option<&'s str> {
    let response = seen.response.as_ref()?;
    let lines = response
        .head
        .split('\n')
        .filter_map(|line| line.split_once(": "));
    lines
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .next()
}

/// A number that was logged.
fn number(seen: &Seen, name: &str) -> Option<usize> {
    logged(seen, name)?.parse().ok()
}

/// Whether ours is as long as theirs, or that much longer.
fn is_longer(seen: &[Seen; 2], name: &str, more: usize) -> bool {
    let [ours, theirs] = seen.each_ref().map(|seen| number(seen, name));
    ours == theirs || ours == theirs.map(|theirs| theirs + more)
}

/// Whether nginx is older than 1.23, as Debian 12's is.
fn is_old() -> bool {
    nginx_version() < (1, 23, 0)
}

/// How many pages of a server's own there are in a body.
fn own_pages(seen: &Seen) -> usize {
    let response = seen.response.as_ref();
    response.map_or(0, |response| {
        response.text().matches("<center>nginx</center>").count()
    })
}

/// Whether Sealane answered 500 without asking an upstream that nginx asked: the head of the
/// request would not have been one.
fn is_refused_here_only(difference: &Difference, [ours, theirs]: &[Seen; 2]) -> bool {
    let asked = |seen| logged(seen, "up=").is_some_and(|status| !matches!(status, "" | "-"));
    // Or what an `error_page` has made of it.
    let is_500 = status(ours) == 500 || difference.configuration.contains("error_page 500");
    is_500 && !asked(ours) && asked(theirs)
}

fn everything(seen: &mut Seen) {
    seen.response = None;
    seen.log.clear();
}

/// Takes out what was logged between two names, as it may have bars of its own.
fn without_between(seen: &mut Seen, from: &str, to: &str) {
    for line in &mut seen.log {
        if let (Some(from), Some(to)) = (line.find(from), line.find(to)) {
            line.replace_range(from..to.max(from), "");
        }
    }
}

/// Takes parts out of what was logged.
fn without(seen: &mut Seen, names: &[&str]) {
    for line in &mut seen.log {
        let kept: Vec<&str> = line
            .split('|')
            .filter(|part| !names.iter().any(|name| part.starts_with(name)))
            .collect();
        *line = kept.join("|");
    }
}

fn without_headers(seen: &mut Seen, names: &[&str]) {
    let Some(response) = &mut seen.response else {
        return;
    };
    let lines = response.head.split('\n').filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !names.contains(&name)
    });
    response.head = lines.collect::<Vec<_>>().join("\n");
}
