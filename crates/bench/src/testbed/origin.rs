//! The origin behind the servers for measuring proxying: a thread that answers every request with
//! the same response, as cheaply as it can.

use std::{
    net::{SocketAddr, TcpListener},
    thread,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{Error, load::pin_this_thread, testbed::File};

/// Starts the origin, which ends with the process. Returns its address.
pub(crate) fn start(file: File, cpus: &[usize]) -> Result<SocketAddr, Error> {
    let failed = |source| Error::io("start the origin", source);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        file.bytes()
    )
    .into_bytes();
    response.resize(response.len() + file.bytes() as usize, b'x');
    let response: &'static [u8] = response.leak();
    let cpus = cpus.to_vec();
    let serve = move || {
        if !cpus.is_empty() {
            // On the wrong core it is only slower.
            let _ = pin_this_thread(&cpus);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, response));
            }
        });
    };
    thread::Builder::new()
        .name("origin".into())
        .spawn(serve)
        .map_err(failed)?;
    Ok(address)
}

/// Answers each request head; there are no bodies.
async fn answer(mut stream: TcpStream, response: &'static [u8]) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::with_capacity(4096);
    while matches!(stream.read_buf(&mut received).await, Ok(1..)) {
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            received.drain(..end + 4);
            if stream.write_all(response).await.is_err() {
                return;
            }
        }
    }
}
