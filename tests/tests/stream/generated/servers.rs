//! Servers that are made up.

use super::Random;
use std::fmt::Write as _;

/// What all servers use.
pub(super) const COMMON: &str = r#"
    log_format all '$status|$bytes_sent|$bytes_received|$protocol|$remote_addr|$upstream_addr|'
        '$upstream_bytes_sent|$upstream_bytes_received|$proxy_protocol_addr|'
        '$ssl_preread_protocol|$ssl_preread_server_name|$ssl_preread_alpn_protocols|'
        '$limit_conn_status|$ssl_protocol|$ssl_server_name|$note|$by_map|$server_addr';
    map $proxy_protocol_addr$ssl_preread_server_name $by_map {
        default none; hostnames; 192.0.2.7 seven; *.example example; ~^203 "ip-$note"; }
    ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
    ssl_session_cache none;
    server { listen 127.0.0.1:%nothing%; set $note ""; return ""; }
"#;

/// One server, with what leads to it and what it leads to.
pub(super) struct Layer4 {
    pub(super) text: String,
    /// Where clients connect.
    pub(super) entry: String,
    /// Names of logs, in which each conversation has a line.
    pub(super) logs: Vec<String>,
    /// Names of ports that its lines may have.
    pub(super) ports: Vec<String>,
    /// A client that behaves reaches the origin.
    pub(super) is_reached: bool,
    pub(super) half_close: bool,
    /// Clients begin with a PROXY header.
    pub(super) takes_header: bool,
    /// So does what the origin gets.
    pub(super) sends_header: bool,
    /// In text, with the client's address beside one of this machine: nginx writes a header that
    /// is none if these are of two families.
    pub(super) sends_both_addresses: bool,
    pub(super) preread: bool,
    /// Only one connection at a time.
    pub(super) is_limited: bool,
}

impl Layer4 {
    pub(super) fn new(random: &mut Random, number: usize, origin: u16, dead: u16) -> Layer4 {
        let name: String = ('a'..='z').nth(number).expect("few servers").into();
        let main = format!("main_{name}");
        let ssl = random.below(3) == 0;
        let proxy_ssl = random.below(4) == 0;
        let takes_header = random.below(4) == 0;
        let preread = !ssl && random.below(4) == 0;
        let is_limited = random.below(5) == 0;
        let half_close = random.below(2) == 0;
        let mut header_out = *random.choose(&["", "", "", "on", "v2"]);
        if ssl && header_out == "v2" {
            // nginx puts what is known of the client's TLS into it.
            header_out = "on";
        }
        let mut server = Layer4 {
            text: String::new(),
            entry: main.clone(),
            logs: vec![main.clone()],
            ports: vec![main.clone()],
            is_reached: true,
            half_close,
            takes_header,
            sends_header: !header_out.is_empty() && !proxy_ssl,
            sends_both_addresses: false,
            preread,
            is_limited,
        };
        let half = if half_close {
            "proxy_half_close on;"
        } else {
            ""
        };
        let mut inside = format!("{half} access_log logs/{main}.log all;");
        server.add_details(random, &mut inside);
        server.sends_both_addresses = header_out == "on" && inside.contains("set_real_ip_from");
        server.add_access(random, &mut inside);
        let target = match proxy_ssl {
            true => server.add_inner(&name, half, !header_out.is_empty(), origin),
            false => origin.to_string(),
        };
        if proxy_ssl {
            inside.push_str("proxy_ssl on;");
        }
        if !header_out.is_empty() {
            write!(inside, "proxy_protocol {header_out};").expect("memory");
        }
        server.add_handler(random, &mut inside, &name, &target, dead);
        let options = match (ssl, takes_header) {
            (true, true) => " ssl proxy_protocol",
            (true, false) => " ssl",
            (false, true) => " proxy_protocol",
            (false, false) => "",
        };
        writeln!(
            server.text,
            "server {{ listen 127.0.0.1:%{main}%{options}; {inside} }}"
        )
        .expect("memory");
        if ssl {
            server.add_front(&name, half);
        }
        server
    }

    /// What does not decide where a session goes.
    fn add_details(&self, random: &mut Random, inside: &mut String) {
        if self.preread {
            inside.push_str("ssl_preread on;");
        }
        if self.is_limited {
            inside.push_str("limit_conn one 1;");
        }
        for (share, line) in [
            (3, "set $note \"$protocol-$by_map\";"),
            (4, "proxy_buffer_size 1k;"),
            (8, "proxy_buffer_size 64;"),
            (4, "proxy_download_rate 400k;"),
            (4, "proxy_upload_rate 400k;"),
            (5, "tcp_nodelay off;"),
            (5, "proxy_socket_keepalive on;"),
            (5, "proxy_bind 127.0.0.3;"),
            (5, "set_real_ip_from 127.0.0.0/8;"),
            (6, "preread_buffer_size 1k;"),
        ] {
            let doubled = line.starts_with("proxy_buffer") && inside.contains("proxy_buffer");
            // nginx would keep that there is no name yet.
            let early = self.preread && line.starts_with("set $note");
            if random.below(share) == 0 && !doubled && !early {
                inside.push_str(line);
            }
        }
    }

    fn add_access(&mut self, random: &mut Random, inside: &mut String) {
        if self.is_limited {
            let name = &self.entry;
            let key = match inside.contains("set $note") {
                true => "$note",
                false => "$server_port",
            };
            writeln!(self.text, "limit_conn_zone {key} zone={name}:64k;").expect("memory");
            *inside = inside.replace("limit_conn one", &format!("limit_conn {name}"));
        }
        let by_real_ip = self.takes_header && inside.contains("set_real_ip_from");
        match random.below(12) {
            0 => {
                inside.push_str("allow 10.0.0.0/8; deny all;");
                self.is_reached = false;
            }
            1 if !by_real_ip => {
                inside.push_str("deny 127.0.0.1;");
                self.is_reached = false;
            }
            2 => inside.push_str("allow 127.0.0.0/8; allow 192.0.2.0/24; allow 2001:db8::/32; allow 203.0.113.0/24; deny all;"),
            _ => {}
        }
    }

    /// TLS of the server's end: the same program opens it again. Returns its port.
    fn add_inner(&mut self, name: &str, half: &str, header: bool, origin: u16) -> String {
        let inner = format!("inner_{name}");
        let header = if header { " proxy_protocol" } else { "" };
        writeln!(
            self.text,
            "server {{ listen *:%{inner}% ssl{header}; {half} access_log logs/{inner}.log all;
                 proxy_pass 127.0.0.1:{origin}; }}"
        )
        .expect("memory");
        self.logs.push(inner.clone());
        self.ports.push(inner.clone());
        format!("%{inner}%")
    }

    /// TLS of the client's end.
    fn add_front(&mut self, name: &str, half: &str) {
        let front = format!("front_{name}");
        let header = match self.takes_header {
            true => "proxy_protocol on;",
            false => "",
        };
        writeln!(
            self.text,
            "server {{ listen 127.0.0.1:%{front}%; {half} {header} access_log logs/{front}.log all;
                 proxy_ssl on; proxy_ssl_name a.example; proxy_ssl_server_name on;
                 proxy_pass 127.0.0.1:%{}%; }}",
            self.entry
        )
        .expect("memory");
        // The client's header is then the front's.
        self.takes_header = false;
        self.entry.clone_from(&front);
        self.logs.insert(0, front.clone());
        self.ports.push(front);
    }

    fn add_handler(
        &mut self,
        random: &mut Random,
        inside: &mut String,
        name: &str,
        target: &str,
        dead: u16,
    ) {
        let failed = *random.choose(&[
            "max_fails=0",
            "fail_timeout=1h",
            "max_fails=2 fail_timeout=1h",
        ]);
        let group = match random.below(9) {
            0 => {
                inside.push_str("return \"$remote_addr by $protocol to $by_map\\n\";");
                self.is_reached = false;
                self.logs.retain(|log| !log.starts_with("inner"));
                return;
            }
            1 => format!("server 127.0.0.1:{dead} {failed}; server 127.0.0.1:{target};"),
            2 => format!("server 127.0.0.1:{dead} {failed}; server 127.0.0.2:{target} backup;"),
            3 => format!("server 127.0.0.1:{target} weight=2; server 127.0.0.2:{target};"),
            4 => format!(
                "hash $by_map; server 127.0.0.1:{target}; server 127.0.0.2:{target}; server 127.0.0.1:{dead} {failed};"
            ),
            5 if random.below(2) == 0 => {
                self.is_reached = false;
                format!("server 127.0.0.1:{dead} {failed}; server 127.0.0.2:{dead} {failed};")
            }
            6 => format!("least_conn; server 127.0.0.1:{target}; server 127.0.0.2:{target} down;"),
            7 => {
                writeln!(
                    self.text,
                    "map $ssl_preread_server_name $to_{name} {{ default 127.0.0.1:{target};
                         to.two 127.0.0.2:{target}; }}"
                )
                .expect("memory");
                write!(inside, "proxy_pass $to_{name};").expect("memory");
                self.end_handler();
                return;
            }
            _ => {
                write!(inside, "proxy_pass 127.0.0.1:{target};").expect("memory");
                self.end_handler();
                return;
            }
        };
        writeln!(self.text, "upstream group_{name} {{ {group} }}").expect("memory");
        write!(inside, "proxy_pass group_{name};").expect("memory");
        let once = group.contains(&dead.to_string()) && random.below(6) == 0;
        if once && !group.contains("max_fails=2") {
            // Whether the origin is reached would be known to no one.
            inside.push_str("proxy_next_upstream_tries 3;");
        }
        self.end_handler();
    }

    /// Who is turned away before has no line in the logs behind.
    fn end_handler(&mut self) {
        if !self.is_reached {
            self.logs.retain(|log| !log.starts_with("inner"));
        }
    }
}
