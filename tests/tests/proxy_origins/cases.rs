//! What an origin may do wrong, and what the client sees of it.

/// What came to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// The body that was asked for, complete.
    Body(u16),
    /// Complete, without a body.
    Empty(u16),
    /// A complete page of the server's own.
    Page(u16),
    /// Part of a body; the client can tell that it is not all.
    Cut(u16),
    /// No response.
    Nothing,
    /// Something else, complete.
    Other(u16),
}

/// One way to misbehave.
pub(crate) struct Case {
    /// What the origin is asked for.
    pub(crate) path: &'static str,
    /// What the client sees.
    pub(crate) came: Came,
    /// Part of the line in the log; empty for none.
    pub(crate) log: &'static str,
    /// What the client of nginx 1.28 sees, where that is something else, and why.
    pub(crate) nginx: Option<(Came, &'static str)>,
    /// nginx does so since 1.23, which checks framing headers.
    pub(crate) since_1_23: bool,
}

const fn case(path: &'static str, came: Came, log: &'static str) -> Case {
    Case {
        path,
        came,
        log,
        nginx: None,
        since_1_23: false,
    }
}

const fn unlike(
    path: &'static str,
    came: Came,
    log: &'static str,
    nginx: Came,
    why: &'static str,
) -> Case {
    Case {
        path,
        came,
        log,
        nginx: Some((nginx, why)),
        since_1_23: false,
    }
}

/// Framing that nginx refuses since 1.23.
const fn framing(path: &'static str, log: &'static str) -> Case {
    Case {
        path,
        came: Page(502),
        log,
        nginx: None,
        since_1_23: true,
    }
}

use Came::{Body, Cut, Empty, Nothing, Other, Page};

const CLOSED_IN_HEAD: &str =
    "upstream prematurely closed connection while reading response header from upstream";
const CLOSED_IN_BODY: &str = "upstream prematurely closed connection while reading upstream";
const RESET_IN_HEAD: &str =
    "recv() failed (104: Connection reset by peer) while reading response header from upstream";
const RESET_IN_BODY: &str = "recv() failed (104: Connection reset by peer) while reading upstream";
const MORE: &str = "upstream sent more data than specified in \"Content-Length\" header";
const CHUNKED: &str = "upstream sent invalid chunked response";
const LENGTH: &str = "upstream sent invalid \"Content-Length\" header";
const CODING: &str = "upstream sent unknown \"Transfer-Encoding\"";
const BOTH: &str =
    "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
const INVALID: &str = "upstream sent invalid header";
const NO_HTTP: &str = "upstream sent no valid HTTP/1.0 header";
const SINCE_129: &str = "nginx reads on behind an interim response since 1.29 only";
const HELD_BACK: &str = "nginx keeps the head until some of the body has come";
const HTTP09: &str = "nginx takes it for HTTP/0.9 and passes it on as a body without length";
const STRICT: &str = "two servers could understand it differently";

/// What clients of nginx 1.31 see, where that is not what those of 1.28 do.
pub(crate) const WITH_NGINX_1_31: &[(&str, Came)] = &[
    ("/interim/1", Body(200)),
    ("/interim/20", Body(200)),
    ("/interim/1000", Body(200)),
    // The head is held back, and the chunk is refused by now.
    ("/bad-chunk/line-feeds", Nothing),
];

/// All that can be asked for with GET.
pub(crate) const CASES: &[Case] = &[
    // Nothing is wrong.
    case("/ok", Body(200), ""),
    case("/length/200", Body(200), ""),
    case("/chunked/200", Body(200), ""),
    case("/until-close/200", Body(200), ""),
    case("/trickle/length", Body(200), ""),
    case("/trickle/chunked", Body(200), ""),
    case("/huge/30", Body(200), ""),
    unlike("/interim/1", Body(200), "", Cut(103), SINCE_129),
    unlike("/interim/20", Body(200), "", Cut(103), SINCE_129),
    // The connection ends too early.
    case("/cut/nothing", Page(502), CLOSED_IN_HEAD),
    case("/cut/status", Page(502), CLOSED_IN_HEAD),
    case("/cut/headers", Page(502), CLOSED_IN_HEAD),
    case("/cut/head", Cut(200), CLOSED_IN_BODY),
    case("/cut/length", Cut(200), CLOSED_IN_BODY),
    case("/cut/chunk-size", Cut(200), CLOSED_IN_BODY),
    case("/cut/chunk", Cut(200), CLOSED_IN_BODY),
    case("/cut/last-chunk", Cut(200), CLOSED_IN_BODY),
    case("/cut/trailers", Cut(200), CLOSED_IN_BODY),
    case("/reset/nothing", Page(502), RESET_IN_HEAD),
    case("/reset/status", Page(502), RESET_IN_HEAD),
    case("/reset/headers", Page(502), RESET_IN_HEAD),
    case("/reset/head", Cut(200), RESET_IN_BODY),
    case("/reset/length", Cut(200), RESET_IN_BODY),
    case("/reset/chunk", Cut(200), RESET_IN_BODY),
    case("/reset/last-chunk", Cut(200), RESET_IN_BODY),
    unlike(
        "/head/interim-only",
        Page(502),
        CLOSED_IN_HEAD,
        Cut(100),
        SINCE_129,
    ),
    // Bytes that belong to nothing.
    case("/surplus/length", Body(200), MORE),
    case(
        "/surplus/chunked",
        Body(200),
        "upstream sent data after final chunk",
    ),
    case("/surplus/response", Body(200), MORE),
    case("/bodiless/204", Empty(204), MORE),
    case("/bodiless/304", Empty(304), MORE),
    // Heads that contradict themselves, or are none.
    framing(
        "/head/length-twice",
        "upstream sent duplicate header line: \"Content-Length: 200\"",
    ),
    framing(
        "/head/lengths",
        "upstream sent duplicate header line: \"Content-Length: 100\"",
    ),
    framing("/head/length-and-chunked", BOTH),
    framing("/head/chunked-and-length", BOTH),
    framing("/head/length-list", LENGTH),
    framing("/head/length-negative", LENGTH),
    framing("/head/length-plus", LENGTH),
    framing("/head/length-hex", LENGTH),
    framing("/head/length-words", LENGTH),
    framing("/head/length-empty", LENGTH),
    framing("/head/length-overflow", LENGTH),
    framing("/head/coding-unknown", CODING),
    framing("/head/coding-list", CODING),
    framing("/head/coding-twice", "upstream sent duplicate header line"),
    case("/head/folded", Page(502), INVALID),
    case("/head/space-before-colon", Page(502), INVALID),
    case("/head/nul", Page(502), INVALID),
    case("/head/bare-cr", Page(502), INVALID),
    case("/head/no-colon", Body(200), ""),
    case("/head/line-feeds", Body(200), ""),
    unlike("/head/status-0", Page(502), NO_HTTP, Body(0), STRICT),
    unlike("/head/status-99", Page(502), NO_HTTP, Other(0), HTTP09),
    unlike("/head/status-1000", Page(502), NO_HTTP, Body(100), STRICT),
    unlike("/head/status-words", Page(502), NO_HTTP, Other(0), HTTP09),
    case("/head/status-999", Body(999), ""),
    unlike("/head/http-2", Page(502), NO_HTTP, Other(0), HTTP09),
    unlike("/head/http-09", Page(502), NO_HTTP, Other(0), HTTP09),
    unlike("/head/icy", Page(502), NO_HTTP, Other(0), HTTP09),
    unlike(
        "/head/empty-line-first",
        Page(502),
        NO_HTTP,
        Other(0),
        HTTP09,
    ),
    unlike("/head/garbage", Page(502), NO_HTTP, Other(0), HTTP09),
    case("/head/http-10-length", Body(200), ""),
    case("/head/http-10-close", Body(200), ""),
    case("/head/http-10-keep-alive", Body(200), ""),
    unlike(
        "/head/switching",
        Page(502),
        "upstream sent 101",
        Body(101),
        "a 101 that nobody asked for",
    ),
    case(
        "/huge/100",
        Page(502),
        "upstream sent too big header while reading response header from upstream",
    ),
    unlike(
        "/interim/1000",
        Page(502),
        "upstream sent too many interim responses",
        Other(103),
        SINCE_129,
    ),
    // Chunks that are none.
    unlike("/bad-chunk/size", Cut(200), CHUNKED, Nothing, HELD_BACK),
    unlike("/bad-chunk/negative", Cut(200), CHUNKED, Nothing, HELD_BACK),
    unlike(
        "/bad-chunk/hexadecimal",
        Cut(200),
        CHUNKED,
        Nothing,
        HELD_BACK,
    ),
    unlike("/bad-chunk/overflow", Cut(200), CHUNKED, Nothing, HELD_BACK),
    unlike(
        "/bad-chunk/no-line-end",
        Cut(200),
        CHUNKED,
        Nothing,
        HELD_BACK,
    ),
    unlike(
        "/bad-chunk/empty-size",
        Cut(200),
        CHUNKED,
        Nothing,
        HELD_BACK,
    ),
    unlike(
        "/bad-chunk/line-feeds",
        Cut(200),
        CHUNKED,
        Other(200),
        STRICT,
    ),
    case("/bad-chunk/endless-extension", Cut(200), CHUNKED),
    unlike(
        "/bad-chunk/trailer",
        Cut(200),
        CHUNKED,
        Other(200),
        "nginx does not look at trailers",
    ),
    // Time passes.
    case(
        "/never",
        Page(504),
        "upstream timed out (110: Connection timed out) while reading response header from upstream",
    ),
    case(
        "/never/body",
        Cut(200),
        "upstream timed out (110: Connection timed out) while reading upstream",
    ),
];
