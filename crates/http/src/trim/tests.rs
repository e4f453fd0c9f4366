//! What stays of a page, case by case. That a parser builds the same tree from what stays is
//! tested with a parser, in `trees.rs`.

mod trees;

use super::{TrimOptions, Trimmer};

fn trimmed_with(options: TrimOptions, page: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    let mut trimmer = Trimmer::new(options);
    trimmer.push(page, &mut output);
    trimmer.finish(&mut output);
    let mut in_pieces = Vec::new();
    let mut trimmer = Trimmer::new(options);
    for byte in page {
        trimmer.push(&[*byte], &mut in_pieces);
    }
    trimmer.finish(&mut in_pieces);
    assert_eq!(
        output.escape_ascii().to_string(),
        in_pieces.escape_ascii().to_string(),
        "byte by byte"
    );
    output
}

/// Everything is on.
fn trimmed(page: &str) -> String {
    let options = TrimOptions {
        scripts: true,
        styles: true,
    };
    let output = trimmed_with(options, page.as_bytes());
    String::from_utf8(output).expect("no character was cut")
}

#[track_caller]
fn stays(page: &str) {
    assert_eq!(trimmed(page), page);
}

#[track_caller]
fn script(code: &str, expected: &str) {
    let page = format!("<script>{code}</script>");
    assert_eq!(trimmed(&page), format!("<script>{expected}</script>"));
}

#[track_caller]
fn style(sheet: &str, expected: &str) {
    let page = format!("<style>{sheet}</style>");
    assert_eq!(trimmed(&page), format!("<style>{expected}</style>"));
}

#[test]
fn white_space_in_text() {
    assert_eq!(trimmed("a  b\t\tc \n\n d\r\ne\rf"), "a b c\nd\ne\nf");
    assert_eq!(trimmed("\n\n <p> a \n</p>\n\n"), "\n<p> a\n</p>\n");
    assert_eq!(
        trimmed("<title> a   b\n\n</title>"),
        "<title> a b\n</title>"
    );
    // A form feed, a no-break space.
    stays("a \u{c}\u{c} b\u{a0} \u{a0}c");
}

#[test]
fn white_space_that_is_shown() {
    for page in [
        "<pre>\n\n a  b <b>  c</b>\r\n</pre>",
        "<textarea>\n  a  <!-- b -->  </textarea>",
        "<code> a  <i> b  </i></code>",
        "<p style=\"color: red; white-space: pre-wrap\"> a  b</p>",
        "<xmp> <b>  </xmp>",
        "<plaintext>  a  </plaintext>  b",
        "<noscript>  a  <!-- b -->  </noscript>",
        "<iframe>  a </iframe>",
    ] {
        stays(page);
    }
    assert_eq!(
        trimmed("<pre>  <pre>  </pre>  </pre>  <b>  "),
        "<pre>  <pre>  </pre>  </pre> <b> "
    );
    assert_eq!(trimmed("<pre>  </pre>  <b>  "), "<pre>  </pre> <b> ");
    assert_eq!(
        trimmed("<p style='white-space: nowrap'>  a"),
        "<p style='white-space: nowrap'> a"
    );
    // A parser ignores the end tag: a cell is in the way.
    stays("<pre><table><tr><td></pre>  a  b");
    stays("<code><div></code>  a  b");
}

#[test]
fn comments() {
    assert_eq!(trimmed("a <!-- remark -->b"), "a b");
    assert_eq!(trimmed("a<!-- remark -->  <!--another-->\n b"), "a\nb");
    assert_eq!(trimmed("<!--remark--!>a<!--remark-- >b-->c"), "ac");
    assert_eq!(trimmed("a  <!-- without an end"), "a ");
    for page in [
        "<!--[if lt IE 9]>  <p>  <![endif]-->",
        "<!--[if !IE]><!--><p><!--<![endif]-->",
        "<!--# include  file=\"a\" -->",
        "<!--esi  <esi:include/> -->",
        "<!---->a<!-- -->b<!--$-->c<!--/$-->d<!--[-->e<!--]-->",
        "<!-- ko if: a -->b<!-- /ko -->",
        "<!-->a<!--->b",
    ] {
        stays(page);
    }
    // In elements that show white space, a comment keeps a line break from being dropped.
    stays("<pre><!-- remark -->\n a</pre>");
}

#[test]
fn texts_that_a_comment_keeps_apart() {
    assert_eq!(trimmed("<<!-- remark -->b>"), "<<!---->b>");
    assert_eq!(trimmed("&am<!-- remark -->p;"), "&am<!---->p;");
    assert_eq!(trimmed("&a <!-- remark -->b"), "&a b");
    assert_eq!(
        trimmed_with(TrimOptions::default(), b"\xe2<!-- remark -->\x80\x94"),
        b"\xe2<!---->\x80\x94"
    );
    assert_eq!(trimmed("a<table> <!-- remark -->b"), "a<table> <!---->b");
    assert_eq!(
        trimmed("<table>a<!-- remark --> <!-- another --> <tr>"),
        "<table>a<!----> <tr>"
    );
    assert_eq!(trimmed("<table> <!-- remark --> <tr>"), "<table> <tr>");
}

#[test]
fn tags() {
    assert_eq!(
        trimmed("<a   b = c\td='e  f'\n\n g=\"h\"  >x</a  >"),
        "<a b=c d='e  f' g=\"h\">x</a>"
    );
    assert_eq!(
        trimmed("<br   /><br / ><br a=b / ><br a=b/ >"),
        "<br /><br / ><br a=b / ><br a=b/>"
    );
    assert_eq!(trimmed("<a  = b  =  c =  >"), "<a = b=c =>");
    assert_eq!(trimmed("<a b=\"c\"d  ='>  '>"), "<a b=\"c\"d='>  '>");
    stays("<!DOCTYPE  html  SYSTEM \"about:legacy-compat\">");
    assert_eq!(trimmed("a <  b <3  c </  d>"), "a < b <3 c </  d>");
    stays("<title>a</title ");
    stays("<?xml  version=\"1.0\"  ?>");
}

#[test]
fn svg_and_mathml() {
    stays("<svg><title>  a  </title><style> a > b {}  </style><text>  a  <!-- b --></text></svg>");
    stays("<svg><![CDATA[  <p>  ]]></svg>");
    assert_eq!(
        trimmed("<svg><desc>a</desc></svg><script> a  = b < c </script>  d"),
        "<svg><desc>a</desc></svg><script>a =b < c</script> d"
    );
    // Here, the title is a text or the rest of the page.
    stays("<svg><title>a<b></title>  c  <!-- d -->");
    stays("<select><style>  <!--  </style>  a  ");
    // HTML in SVG, in which SVG does not end.
    stays("<svg><foreignObject><p></svg></foreignObject><style> a <!--  </style>  b  ");
    assert_eq!(trimmed("<![CDATA[  a > b  ]]>"), "<![CDATA[  a > b ]]>");
}

#[test]
fn character_sets() {
    let utf16 = b"\xff\xfe \0 \0\n\0\r\0";
    assert_eq!(trimmed_with(TrimOptions::default(), utf16), utf16);
    let japanese = b"  \x1b$B  <!-- a --> \x1b(B";
    let expected = b" \x1b$B  <!-- a --> \x1b(B";
    assert_eq!(trimmed_with(TrimOptions::default(), japanese), expected);
}

#[test]
fn scripts() {
    script("\n a  =  b ;\n\n c ( d ) \n", "a =b ;c (d )");
    script("a\n(b)\n\n[c]\r\n+d", "a\n(b)\n[c]\n+d");
    script("return  /* remark */a// remark\n b", "return a\nb");
    script("a /* line\n break */ b", "a\nb");
    script("a/**/b+/**/+c", "a b+ +c");
    script(
        "'a  \\'  b' + \"  // \" + `  ${ a  /* c */ + `  }` }  `",
        "'a  \\'  b' + \"  // \" + `  ${a + `  }` }  `",
    );
    script("a = / [/]  \"/g . b / c / d", "a =/ [/]  \"/g . b / c / d");
    script("if (a) / b  '/ . c", "if (a) / b  '/ . c");
    script("(a)  /  b  /  c", "(a) / b / c");
    script("a . return  /  b // c", "a . return / b");
    script("x = {}  / 1 // a\n  b", "x ={} / 1 // a\n  b");
    script(
        "/*! licence  */  a //# sourceURL=a  b\n  c",
        "/*! licence  */ a //# sourceURL=a  b\nc",
    );
    script("'a\n b  // c", "'a\n b  // c");
    script("a /* without an end", "a /*");
    script("a --> b  // c", "a --> b  // c");
    script("a // b\u{2028}c  // d", "a //\u{2028}c  // d");
    script("a  = \"\u{e9}\\\"  // b", "a =\"\u{e9}\\\"  // b");
}

#[test]
fn where_scripts_end() {
    stays("<script><!--  a <script>  </script>  --> // b </script>");
    assert_eq!(
        trimmed("<script>/* <!-- <script> </script> */ </script>  a"),
        "<script>/*<!-- <script> </script> */ </script> a"
    );
    assert_eq!(
        trimmed("<script>a  </scriptx  </SCRIPT \n>  b"),
        "<script>a </scriptx  </SCRIPT> b"
    );
    for kind in ["application/json", "text/template", "importmap"] {
        stays(&format!("<script type=\"{kind}\">  a // b\n </script>"));
    }
    stays("<script language=vbscript>  ' a\n </script>");
    assert_eq!(
        trimmed("<script type=module> a </script>"),
        "<script type=module>a</script>"
    );
    let options = TrimOptions::default();
    let page = b"<script> a </script><style> a </style>";
    assert_eq!(trimmed_with(options, page), page);
}

#[test]
fn styles() {
    style("\n a > b ,\n c { d : e ; f: g  h }\n\n", "a>b,c{d:e;f:g h}");
    style("a :hover , a: b { c :d }", "a :hover,a: b{c :d}");
    style("a { b { c :d {} } }", "a{b{c :d{}}}");
    style(
        "@media  (min-width : 1px) and (a > b) { a { } }",
        "@media (min-width : 1px) and (a>b){a{}}",
    );
    style(
        "a { b: c( d , e ) ; --f : { g } ; --h:  ; i: }",
        "a{b:c( d,e );--f : { g } ;--h:  ;i: }",
    );
    style(
        "a { b: \"  ; \" '\\'  ' url( c  /* d ) url( \"  \" ) }",
        "a{b:\"  ; \" '\\'  ' url( c  /* d ) url( \"  \" )}",
    );
    style(".a\\:b .\\31  c .\\32   d {}", ".a\\:b .\\31  c .\\32  d{}");
    style(
        "a /* remark */ b/* remark */c{/* remark */d:e}",
        "a b/**/c{d:e}",
    );
    style("html >/**/ body p { }", "html>/**/ body p{}");
    style("/* hide \\*/ a { } /* show */", "/*\\*/ a{}/**/");
    style("/*! licence  */ a { }", "/*! licence  */ a{}");
    style("a -- > b {}", "a -- >b{}");
    style("'a\n  b { }", "'a\n  b { }");
    stays("<style type=text/x-other> a { b } </style>");
}

#[test]
fn pages_do_not_grow() {
    for page in [
        "", " ", "<", "</", "<!", "<!-", "<!--", "<!-- ", "<!--e", "<a ", "<a b =", "\u{fe}",
    ] {
        assert!(trimmed(page).len() <= page.len(), "{page:?}");
    }
}
