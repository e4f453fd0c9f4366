use super::*;

fn page(code: u16, server: &str, msie_padding: bool) -> String {
    let mut out = Vec::new();
    ErrorPage::of(StatusCode(code))
        .expect("a built-in page")
        .write(&mut out, b"", server.as_bytes(), msie_padding);
    String::from_utf8(out).expect("pages are ASCII")
}

#[test]
fn the_404_page_is_nginx_s_byte_for_byte() {
    // 153 bytes with "nginx/1.22.1": the Content-Length Debian's nginx answers with.
    let text = page(404, "nginx/1.22.1", false);
    assert_eq!(text.len(), 153);
    assert_eq!(
        text,
        "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n\
         <center><h1>404 Not Found</h1></center>\r\n\
         <hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
    );
}

#[test]
fn pages_of_own_codes_are_shown_as_400_with_a_sentence() {
    let text = page(497, "nginx", false);
    assert!(text.contains("<title>400 The plain HTTP request was sent to HTTPS port</title>"));
    assert!(text.contains(
        "<center><h1>400 Bad Request</h1></center>\r\n\
         <center>The plain HTTP request was sent to HTTPS port</center>\r\n"
    ));
    for code in 494..=497 {
        assert_eq!(StatusCode(code).on_wire(), StatusCode::BAD_REQUEST);
        assert!(page(code, "nginx", false).contains("400 Bad Request"));
    }
    assert_eq!(StatusCode(499).on_wire(), StatusCode(499));
}

#[test]
fn padding_is_for_errors_only() {
    assert!(page(400, "nginx", true).ends_with(MSIE_PADDING));
    assert!(!page(400, "nginx", false).contains("padding"));
    assert!(!page(301, "nginx", true).contains("padding"));
    assert_eq!(MSIE_PADDING.lines().count(), 6);
}

#[test]
fn pages_and_phrases_differ_where_nginx_s_do() {
    assert_eq!(StatusCode::FOUND.reason(), "Moved Temporarily");
    assert!(page(302, "nginx", false).contains("<h1>302 Found</h1>"));
    assert_eq!(StatusCode::UNAUTHORIZED.reason(), "Unauthorized");
    assert!(page(401, "nginx", false).contains("<h1>401 Authorization Required</h1>"));
    for code in 400..=599 {
        let status = StatusCode(code);
        if let Some(page) = ErrorPage::of(status) {
            let mut out = Vec::new();
            page.write(&mut out, b"", b"x", false);
            let heading = format!("<h1>{} {}</h1>", code, status.reason());
            let same = String::from_utf8_lossy(&out).contains(&heading);
            assert_eq!(same, !matches!(code, 401 | 494..=498), "{code}");
        }
    }
}

#[test]
fn statuses_without_a_page() {
    for code in [200, 201, 204, 206, 304, 418, 444, 499, 599] {
        assert_eq!(ErrorPage::of(StatusCode(code)), None, "{code}");
    }
}
