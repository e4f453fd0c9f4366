//! Further certificates of an authority, for clients.

use super::authority::Authority;
use sealane_tests::command;

/// Runs `openssl`; `DIR/` stands for the authority's directory.
fn openssl(authority: &Authority<'_>, line: &str) {
    let line = line.replace("DIR/", &authority.path(""));
    let arguments: Vec<&str> = line.split_whitespace().collect();
    command("openssl", &arguments, b"").success();
}

const ROOT: &str = "-config DIR/ca.cnf -cert DIR/root.pem -keyfile DIR/root.key";

pub(crate) fn revoke(authority: &Authority<'_>, name: &str) {
    openssl(authority, &format!("ca {ROOT} -revoke DIR/{name}.leaf"));
}

/// A certificate of the authority, with these extensions.
pub(crate) fn issue(authority: &Authority<'_>, name: &str, extensions: &str) {
    write(authority, &format!("{name}.ext"), extensions.as_bytes());
    request(authority, name);
    openssl(
        authority,
        &format!(
            "ca -batch -notext {ROOT} -extfile DIR/{name}.ext -in DIR/{name}.csr \
             -out DIR/{name}.leaf"
        ),
    );
    let chain = [
        read(authority, &format!("{name}.leaf")),
        read(authority, "root.pem"),
    ];
    write(authority, &format!("{name}.pem"), &chain.concat());
}

/// A certificate of an intermediate authority, which keeps no records.
pub(crate) fn issue_below(authority: &Authority<'_>, name: &str, issuer: &str, extensions: &str) {
    write(authority, &format!("{name}.ext"), extensions.as_bytes());
    request(authority, name);
    openssl(
        authority,
        &format!(
            "x509 -req -days 30 -set_serial 4660 -CA DIR/{issuer}.leaf -CAkey DIR/{issuer}.key \
             -extfile DIR/{name}.ext -in DIR/{name}.csr -out DIR/{name}.leaf"
        ),
    );
    let chain = [
        read(authority, &format!("{name}.leaf")),
        read(authority, &format!("{issuer}.leaf")),
    ];
    write(authority, &format!("{name}.pem"), &chain.concat());
}

/// A good response about a certificate of [`issue_below`], signed by its issuer.
pub(crate) fn good_below(authority: &Authority<'_>, name: &str, issuer: &str) -> Vec<u8> {
    let record = format!("V\t491231235959Z\t\t1234\tunknown\t/CN={name}\n");
    write(authority, "below.txt", record.as_bytes());
    openssl(
        authority,
        &format!(
            "ocsp -index DIR/below.txt -CA DIR/{issuer}.leaf -rsigner DIR/{issuer}.leaf \
             -rkey DIR/{issuer}.key -issuer DIR/{issuer}.leaf -cert DIR/{name}.leaf \
             -respout DIR/below.der -noverify -ndays 1"
        ),
    );
    read(authority, "below.der")
}

fn request(authority: &Authority<'_>, name: &str) {
    openssl(
        authority,
        &format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
             -keyout DIR/{name}.key -out DIR/{name}.csr"
        ),
    );
}

fn read(authority: &Authority<'_>, name: &str) -> Vec<u8> {
    std::fs::read(authority.path(name)).expect("openssl has written it")
}

fn write(authority: &Authority<'_>, name: &str, content: &[u8]) {
    std::fs::write(authority.path(name), content).expect("the site is writable");
}
