//! The collector of `tests/clients/otlp`, and what it has been sent.

use sealane_tests::{Site, collector_path, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A collector, until it is dropped.
pub(crate) struct Collector {
    child: Child,
    said: Arc<Mutex<Vec<Value>>>,
    changes: Arc<Mutex<usize>>,
}

impl Collector {
    /// Starts it at the port `%name%` of a site.
    #[track_caller]
    pub(crate) fn start(site: &Site, name: &str) -> Collector {
        Collector::start_at(&format!("127.0.0.1:{}", site.port(name)), &[])
    }

    /// Starts it anywhere, with further words for its command line.
    #[track_caller]
    pub(crate) fn start_at(address: &str, words: &[&str]) -> Collector {
        let mut child = Command::new(collector_path())
            .args(["-address", address])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().and_then(Result::ok);
        assert_eq!(first.as_deref(), Some("listening"));
        let said: Arc<Mutex<Vec<Value>>> = Arc::default();
        let changes: Arc<Mutex<usize>> = Arc::default();
        let (heard, changed) = (said.clone(), changes.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line == "changed" {
                    *changed.lock().expect("no test panics here") += 1;
                    continue;
                }
                let export = serde_json::from_str(&line).expect("a line is JSON");
                heard.lock().expect("no test panics here").push(export);
            }
        });
        Collector {
            child,
            said,
            changes,
        }
    }

    /// From now on it answers like this.
    pub(crate) fn answers(&mut self, behaviour: &str) {
        let before = *self.changes.lock().expect("no test panics here");
        let to = self.child.stdin.as_mut().expect("a pipe");
        writeln!(to, "{behaviour}").expect("it runs");
        wait_for("the collector to change", || {
            (*self.changes.lock().expect("no test panics here") > before).then_some(())
        });
    }

    /// Every export so far.
    pub(crate) fn exports(&self) -> Vec<Value> {
        self.said.lock().expect("no test panics here").clone()
    }

    /// Waits until there are so many exports.
    #[track_caller]
    pub(crate) fn wait_for_exports(&self, count: usize) -> Vec<Value> {
        wait_for("exports", || {
            let exports = self.exports();
            (exports.len() >= count).then_some(exports)
        })
    }

    /// Every span that it has taken.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let exports = self.exports();
        let taken = exports.iter().filter(|export| export["behaviour"] == "ok");
        taken.flat_map(spans_of).collect()
    }

    /// Waits until it has taken so many spans.
    #[track_caller]
    pub(crate) fn wait_for_spans(&self, count: usize) -> Vec<Value> {
        wait_for("spans", || {
            let spans = self.spans();
            (spans.len() >= count).then_some(spans)
        })
    }
}

/// The spans of an export.
pub(crate) fn spans_of(export: &Value) -> Vec<Value> {
    export["spans"].as_array().cloned().unwrap_or_default()
}

impl Drop for Collector {
    fn drop(&mut self) {
        // Ours; it may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
