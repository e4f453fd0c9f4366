//! Threads of the worker process that look after something beside the worker threads (session
//! stores, names, certificates): each has an event loop of its own, and is told what to do through
//! a queue.

use std::io;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Starts a thread that runs what `run` makes of the queue's end. The name is for ps and has at
/// most 15 bytes. The thread ends with its future: usually once all senders are gone.
///
/// # Errors
/// When the thread or its event loop cannot be made.
pub(crate) fn start<W, R, F>(name: &str, run: R) -> io::Result<UnboundedSender<W>>
where
    W: Send + 'static,
    R: FnOnce(UnboundedReceiver<W>) -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
        runtime.block_on(run(receiver))
    })?;
    Ok(sender)
}
