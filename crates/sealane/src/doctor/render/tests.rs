use super::super::report::{
    Certificate, CpuFeature, KeyAccelerator, Module, SCHEMA, Sendfile, Server, Suite,
};
use super::*;
use std::collections::BTreeMap;

fn answer(reason: Option<&'static str>) -> Answer {
    Answer {
        works: reason.is_none(),
        reason,
        detail: reason.map(|reason| format!("because of {reason}")),
    }
}

fn suite(cipher: &'static str, reason: Option<&'static str>) -> Suite {
    Suite {
        protocol: "TLSv1.3",
        cipher,
        transmit: answer(reason),
        receive: answer(None),
    }
}

fn server(name: &str, kernel_tls: Use, detail: &str) -> Server {
    Server {
        name: name.to_owned(),
        listen: vec!["0.0.0.0:443".to_owned(), "[::]:443".to_owned()],
        starttls: "off",
        starttls_listen: Vec::new(),
        quic_listen: Vec::new(),
        place: "/etc/nginx/nginx.conf:7".to_owned(),
        ssl_ktls: "on",
        kernel_tls,
        detail: detail.to_owned(),
        sendfile: Sendfile::On,
        in_kernel: vec!["TLS_AES_128_GCM_SHA256"],
        in_user_space: Vec::new(),
        ssl_async: "auto",
        accelerators: vec![
            KeyAccelerator {
                key: "rsa2048",
                accelerator: "batch",
            },
            KeyAccelerator {
                key: "p256",
                accelerator: "cpu",
            },
        ],
        certificates: vec![
            Certificate {
                file: "/etc/ssl/a.pem".to_owned(),
                key: "p256",
                days_left: Some(61),
                staples: Some("ocsp.example".to_owned()),
                last_attempt: None,
            },
            Certificate {
                file: "/etc/ssl/old.pem".to_owned(),
                key: "rsa2048",
                days_left: Some(-1),
                staples: None,
                last_attempt: None,
            },
        ],
    }
}

fn report() -> Report {
    let problem = "the kernel lacks something, which takes more than one line to say because it is \
                   explained at length";
    Report {
        schema: SCHEMA,
        version: "sealane/0.0.0",
        good: false,
        verdict: "Kernel TLS works with 1 of 2 suites; 1 thing to improve.".to_owned(),
        problems: vec![Finding::new("lacking", problem, "mend it".to_owned())],
        notes: vec![Finding::new("aside", "something else", None)],
        kernel: Kernel {
            system: "Linux".to_owned(),
            release: "6.1.0".to_owned(),
            module: Module {
                installed: Installed::File,
                loaded_before: false,
                loaded: true,
                loadable: Loadable::Yes,
            },
            landlock: Some(2),
            tls_stat: Some(BTreeMap::from([
                ("TlsCurrTxSw".to_owned(), 3),
                ("TlsCurrTxDevice".to_owned(), 4),
                ("TlsTxSw".to_owned(), 12),
            ])),
            crypto: BTreeMap::from([("gcm(aes)", "generic-gcm-aesni".to_owned())]),
        },
        kernel_tls: KernelTls {
            usable: true,
            suites: vec![
                suite("AES-128-GCM", None),
                suite("AES-256-GCM", Some("suite_unsupported")),
            ],
            rekey: answer(Some("no_rekey")),
        },
        interfaces: vec![
            Interface {
                name: "eth0".to_owned(),
                transmit: Switch::On,
                receive: Switch::Off,
                record: Switch::Absent,
            },
            Interface {
                name: "lo".to_owned(),
                transmit: Switch::Absent,
                receive: Switch::Absent,
                record: Switch::Absent,
            },
        ],
        tls_library: "AWS-LC 1.2.3",
        cpu: Cpu {
            model: Some("Some CPU".to_owned()),
            available: 4,
            features: vec![CpuFeature {
                name: "AES-NI",
                present: true,
                used_for: "AES-GCM",
            }],
            verdict: "AES-GCM in hardware",
        },
        accelerators: Accelerators {
            batch: answer(Some("processor")),
        },
        limits: Limits {
            soft: Some(1024),
            hard: None,
            nr_open: Some(1_048_576),
            file_max: None,
            needed: Some(4096),
            granted: Some(1024),
        },
        configuration: Some(Configuration {
            keys: vec![
                TestedKey {
                    name: "/etc/a.key".to_owned(),
                    device: None,
                    key: Some("rsa2048"),
                    signatures_per_second: Some(15_800.0),
                    problem: None,
                },
                TestedKey {
                    name: "pkcs11:object=b".to_owned(),
                    device: Some("pkcs11 sessions=4".to_owned()),
                    key: None,
                    signatures_per_second: None,
                    problem: Some("it does not sign".to_owned()),
                },
            ],
            file: "/etc/nginx/nginx.conf".into(),
            workers: 4,
            worker_connections: 512,
            handshake_threads: 4,
            servers: vec![
                server("a.example", Use::Yes, "from the end of the handshake"),
                server("", Use::No, "sendfile is off"),
                Server {
                    listen: vec!["0.0.0.0:993".to_owned()],
                    starttls: "only",
                    starttls_listen: vec!["0.0.0.0:143".to_owned()],
                    ..server("mail.example", Use::Off, "ssl_ktls off")
                },
                Server {
                    listen: Vec::new(),
                    quic_listen: vec!["0.0.0.0:8443".to_owned()],
                    ..server("quic.example", Use::No, "the kernel supports TCP only")
                },
                server("evil\x1b[2J.example", Use::Off, "ssl_ktls off"),
            ],
        }),
    }
}

#[test]
fn the_verdict_comes_first_and_then_what_to_do() {
    let text = text(&report(), false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..7],
        [
            "Kernel TLS works with 1 of 2 suites; 1 thing to improve.  (sealane/0.0.0)",
            "",
            "To improve",
            "  ! the kernel lacks something, which takes more than one line to say because it is explained at",
            "    length",
            "    => mend it",
            "",
        ]
    );
}

#[test]
fn everything_found_is_shown_aligned() {
    let text = text(&report(), false);
    for line in [
        "  - something else",
        "  release           Linux 6.1.0",
        "  module tls        installed, loaded just now",
        "  Landlock          version 2; signals are confined from 6 on",
        "  AES-GCM by        generic-gcm-aesni",
        "  TLSv1.3  AES-128-GCM          yes      yes",
        "  TLSv1.3  AES-256-GCM          no       yes      because of suite_unsupported",
        "  TLSv1.3  change of the key    no",
        "  eth0              on       off      -",
        "  cannot            lo",
        "  model             Some CPU, 4 usable here",
        "  TLS library       AWS-LC 1.2.3",
        "  AES-NI            yes  AES-GCM",
        "  this process      1024 (hard limit unlimited)",
        "  the server        needs 4096, would have 1024",
        "Servers of /etc/nginx/nginx.conf",
        "  a.example on 0.0.0.0:443, [::]:443",
        "    kernel TLS from the end of the handshake",
        "    private keys: rsa2048 by batch, p256 by cpu, ssl_async auto with 4 handshake threads",
        "    certificate p256 /etc/ssl/a.pem: ends in 61 days, staples from ocsp.example",
        "    certificate rsa2048 /etc/ssl/old.pem: has ended",
        "  batch             no   because of processor",
        "  (no name) on 0.0.0.0:443, [::]:443",
        "  mail.example on 0.0.0.0:993, 0.0.0.0:143 (starttls only)",
        "  quic.example on 0.0.0.0:8443 (quic)",
        "    no kernel TLS: sendfile is off",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line:?} in:\n{text}"
        );
    }
    assert!(text.contains("  sessions          7 sending, 0 receiving\n"));
    assert!(text.contains("  since loading     12 and 0, on devices 0 and 0;"));
    let trailing = text.lines().find(|line| line.ends_with(' '));
    assert_eq!(trailing, None, "no blanks at the end of a line");
}

#[test]
fn a_reason_that_all_share_is_not_repeated() {
    let mut report = report();
    for suite in &mut report.kernel_tls.suites {
        suite.transmit = answer(Some("no_module"));
    }
    assert!(!text(&report, false).contains("because of no_module"));
}

#[test]
fn commands_are_not_broken() {
    let text = "as root, on the machine that the container runs on, or in the image: modprobe tls; \
                echo tls >/etc/modules-load.d/tls.conf";
    let lines = wrap_commands(text);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1], "echo tls >/etc/modules-load.d/tls.conf");
    assert_eq!(lines.join(" "), text);
    let prose = "word ".repeat(100);
    let lines = wrap_commands(&prose);
    assert!(lines.iter().all(|line| line.len() <= TEXT_COLUMNS));
    assert_eq!(lines.join(" "), prose.trim());
}

#[test]
fn colours_add_nothing_but_colours() {
    let (plain, coloured) = (text(&report(), false), text(&report(), true));
    assert!(!plain.contains('\x1b'), "not even from the configuration");
    assert!(coloured.contains("\x1b[32myes"));
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a colour ends with m").1;
    }
    stripped.push_str(rest);
    assert_eq!(stripped, plain);
}

#[test]
fn the_schema_is_what_the_manual_says() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["schema"], 1);
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let manual = include_str!("../../../../../docs/doctor.md");
    for (object, name) in [
        (&json, "report"),
        (&json["problems"][0], "finding"),
        (&json["kernel"], "kernel"),
        (&json["kernel"]["module"], "module"),
        (&json["kernel_tls"], "kernel TLS"),
        (&json["kernel_tls"]["suites"][0], "suite"),
        (&json["kernel_tls"]["rekey"], "answer"),
        (&json["interfaces"][0], "interface"),
        (&json["cpu"], "CPU"),
        (&json["cpu"]["features"][0], "CPU feature"),
        (&json["accelerators"], "accelerators"),
        (&json["limits"], "limits"),
        (&json["configuration"], "configuration"),
        (&json["configuration"]["servers"][0], "server"),
        (
            &json["configuration"]["servers"][0]["accelerators"][0],
            "accelerator of a certificate",
        ),
        (&json["configuration"]["keys"][0], "key"),
    ] {
        for key in keys(object) {
            assert!(manual.contains(&format!("`{key}`")), "{key} of the {name}");
        }
    }
    assert_eq!(json["configuration"]["servers"][1]["kernel_tls"], "no");
    assert_eq!(json["interfaces"][0]["transmit"], "on");
    assert_eq!(json["limits"]["hard"], serde_json::Value::Null);
}
