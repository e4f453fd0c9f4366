//! A browser's request, for measurements.

/// What a browser asks for a page's parts; the path is the only part that differs.
pub(crate) const BROWSER: &[(&str, &str)] = &[
    (":method", "GET"),
    (":authority", "www.example.com"),
    (":scheme", "https"),
    (":path", "/assets/app.3f2a1b.js?v=17"),
    (
        "sec-ch-ua",
        "\"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"",
    ),
    ("sec-ch-ua-mobile", "?0"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/130.0.0.0 Safari/537.36",
    ),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("accept", "*/*"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "no-cors"),
    ("sec-fetch-dest", "script"),
    ("referer", "https://www.example.com/"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.9"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ("cookie", "theme=dark"),
    ("priority", "u=1"),
];
