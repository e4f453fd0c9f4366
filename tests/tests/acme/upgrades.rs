//! The binary is upgraded during an order: the new process goes on with it.

use super::{get_verified, issuer, serial, servers, settings, wait_for_certificate};
use sealane_tests::upgrade::Daemon;
use sealane_tests::{Pebble, Program, Site, has_go, wait_for};

#[test]
fn an_upgrade_during_an_order_loses_no_account_and_orders_no_more() {
    if !has_go(24) {
        return;
    }
    // Before there is an account, before there is an order, while it is verified, while its
    // certificate is fetched.
    for step in [1, 4, 7, 12] {
        let site = Site::new();
        let pebble = Pebble::start(&site, settings(&site));
        let text = format!(
            "daemon on; worker_processes 1; pid logs/pid; error_log logs/error.log info;
             events {{ }} http {{ access_log off; {} {} }}",
            issuer(""),
            servers("upgrade.test")
        );
        let requests = || pebble.log().matches("calling handler()").count();
        let daemon = Daemon::start(&site, Program::Sealane, &text);
        wait_for("a step of the order", || (requests() >= step).then_some(()));
        daemon.upgrade();
        let shown = wait_for_certificate(site.port("tls"), "upgrade.test");
        let key = || std::fs::read(site.path("acme_pebble/account.key")).expect("it is there");
        let first = key();
        assert_eq!(
            get_verified(&pebble, site.port("tls"), "upgrade.test"),
            "secure\n"
        );
        // The way of a certificate that is there: nothing is ordered any more.
        daemon.upgrade();
        let again = wait_for_certificate(site.port("tls"), "upgrade.test");
        assert_eq!(serial(&again), serial(&shown), "step {step}");
        assert_eq!(key(), first, "step {step}");
        assert_eq!(pebble.accounts(), 1, "step {step}\n{}", pebble.log());
        // The process before may have been about to tell of its order.
        let orders = pebble.orders();
        println!("upgraded at step {step}: {orders} orders");
        assert!((1..=2).contains(&orders), "step {step}: {orders} orders");
    }
}
