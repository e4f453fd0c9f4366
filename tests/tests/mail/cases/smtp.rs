//! Sessions of SMTP.

use super::*;

pub(super) fn smtp_commands() -> Vec<Case> {
    vec![
        smtp("smtp", "nothing", &[]),
        smtp("smtp", "NOOP and QUIT", &[">", "NOOP\r\n", "QUIT\r\n", "."]),
        smtp("smtp", "HELO", &[">", "HELO me\r\n", "QUIT\r\n"]),
        smtp("smtp", "EHLO", &[">", "EHLO me\r\n", "QUIT\r\n"]),
        smtp("smtp_bare", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_own", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_on", "EHLO", &[">", "EHLO me\r\n"]),
        smtp(
            "smtp_only",
            "EHLO",
            &[">", "EHLO me\r\n", "AUTH PLAIN AGpvAHNlY3JldA==\r\n"],
        ),
        smtp("smtp_open", "EHLO", &[">", "EHLO me\r\n"]),
        smtp("smtp_openplain", "EHLO", &[">", "EHLO me\r\n"]),
        smtp(
            "smtp",
            "HELO without a name",
            &[">", "HELO\r\n", "EHLO\r\n", "EHLO a b\r\n"],
        ),
        smtp(
            "smtp",
            "lower case",
            &[">", "ehlo me\r\n", "noop\r\n", "quit\r\n"],
        ),
        smtp("smtp", "LF alone", &[">", "EHLO me\n", "NOOP\n"]),
        smtp(
            "smtp",
            "byte by byte",
            &[">", "~EHLO me\r\n", "~NOOP\r\n", "~QUIT\r\n"],
        ),
        smtp(
            "smtp",
            "RSET, VRFY, EXPN, HELP",
            &[
                ">",
                "RSET\r\n",
                "VRFY jo\r\n",
                "EXPN jo\r\n",
                "HELP\r\n",
                "NOOP x\r\n",
            ],
        ),
        smtp(
            "smtp",
            "unknown",
            &[">", "DATA\r\n", "ETRN x\r\n", "\r\n", "NOOP\r\n"],
        ),
        smtp(
            "smtp",
            "MAIL without login",
            &[
                ">",
                "EHLO me\r\n",
                "MAIL FROM:<a@b>\r\n",
                "RCPT TO:<a@b>\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp(
            "smtp",
            "AUTH without a method",
            &[
                ">",
                "EHLO me\r\n",
                "AUTH\r\n",
                "AUTH X\r\n",
                "AUTH PLAIN x y\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp(
            "smtp",
            "STARTTLS where there is none",
            &[">", "STARTTLS\r\n", "NOOP\r\n"],
        ),
        smtp(
            "smtp",
            "pipelined",
            &[">", "<EHLO me\r\nNOOP\r\n", "?2.0.0 OK"],
        ),
        smtp("smtp_errors", "two errors", &[">", "X\r\n", "X\r\n", "."]),
        smtp(
            "smtp_small",
            "too long",
            &[">", &format!("EHLO {}\r\n", "x".repeat(100)), "."],
        ),
        smtp(
            "smtp",
            "too long",
            &[">", &format!("EHLO {}", "x".repeat(5000)), "."],
        ),
        smtp(
            "smtp",
            "many arguments",
            &[
                ">",
                "EHLO 1 2 3 4 5 6 7 8 9 10\r\n",
                "NOOP 1 2 3 4 5 6 7 8 9 10 11 12\r\n",
                "NOOP\r\n",
            ],
        ),
        smtp("smtp_short", "silence", &[">", "EHLO me\r\n", "."]),
        smtp("smtp", "gone", &[">", "EHLO me\r\n", "#"]),
        smtp("smtp_late", "who waits", &[">", "EHLO me\r\n", "QUIT\r\n"]),
        smtp("smtp_late", "who does not wait", &["EHLO me\r\n", "."]),
        smtp(
            "smtp_late",
            "who sends much",
            &["<EHLO me\r\nMAIL FROM:<a@b>\r\n", "."],
        ),
        smtp("smtp_late", "who goes away", &["#"]),
        smtp(
            "smtp_open",
            "MAIL out of order",
            &[
                ">",
                "RCPT TO:<a@b>\r\n",
                "HELO me\r\n",
                "MAIL\r\n",
                "MAIL FROM:<a@b>\r\n",
                "MAIL FROM:<a@b>\r\n",
                "RSET\r\n",
                "RCPT TO:<c@d>\r\n",
            ],
        ),
        smtp(
            "smtp_open",
            "MAIL and HELO",
            &[
                ">",
                "MAIL FROM:<a@b>\r\n",
                "HELO me\r\n",
                "RCPT TO:<c@d>\r\n",
            ],
        ),
    ]
}

pub(super) fn smtp_logins() -> Vec<Case> {
    let envelope: [&str; 4] = [
        ">",
        "EHLO me\r\n",
        "MAIL FROM:<a@b> SIZE=10\r\n",
        "RCPT TO:<c@d> X=Y\r\n",
    ];
    let anonymous = |responses: &[&str]| -> Vec<Deed> {
        let mut deeds = vec![send("220 ready\r\n")];
        for response in responses {
            deeds.push(Deed::Line);
            deeds.push(send(response));
        }
        deeds
    };
    let login = [
        ">",
        "EHLO me\r\n",
        "AUTH PLAIN AGpvAHNlY3JldA==\r\n",
        "250 NOOP\r\n",
    ];
    let with_helo = [
        ">",
        "HELO me\r\n",
        "AUTH PLAIN AGpvAHNlY3JldA==\r\n",
        "250 NOOP\r\n",
    ];
    let mut all = vec![
        smtp("smtp_open", "mail without a login", &envelope)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_open", "mail without a login or EHLO", &[">", "MAIL FROM:<a@b>\r\n", "RCPT TO:<c@d>\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_openplain", "mail without a login", &envelope)
            .mail(&anonymous(&["250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp_openplain", "a refused recipient", &[envelope[0], envelope[1], envelope[2], envelope[3], "250 again\r\n"])
            .mail(&anonymous(&["250 me\r\n", "250 from\r\n", "550 to\r\n"])),
        smtp("smtp_openplain", "a refused sender", &envelope)
            .mail(&anonymous(&["250 me\r\n", "550 from\r\n"])),
        smtp("smtp_open", "a refused envelope", &[">", "EHLO me\r\n", "MAIL FROM:<a@b>\r\n", "RCPT TO:<c@d>\r\n", "MAIL FROM:<a@b>\r\n", ])
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Status: Temporary trouble\r\nAuth-Error-Code: 451 4.3.0\r\nAuth-Wait: 1\r\n\r\n"]),
        smtp("smtp_open", "pipelined envelope", &[">", "EHLO me\r\n", "<MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\n250 data\r\n", "?data"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "250 from\r\n", "250 to\r\n"])),
        smtp("smtp", "AUTH behind EHLO", &login)
            .mail(&anonymous(&["250-me\r\n250 XCLIENT\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp", "AUTH behind HELO", &with_helo)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp", "AUTH without a greeting", &[">", "AUTH PLAIN AGpvAHNlY3JldA==\r\n", "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n"])),
        smtp("smtp_plain", "AUTH behind EHLO", &login).mail(&anonymous(&["250 me\r\n"])),
        smtp("smtp_plain", "AUTH behind HELO", &with_helo).mail(&anonymous(&["250 me\r\n"])),
        smtp("smtp_auth", "AUTH behind EHLO", &login)
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n", "235 ok\r\n"])),
        smtp("smtp_authplain", "AUTH", &login).mail(&anonymous(&["250 me\r\n", "235 ok\r\n"])),
        smtp("smtp_authplain", "refused AUTH", &login).mail(&anonymous(&["250 me\r\n", "535 no\r\n"])),
        smtp("smtp_auth", "no XCLIENT", &login).mail(&anonymous(&["250 me\r\n", "550 no\r\n"])),
        smtp("smtp", "XCLIENT with 250", &login).mail(&anonymous(&["250 me\r\n", "250 x\r\n", "250 me\r\n"])),
        smtp("smtp", "refused EHLO", &login).mail(&anonymous(&["502 me\r\n"])),
        smtp("smtp", "refused second EHLO", &login).mail(&anonymous(&["250 me\r\n", "220 x\r\n", "502 me\r\n"])),
        smtp("smtp", "odd login", &[">", "EHLO me\r\n", &format!("AUTH PLAIN {}\r\n", base64("\0j+=ö smith\0x".as_bytes())), "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"])),
        smtp("smtp_authplain", "odd login", &[">", "EHLO me\r\n", &format!("AUTH PLAIN {}\r\n", base64("\0j+=ö smith\0x y\r\n".as_bytes())), "250 NOOP\r\n"])
            .mail(&anonymous(&["250 me\r\n", "235 x\r\n"])),
        smtp("smtp_authplain", "other names from the auth service", &login)
            .answers(&["HTTP/1.0 200 OK\r\nAuth-Status: OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: %port%\r\nAuth-User: other\r\nAuth-Pass: pw\r\n\r\n"])
            .mail(&anonymous(&["250 me\r\n", "235 x\r\n"])),
    ];
    // Addresses of loopback are not looked up.
    for (address, name) in [
        ("192.0.2.101", "a name"),
        ("192.0.2.102", "a name of another address"),
        ("192.0.2.103", "a name without an address"),
        ("192.0.2.104", "an error of the name server"),
        ("192.0.2.105", "an error for the name"),
        ("192.0.2.106", "an invalid name"),
        ("192.0.2.107", "no name"),
    ] {
        let mail = anonymous(&["250 me\r\n", "220 x\r\n", "250 me\r\n"]);
        let header = format!("<PROXY TCP4 {address} 192.0.2.99 4660 25\r\n");
        let script = [&[header.as_str()][..], &login].concat();
        let one = smtp("smtp_names", name, &script);
        all.push(one.mail(&mail).known_as(address));
    }
    all
}
