//! Dialogues that nginx 1.31.5 has had with a client, an auth service and mail servers, played
//! again: `nginx-transcripts.txt`. All three see the same, in whatever pieces it arrives.
//!
//! A dialogue has the lines
//!
//! - `server`: the settings, see `peers::settings`
//! - `client`: what the client sent; it then waited until nothing more came
//! - `answer`: what the client saw, from the greeting on
//! - `auth`: a request that the auth service got, without its end
//! - `backend`: what the mail server got
//! - `closed`: nginx closed the connection
//! - `differs`: why it is not the same here
//!
//! with `\r`, `\n`, `\\`, `\xXX`, `\(N)` for N times `x`, and `SALT` in the place of salts.

mod peers;

use peers::{Outcome, Player, settings};

const TRANSCRIPTS: &str = include_str!("nginx-transcripts.txt");

#[derive(Debug, Default, Clone)]
struct Transcript {
    server: String,
    client: Vec<Vec<u8>>,
    seen: Outcome,
    differs: bool,
}

fn transcripts() -> Vec<Transcript> {
    let parts = TRANSCRIPTS.split("\n\n").map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(transcript).collect()
}

fn transcript(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    for line in text.lines() {
        let (what, value) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "server" => transcript.server = value.to_owned(),
            "client" => transcript.client.push(unescaped(value)),
            "answer" => transcript.seen.client = unescaped(value),
            "auth" => transcript.seen.auth.push(unescaped(value)),
            "backend" => transcript.seen.backend = unescaped(value),
            "differs" => transcript.differs = true,
            "closed" => transcript.seen.is_closed = true,
            _ => panic!("{line}"),
        }
    }
    transcript
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match escape {
            b'r' => bytes.push(b'\r'),
            b'n' => bytes.push(b'\n'),
            b'\\' => bytes.push(b'\\'),
            b'x' => {
                let (code, after) = rest.split_at(2);
                bytes.push(u8::from_str_radix(code, 16).expect("two digits"));
                rest = after;
            }
            b'(' => {
                let (number, after) = rest.split_once(')').expect("it is closed");
                let number: usize = number.parse().expect("a number");
                bytes.extend(std::iter::repeat_n(b'x', number));
                rest = after;
            }
            other => panic!("\\{}", char::from(other)),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn everyone_sees_what_nginx_shows_them() {
    let transcripts = transcripts();
    assert!(transcripts.len() > 300, "{}", transcripts.len());
    let mut wrong = Vec::new();
    for transcript in transcripts {
        let Transcript {
            server,
            client,
            seen,
            differs,
        } = transcript;
        let shown = Player::new(settings(&server)).play(&client, usize::MAX);
        if (shown != seen) != differs {
            let client = client.concat().escape_ascii().to_string();
            wrong.push(format!(
                "{server} {client}\nnginx {seen:#?}\nhere {shown:#?}"
            ));
        }
    }
    let wrong = (wrong.len(), wrong.join("\n\n"));
    assert!(
        wrong.0 == 0,
        "{} are not as the file says:\n{}",
        wrong.0,
        wrong.1
    );
}

#[test]
fn pieces_change_nothing() {
    for Transcript { server, client, .. } in transcripts() {
        let whole = Player::new(settings(&server)).play(&client, usize::MAX);
        for bytes in [1, 2, 3, 7] {
            let pieces = Player::new(settings(&server)).play(&client, bytes);
            assert_eq!(
                pieces,
                whole,
                "{server} {:?}",
                client.concat().escape_ascii().to_string()
            );
        }
    }
}
