//! Generated sessions, compared with nginx: commands in any order, whole and in pieces.
//! `SEALANE_TEST_SEED=N` repeats the round of this seed.

use super::as_nginx::{certificates, seen};
use super::cases::{Case, base64, case};
use super::*;
use sealane_tests::random::Random;
use sealane_tests::scale;

/// Commands, of which a session has some. What nginx does otherwise on purpose is not among them:
/// see `as_nginx`.
fn commands(protocol: Protocol) -> Vec<String> {
    let plain = base64(b"\0jo\0secret");
    let all: &[&str] = match protocol {
        Protocol::Imap => &[
            "a NOOP",
            "b CAPABILITY",
            "c NOOP x",
            "d LOGIN jo",
            "e SELECT x",
            "f STARTTLS",
            "h LOGIN \"\" x",
            "i AUTHENTICATE",
            "j AUTHENTICATE GSSAPI",
            "k noop",
            "l  NOOP",
            "a1 LOGIN jo secret",
            "a1 LOGIN \"jo\" \"sec ret\"",
            "a1 AUTHENTICATE PLAIN PLAIN64",
            "m AUTHENTICATE PLAIN x y",
            "n LOGOUT",
            "o AUTHENTICATE PLAIN !",
        ],
        Protocol::Pop3 => &[
            "NOOP",
            "CAPA",
            "USER jo",
            "USER",
            "PASS secret",
            "PASS",
            "STLS",
            "AUTH",
            "AUTH x",
            "APOP jo",
            "STAT",
            "nope",
            "quit",
            "AUTH PLAIN PLAIN64",
            "user jo smith",
            "AUTH PLAIN !",
        ],
        Protocol::Smtp => &[
            "EHLO me",
            "HELO me",
            "EHLO",
            "NOOP",
            "RSET",
            "MAIL FROM:<a@b>",
            "RCPT TO:<a@b>",
            "VRFY x",
            "HELP",
            "AUTH",
            "AUTH x",
            "STARTTLS",
            "DATA",
            "QUIT",
            "AUTH PLAIN PLAIN64",
            "AUTH PLAIN !",
            "ehlo other",
            "NOOP 1 2 3 4",
        ],
    };
    let all = all.iter().map(|text| text.replace("PLAIN64", &plain));
    all.collect()
}

fn generated(random: &mut Random, number: usize) -> Case {
    let protocol = *random.choose(&[Protocol::Imap, Protocol::Pop3, Protocol::Smtp]);
    let ports: &[&'static str] = match protocol {
        Protocol::Imap => &[
            "imap",
            "imap_bare",
            "imap_own",
            "imap_on",
            "imap_only",
            "imap_errors",
        ],
        Protocol::Pop3 => &[
            "pop",
            "pop_bare",
            "pop_own",
            "pop_on",
            "pop_only",
            "pop_errors",
        ],
        Protocol::Smtp => &[
            "smtp",
            "smtp_bare",
            "smtp_own",
            "smtp_open",
            "smtp_only",
            "smtp_errors",
        ],
    };
    let commands = commands(protocol);
    let mut script = vec![">".to_owned()];
    for _ in 0..1 + random.below(8) {
        let command = random.choose(&commands);
        let is_start = ["STARTTLS", "STLS"]
            .iter()
            .any(|word| command.contains(word));
        let is_spelled = random.below(4) == 0;
        let end = *random.choose(&["\r\n", "\r\n", "\n"]);
        let how = if is_spelled { "~" } else { "" };
        script.push(format!("{how}{command}{end}"));
        if is_start {
            // Behind it there is TLS, or it was refused.
            break;
        }
    }
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let port: &'static str = random.choose::<&str>(ports);
    let mut one = case(protocol, port, "", &script);
    let refusal = "HTTP/1.0 200 OK\r\nAuth-Status: never\r\n";
    let answers = [
        ACCEPTED.to_owned(),
        format!("{refusal}\r\n"),
        format!("{refusal}Auth-Wait: 1\r\n\r\n"),
    ];
    one.answers = vec![vec![send(random.choose::<String>(&answers))]];
    one.name = format!("{number}: {} {:?}", one.port, one.steps);
    one
}

#[test]
fn generated_sessions_are_those_of_nginx() {
    if !nginx_has_mail() {
        return sealane_needs::leave_out("this nginx has no \"mail\" to compare with");
    }
    let given = std::env::var("SEALANE_TEST_SEED");
    let given = given.ok().and_then(|text| text.parse::<u64>().ok());
    let files = certificates();
    for round in 0..scale(1, 40) {
        let seed = given.unwrap_or(20_261_127 + round as u64);
        let mut random = Random::new(seed);
        let cases: Vec<Case> = (0..200)
            .map(|number| generated(&mut random, number))
            .collect();
        let ours = seen(Program::Sealane, &cases, &files);
        let theirs = seen(Program::Nginx, &cases, &files);
        let differs = |(what, text): &(&String, &String)| theirs.get(*what) != Some(*text);
        if let Some((what, text)) = ours.iter().find(differs) {
            let other = theirs.get(what).map_or("", String::as_str);
            panic!("SEALANE_TEST_SEED={seed}\n==== {what}\n---- ours\n{text}\n---- nginx\n{other}");
        }
        if given.is_some() {
            return;
        }
    }
}
