//! Files that were made to hurt.

use super::{BOUND_KIB, Watch, site};
use flate2::Compression;
use flate2::write::GzEncoder;
use sealane_tests::wire::{Connection, Response, get};
use sealane_tests::{Server, Site};
use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

fn atom(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut atom = (data.len() as u32 + 8).to_be_bytes().to_vec();
    atom.extend_from_slice(name);
    atom.extend_from_slice(data);
    atom
}

/// An atom with a version, flags and fields of four bytes.
fn fields(name: &[u8; 4], fields: &[u32]) -> Vec<u8> {
    let data: Vec<u8> = fields
        .iter()
        .flat_map(|field| field.to_be_bytes())
        .collect();
    atom(name, &[&[0; 4], &data[..]].concat())
}

/// A table of so many entries of these fields.
fn table(name: &[u8; 4], entries: u32, entry: impl Fn(u32) -> Vec<u32>) -> Vec<u8> {
    let mut all = vec![entries];
    all.extend((0..entries).flat_map(entry));
    fields(name, &all)
}

fn head(name: &[u8; 4], bytes: usize, duration_at: usize, duration: u32) -> Vec<u8> {
    let mut data = vec![0; bytes];
    data[12..16].copy_from_slice(&1000u32.to_be_bytes());
    data[duration_at..duration_at + 4].copy_from_slice(&duration.to_be_bytes());
    atom(name, &data)
}

/// A good file with one track whose samples have a byte each, and tables as long as they can be.
fn film(samples: u32) -> Vec<u8> {
    let duration = samples * 10;
    // Its offsets do not depend on where the data is: all of them are in its first byte.
    let moov = |data_at: u32| {
        let sizes = [&[0, samples][..], &vec![1; samples as usize]].concat();
        let tables = [
            atom(b"stsd", &[0; 16]),
            table(b"stts", samples, |_| vec![1, 10]),
            table(b"ctts", samples, |_| vec![1, 5]),
            table(b"stss", samples, |sample| vec![sample + 1]),
            table(b"stsc", samples, |chunk| vec![chunk + 1, 1, 1]),
            fields(b"stsz", &sizes),
            table(b"co64", samples, |chunk| vec![0, data_at + chunk]),
        ]
        .concat();
        let minf = atom(b"minf", &atom(b"stbl", &tables));
        let mdia = atom(b"mdia", &[head(b"mdhd", 24, 16, duration), minf].concat());
        let trak = atom(b"trak", &[head(b"tkhd", 84, 20, duration), mdia].concat());
        atom(b"moov", &[head(b"mvhd", 100, 16, duration), trak].concat())
    };
    let ftyp = atom(b"ftyp", b"isom");
    let data_at = ftyp.len() + moov(0).len() + 8;
    let data = atom(b"mdat", &vec![b'd'; samples as usize]);
    [ftyp, moov(data_at as u32), data].concat()
}

/// The head of an atom with a size of eight bytes.
fn wide(name: &[u8; 4], bytes: u64) -> Vec<u8> {
    let mut head = 1u32.to_be_bytes().to_vec();
    head.extend_from_slice(name);
    head.extend_from_slice(&bytes.to_be_bytes());
    head
}

fn write_films(site: &Site) {
    let ftyp = atom(b"ftyp", b"isom");
    let mdat = atom(b"mdat", b"data");
    let write = |name: &str, parts: &[&[u8]]| site.write(format!("html/{name}"), parts.concat());
    write(
        "tracks.mp4",
        &[
            &ftyp,
            &atom(b"moov", &atom(b"trak", b"").repeat(1_300_000)),
            &mdat,
        ],
    );
    write(
        "atoms.mp4",
        &[&ftyp, &atom(b"free", b"").repeat(2_000_000), &mdat],
    );
    let depth = 600_000;
    let nested: Vec<u8> = (0..depth)
        .flat_map(|level| [&(8 * (depth - level) as u32).to_be_bytes()[..], b"trak"].concat())
        .collect();
    write("nested.mp4", &[&ftyp, &atom(b"moov", &nested), &mdat]);
    let film = film(200_000);
    write("long.mp4", &[&film]);
    write("cut.mp4", &[&film[..film.len() / 3]]);
    // Tables that say that they have more than there is, and atoms that reach into the next one.
    let claimed = fields(b"stts", &[u32::MAX]);
    let tables = atom(b"stbl", &[claimed, fields(b"co64", &[u32::MAX])].concat());
    let trak = atom(b"trak", &atom(b"mdia", &atom(b"minf", &tables)));
    write("claims.mp4", &[&ftyp, &atom(b"moov", &trak), &mdat]);
    let mut overlapping = atom(b"trak", &atom(b"mdia", b"")).repeat(1000);
    overlapping[..4].copy_from_slice(&15_000u32.to_be_bytes());
    write(
        "overlapping.mp4",
        &[&ftyp, &atom(b"moov", &overlapping), &mdat],
    );
    write("wide.mp4", &[&ftyp, &wide(b"moov", u64::MAX), &mdat]);
    let huge = write("huge.mp4", &[&ftyp, &wide(b"moov", (4 << 30) - 100)]);
    let huge = OpenOptions::new()
        .write(true)
        .open(huge)
        .expect("it was written");
    huge.set_len(4 << 30).expect("a sparse file");
    let flv = OpenOptions::new()
        .create(true)
        .append(true)
        .open(site.path("html/huge.flv"));
    flv.expect("the site is writable")
        .set_len(4 << 30)
        .expect("a sparse file");
}

/// Asks for something, by so many clients at a time that read nothing. They have its beginning.
fn unread(server: &Server<'_>, clients: usize, path: &str) -> Vec<Connection> {
    let mut all = Vec::new();
    for _ in 0..clients {
        let mut client = Connection::open(server.port("small"));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        all.push(client);
    }
    for client in &all {
        client.socket().peek(&mut [0]).expect("an answer");
    }
    all
}

/// All at a time, read to the end.
fn at_once(server: &Server<'_>, clients: usize, path: &str) -> Vec<Response> {
    let port = server.port("plain");
    let ask = || {
        (0..clients).map(|_| {
            thread::spawn({
                let path = path.to_owned();
                move || get(port, &path)
            })
        })
    };
    let asked: Vec<_> = ask().collect();
    asked
        .into_iter()
        .map(|thread| thread.join().expect("an answer"))
        .collect()
}

#[test]
fn films() {
    let site = site();
    write_films(&site);
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%small% sndbuf=16k; root html;
            location ~ mp4$ { mp4; } location ~ flv$ { flv; } }",
    );
    let messages = [
        ("tracks", "mp4 file has more than 256 tracks"),
        ("atoms", "mp4 file has more than 1000 atoms"),
        ("nested", "no mp4 stts atoms were found"),
        ("cut", "mp4 atom too large"),
        ("claims", "mp4 stts atom too small"),
        ("overlapping", "mp4 "),
        ("wide", "mp4 atom too large:18446744073709551615"),
        ("huge", "mp4 moov atom is too large:4294967180"),
    ];
    for (_, message) in messages {
        server.expect_alert(message);
    }
    let mut watch = Watch::begin(&server);
    for (name, message) in messages {
        watch.case(&format!("16 x {name}.mp4"), || {
            for answer in at_once(&server, 16, &format!("/{name}.mp4?start=1")) {
                assert_eq!(answer.status, 500, "{name}");
            }
        });
        server.wait_for_log(message);
    }
    watch.case("16 x long.mp4", || {
        for answer in at_once(&server, 16, "/long.mp4?start=1&end=1900") {
            assert_eq!(answer.status, 200);
            assert!(answer.body.ends_with(b"dddd"), "the data is there");
        }
    });
    watch.case("40 x long.mp4, unread", || {
        unread(&server, 40, "/long.mp4?start=1")
    });
    watch.case("100 x huge.flv, unread", || {
        unread(&server, 100, "/huge.flv?start=5")
    });
}

#[test]
fn pages() {
    let site = site();
    let include = |name: &str| format!("<!--# include virtual=\"/{name}.html\" -->");
    site.write("html/twice.html", include("twice").repeat(2));
    site.write("html/often.html", include("often").repeat(40));
    site.write("html/once.html", format!("text {}", include("once")));
    let set = "<!--# set var=\"a\" value=\"$a$a$a$a$a$a$a$a$a$a.\" -->";
    site.write("html/set.html", set.repeat(20_000));
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; ssi on; max_subrequests 2000;
            large_client_header_buffers 4 32k; }",
    );
    server.expect_alert("subrequests cycle");
    server.expect_alert("request reference counter overflow");
    server.expect_alert("variables and blocks of SSI commands");
    let mut watch = Watch::begin(&server);
    for name in ["twice", "often", "once", "set"] {
        watch.case(&format!("{name}.html"), || {
            let mut client = Connection::open(server.port("plain"));
            let long = "x".repeat(30_000);
            client.send(format!(
                "GET /{name}.html HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n\r\n"
            ));
            assert_eq!(client.response(false).status, 200);
        });
    }
}

#[test]
fn bombs_and_lists() {
    let site = site();
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b'x'; 32 << 20]).expect("memory");
    site.write("html/bomb.gz", bomb.finish().expect("memory"));
    site.write("html/bomb", "");
    for number in 0..20_000 {
        site.write(format!("html/list/{}{number}", "name".repeat(10)), "");
    }
    site.write("passwords", "somebody:nothing\n".repeat(1_000_000));
    site.write("line", vec![b'x'; 32 << 20]);
    site.write("html/locked/file", "");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%small% sndbuf=16k; root html;
            location /bomb { gunzip on; gzip_static always; sub_filter_types *; sub_filter_once off;
                sub_filter x 12345678; }
            location /list/ { autoindex on; }
            location /locked/ { auth_basic a; auth_basic_user_file %site%/passwords; }
            location /line/ { auth_basic a; auth_basic_user_file %site%/line; } }",
    );
    server.expect_alert("was not found in");
    let mut watch = Watch::begin(&server);
    watch.case("40 gzip bombs, unread", || unread(&server, 40, "/bomb"));
    watch.case("40 x a list of 20,000 files, unread", || {
        unread(&server, 40, "/list/")
    });
    for place in ["locked", "line"] {
        watch.case(
            &format!("8 names that are not in a long file, {place}"),
            || {
                let mut clients: Vec<_> = (0..8)
                    .map(|_| Connection::open(server.port("plain")))
                    .collect();
                for client in &mut clients {
                    client.send(format!(
                        "GET /{place}/file HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n"
                    ));
                }
                for client in &mut clients {
                    assert_eq!(client.response(false).status, 401, "{place}");
                }
            },
        );
    }
}

/// What compressors may take is a directive's to say; without room responses are sent as they are.
#[test]
fn compressors() {
    let site = site();
    let text: String = (0..400_000u32)
        .map(|n| format!("{:x}\n", n.wrapping_mul(2_654_435_769)))
        .collect();
    site.write("html/long.txt", &text);
    let server = site.serve(
        "types { text/plain txt; } compression_memory 48m;
         server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%small% sndbuf=16k; root html;
            brotli on; brotli_types *; brotli_comp_level 8; }",
    );
    let mut watch = Watch::begin(&server);
    let allowed_kib = (48 << 10) + BOUND_KIB;
    watch.case_within("30 clients of brotli 8, unread", allowed_kib, || {
        let mut all = Vec::new();
        for _ in 0..30 {
            let mut client = Connection::open(server.port("small"));
            client.send("GET /long.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
            all.push(client);
        }
        for client in &all {
            client.socket().peek(&mut [0]).expect("an answer");
        }
        // The others had taken what there is.
        let last = all.last_mut().expect("there are thirty").response(false);
        assert_eq!(last.header("Content-Encoding"), None);
        assert!(last.body == text.as_bytes());
        all
    });
    server.wait_for_log("50331648 bytes of compression_memory are in use");
    let log = server.error_log();
    assert_eq!(log.matches("compression_memory").count(), 1, "said once");
}
