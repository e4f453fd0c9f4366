use super::*;

const PAGE: ListPage = ListPage {
    exact_size: true,
    zone_s: 0,
    is_utf8: false,
};

fn entry(name: &str, kind: Kind, size: u64) -> DirectoryEntry {
    DirectoryEntry {
        name: name.as_bytes().to_vec(),
        kind,
        size,
        mtime_s: 784_111_777,
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

#[test]
fn an_empty_directory() {
    assert_eq!(
        text(html(b"/<d>/", &[], &PAGE)),
        "<html>\r\n<head><title>Index of /&lt;d&gt;/</title></head>\r\n<body>\r\n\
         <h1>Index of /&lt;d&gt;/</h1><hr><pre><a href=\"../\">../</a>\r\n</pre><hr></body>\r\n</html>\r\n"
    );
    assert_eq!(text(json(&[], None)), "[\r\n]");
    assert_eq!(
        text(xml(&[])),
        "<?xml version=\"1.0\"?>\r\n<list>\r\n</list>\r\n"
    );
}

#[test]
fn sizes_are_rounded_as_nginx_rounds_them() {
    let shown = |size| {
        let mut out = Vec::new();
        push_size(&mut out, &entry("x", Kind::File, size), false);
        text(out).trim().to_owned()
    };
    for (size, expected) in [
        (0, "0"),
        (9_999, "9999"),
        (10_000, "10K"),
        (10_240 + 511, "10K"),
        (10_240 + 512, "11K"),
        (1_048_575, "1024K"),
        (1_048_576, "1M"),
        (1_572_863, "1M"),
        (1_572_864, "2M"),
        (1_073_741_824, "1G"),
        (1_610_612_736, "2G"),
    ] {
        assert_eq!(shown(size), expected, "{size}");
    }
}

#[test]
fn times_are_shown_in_the_zone_asked_for() {
    let line = |zone_s| {
        let page = ListPage { zone_s, ..PAGE };
        text(html(b"/", &[entry("x", Kind::File, 1)], &page))
    };
    assert!(line(0).contains(" 06-Nov-1994 08:49 "));
    assert!(line(5400).contains(" 06-Nov-1994 10:19 "));
}

#[test]
fn json_names_the_kind_and_only_files_have_sizes() {
    let entries = [
        entry("d", Kind::Dir, 4096),
        entry("f\"", Kind::File, 5),
        entry("s", Kind::Other, 0),
    ];
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(
        text(json(&entries, None)),
        format!(
            "[\r\n{{ \"name\":\"d\", \"type\":\"directory\", \"mtime\":\"{date}\" }},\
             \r\n{{ \"name\":\"f\\\"\", \"type\":\"file\", \"mtime\":\"{date}\", \"size\":5 }},\
             \r\n{{ \"name\":\"s\", \"type\":\"other\", \"mtime\":\"{date}\" }}\r\n]"
        )
    );
}

#[test]
fn callbacks_are_names_of_functions() {
    let name = |args: &str| Callback::of(args.as_bytes());
    assert_eq!(
        name("callback=a.b_1"),
        Ok(Some(Callback(b"a.b_1".to_vec())))
    );
    assert_eq!(name("x=1"), Ok(None));
    assert_eq!(name("callback="), Ok(None));
    assert_eq!(name("callback=alert(1)"), Err(BadCallback::Character));
    assert_eq!(name("callback=%41"), Err(BadCallback::Character));
    let long = format!("callback={}", "a".repeat(CALLBACK_BYTES + 1));
    assert_eq!(name(&long), Err(BadCallback::TooLong));
}
