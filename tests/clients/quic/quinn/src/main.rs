//! An HTTP/3 client on quinn, which runs one script (`tests/src/quic.rs`).
//!
//! The script is JSON on standard input; what happened is JSON on standard output. The exit status
//! is 0 whatever the server did.

mod requests;
mod tls;

use requests::Response;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long one step may take. A test has three minutes in all.
const STEP: Duration = Duration::from_secs(150);
/// The same for a handshake, and for a server that is to close the connection.
const HANDSHAKE: Duration = Duration::from_secs(20);
const CLOSE: Duration = Duration::from_secs(30);
/// H3_NO_ERROR.
const NO_ERROR: u32 = 0x100;

type Failure = Box<dyn Error>;

#[derive(Deserialize)]
struct Script {
    address: SocketAddr,
    authority: String,
    server_name: String,
    version: u32,
    #[serde(default)]
    alpn: Option<String>,
    #[serde(default)]
    receive_window: Option<u32>,
    #[serde(default)]
    unknown_version_first: bool,
    #[serde(default)]
    also_version_2: bool,
    connections: Vec<Planned>,
}

#[derive(Deserialize)]
struct Planned {
    resume: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Step {
    Requests {
        requests: Vec<requests::Request>,
    },
    Rebind {
        address: IpAddr,
    },
    KeyUpdate,
    Wait {
        ms: u64,
    },
    WaitForClose,
    #[serde(other)]
    Other,
}

#[derive(Default, Serialize)]
struct Outcome {
    version: u32,
    resumed: bool,
    early_data: &'static str,
    key_updates: u64,
    tickets: u64,
    tokens: u64,
    migrations: u64,
    responses: Vec<Response>,
    close: Option<Close>,
    milliseconds: u128,
}

#[derive(Serialize)]
struct Close {
    by_server: bool,
    application: bool,
    code: Option<u64>,
    reason: String,
}

/// What one connection leaves to the next.
struct Client {
    script: Script,
    /// With session tickets and tokens.
    settings: quinn::ClientConfig,
    seen: Arc<tls::Seen>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let script: Script = serde_json::from_reader(std::io::stdin())?;
    if script.version != 1 || script.unknown_version_first || script.also_version_2 {
        return Err("quinn has version 1 alone".into());
    }
    let (settings, seen) = tls::settings(&script)?;
    let mut client = Client {
        script,
        settings,
        seen,
    };
    let mut connections = Vec::new();
    for planned in std::mem::take(&mut client.script.connections) {
        connections.push(client.connection(&planned).await?);
    }
    let all = serde_json::json!({ "connections": connections });
    println!("{all}");
    Ok(())
}

impl Client {
    /// Runs one part of the script.
    async fn connection(&mut self, planned: &Planned) -> Result<Outcome, Failure> {
        if planned.resume == "none" {
            (self.settings, self.seen) = tls::settings(&self.script)?;
        }
        let tickets = self.seen.tickets();
        self.seen.forget_certificate();
        let mut outcome = Outcome {
            early_data: "none",
            ..Outcome::default()
        };
        let endpoint = quinn::Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
        let started = Instant::now();
        let connecting = endpoint.connect_with(
            self.settings.clone(),
            self.script.address,
            &self.script.server_name,
        )?;
        let opened = self.open(connecting, planned, &mut outcome).await;
        match opened {
            Ok((connection, accepted)) => {
                self.run(&endpoint, &connection, planned, &mut outcome)
                    .await?;
                if let Some(accepted) = accepted {
                    let accepted = timeout(HANDSHAKE, accepted).await.unwrap_or(false);
                    outcome.early_data = if accepted { "accepted" } else { "rejected" };
                }
                outcome.resumed = !self.seen.certificate();
                let frames = connection.stats().frame_rx;
                outcome.tokens = frames.new_token;
                outcome.migrations = outcome.migrations.min(frames.path_challenge);
                outcome.close = connection.close_reason().map(|reason| describe(&reason));
                connection.close(NO_ERROR.into(), b"");
            }
            Err(reason) => outcome.close = Some(describe(&reason)),
        }
        outcome.milliseconds = started.elapsed().as_millis();
        outcome.tickets = self.seen.tickets() - tickets;
        let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        Ok(outcome)
    }

    async fn open(
        &self,
        connecting: quinn::Connecting,
        planned: &Planned,
        outcome: &mut Outcome,
    ) -> Result<(quinn::Connection, Option<quinn::ZeroRttAccepted>), quinn::ConnectionError> {
        outcome.version = 1;
        let connecting = if planned.resume == "early" {
            match connecting.into_0rtt() {
                Ok((connection, accepted)) => return Ok((connection, Some(accepted))),
                Err(connecting) => connecting,
            }
        } else {
            connecting
        };
        let connection = timeout(HANDSHAKE, connecting).await;
        Ok((
            connection.unwrap_or(Err(quinn::ConnectionError::TimedOut))?,
            None,
        ))
    }

    async fn run(
        &self,
        endpoint: &quinn::Endpoint,
        connection: &quinn::Connection,
        planned: &Planned,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let http = h3_quinn::Connection::new(connection.clone());
        let Ok((mut driver, sender)) = h3::client::new(http).await else {
            return Ok(());
        };
        let driving = tokio::spawn(async move {
            std::future::poll_fn(|context| driver.poll_close(context)).await
        });
        for step in &planned.steps {
            if connection.close_reason().is_some() {
                break;
            }
            match step {
                Step::Requests { requests } => {
                    let base = format!(
                        "https://{}:{}",
                        self.script.server_name,
                        self.script.address.port()
                    );
                    let responses = requests::all(&sender, &base, requests, STEP).await;
                    outcome.responses.extend(responses);
                }
                Step::Rebind { address } => {
                    endpoint.rebind(UdpSocket::bind((*address, 0))?)?;
                    outcome.migrations += 1;
                }
                Step::KeyUpdate => {
                    connection.force_key_update();
                    outcome.key_updates += 1;
                }
                Step::Wait { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Step::WaitForClose => {
                    let _ = timeout(CLOSE, connection.closed()).await;
                }
                Step::Other => return Err("quinn cannot do that".into()),
            }
        }
        // Tickets and tokens may follow the last response.
        tokio::time::sleep(Duration::from_millis(50)).await;
        driving.abort();
        // The connection would be closed when the last sender is gone.
        drop(sender);
        Ok(())
    }
}

fn describe(reason: &quinn::ConnectionError) -> Close {
    use quinn::ConnectionError::{
        ApplicationClosed, ConnectionClosed, LocallyClosed, TransportError,
    };
    let (by_server, application, code, text) = match reason {
        ApplicationClosed(close) => (
            true,
            true,
            Some(close.error_code.into_inner()),
            String::from_utf8_lossy(&close.reason).into_owned(),
        ),
        ConnectionClosed(close) => (
            true,
            false,
            Some(close.error_code.into()),
            String::from_utf8_lossy(&close.reason).into_owned(),
        ),
        TransportError(error) => (false, false, Some(error.code.into()), error.reason.clone()),
        LocallyClosed => (false, true, Some(NO_ERROR.into()), reason.to_string()),
        _ => (false, false, None, reason.to_string()),
    };
    Close {
        by_server,
        application,
        code,
        reason: text,
    }
}
