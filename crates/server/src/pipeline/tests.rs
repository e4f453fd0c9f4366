use crate::testing::Site;

#[test]
fn a_file_is_served_as_nginx_serves_it() {
    let site = Site::new("");
    site.file("a.txt", "hello\n");
    let reply = site.get("/a.txt");
    assert_eq!(
        reply.head,
        "HTTP/1.1 200 OK\n\
         Content-Type: text/plain\n\
         Content-Length: 6\n\
         Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\n\
         Connection: keep-alive\n\
         ETag: \"3b9aca00-6\"\n\
         Accept-Ranges: bytes\n"
    );
    assert_eq!(reply.text(), "hello\n");
}
