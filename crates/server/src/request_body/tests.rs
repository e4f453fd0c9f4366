use super::*;
use crate::client_link::ClientFeed;
use crate::temp_file::tests::{descriptors_below, full_file};
use crate::testing::Site;
use crate::variables;
use proptest::prelude::*;
use sealane_conf::model::Variable;
use sealane_conf::variables::Builtin;
use sealane_io::chain::Segment;
use std::fs;
use std::path::PathBuf;

const WARNING: &str = "a client request body is buffered to a temporary file";

/// A site with `client_body_buffer_size 1k`, its temporary files below `tmp`.
fn site(more: &str) -> Site {
    let site = Site::new(&format!(
        "client_body_buffer_size 1k; client_body_temp_path DIR/tmp 1 2; {more}"
    ));
    fs::create_dir(site.root().join("tmp")).expect("the site is ours");
    site
}

fn body_directory(site: &Site) -> PathBuf {
    site.root().join("tmp")
}

/// Names of temporary files.
fn files(site: &Site) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![body_directory(site)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("ours") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => directories.push(path),
                false => files.push(path),
            }
        }
    }
    files
}

fn with_length(site: &Site, len: usize) -> Exchange {
    site.exchange(&format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n"
    ))
}

fn chunked(site: &Site) -> Exchange {
    site.exchange("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// Bytes that show where they belong.
fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn feed_all(feed: &ClientFeed, body: &[u8], piece_bytes: usize) {
    for piece in body.chunks(piece_bytes) {
        feed.push(Bytes::copy_from_slice(piece));
    }
    feed.finish(Vec::new());
}

fn contents(body: &ReceivedBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in body.chain().segments() {
        match segment {
            Segment::Memory(memory) => bytes.extend_from_slice(memory),
            Segment::File(range) => {
                let len = range.len as usize;
                sealane_sys::file::read_at(range.file.as_fd(), &mut bytes, len, range.offset)
                    .expect("readable");
            }
        }
    }
    bytes
}

/// Reads a body that has been fed completely.
fn read_fed(site: &Site, exchange: &mut Exchange, body: &[u8], piece_bytes: usize) -> ReceivedBody {
    feed_all(&exchange.client.feed(), body, piece_bytes);
    let received = site
        .block_on(receive(exchange))
        .expect("it has all arrived");
    assert_eq!(received.len(), body.len() as u64);
    assert!(contents(&received) == body, "{} bytes differ", body.len());
    received
}

fn value(exchange: &Exchange, builtin: Builtin) -> Option<String> {
    let mut text = Vec::new();
    variables::append(exchange, &Variable::Builtin(builtin), &mut text)
        .then(|| String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn bodies_of_every_size_arrive_as_they_are() {
    let site = site("");
    let sizes = [
        1, 2, 1000, 1023, 1024, 1025, 1278, 1279, 1280, 1281, 4096, 65_535, 65_536, 65_537,
        131_072, 300_001,
    ];
    let mut on_disk = 0;
    for len in sizes {
        let body = sample(len);
        for piece_bytes in [1, 7, 1024, 40_000, 1 << 20] {
            if len / piece_bytes > 70_000 {
                continue; // one byte at a time is seen with the shorter ones
            }
            let mut exchange = with_length(&site, len);
            let received = read_fed(&site, &mut exchange, &body, piece_bytes);
            // A quarter more than the buffer still fits, as in nginx.
            assert_eq!(received.memory().is_some(), len < 1280, "{len} bytes");
            on_disk += usize::from(received.memory().is_none());

            let mut exchange = chunked(&site);
            let received = read_fed(&site, &mut exchange, &body, piece_bytes);
            assert_eq!(
                received.memory().is_some(),
                len <= 1024,
                "{len} bytes, chunked"
            );
            on_disk += usize::from(received.memory().is_none());
        }
    }
    assert_eq!(site.error_log().matches(WARNING).count(), on_disk);
    assert!(site.error_log().contains("[warn]"));
    assert!(files(&site).is_empty(), "names go before bytes come");
    assert_eq!(descriptors_below(&body_directory(&site)), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However it is cut, while it is being read.
    #[test]
    fn fragments_do_not_matter(lens in prop::collection::vec(1_usize..30_000, 0..12), length: bool) {
        let site = site("");
        let body = sample(lens.iter().sum());
        let mut exchange = match length {
            true if !body.is_empty() => with_length(&site, body.len()),
            _ => chunked(&site),
        };
        let feed = exchange.client.feed();
        let sending = async {
            let mut at = 0;
            for len in &lens {
                feed.push(Bytes::copy_from_slice(&body[at..at + len]));
                at += len;
                sealane_io::runtime::yield_now().await;
            }
            feed.finish(Vec::new());
        };
        let received = site.block_on(async { tokio::join!(receive(&mut exchange), sending).0 });
        prop_assert!(contents(&received.expect("complete")) == body);
    }
}

#[test]
fn it_is_read_once_and_shared() {
    let site = site("");
    for len in [10, 5000] {
        let body = sample(len);
        let mut exchange = with_length(&site, len);
        let first = read_fed(&site, &mut exchange, &body, 100);
        let again = site.block_on(receive(&mut exchange)).expect("it is kept");
        drop(first);
        assert!(contents(&again) == body);
        // A chain that was sent to its end has used nothing up.
        let mut chain = again.chain();
        chain.advance(len as u64);
        assert!(contents(&again) == body);
    }
}

#[test]
fn no_body_is_an_empty_body() {
    let site = site("client_body_in_file_only on;");
    let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let body = site
        .block_on(receive(&mut exchange))
        .expect("nothing to wait for");
    assert!(body.is_empty() && body.chain().is_empty());
    assert!(exchange.request.received.is_none(), "not even an empty one");
    assert_eq!(value(&exchange, Builtin::RequestBody), None);
    assert_eq!(value(&exchange, Builtin::RequestBodyFile), None);
    assert!(files(&site).is_empty());
}

#[test]
fn variables_tell_what_is_in_memory_and_what_in_a_file() {
    let site = site("");
    let mut exchange = chunked(&site);
    assert_eq!(value(&exchange, Builtin::ContentLength), None);
    let before = exchange.transfer.request_bytes;
    exchange.client.feed().count_framed(25);
    read_fed(&site, &mut exchange, b"name=value", 4);
    assert_eq!(
        value(&exchange, Builtin::RequestBody).as_deref(),
        Some("name=value")
    );
    assert_eq!(value(&exchange, Builtin::RequestBodyFile), None);
    assert_eq!(
        value(&exchange, Builtin::ContentLength).as_deref(),
        Some("10")
    );
    assert_eq!(
        value(&exchange, Builtin::RequestLength),
        Some((before + 25).to_string())
    );

    let mut exchange = with_length(&site, 2000);
    read_fed(&site, &mut exchange, &sample(2000), 512);
    assert_eq!(value(&exchange, Builtin::RequestBody), None);
    let path = value(&exchange, Builtin::RequestBodyFile).expect("it is in a file");
    let tail = path.strip_prefix(&format!("{}/", body_directory(&site).display()));
    let parts: Vec<_> = tail.expect("below the directory").split('/').collect();
    let &[one, two, name] = &parts[..] else {
        panic!("{path} has two levels");
    };
    assert_eq!((name.len(), &name[9..], &name[7..9]), (10, one, two));
    assert!(
        site.error_log()
            .contains(&format!("{WARNING} {path}, client: "))
    );
}

#[test]
fn bodies_in_files_only_are_kept_or_cleaned_up() {
    for (setting, stays) in [("on", true), ("clean", false)] {
        let site = site(&format!("client_body_in_file_only {setting};"));
        let mut exchange = with_length(&site, 5);
        let body = read_fed(&site, &mut exchange, b"hello", 2);
        let [path] = &files(&site)[..] else {
            panic!("one file, with its name: {:?}", files(&site));
        };
        assert_eq!(fs::read(path).expect("there"), b"hello");
        assert_eq!(
            value(&exchange, Builtin::RequestBodyFile),
            Some(path.display().to_string())
        );
        let log = site.error_log();
        assert!(log.contains("[notice]") && log.contains(WARNING), "{log}");
        assert!(!log.contains("[warn]"), "it was asked for: {log}");
        drop((body, exchange));
        assert_eq!(files(&site).len(), usize::from(stays));
    }
}

#[test]
fn what_is_too_large_is_refused_once() {
    let site = site("client_max_body_size 2k;");
    let mut exchange = chunked(&site);
    let feed = exchange.client.feed();
    let reading = async {
        let sending = async {
            feed.push(sample(2000).into());
            sealane_io::runtime::yield_now().await;
            feed.announce(49);
        };
        tokio::join!(receive(&mut exchange), sending).0
    };
    let status = site.block_on(reading).expect_err("2049 bytes");
    assert_eq!(status, StatusCode::CONTENT_TOO_LARGE);
    assert!(!exchange.response.drop_connection);
    let log = site.error_log();
    let line = "[error] ";
    let words = "client intended to send too large chunked body: 2000+49 bytes, client: ";
    assert!(log.contains(line) && log.contains(words), "{log}");
    // The page for 413 may be proxied, too.
    let body = site
        .block_on(receive(&mut exchange))
        .expect("nothing is left");
    assert!(body.is_empty());
    assert_eq!(descriptors_below(&body_directory(&site)), 0);

    let mut exchange = chunked(&site);
    read_fed(&site, &mut exchange, &sample(2048), 2048);
}

#[test]
fn what_clients_do_wrong_has_a_status_and_a_line() {
    let site = site("");
    let ends = [
        (
            BodyError::ClientClosed,
            400,
            true,
            "[info]",
            "client prematurely closed connection, client: ",
        ),
        (
            BodyError::TimedOut,
            408,
            true,
            "[info]",
            "client timed out (110: Connection timed out) while reading client request body, client: ",
        ),
        // The connection has said what is wrong.
        (BodyError::Malformed, 400, false, "", ""),
    ];
    for (error, status, dropped, level, words) in ends {
        let before = site.error_log().len();
        let mut exchange = with_length(&site, 200_000);
        let feed = exchange.client.feed();
        let reading = async {
            let sending = async {
                // Enough for a file.
                feed.push(sample(150_000).into());
                feed.push(sample(10).into());
                while descriptors_below(&body_directory(&site)) == 0 {
                    sealane_io::runtime::yield_now().await;
                }
                feed.fail(error);
            };
            tokio::join!(receive(&mut exchange), sending).0
        };
        let found = site.block_on(reading).expect_err("it is not complete");
        assert_eq!(found.0, status);
        assert_eq!(exchange.response.drop_connection, dropped);
        let log = &site.error_log()[before..];
        assert!(log.contains(level) && log.contains(words), "{log}");
        // What had been written is gone with the request.
        let settled = || descriptors_below(&body_directory(&site)) == 0;
        for _ in 0..2000 {
            if settled() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(settled());
        assert!(files(&site).is_empty());
    }
}

#[test]
fn a_status_that_nobody_reads_is_only_logged() {
    let site = site("error_page 400 /page; location = /page { return 200 page; }");
    let mut exchange = with_length(&site, 10);
    assert_eq!(failed(&mut exchange, BodyError::ClientClosed).0, 400);
    site.fail(&mut exchange, 400);
    assert!(exchange.response.drop_connection);
    assert_eq!(exchange.response.status.0, 400);
    assert!(exchange.response.body.is_empty());
}

#[test]
fn without_a_directory_large_bodies_fail() {
    let site = site("");
    fs::remove_dir(body_directory(&site)).expect("it is empty");
    let mut exchange = with_length(&site, 5000);
    feed_all(&exchange.client.feed(), &sample(5000), 1000);
    let status = site
        .block_on(receive(&mut exchange))
        .expect_err("nowhere to write");
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let log = site.error_log();
    let words = format!("mkdir() \"{}/", body_directory(&site).display());
    assert!(log.contains("[crit]") && log.contains(&words), "{log}");
    // What fits into memory is not affected.
    let mut exchange = with_length(&site, 1000);
    read_fed(&site, &mut exchange, &sample(1000), 1000);
}

#[test]
fn a_body_by_http_2_has_no_quarter_more_than_the_buffer() {
    let site = site(""); // a buffer of 1k
    for (version, bytes, is_file) in [
        (Version::Http11, 1279, false),
        (Version::Http11, 1280, true),
        (Version::Http2, 1024, false),
        (Version::Http2, 1025, true),
    ] {
        let mut exchange = with_length(&site, bytes);
        exchange.request.head.version = version;
        feed_all(&exchange.client.feed(), &sample(bytes), 500);
        let body = site.block_on(receive(&mut exchange)).expect("it is there");
        assert_eq!(body.memory().is_none(), is_file, "{version:?} {bytes}");
    }
}

#[test]
fn a_full_disk_ends_the_request() {
    let site = site("");
    let exchange = with_length(&site, 100_000);
    let mut spool = Spool::new(
        exchange.conf(),
        exchange.request.head.version,
        exchange.request.head.framing,
        BodyInFile::Off,
    );
    spool.file = Some(full_file());
    let result = site.block_on(async {
        spool.push(&exchange, &sample(50_000)).await?;
        spool.push(&exchange, &sample(50_000)).await
    });
    assert_eq!(
        result.expect_err("no room for the first batch").to_string(),
        "pwrite() \"/dev/full\" failed (28: No space left on device)"
    );
}

#[test]
fn a_body_that_was_passed_on_is_not_replaced_by_nothing() {
    let site = site("");
    let mut exchange = with_length(&site, 10);
    exchange.request.body = RequestBody::Taken;
    let status = site
        .block_on(receive(&mut exchange))
        .expect_err("it is gone");
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(site.error_log().contains("cannot be sent again"));
    // An error page is asked for by GET, and needs no body.
    let mut exchange = with_length(&site, 10);
    exchange.request.body = RequestBody::Taken;
    exchange.request.head.method = Method::Get;
    assert!(
        site.block_on(receive(&mut exchange))
            .expect("none")
            .is_empty()
    );
}

#[test]
fn bodies_that_arrive_at_the_same_time_stay_apart() {
    let site = site("");
    let exchanges: Vec<_> = (0..40)
        .map(|number| with_length(&site, 3000 + 5000 * number))
        .collect();
    site.block_on(async {
        let tasks: Vec<_> = exchanges
            .into_iter()
            .enumerate()
            .map(|(number, mut exchange)| {
                sealane_io::runtime::spawn_with_handle(async move {
                    let body: Vec<u8> = sample(3000 + 5000 * number)
                        .into_iter()
                        .map(|byte| byte ^ number as u8)
                        .collect();
                    let feed = exchange.client.feed();
                    let sending = async {
                        for piece in body.chunks(777) {
                            feed.push(Bytes::copy_from_slice(piece));
                            sealane_io::runtime::yield_now().await;
                        }
                        feed.finish(Vec::new());
                    };
                    let received = tokio::join!(receive(&mut exchange), sending).0;
                    contents(&received.expect("complete")) == body
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await.expect("no panic"));
        }
    });
    assert!(files(&site).is_empty());
}
