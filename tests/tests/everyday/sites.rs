//! The twenty sites: their files, what is behind them, what is asked of them, and where the
//! answers differ on purpose.

use crate::surroundings::file;

/// One site.
pub(crate) struct Site {
    pub(crate) name: &'static str,
    /// Files in the test's directory, by path without the slash before it.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Addresses in the configuration, and what answers there.
    pub(crate) behind: &'static [(&'static str, Behind)],
    pub(crate) requests: Vec<String>,
    pub(crate) differences: &'static [Difference],
}

/// What stands behind an address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behind {
    Php,
    Gunicorn,
    WebSockets,
    Grpc,
    /// Says what it was asked.
    Origin,
    Nobody,
}

/// A difference that is as it should be.
pub(crate) struct Difference {
    /// What the requests that have it contain.
    pub(crate) request: &'static str,
    /// `status`, `body`, or a header's name.
    pub(crate) part: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) since: Since,
}

/// With which nginx there is a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Always,
    /// Only with one before 1.23: newer ones do as Sealane does.
    Old,
}

impl Site {
    fn new(name: &'static str) -> Site {
        Site {
            name,
            files: &[],
            behind: &[],
            requests: Vec::new(),
            differences: &[],
        }
    }

    /// Requests, one to a line.
    fn ask(mut self, lines: &str) -> Site {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        self.requests.extend(lines.map(str::to_owned));
        self
    }

    pub(crate) fn configuration(&self) -> String {
        match self.name {
            "debian" => debian("sites-available/default"),
            name => file(&format!("{name}.conf")),
        }
    }

    /// What is around it; empty if it is the whole.
    pub(crate) fn surroundings(&self) -> String {
        match self.name {
            "debian" => debian("nginx.conf"),
            "official" => String::new(),
            _ => file("surroundings.conf"),
        }
    }
}

/// A file as Debian's package installs it.
fn debian(name: &str) -> String {
    std::fs::read_to_string(format!("/etc/nginx/{name}")).expect("Debian's nginx is installed")
}

const PHP: &str = "<?php\nheader('X-Script: ' . $_SERVER['SCRIPT_NAME']);\n\
    if (isset($_GET['status'])) { http_response_code((int)$_GET['status']); }\n\
    foreach (['REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'SCRIPT_NAME', 'PATH_INFO', 'DOCUMENT_URI', 'HTTPS', 'SERVER_NAME', \
    'CONTENT_TYPE', 'CONTENT_LENGTH', 'HTTP_HOST', 'HTTP_COOKIE', 'HTTP_PROXY', 'REQUEST_SCHEME', 'SERVER_PROTOCOL', 'front_controller_active'] as $name) {\n\
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\"; }\necho file_get_contents('php://input');\n";

const LISTING: Difference = Difference {
    request: "/",
    part: "transfer-encoding",
    reason: "the length of a listing is known and told",
    since: Since::Always,
};

/// WordPress, Nextcloud, Django, Node.
pub(crate) fn applications() -> Vec<Site> {
    let wordpress = Site {
        files: &[
            ("var/www/wordpress/index.php", PHP),
            ("var/www/wordpress/wp-login.php", PHP),
            ("var/www/wordpress/wp-admin/index.php", PHP),
            ("var/www/wordpress/wp-content/uploads/evil.php", PHP),
            (
                "var/www/wordpress/wp-content/themes/style.css",
                "body { color: black }\n",
            ),
            (
                "var/www/wordpress/wp-content/uploads/a.jpg",
                "not a picture",
            ),
            ("var/www/wordpress/readme.html", "<p>read me\n"),
            ("var/www/wordpress/.htaccess", "secret\n"),
            ("var/www/wordpress/.well-known/x", "known\n"),
            ("var/www/wordpress/robots.txt", "User-agent: *\n"),
        ],
        behind: &[("unix:/run/php/php-fpm.sock", Behind::Php)],
        ..Site::new("wordpress")
    };
    let wordpress = wordpress.ask(
        "GET http://blog.test/
         HEAD http://blog.test/
         GET http://blog.test/2021/11/hello-world/?p=1&x=%20
         GET http://blog.test/index.php/2021/post?a=b
         GET http://blog.test/wp-login.php | Cookie: wordpress_test=1 | Proxy: evil
         POST http://blog.test/wp-login.php | Content-Type: application/x-www-form-urlencoded | = log=a&pwd=b%26
         GET http://blog.test/wp-admin
         GET http://blog.test/wp-admin/
         GET http://blog.test/missing.php
         GET http://blog.test/?status=404
         GET http://blog.test/wp-content/uploads/evil.php
         GET http://blog.test/wp-content/uploads/a.jpg
         GET http://blog.test/wp-content/uploads/a.jpg | Range: bytes=0-2
         GET http://blog.test/wp-content/themes/style.css | Accept-Encoding: gzip
         GET http://blog.test/wp-content/themes/missing.css
         GET http://blog.test/readme.html | If-Modified-Since: Tue, 09 Nov 2021 00:00:00 GMT
         GET http://blog.test/.htaccess
         GET http://blog.test/.well-known/x
         GET http://blog.test/xmlrpc.php
         GET http://blog.test/robots.txt
         GET http://blog.test/favicon.ico
         GET http://blog.test/sitemap.xml
         GET http://blog.test/wp-content/
         GET http://blog.test//index.php
         GET http://blog.test/../etc/passwd
         GET http://www.blog.test/a%2Fb/%C3%A4",
    );
    let nextcloud = Site {
        files: &[
            ("var/www/nextcloud/index.php", PHP),
            ("var/www/nextcloud/remote.php", PHP),
            ("var/www/nextcloud/status.php", PHP),
            ("var/www/nextcloud/core/js/main.js", "var a = 1;\n"),
            ("var/www/nextcloud/core/js/module.mjs", "export {};\n"),
            ("var/www/nextcloud/core/img/logo.svg", "<svg/>"),
            ("var/www/nextcloud/core/font.woff2", "font"),
            ("var/www/nextcloud/config/config.php", "secret"),
            ("var/www/nextcloud/robots.txt", "User-agent: *\n"),
        ],
        behind: &[("unix:/run/php/php-fpm.sock", Behind::Php)],
        ..Site::new("nextcloud")
    };
    let nextcloud = nextcloud.ask(
        "GET http://cloud.test/apps/files?dir=/
         GET https://cloud.test/
         h2 GET https://cloud.test/
         h2 GET https://cloud.test/ | User-Agent: DavClnt/1
         h2 GET https://cloud.test/index.php/apps/files/?dir=/&x=1
         h2 GET https://cloud.test/apps/files/
         h2 GET https://cloud.test/remote.php/dav/files/a%20b
         h2 PUT https://cloud.test/remote.php/webdav/x.txt | Content-Type: text/plain | = content of a file
         GET https://cloud.test/status.php
         h2 GET https://cloud.test/.well-known/carddav
         h2 GET https://cloud.test/.well-known/webfinger
         h2 GET https://cloud.test/.well-known/acme-challenge/none
         h2 GET https://cloud.test/config/config.php
         h2 GET https://cloud.test/.htaccess
         h2 GET https://cloud.test/core/js/main.js?v=1
         h2 GET https://cloud.test/core/js/main.js
         h2 GET https://cloud.test/core/js/module.mjs
         h2 GET https://cloud.test/core/img/logo.svg | If-None-Match: \"6189ba00-6\"
         h2 GET https://cloud.test/core/img/missing.png
         h2 GET https://cloud.test/core/font.woff2
         h2 GET https://cloud.test/remote
         h2 GET https://cloud.test/ocs/v2.php/x
         h2 GET https://cloud.test/evil.php
         HEAD https://cloud.test/robots.txt",
    );
    let django = Site {
        files: &[
            ("srv/django/static/app.css", "p {}\n"),
            ("srv/django/static/500.html", "<p>down\n"),
            ("srv/django/media/a.pdf", "%PDF"),
            ("srv/django/public/there.txt", "there\n"),
        ],
        behind: &[("127.0.0.1:8000", Behind::Gunicorn)],
        ..Site::new("django")
    };
    let django = django.ask(
        "GET http://django.test/
         GET http://django.test/admin/login/?next=/admin/%20
         POST http://django.test/digest | = 0123456789
         GET http://django.test/nothing
         GET http://django.test/pieces
         GET http://django.test/error
         GET http://django.test/static/app.css
         GET http://django.test/static/missing.css
         GET http://django.test/static
         GET http://django.test/media/a.pdf | Range: bytes=1-
         GET http://django.test/there.txt
         GET http://django.test/favicon.ico
         GET http://unknown.test/
         HEAD http://django.test/x",
    );
    let node = Site {
        files: &[
            ("var/www/node/public/css/a.css", "a {}\n"),
            ("var/www/node/public/robots.txt", "User-agent: *\n"),
        ],
        behind: &[("127.0.0.1:3000", Behind::Origin)],
        ..Site::new("node")
    };
    let node = node.ask(
        "GET http://node.test/
         GET http://node.test/json?a=1&b=%2F | Accept-Encoding: gzip | X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
         POST http://node.test/api/items | Content-Type: application/json | = {\"a\":1}
         GET http://node.test/css/a.css
         GET http://node.test/robots.txt
         GET http://node.test/static/missing.js
         GET http://node.test/login | Cookie: a=b
         GET http://node.test/broken
         HEAD http://node.test/x
         DELETE http://node.test/x | X-Forwarded-For: 192.0.2.1",
    );
    vec![wordpress, nextcloud, django, node]
}

/// GitLab, Grafana, WebSockets, gRPC, object storage, canary.
pub(crate) fn proxies() -> Vec<Site> {
    let gitlab = Site {
        files: &[
            ("opt/gitlab/public/404.html", "<p>gitlab 404\n"),
            ("opt/gitlab/public/502.html", "<p>gitlab 502\n"),
            ("opt/gitlab/public/assets/a.css", "a {}\n"),
        ],
        behind: &[("127.0.0.1:8181", Behind::Origin)],
        ..Site::new("gitlab")
    };
    let gitlab = gitlab.ask(
        "GET http://git.test/group/project.git/info/refs?service=git-upload-pack
         POST http://git.test/group/project.git/git-upload-pack | Content-Type: application/x-git-upload-pack-request | = 0000
         GET http://git.test/users/sign_in?private_token=abc&x=1 | X-Real-IP: 192.0.2.9
         GET http://git.test/login
         GET http://git.test/missing
         GET http://git.test/404.html
         GET http://git.test/assets/a.css
         GET http://git.test/assets/none.css
         GET http://git.test/-/cable | Upgrade: none | Connection: upgrade
         GET http://git.test/a%2Fb%20c/%C3%A4?x=%2F",
    );
    let grafana = Site {
        files: &[("var/www/html/index.html", "start\n")],
        behind: &[("127.0.0.1:3001", Behind::Origin)],
        ..Site::new("grafana")
    };
    let grafana = grafana.ask(
        "GET http://monitor.test/grafana
         GET http://monitor.test/grafana/
         GET http://monitor.test/grafana/login
         GET http://monitor.test/grafana/d/abc?orgId=1&from=now-6h&q=a%20b
         GET http://monitor.test/grafana/a%20b/%2F+c
         GET http://monitor.test/grafana/api/live/x
         GET http://monitor.test/grafana/api/live/ws | Upgrade: none | Connection: upgrade
         GET http://monitor.test/metrics/a%20b?c=d
         GET http://monitor.test/metrics
         GET http://monitor.test/",
    );
    let websocket = Site {
        files: &[("var/www/html/index.html", "<p>chat\n")],
        behind: &[("127.0.0.1:8765", Behind::WebSockets)],
        ..Site::new("websocket")
    };
    let websocket = websocket.ask(
        "GET http://chat.test/
         GET http://chat.test/rooms/1
         run /usr/bin/python3 -B REPOSITORY/tests/applications/websocket.py check ws://127.0.0.1:PORT/ws 3",
    );
    let grpc = Site {
        behind: &[("127.0.0.1:50051", Behind::Grpc)],
        ..Site::new("grpc")
    };
    let grpc = grpc.ask(
        "run /usr/bin/python3 -B REPOSITORY/tests/clients/grpc/client.py 127.0.0.1:PORT - unary large server_stream
         run curl -si --http2-prior-knowledge -H grpc-x:1 http://127.0.0.1:PORT/health",
    );
    let down = Site {
        behind: &[("127.0.0.1:50051", Behind::Nobody)],
        ..Site::new("grpc")
    };
    let down = down.ask(
        // Without a body: nginx resets the stream of one that it has not read, and curl then
        // forgets the answer.
        "run curl -si --http2-prior-knowledge -H te:trailers -H content-type:application/grpc -X POST http://127.0.0.1:PORT/echo.Echo/Unary",
    );
    let storage = Site {
        files: &[("var/www/html/missing.html", "<p>no such object\n")],
        behind: &[("127.0.0.1:9000", Behind::Origin)],
        ..Site::new("storage")
    };
    let storage = storage.ask(
        "GET http://s3.test/bucket/object?X-Amz-Signature=abc%2F
         PUT http://s3.test/bucket/new%20object | Authorization: AWS4-HMAC-SHA256 x | x-amz-meta_a.b: 1 | = content
         GET http://bucket.s3.test/a//b/../c
         HEAD http://s3.test/bucket/object
         GET http://s3.test/public/object | Authorization: secret | Cookie: a=b
         GET http://s3.test/public/missing
         GET http://s3.test/public/forbidden
         PUT http://s3.test/public/object | = x
         POST http://s3.test/public/object
         HEAD http://s3.test/public/object
         GET http://s3.test/missing.html
         GET http://s3.test/missing",
    );
    let canary = Site {
        behind: &[
            ("127.0.0.1:8081", Behind::Origin),
            ("127.0.0.1:8082", Behind::Origin),
        ],
        ..Site::new("canary")
    };
    let canary = canary.ask(
        "GET http://rollout.test/ | X-User: a
         GET http://rollout.test/ | X-User: b
         GET http://rollout.test/ | X-User: c
         GET http://rollout.test/ | X-User: d
         GET http://rollout.test/ | X-User: e
         GET http://rollout.test/ | X-User: f
         GET http://rollout.test/ | X-User: g
         GET http://rollout.test/ | X-User: h
         GET http://rollout.test/x?y | Cookie: canary=always
         GET http://rollout.test/x?y | Cookie: a=b; canary=never
         GET http://rollout.test/ | Cookie: canary=other
         GET http://rollout.test/opt-in
         GET http://rollout.test/opt-out
         GET http://rollout.test/login | Cookie: canary=always",
    );
    vec![gitlab, grafana, websocket, grpc, down, storage, canary]
}

/// Single-page application, mirror, redirects, maintenance, tenants, mixed, the defaults.
pub(crate) fn files() -> Vec<Site> {
    let spa = Site {
        files: &[
            (
                "var/www/app/dist/index.html",
                "<!doctype html><title>app</title>\n",
            ),
            ("var/www/app/dist/404.html", "<p>none\n"),
            (
                "var/www/app/dist/assets/app.1234.js",
                "console.log('app');\n",
            ),
            (
                "var/www/app/dist/assets/app.1234.js.gz",
                "pretended to be smaller",
            ),
            ("var/www/app/dist/assets/app.css", "a {}\n"),
            ("var/www/app/dist/logo.png", "no picture"),
            ("var/www/app/dist/.env", "secret"),
        ],
        behind: &[("127.0.0.1:5000", Behind::Origin)],
        ..Site::new("spa")
    };
    let spa = spa.ask(
        "GET http://app.test/
         GET http://app.test/users/42?tab=1
         GET http://app.test/assets/app.1234.js
         GET http://app.test/assets/app.css
         GET http://app.test/assets/none.js
         GET http://app.test/logo.png
         GET http://app.test/logo.png | If-None-Match: \"6189ba00-a\"
         GET http://app.test/api/items?x=1
         POST http://app.test/api/items%20x/y | = {}
         GET http://app.test/api/missing
         GET http://app.test/.env
         GET http://app.test/404.html
         GET http://app.test/assets
         POST http://app.test/
         HEAD http://app.test/deep/link",
    );
    let mirror = Site {
        files: &[
            ("srv/mirror/v2/image.iso", "0123456789"),
            ("srv/mirror/v2/a.tar.gz", "packed"),
            ("srv/mirror/v2/SHA256SUMS", "abc  image.iso\n"),
            ("srv/mirror/v2/names/sp ace & <more>.txt", "x"),
            ("srv/mirror/index.txt", "\u{e4}\n"),
        ],
        differences: &[
            LISTING,
            Difference {
                part: "content-length",
                ..LISTING
            },
        ],
        ..Site::new("mirror")
    };
    let mirror = mirror.ask(
        "GET http://mirror.test/v2/image.iso
         GET http://mirror.test/v2/image.iso | Range: bytes=2-4
         GET http://mirror.test/v2/image.iso | Range: bytes=0-0,-1
         GET http://mirror.test/v2/image.iso | Range: bytes=0-0,2-2,4-4,6-6,8-8,9-9
         GET http://mirror.test/v2/image.iso | Range: bytes=100-
         GET http://mirror.test/v2/image.iso | Range: bytes=2- | If-Range: \"6189ba00-a\"
         GET http://mirror.test/v2/image.iso | Range: bytes=2- | If-Range: \"other\"
         GET http://mirror.test/v2/a.tar.gz
         GET http://mirror.test/v2/SHA256SUMS
         HEAD http://mirror.test/v2/image.iso
         GET http://mirror.test/latest/image.iso
         GET http://mirror.test/lost+found/x
         GET http://mirror.test/.hidden
         GET http://mirror.test/v2
         GET http://mirror.test/index.txt
         GET http://mirror.test/v2/names/
         GET http://mirror.test/json/v2/names/
         GET http://mirror.test/none/",
    );
    let redirects = Site {
        files: &[
            ("var/www/html/rss.xml/index.html", "rss"),
            ("var/www/html/a/index.html", "a\n"),
            ("var/www/html/x.txt", "x\n"),
        ],
        ..Site::new("redirects")
    };
    let redirects = redirects.ask(
        "GET http://old.test/about.html
         GET http://www.old.test/news/2019/some-slug.html?utm=1
         GET http://old.test/PRODUCT/17
         GET http://old.test/product/18?x=y
         GET http://old.test/a%20b?c=%20d
         GET http://x.shop.test/a
         GET http://promo.test/
         GET http://www.plain.test/a%20b/c?d=e
         GET http://plain.test/feed
         GET http://plain.test/feed/
         GET http://plain.test/user/me/photo/3
         GET http://plain.test/user/me/photos/3?size=1
         GET http://plain.test/a/index.php
         GET http://plain.test/a/index.html?x=y
         GET http://plain.test/a
         GET http://plain.test/a/
         GET http://plain.test/x.txt
         GET http://plain.test/gone/
         GET http://plain.test/de/seite/?a=b
         GET http://plain.test/%C3%A4
         GET http://plain.test/a?b=%0d%0ac
         GET http://else.test/x?y=z
         POST http://old.test/contact.php | = a=b",
    );
    let maintenance = Site {
        files: &[
            ("var/www/shop/maintenance.on", ""),
            ("var/www/shop/maintenance.html", "<p>back soon\n"),
            ("var/www/shop/index.html", "<p>shop\n"),
            ("var/www/shop/a.css", "a {}\n"),
        ],
        ..Site::new("maintenance")
    };
    let maintenance = maintenance.ask(
        "GET http://shop.test/
         GET http://shop.test/any/thing?x=1
         POST http://shop.test/order | = a=b
         HEAD http://shop.test/
         GET http://shop.test/a.css
         GET http://shop.test/ | Cookie: preview=let-me-in
         GET http://shop.test/none | Cookie: preview=let-me-in
         GET http://shop.test/ | Cookie: preview=no
         GET http://shop.test/api/x
         GET http://shop.test/api/x | Cookie: preview=let-me-in
         GET http://shop.test/maintenance.html | Range: bytes=0-3",
    );
    let tenants = Site {
        files: &[
            ("srv/tenants/acme/public/index.html", "<p>acme\n"),
            ("srv/tenants/acme/public/a/index.html", "<p>a\n"),
            ("srv/tenants/x-lab/public/x.txt", "lab\n"),
            ("srv/shared/logo.svg", "<svg/>"),
            ("srv/www/index.html", "<p>saas\n"),
        ],
        behind: &[("127.0.0.1:8080", Behind::Origin)],
        ..Site::new("tenants")
    };
    let tenants = tenants.ask(
        "GET http://acme.saas.test/
         GET http://ACME.saas.test:8080/deep/link
         GET http://acme.saas.test/a
         GET http://acme.saas.test/a/
         GET http://x-lab.saas.test/x.txt
         GET http://x-lab.saas.test/none
         GET http://nobody.saas.test/
         GET http://acme.saas.test/shared/logo.svg
         GET http://acme.saas.test/app/x%20y?z=1
         GET http://www.saas.test/
         GET http://saas.test/none
         GET http://a.b.eu.saas.test/x
         GET http://acme.saas.test./
         GET http://10.0.0.1/
         GET http://a_b.saas.test/",
    );
    let mixed = Site {
        files: &[
            ("var/www/site/index.html", "<p>site\n"),
            (
                "var/www/site/big.txt",
                "0123456789 0123456789 0123456789 0123456789\n",
            ),
            (
                "var/www/letsencrypt/.well-known/acme-challenge/token",
                "answer",
            ),
        ],
        behind: &[("127.0.0.1:8080", Behind::Origin)],
        ..Site::new("mixed")
    };
    let mixed = mixed.ask(
        "GET http://site.test/a?b=c
         GET http://www.site.test/
         GET http://site.test/.well-known/acme-challenge/token
         GET http://site.test/.well-known/acme-challenge/none
         GET https://www.site.test/x
         GET https://site.test/
         h2 GET https://site.test/
         h2 GET https://site.test/big.txt | Range: bytes=3-5
         h2 HEAD https://site.test/big.txt
         h2 GET https://site.test/none
         h2 GET https://site.test/old/a%20b?x=y
         h2 POST https://site.test/backend/form | = a=b
         GET https://site.test/backend/x%2Fy?z
         GET http://both.test/which
         GET https://both.test/which
         h2 GET https://both.test/which
         GET http://both.test/",
    );
    let debian = Site {
        files: &[
            ("var/www/html/index.nginx-debian.html", "<h1>Welcome\n"),
            ("var/www/html/a/x.txt", "x\n"),
            ("etc/nginx/modules-enabled/README", "none here\n"),
        ],
        ..Site::new("debian")
    };
    let usual = "GET http://localhost/
         HEAD http://localhost/
         GET http://localhost/ | Accept-Encoding: gzip
         GET http://localhost/ | If-Modified-Since: Tue, 09 Nov 2021 00:00:00 GMT
         GET http://localhost/a
         GET http://localhost/a/
         GET http://localhost/a/x.txt | Range: bytes=0-0
         GET http://localhost/none
         POST http://localhost/
         GET http://other.test/%2e%2e/%2e%2e/etc/passwd
         GET http://localhost/50x.html
         OPTIONS http://localhost/
         TRACE http://localhost/";
    let official = Site {
        files: &[
            ("var/www/html/index.html", "<h1>Welcome\n"),
            ("var/www/html/50x.html", "<p>error\n"),
            ("var/www/html/a/x.txt", "x\n"),
        ],
        ..Site::new("official")
    };
    vec![
        spa,
        mirror,
        redirects,
        maintenance,
        tenants,
        mixed,
        debian.ask(usual),
        official.ask(usual),
    ]
}

/// A limited API, an area for administrators, signed URLs.
pub(crate) fn access() -> Vec<Site> {
    let admin = Site {
        files: &[
            // "admin" with the password "secret", in the forms that htpasswd and openssl write.
            (
                "etc/nginx/htpasswd",
                "admin:$apr1$x7hkYvVm$DKlzcAQ4mRNTe6vGDXP2h1\nplain:{PLAIN}secret\nsha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n# a comment\n",
            ),
            ("var/www/admin/index.html", "<p>admin\n"),
            ("var/www/admin/public/x.txt", "public\n"),
        ],
        behind: &[("127.0.0.1:8080", Behind::Origin)],
        ..Site::new("admin")
    };
    let credentials = [
        "",
        " | Authorization: Basic cGxhaW46c2VjcmV0",
        " | Authorization: Basic c2hhOnNlY3JldA==",
        " | Authorization: Basic cGxhaW46d3Jvbmc=",
        " | Authorization: Basic bm9ib2R5OnNlY3JldA==",
        " | Authorization: Bearer x",
        " | Authorization: Basic ???",
        " | Authorization: basic cGxhaW46c2VjcmV0",
    ];
    let mut admin = admin;
    for path in [
        "/",
        "/public/x.txt",
        "/both/index.html",
        "/nobody/",
        "/app/x?y",
        "/stub",
        "/none",
    ] {
        for credentials in credentials {
            admin
                .requests
                .push(format!("GET http://admin.test{path}{credentials}"));
        }
    }
    let api = Site {
        behind: &[("127.0.0.1:8080", Behind::Origin)],
        ..Site::new("api")
    };
    let api = api.ask(
        "GET http://api.test/
         GET http://api.test/v1/items | Origin: https://www.app.test
         OPTIONS http://api.test/v1/items | Origin: https://app.test | X-Request-ID: 7
         GET http://api.test/v1/missing | Origin: https://evil.test
         GET http://api.test/v1/items
         GET http://api.test/v2/items | X-API-Key: one
         GET http://api.test/v2/items | X-API-Key: two
         GET http://api.test/v2/items | X-API-Key: one
         GET http://api.test/v2/items
         GET http://api.test/v2/items",
    );
    let signed = Site {
        files: &[
            ("srv/files/a.txt", "signed\n"),
            ("srv/files/p/a.txt", "pictures\n"),
        ],
        ..Site::new("signed")
    };
    let signed = signed.ask(
        "GET http://files.test/expiring/a.txt
         GET http://files.test/expiring/a.txt?md5=wrong&expires=2147483647
         GET http://files.test/plain/a.txt
         GET http://files.test/plain/a.txt?k=AAAAAAAAAAAAAAAAAAAAAA
         GET http://files.test/s/abc/a.txt
         GET http://files.test/secure/a.txt
         GET http://files.test/images/a.txt
         GET http://files.test/images/a.txt | Referer: http://files.test/x
         GET http://files.test/images/a.txt | Referer: https://www.partner.test/
         GET http://files.test/images/a.txt | Referer: https://my.friends.example/
         GET http://files.test/images/a.txt | Referer: https://thief.test/
         GET http://files.test/images/a.txt | Referer: hidden",
    );
    let mut signed = signed;
    for (path, secret, name) in [
        (
            "/expiring/a.txt",
            "2147483647/expiring/a.txt127.0.0.1 secret",
            "md5",
        ),
        ("/expiring/a.txt", "1/expiring/a.txt127.0.0.1 secret", "md5"),
        ("/plain/a.txt", "/plain/a.txtme secret", "k"),
    ] {
        let digest =
            sealane_tests::command("openssl", &["dgst", "-md5", "-binary"], secret.as_bytes());
        let digest = sealane_tests::command("basenc", &["--base64url"], &digest.success().stdout);
        let digest = digest.success().text();
        let digest = digest.trim().trim_end_matches('=');
        let expires = secret.split('/').next().unwrap_or_default();
        signed.requests.push(format!(
            "GET http://files.test{path}?{name}={digest}&expires={expires} | X-Client: me"
        ));
    }
    let digest = sealane_tests::command("openssl", &["dgst", "-md5", "-r"], b"a.txtword")
        .success()
        .text();
    let digest = &digest[..32];
    signed
        .requests
        .push(format!("GET http://files.test/s/{digest}/a.txt"));
    vec![admin, api, signed]
}
