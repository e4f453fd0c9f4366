//! The functions of set-misc-nginx-module, in the order of the script that they stand in.

use sealane_tests::Site;
use sealane_tests::wire::get;

const CONFIGURATION: &str = r#"
    server {
        listen 127.0.0.1:%plain%;
        set $early from-server;
        set_md5 $of_server $early;
        location /order {
            set $a "a b";
            set_escape_uri $b $a;
            set $a changed;
            set_escape_uri $c "$a/$b";
            if ($b = "a%%20b") { set_encode_hex $b; }
            return 200 "$b $c $of_server";
        }
        location /escape/ {
            set_unescape_uri $text $arg_text;
            set_quote_json_str $json $text;
            set_quote_sql_str $sql $text;
            set_if_empty $text "nothing";
            set_escape_uri $out $text;
            return 200 "$json $sql $out";
        }
        location /codes {
            set_encode_base64 $a $arg_a;
            set_decode_base64 $b $a;
            set_encode_base64url $c $arg_a;
            set_decode_base64url $d $c;
            set_encode_hex $e $arg_a;
            set_decode_hex $f $e;
            set_hmac_sha1 $g key $arg_a;
            set_encode_base64 $g;
            set_hmac_sha256 $h key $arg_a;
            set_encode_hex $h;
            return 200 "$a $b $c $d $e $f $g $h";
        }
        location /random {
            set_random $n 10 12;
            set_secure_random_alphanum $a 20;
            set_secure_random_lcalpha $l 5;
            return 200 "$n $a $l";
        }
        location /rotate { set_rotate $n 1 3; return 200 $n; }
        location /time {
            set_local_today $day;
            set_formatted_gmt_time $year "%%Y-%%m-%%dT";
            set_formatted_local_time $now "%%H";
            return 200 "$day $year $now";
        }
        location /wrong { set_decode_hex $a $arg_a; return 200 $a; }
        location /args { set_escape_uri $args; return 200 $args; }
    }
"#;

#[test]
fn functions_run_in_the_order_of_the_script() {
    let site = Site::new();
    let server = site.serve(CONFIGURATION);
    let port = server.port("plain");
    let text = |target: &str| get(port, target).text();
    // b was escaped before a changed, and coded again because of its value.
    let of_server = "2a560ca19fc218b47d7c0d410b848b1a";
    assert_eq!(
        text("/order"),
        format!("6125323062 changed%2Fa%2520b {of_server}")
    );
    assert_eq!(
        text("/escape/?text=it%27s%20%22a%22+b"),
        r#""it's \"a\" b" 'it\'s \"a\" b' it's%20%22a%22%20b"#
    );
    assert_eq!(text("/escape/"), "null '' nothing");
    assert_eq!(
        text("/codes?a=hi~?>"),
        "aGl+Pz4= hi~?> aGl-Pz4 hi~?> 68697e3f3e hi~?> 8S112i2DoKPLC6EEV5j4jmarCvM= \
         81ef08e48cad4364050a5336274b41388a699f98d683fcfbfe204c9b33d10cfc"
    );
    assert_eq!(text("/args?a/b"), "a%2Fb");
    // What cannot be computed ends the request.
    assert_eq!(text("/wrong?a=4142"), "AB");
    assert_eq!(get(port, "/wrong?a=4").status, 500);
    assert!(
        server
            .wait_for_log("set_decode_hex: invalid value")
            .contains("[error]")
    );
    server.expect_alert("set_decode_hex");
}

#[test]
fn random_values_numbers_and_times() {
    let site = Site::new();
    let server = site.serve(CONFIGURATION);
    let port = server.port("plain");
    let text = |target: &str| get(port, target).text();
    let (one, other) = (text("/random"), text("/random"));
    assert_ne!(one, other);
    let words: Vec<&str> = one.split(' ').collect();
    assert!(matches!(words[0], "10" | "11" | "12"), "{one}");
    assert_eq!((words[1].len(), words[2].len()), (20, 5), "{one}");
    let numbers: Vec<String> = (0..4).map(|_| text("/rotate")).collect();
    assert_eq!(numbers, ["1", "2", "3", "1"]);
    let times = text("/time");
    let words: Vec<&str> = times.split(' ').collect();
    assert!(
        words[0].len() == 10 && words[1].ends_with('T') && words[2].len() == 2,
        "{times}"
    );
}
