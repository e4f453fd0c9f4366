//! Every parser that reads bytes from outside, as a fuzz target.
//!
//! Most targets live beside the code they exercise (`sealane_conf::fuzz`,
//! `sealane_http::fuzz`, `sealane_mail::fuzz`, `sealane_quic::fuzz`,
//! `sealane_tls`), those of sessions in `sessions.rs`,
//! as they run whole connections; here they get names, seeds and two drivers. `README.md` says how
//! to run them.

mod ech;
mod flights;
mod moving;
pub mod mutation;
mod sessions;

use std::path::PathBuf;

/// One parser and what its inputs are made of.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the directory with its seeds and of its dictionary.
    pub name: &'static str,
    /// Runs the parser and panics when something that must hold does not.
    pub run: fn(&[u8]),
    /// Longer inputs find nothing new and cost time.
    pub max_bytes: usize,
    /// A run takes so many times as long as one of a parser, and the bounded driver does as many
    /// fewer.
    pub cost: usize,
}

/// Every target.
pub const TARGETS: [Target; 42] = [
    Target {
        name: "config",
        run: sealane_conf::fuzz::fuzz_config,
        max_bytes: 8192,
        cost: 1,
    },
    Target {
        name: "request",
        run: sealane_http::fuzz::fuzz_request,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "uri",
        run: sealane_http::fuzz::fuzz_uri,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "range",
        run: sealane_http::fuzz::fuzz_range,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "cache_control",
        run: sealane_http::fuzz::fuzz_cache_control,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "chunked",
        run: sealane_http::fuzz::fuzz_chunked,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "h1_stream",
        run: sealane_http::fuzz::fuzz_stream,
        max_bytes: 256,
        cost: 1,
    },
    Target {
        name: "mp4",
        run: sealane_http::fuzz::fuzz_mp4,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "trim",
        run: sealane_http::fuzz::fuzz_trim,
        max_bytes: 2048,
        cost: 2,
    },
    Target {
        name: "response",
        run: sealane_http::fuzz::fuzz_response,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "fastcgi",
        run: sealane_http::fuzz::fuzz_fastcgi,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "dubbo",
        run: sealane_http::fuzz::fuzz_dubbo,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "proxy_protocol",
        run: sealane_http::fuzz::fuzz_proxy_protocol,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "set_cookie",
        run: sealane_http::fuzz::fuzz_set_cookie,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "mail_client",
        run: sealane_mail::fuzz::fuzz_mail_client,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "mail_auth",
        run: sealane_mail::fuzz::fuzz_mail_auth,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "mail_server",
        run: sealane_mail::fuzz::fuzz_mail_server,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "hpack",
        run: sealane_http::fuzz::fuzz_hpack,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "h2_server",
        run: sealane_http::fuzz::fuzz_h2_server,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "h2_client",
        run: sealane_http::fuzz::fuzz_h2_client,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "h2_frames",
        run: sealane_http::fuzz::fuzz_h2_frames,
        max_bytes: 1024,
        cost: 4,
    },
    Target {
        name: "qpack",
        run: sealane_http::fuzz::fuzz_qpack,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "h3_server",
        run: sealane_http::fuzz::fuzz_h3_server,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "cipher_string",
        run: cipher_string,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "client_hello",
        run: sealane_tls::fuzz_client_hello,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "preread_hello",
        run: sealane_tls::fuzz_preread_hello,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "session_ticket",
        run: sessions::ticket,
        max_bytes: 4096,
        cost: 1,
    },
    Target {
        name: "session_value",
        run: sessions::value,
        max_bytes: 4096,
        cost: 1,
    },
    Target {
        name: "early_flight",
        run: sessions::early_flight,
        max_bytes: 4096,
        cost: 1,
    },
    Target {
        name: "ech_hello",
        run: ech::ech_hello,
        max_bytes: 1024,
        cost: 8,
    },
    Target {
        name: "ech_inner",
        run: ech::ech_inner,
        max_bytes: 512,
        cost: 16,
    },
    Target {
        name: "tls_flights",
        run: flights::tls_flights,
        max_bytes: 1024,
        cost: 4,
    },
    Target {
        name: "worker",
        run: sealane_server::fuzz::fuzz_worker,
        max_bytes: 512,
        cost: 200,
    },
    Target {
        name: "body_filters",
        run: sealane_server::fuzz::fuzz_body_filters,
        max_bytes: 1024,
        cost: 100,
    },
    Target {
        name: "packed",
        run: moving::packed,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "key_channel",
        run: sealane_keys::fuzz::fuzz_channel,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "key_deposit",
        run: sealane_keys::fuzz::fuzz_deposit,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "quic_packets",
        run: sealane_quic::fuzz::packets,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "quic_frames",
        run: sealane_quic::fuzz::frames,
        max_bytes: 2048,
        cost: 1,
    },
    Target {
        name: "quic_parameters",
        run: sealane_quic::fuzz::parameters,
        max_bytes: 1024,
        cost: 1,
    },
    Target {
        name: "quic_tokens",
        run: sealane_quic::fuzz::tokens,
        max_bytes: 512,
        cost: 1,
    },
    Target {
        name: "quic_connection",
        run: sealane_quic::fuzz::connection,
        max_bytes: 1024,
        cost: 16,
    },
];

fn cipher_string(data: &[u8]) {
    sealane_tls::fuzz_cipher_string(&String::from_utf8_lossy(data));
}

impl Target {
    /// The target with this name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Inputs to start from.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        self.inputs("seeds")
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect()
    }

    /// Inputs that once were findings, each with its file name.
    pub fn regressions(&self) -> Vec<(String, Vec<u8>)> {
        self.inputs("regressions")
    }

    /// Strings that mean something to the parser: the lines of its dictionary,
    /// which is in libFuzzer's format.
    pub fn tokens(&self) -> Vec<Vec<u8>> {
        let path = directory()
            .join("dictionaries")
            .join(format!("{}.dict", self.name));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .filter_map(mutation::dictionary_entry)
            .collect()
    }

    fn inputs(&self, kind: &str) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = std::fs::read_dir(directory().join(kind).join(self.name)) else {
            return Vec::new();
        };
        let mut inputs: Vec<_> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_string_lossy().into_owned();
                Some((name, std::fs::read(path).ok()?))
            })
            .collect();
        // The order of a directory is not the same everywhere, the run should be.
        inputs.sort();
        inputs
    }
}

/// The directory `fuzz/` of the repository.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
