//! ngx_http_v3_module, the part about QUIC, and what is Sealane's own.

use super::{Arity, HS, HTTP, Module, ONE, Row, real_ip};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{CongestionControl, PreferredAddress, Qlog, QuicRetry, QuicVersion};
use crate::values;
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "QUIC",
    doc: "The transport of HTTP/3: versions 1 (RFC 9000) and 2 (RFC 9369), with TLS 1.3 and the \
          `ssl_*` settings of the server. A connection uses the settings of the default server of \
          its address, since they are needed before a name is known. It may be idle for \
          `keepalive_timeout` and may take `client_header_timeout` for its handshake, as in nginx, \
          and is one of `worker_connections`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "quic_retry",
        HS,
        ONE,
        "256",
        "When a client must prove its address before the handshake (RFC 9000 section 8.1.2), which \
         costs a round trip: `on`, `off`, or a number: while a worker thread has that many \
         handshakes with clients that have not, as in a flood of forged addresses. In nginx the \
         default is `off`, and numbers are unknown.",
        retry,
    ),
    Row::new(
        "quic_host_key",
        HS,
        ONE,
        "",
        "File of any bytes, at best 32 random ones, that the keys of address tokens and of \
         stateless resets are made of. Machines behind one address that have the same file accept \
         each other's tokens, and end each other's lost connections. Without the directive, tokens \
         are made of `key=` of `ssl_session_store`: machines that share sessions share them, too. \
         What is made of neither has a random key, and ends with the server.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            let slot = &mut b.server().quic.host_key;
            c.once(slot)?;
            *slot = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "quic_gso",
        HS,
        ONE,
        "on",
        "Whether the kernel gets many datagrams at once to send (generic segmentation offload). \
         Where it cannot, they are sent one by one. In nginx the default is `off`.",
        |b, c| c.flag(&mut b.server().quic.gso),
    ),
    Row::new(
        "quic_active_connection_id_limit",
        HS,
        ONE,
        "2",
        "Connection ids of the client that are kept, each for one more path; never below 2 and \
         never more than 8.",
        |b, c| c.number(&mut b.server().quic.active_connection_id_limit),
    ),
    Row::new(
        "quic_versions",
        HS,
        Arity::Between(1, 2),
        "1 2",
        "Versions of QUIC that clients may use, `1` and `2`, the preferred one first. A client that \
         says in its first packet that it speaks several gets the first of these that it has (RFC \
         9368); others keep the version that they begin with. Clients that begin with one that is \
         not listed are told these, in this order (RFC 9000 section 6). Sessions are resumed with \
         the version that they were made with.",
        versions,
    )
    .own(),
    Row::new(
        "quic_congestion_control",
        HS,
        ONE,
        "cubic",
        "What decides how fast a connection sends: `cubic` (RFC 9438), `bbr` (version 3) or \
         `newreno` (RFC 9002).",
        |b, c| {
            let choices = [
                ("cubic", CongestionControl::Cubic),
                ("bbr", CongestionControl::Bbr),
                ("newreno", CongestionControl::NewReno),
            ];
            c.choice(&mut b.server().quic.congestion_control, &choices)
        },
    )
    .own(),
    Row::new(
        "quic_mtu_discovery",
        HS,
        ONE,
        "on",
        "Whether larger datagrams than those of 1200 bytes are tried, and used where they arrive \
         (RFC 8899).",
        |b, c| c.flag(&mut b.server().quic.mtu_discovery),
    )
    .own(),
    Row::new(
        "quic_preferred_address",
        HS,
        Arity::Between(1, 2),
        "off",
        "Address and port that clients move to once the handshake is complete (RFC 9000 section \
         9.6), such as the machine's own behind a load balancer: `192.0.2.1:443`, \
         `[2001:db8::1]:443`, or one of each. The port has to be that of the `listen ... quic` line \
         by which they have come; with another one they stay where they are. `off` cancels what is \
         inherited.",
        preferred_address,
    )
    .own(),
    Row::new(
        "quic_qlog",
        HS,
        Arity::AtLeast(1),
        "off",
        "Directory that gets a file for each connection with everything that the transport does \
         (qlog), for programs such as qvis; a relative path starts from the prefix. It must be \
         there, and writable for the `user` of the worker processes. The file is named after the \
         id that the client has chosen first: `8f3ab2c4d5e6f708_server.sqlog`. Addresses and \
         networks of clients may follow; without them all connections are recorded. No key, no \
         token and nothing that streams carry is written. `off` cancels what is inherited.",
        qlog,
    )
    .own(),
    Row::new(
        "quic_qlog_max_size",
        HS,
        ONE,
        "64m",
        "Largest file of `quic_qlog`: a connection that has filled it goes on without being \
         recorded, and the last record of the file says so.",
        |b, c| c.offset(&mut b.server().quic.qlog_max_size),
    )
    .own(),
    Row::new(
        "quic_qlog_max_connections",
        HS,
        ONE,
        "64",
        "Connections that `quic_qlog` records at a time, for each worker thread and address. \
         Further ones are not recorded, and a line in the error log says so.",
        |b, c| c.number(&mut b.server().quic.qlog_max_connections),
    )
    .own(),
    Row::new(
        "quic_node_id",
        HTTP,
        ONE,
        "",
        "Number of this machine, at most 65535, that all of its connection ids contain in clear \
         text (draft-ietf-quic-load-balancers), so that a load balancer knows where packets of a \
         client belong that has moved.",
        node_id,
    )
    .own(),
    Row::new(
        "quic_max_handshakes",
        HTTP,
        ONE,
        "0",
        "Handshakes of QUIC at a time, for each worker thread and address; 0, the default, is \
         half of `worker_connections`. When there are so many, further clients are refused \
         (CONNECTION_REFUSED), and a line in the error log says so.",
        |b, c| {
            c.once(&b.http.quic_max_handshakes)?;
            let most = values::number(c.arg(1)).and_then(|most| u32::try_from(most).ok());
            let most = most.ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
            b.http.quic_max_handshakes = Some(most);
            Ok(())
        },
    )
    .own(),
];

fn retry(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.server().quic.retry;
    c.once(slot)?;
    let number = values::number(c.arg(1)).and_then(|number| u32::try_from(number).ok());
    *slot = Some(match number {
        Some(0) => QuicRetry::Always,
        Some(least) => QuicRetry::From(least),
        None => match c
            .on_off()
            .map_err(|fault| fault.help("or a number of handshakes"))?
        {
            true => QuicRetry::Always,
            false => QuicRetry::Never,
        },
    });
    Ok(())
}

fn versions(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().quic.versions)?;
    let mut versions = Vec::new();
    for (index, written) in c.args() {
        let version = match written {
            b"1" => QuicVersion::V1,
            b"2" => QuicVersion::V2,
            _ => return Err(c.invalid(index).help("it can be \"1\", \"2\"")),
        };
        if versions.contains(&version) {
            return Err(Fault::at(
                index,
                format!("duplicate value \"{}\"", c.shown(index)),
            ));
        }
        versions.push(version);
    }
    b.server().quic.versions = Some(versions.into());
    Ok(())
}

fn preferred_address(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().quic.preferred_address)?;
    if c.count() == 1 && c.arg(1) == b"off" {
        b.server().quic.preferred_address = Some(None);
        return Ok(());
    }
    let mut addresses = PreferredAddress { v4: None, v6: None };
    for (index, _) in c.args() {
        let address = c.text(index)?.parse().ok();
        // RFC 9000 section 18.2: zeros say that there is none.
        let usable = |address: &SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
        let address = address.filter(usable).ok_or_else(|| {
            c.invalid(index)
                .help("it must be an address and a port: 192.0.2.1:443, [2001:db8::1]:443")
        })?;
        let is_first = match address {
            SocketAddr::V4(address) => addresses.v4.replace(address).is_none(),
            SocketAddr::V6(address) => addresses.v6.replace(address).is_none(),
        };
        if !is_first {
            let message = format!("another address of the same family \"{}\"", c.shown(index));
            return Err(Fault::at(index, message));
        }
    }
    b.server().quic.preferred_address = Some(Some(addresses));
    Ok(())
}

fn qlog(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().quic.qlog)?;
    if c.count() == 1 && c.arg(1) == b"off" {
        b.server().quic.qlog = Some(None);
        return Ok(());
    }
    let mut clients = Vec::new();
    for (index, written) in c.args().skip(1) {
        let network = real_ip::network(written);
        let (network, is_cut) = network.ok_or_else(|| {
            c.invalid_parameter(index)
                .help("it must be the address or network of clients")
        })?;
        if is_cut {
            let shown = c.shown(index);
            b.warn(format!("low address bits of {shown} are meaningless"));
        }
        clients.push(network);
    }
    let qlog = Qlog {
        directory: b.options.under_prefix(c.path(1)),
        clients: clients.into(),
    };
    b.server().quic.qlog = Some(Some(Arc::new(qlog)));
    Ok(())
}

fn node_id(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.http.quic_node_id)?;
    let id = values::number(c.arg(1)).ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
    let id = u16::try_from(id).map_err(|_| c.refuse_arg(1, "value must be at most 65535"))?;
    b.http.quic_node_id = Some(id);
    Ok(())
}
