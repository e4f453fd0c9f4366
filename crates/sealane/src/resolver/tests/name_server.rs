//! A name server on loopback, over UDP and TCP, that replies as a test wants.

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

/// The reply for a name.
#[derive(Debug, Clone)]
pub(super) enum Says {
    /// These records; those of another kind than asked for are left out, but CNAMEs.
    Records(Vec<Record>),
    /// A response code without records.
    Code(ResponseCode),
    /// Nothing.
    Silence,
    /// Bytes that are no message.
    Nonsense,
    /// Over UDP that the answer does not fit, over TCP the records.
    OnlyOverTcp(Vec<Record>),
    /// After a while.
    Late(Duration, Vec<Record>),
}

/// Stops when it is dropped.
pub(super) struct NameServer {
    pub(super) address: SocketAddr,
    zone: Arc<Zone>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Zone {
    names: Mutex<HashMap<String, Says>>,
    /// Questions so far.
    asked: AtomicUsize,
    over_tcp: AtomicUsize,
}

impl NameServer {
    pub(super) async fn start() -> NameServer {
        // The same port for both; another process may have it for one of them.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .expect("a port");
            let address = udp.local_addr().expect("an address");
            if let Ok(tcp) = TcpListener::bind(address).await {
                break (udp, tcp);
            }
        };
        let zone = Arc::new(Zone::default());
        let address = udp.local_addr().expect("an address");
        let tasks = vec![
            tokio::spawn(serve_udp(Arc::new(udp), zone.clone())),
            tokio::spawn(serve_tcp(tcp, zone.clone())),
        ];
        NameServer {
            address,
            zone,
            tasks,
        }
    }

    /// From now on it replies this for a name.
    pub(super) fn says(&self, name: &str, says: Says) {
        let mut names = self.zone.names.lock().expect("no panic");
        names.insert(format!("{name}."), says);
    }

    /// Questions so far.
    pub(super) fn asked(&self) -> usize {
        self.zone.asked.load(Ordering::Relaxed)
    }

    pub(super) fn asked_over_tcp(&self) -> usize {
        self.zone.over_tcp.load(Ordering::Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, zone: Arc<Zone>) {
    let mut buffer = [0; 4096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
        let (socket, zone) = (socket.clone(), zone.clone());
        let question = buffer[..length].to_vec();
        tokio::spawn(async move {
            if let Some(answer) = zone.answer(&question, false).await {
                let _ = socket.send_to(&answer, client).await;
            }
        });
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Zone>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_connection(stream, zone.clone()));
    }
}

async fn serve_connection(mut stream: TcpStream, zone: Arc<Zone>) {
    while let Ok(length) = stream.read_u16().await {
        let mut question = vec![0; usize::from(length)];
        if stream.read_exact(&mut question).await.is_err() {
            return;
        }
        if let Some(answer) = zone.answer(&question, true).await {
            let length = u16::try_from(answer.len()).expect("a short answer");
            if stream.write_u16(length).await.is_err() || stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

impl Zone {
    async fn answer(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if tcp {
            self.over_tcp.fetch_add(1, Ordering::Relaxed);
        }
        let question = Message::from_vec(question).expect("a question");
        let query = question.queries.first().expect("a question").clone();
        let name = query.name().to_ascii().to_lowercase();
        let says = self.names.lock().expect("no panic").get(&name).cloned();
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        answer.add_query(query.clone());
        answer.metadata.recursion_available = true;
        let kind = query.query_type();
        let fits = |record: &Record| [kind, RecordType::CNAME].contains(&record.record_type());
        let records = match says.unwrap_or(Says::Code(ResponseCode::NXDomain)) {
            Says::Silence => return None,
            Says::Nonsense => return Some(vec![0xff; 7]),
            Says::Code(code) => {
                answer.metadata.response_code = code;
                Vec::new()
            }
            Says::OnlyOverTcp(_) if !tcp => {
                answer.metadata.truncation = true;
                Vec::new()
            }
            Says::Late(late, records) => {
                tokio::time::sleep(late).await;
                records
            }
            Says::Records(records) | Says::OnlyOverTcp(records) => records,
        };
        answer.add_answers(records.into_iter().filter(fits));
        Some(answer.to_vec().expect("a message"))
    }
}

fn name(name: &str) -> Name {
    let mut name = Name::from_ascii(name).expect("a name");
    name.set_fqdn(true);
    name
}

/// A record of an address.
pub(super) fn address(of: &str, ttl_s: u32, address: &str) -> Record {
    let data = match address.parse().expect("an address") {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    Record::from_rdata(name(of), ttl_s, data)
}

/// Another name for a name.
pub(super) fn alias(of: &str, ttl_s: u32, other: &str) -> Record {
    Record::from_rdata(name(of), ttl_s, RData::CNAME(CNAME(name(other))))
}

/// A record of a service.
pub(super) fn service(of: &str, priority: u16, weight: u16, port: u16, target: &str) -> Record {
    let record = SRV::new(priority, weight, port, name(target));
    Record::from_rdata(name(of), 300, RData::SRV(record))
}
