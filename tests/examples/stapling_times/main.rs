//! How long full handshakes take while OCSP responders misbehave, beside a server without stapling
//! in the same process: `cargo run -p sealane-tests --example stapling_times -- [SECONDS]`.
//!
//! What is printed are figures, not a verdict: other programs on the machine are in them, too.

#[path = "../../tests/stapling/authority.rs"]
mod authority;

use authority::{Authority, here, http};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Site, go_client, reload};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often each of the two servers is measured, in turn.
const ROUNDS: usize = 5;

/// Servers whose responders misbehave meanwhile, by their names.
const OTHERS: std::ops::RangeInclusive<char> = 'a'..='z';

/// Misbehaves in another way each time: silence, nonsense, tryLater, an answer cut off, one without
/// end, one about another certificate, a closed connection.
fn misbehave(count: usize, about_another: &[u8]) -> Answer {
    Answer::SendAndClose(match count % 7 {
        0 => return Answer::Silence,
        1 => http("200 OK", "", b"nonsense"),
        2 => http("200 OK", "", &[0x30, 3, 0x0a, 1, 3]),
        3 => {
            let whole = http("200 OK", "", about_another);
            whole[..whole.len() - 50].to_vec()
        }
        4 => http("200 OK", "", &vec![0x30; 1 << 20]),
        5 => http("200 OK", "", about_another),
        _ => Vec::new(),
    })
}

fn server(name: &str, more: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%{name}% ssl; ssl_certificate ocsp/ec.pem;
             ssl_certificate_key ocsp/ec.key; {more} return 200 ok; }}\n"
    )
}

fn main() {
    let seconds: u32 = match std::env::args().nth(1).map(|word| word.parse()) {
        None => 3,
        Some(Ok(seconds)) => seconds,
        Some(Err(error)) => panic!("SECONDS is a number: {error}"),
    };
    let site = Site::new();
    let authority = Authority::new(&site);
    let _well_behaved = authority.start_responder();
    let about_another = authority.good("other");
    let asked = AtomicUsize::new(0);
    let responder = Origin::answering(move |_: &Asked| {
        misbehave(asked.fetch_add(1, Ordering::Relaxed), &about_another)
    });
    let misbehaving = |path: &str| {
        let port = responder.port();
        format!("ssl_stapling on; ssl_stapling_responder http://127.0.0.1:{port}/{path};")
    };
    let mut text = String::from("ssl_session_tickets off; ssl_session_cache off;\n");
    text += &server("plain", "");
    text += &server("stapled", "ssl_stapling on;");
    text += &server("waiting", &misbehaving("bad"));
    for name in OTHERS {
        let more = misbehaving(&format!("bad-{name}"));
        text += &server(&format!("other_{name}"), &more);
    }
    let running = site.serve(&here(&site, &text));
    running.wait_for_log("while requesting certificate status");
    let root = authority.path("root.pem");
    let configuration = std::fs::read_to_string(site.path("sealane.conf")).expect("it is served");
    for round in 0..ROUNDS {
        // Responders with new names are asked at once.
        let renamed = configuration.replace("/bad", &format!("/round{round}/bad"));
        reload::reload(&site, &running, &renamed);
        for name in ["plain", "stapled", "waiting"] {
            let address = format!("127.0.0.1:{}", running.port(name));
            let time = format!("{seconds}s");
            let resume = [
                "resume",
                "-address",
                &address,
                "-ca",
                &root,
                "-parallel",
                "2",
            ];
            let arguments = [&resume[..], &["-for", &time, "/"]].concat();
            let figures = go_client(&arguments, b"").success().text();
            println!("round {round} {name:8} {}", figures.trim());
        }
    }
    let asked = responder.take_asked().len();
    println!("responders were asked {asked} times");
}
