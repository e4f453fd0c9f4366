//! What names the server: `server_tag`, `server_info`, `server_admin`.

use sealane_tests::Site;
use sealane_tests::wire::get;

#[test]
fn pages_and_headers_name_what_is_configured() {
    let site = Site::new();
    let server = site.serve(
        "server_admin 'root@example.org';
         server { listen 127.0.0.1:%plain%;
           location /tag { server_tag Apache/2.2; return 403; }
           location /none { server_tag off; return 403; }
           location /info { server_info on; server_tag off; return 403; }
           location /plain { return 403; } }",
    );
    let port = server.port("plain");
    let tagged = get(port, "/tag");
    assert_eq!(tagged.header("Server"), Some("Apache/2.2"));
    assert!(tagged.text().contains("<hr><center>Apache/2.2</center>"));
    let none = get(port, "/none");
    assert_eq!(none.header("Server"), None);
    assert!(!none.text().contains("<hr>"));
    let info = get(port, "/info?<script>&x").text();
    for expected in [
        "<td>URL:</td><td>http://localhost/info?&lt;script&gt;&amp;x</td>",
        "<td>Admin:</td><td>root@example.org</td>",
        "<td>Server:</td><td>",
        "<td>Date:</td><td>",
    ] {
        assert!(info.contains(expected), "{expected} in {info}");
    }
    assert!(!get(port, "/plain").text().contains("root@example.org"));
}
