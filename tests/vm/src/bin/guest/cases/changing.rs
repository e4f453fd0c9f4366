//! Files that change while they are being sent.

use crate::client::curl;
use crate::kernel::small_buffers;
use crate::lab::{FOUR_MIB, Lab, S1, assert_same};
use crate::program::wait_for;
use crate::relay::Relay;
use crate::sniffer::Sniffer;
use std::time::Duration;

/// Downloads `/changing` through a relay that stops in the middle, calls `change` there, and
/// returns curl's outcome.
#[track_caller]
fn change_while_sent(lab: &Lab, change: impl FnOnce()) -> crate::program::Outcome {
    lab.server();
    lab.settle_counters();
    std::fs::copy("/data/4m", "/data/changing").expect("the disk has room");
    let buffers = small_buffers();
    let relay = Relay::start(S1, 16384, Duration::ZERO);
    let url = format!("https://127.0.0.1:{}/changing", relay.port);
    let download = std::thread::spawn(move || curl(&[&url]));
    // Some of the file is on its way, and the buffers between hold only little of the rest.
    wait_for("the download to begin", || {
        (relay.pieces() >= 10).then_some(())
    });
    relay.hold(true);
    change();
    relay.hold(false);
    let outcome = download.join().expect("curl runs");
    drop(buffers);
    assert_eq!(lab.sealed_connections(), 1);
    outcome
}

pub(crate) fn file_replaced_while_sent(lab: &Lab) {
    let outcome = change_while_sent(lab, || {
        std::fs::write("/data/new", vec![b'x'; FOUR_MIB]).expect("the disk has room");
        std::fs::rename("/data/new", "/data/changing").expect("the disk is ours");
    });
    // The response is of one file: the one that was there when it began.
    assert_same(
        &outcome.success().stdout,
        &std::fs::read("/data/4m").expect("the site has the file"),
    );
    lab.download(S1, "changing", &[]);
}

pub(crate) fn file_truncated_while_sent(lab: &Lab) {
    const LEFT: u64 = 1 << 20;
    let server = lab.server();
    server.expect_alert("truncated");
    let sniffer = Sniffer::start(S1);
    let outcome = change_while_sent(lab, || {
        let file = std::fs::File::options()
            .write(true)
            .open("/data/changing")
            .expect("the site has the file");
        file.set_len(LEFT).expect("the disk is ours");
    });
    assert_ne!(
        outcome.status, 0,
        "curl has to notice that bytes are missing"
    );
    let file = std::fs::read("/data/4m").expect("the site has the file");
    assert!(outcome.stdout.len() < FOUR_MIB);
    assert_same(&outcome.stdout, &file[..outcome.stdout.len()]);
    server.wait_for_log("truncated");
    // What was sent is in order, too.
    sniffer.finish_one();
    lab.download(S1, "4m", &[]);
}
