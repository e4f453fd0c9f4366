//! Reading the files that a configuration names: certificates, keys,
//! passwords, ticket keys, revocation lists. Only the master may open them.

use crate::taken_texts::TakenTexts;
use sealane_conf::Diagnostic;
use sealane_conf::inline_keys;
use sealane_conf::model::{
    Accelerator, CertificateFiles, CertificateSource, ClientCertificates, DeviceKind, Http,
    KeyDevice, KeyFallback, LogLevel, Pass, SessionStore, Tls, UpstreamCertificate, UpstreamTls,
    VerifyClient, without_query,
};
use sealane_log::OsError;
use sealane_pkcs11::Uri;
use sealane_server::Materials;
use sealane_sys::guard::{Guard, Open};
use sealane_sys::poll;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Largest such file, in bytes. No certificate is this large; the path may be
/// mistyped.
const MAX_MATERIAL_BYTES: u64 = 16 << 20;

/// Largest database of `geoip2`, in bytes. The largest that are sold have half of this.
const MAX_DATABASE_BYTES: u64 = 512 << 20;

/// Reads every file that servers and proxying locations name, each once. So is what they name of
/// the texts that were `taken` out of the configuration.
///
/// # Errors
/// The first file that cannot be read, in nginx's words.
pub(crate) fn read(
    http: Option<&Http>,
    taken: &TakenTexts,
    guard: &Guard,
) -> Result<Materials, Diagnostic> {
    let mut materials = Reading {
        materials: Materials::new(),
        taken,
        guard,
    };
    let servers = http.iter().flat_map(|http| &http.servers);
    for tls in servers.filter_map(|server| server.tls.as_deref()) {
        read_server(tls, &mut materials)?;
    }
    for tls in http
        .iter()
        .flat_map(|http| http.passes())
        .filter_map(Pass::tls)
    {
        read_upstream(tls, &mut materials)?;
    }
    let upstreams = http.iter().flat_map(|http| &http.upstreams);
    for store in upstreams.filter_map(|upstream| upstream.store.as_deref()) {
        read_store(store, &mut materials)?;
    }
    let servers = http.iter().flat_map(|http| &http.servers);
    for path in servers.filter_map(|server| server.quic.host_key.as_ref()) {
        add(&mut materials, path, |error| {
            format!(
                "cannot load the key of \"quic_host_key\" \"{}\": {error}; \
                 make one with: openssl rand -out FILE 32",
                path.display()
            )
        })?;
    }
    let servers = http.iter().flat_map(|http| &http.servers);
    for certificate in servers.filter_map(|server| server.acme_certificate.as_ref()) {
        for (what, path) in certificate.issuer.files() {
            add(&mut materials, path, |error| {
                format!("cannot load {what} \"{}\": {error}", path.display())
            })?;
        }
    }
    let exporter = http.and_then(|http| http.trace_exporter.as_ref());
    if let Some(path) = exporter.and_then(|exporter| exporter.trusted_certificate.as_ref()) {
        add(&mut materials, path, |error| {
            format!("cannot load certificate \"{}\": {error}", path.display())
        })?;
    }
    for database in http.iter().flat_map(|http| &http.geoip2.databases) {
        add_database(&mut materials, &database.path)?;
    }
    Ok(materials.materials)
}

/// What was read, and what to mind when reading more.
struct Reading<'a> {
    materials: Materials,
    taken: &'a TakenTexts,
    guard: &'a Guard,
}

impl Reading<'_> {
    /// A text that was taken out of the configuration.
    fn add_taken(&mut self, path: &Path) -> Result<(), Diagnostic> {
        if self.materials.get(path).is_some() {
            return Ok(());
        }
        let text = self.taken.get(path).map_err(|error| {
            let error = OsError(&error);
            refusal(format!("cannot load certificate key \"data:...\": {error}"))
        })?;
        if let Some(text) = text {
            self.materials.insert_wiped(path.to_owned(), text);
        }
        Ok(())
    }
}

fn read_server(tls: &Tls, materials: &mut Reading<'_>) -> Result<(), Diagnostic> {
    // The worker reads the others, but for what stood in the configuration.
    for path in inline_keys::of_server(tls) {
        materials.add_taken(&path)?;
    }
    for files in tls.certificates.files().unwrap_or_default() {
        read_certificate(files, materials)?;
        read_pin(&files.key, tls.key_device(&files.key).as_deref(), materials)?;
    }
    read_client_certificates(&tls.client_certificates, materials)?;
    if let Some(path) = tls
        .stapling
        .as_ref()
        .and_then(|stapling| stapling.file.as_ref())
    {
        add(materials, path, |error| {
            format!("cannot load OCSP response \"{}\": {error}", path.display())
        })?;
    }
    for path in &tls.ech_files {
        add(materials, path, |error| {
            format!("cannot load ECH key \"{}\": {error}", path.display())
        })?;
    }
    if let Some(path) = &tls.dhparam {
        add(materials, path, |error| {
            format!("cannot load DH parameters \"{}\": {error}", path.display())
        })?;
        require_pem(materials, path, &DH_LABELS)?;
    }
    if let Accelerator::Device(device) = &tls.accelerator {
        for fallback in &device.fallbacks {
            if let KeyFallback::File(path) = fallback {
                add(materials, path, |error| {
                    format!(
                        "cannot load certificate key \"{}\": {error}",
                        path.display()
                    )
                })?;
            }
        }
    }
    for path in tls.password_file.iter().chain(&tls.session_ticket_keys) {
        add(materials, path, |error| {
            format!("cannot read \"{}\": {error}", path.display())
        })?;
    }
    match &tls.session_store {
        Some(store) => read_store(store, materials),
        None => Ok(()),
    }
}

/// The files of a session store.
fn read_store(store: &SessionStore, materials: &mut Reading<'_>) -> Result<(), Diagnostic> {
    let ca_file = store.tls.as_ref().and_then(|tls| tls.ca_file.as_ref());
    for path in store.key_file.iter().chain(ca_file) {
        add(materials, path, |error| {
            format!("cannot read \"{}\": {error}", path.display())
        })?;
    }
    match ca_file {
        Some(path) => require_pem(materials, path, &["CERTIFICATE"]),
        None => Ok(()),
    }
}

/// The files of TLS to other servers. What comes out of variables is not known yet.
fn read_upstream(tls: &UpstreamTls, materials: &mut Reading<'_>) -> Result<(), Diagnostic> {
    for path in inline_keys::of_upstream(tls) {
        materials.add_taken(&path)?;
    }
    if let Some(UpstreamCertificate::Files(files)) = &tls.certificate {
        read_certificate(files, materials)?;
        let device = UpstreamTls::key_device(&files.key);
        read_pin(&files.key, device.as_deref(), materials)?;
    }
    if let Some(path) = &tls.password_file {
        add(materials, path, |error| {
            format!("cannot read \"{}\": {error}", path.display())
        })?;
    }
    // As in nginx, these are not used without verification.
    let verifying = [("certificate", &tls.trusted_certificate), ("CRL", &tls.crl)];
    for (what, path) in verifying.into_iter().filter(|_| tls.verify) {
        if let Some(path) = path {
            add(materials, path, |error| {
                format!("cannot load {what} \"{}\": {error}", path.display())
            })?;
        }
    }
    Ok(())
}

/// What clients are verified with. As in nginx, certificates whose names are sent are read only
/// where clients are asked for certificates.
fn read_client_certificates(
    conf: &ClientCertificates,
    materials: &mut Reading<'_>,
) -> Result<(), Diagnostic> {
    let asked = conf.verify != VerifyClient::Off;
    let named = conf.client_certificate.as_ref().filter(|_| asked);
    let files = [
        ("certificate", named),
        ("certificate", conf.trusted_certificate.as_ref()),
        ("CRL", conf.crl.as_ref()),
    ];
    for (what, path) in files {
        if let Some(path) = path {
            add(materials, path, |error| {
                format!("cannot load {what} \"{}\": {error}", path.display())
            })?;
        }
    }
    Ok(())
}

fn read_certificate(
    files: &CertificateFiles,
    materials: &mut Reading<'_>,
) -> Result<(), Diagnostic> {
    for (what, source) in [
        ("certificate", &files.certificate),
        ("certificate key", &files.key),
    ] {
        match source {
            CertificateSource::File(path) => add(materials, path, |error| {
                format!("cannot load {what} \"{}\": {error}", path.display())
            })?,
            CertificateSource::Taken(path) => materials.add_taken(path)?,
            CertificateSource::Uri(_) | CertificateSource::Inline(_) => {}
        }
    }
    Ok(())
}

/// The PIN of a token, if the key's URI names its file.
fn read_pin(
    key: &CertificateSource,
    device: Option<&KeyDevice>,
    materials: &mut Reading<'_>,
) -> Result<(), Diagnostic> {
    let is_token = device.is_some_and(|it| matches!(it.kind, DeviceKind::Pkcs11 { .. }));
    let CertificateSource::Uri(uri) = key else {
        return Ok(());
    };
    if !is_token {
        return Ok(()); // a provider's own
    }
    let parsed = Uri::parse(uri).map_err(|error| {
        // What follows may be a PIN.
        let shown = without_query(uri);
        refusal(format!("cannot load certificate key \"{shown}\": {error}"))
    })?;
    match parsed.pin_source() {
        None => Ok(()),
        Some(path) => add(materials, path, |error| {
            let path = path.display();
            format!("cannot load certificate key \"{parsed}\": its PIN in \"{path}\": {error}")
        }),
    }
}

/// Blocks that `openssl dhparam` writes; the second one with `-dsaparam`.
const DH_LABELS: [&str; 2] = ["DH PARAMETERS", "X9.42 DH PARAMETERS"];

/// Fails unless the file has a PEM block with one of the labels.
fn require_pem(materials: &Reading<'_>, path: &Path, labels: &[&str]) -> Result<(), Diagnostic> {
    let text = materials.materials.get(path).unwrap_or_default();
    if labels.iter().any(|label| is_pem(text, label)) {
        return Ok(());
    }
    let path = path.display();
    let label = labels.first().copied().unwrap_or_default();
    Err(refusal(format!(
        "\"{path}\" contains no PEM block \"{label}\""
    )))
}

/// Reads a file that an earlier run has left; `None` when there is none yet.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read_state(path: &Path, guard: &Guard) -> Result<Option<Vec<u8>>, String> {
    match read_file(path, guard) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Unreadable::System(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(Unreadable::System(call, error)) => {
            Err(format!("{call}() failed ({})", OsError(&error)))
        }
        Err(Unreadable::NotAFile | Unreadable::Silent) => {
            Err("it is not a regular file".to_owned())
        }
        Err(why @ Unreadable::TooLarge(_)) => Err(why.to_string()),
    }
}

/// Reads the file of `ssl_session_ticket_state`; `None` when there is none yet.
///
/// # Errors
/// What to tell the operator. The server starts with new keys.
pub(crate) fn read_ticket_state(path: &Path, guard: &Guard) -> Result<Option<Vec<u8>>, String> {
    read_state(path, guard).map_err(|why| {
        format!(
            "cannot read session ticket keys \"{}\": {why}; generating new ones, clients need one \
             full handshake",
            path.display()
        )
    })
}

/// Reads a file, or a FIFO: secrets need not lie on a disk then.
fn add(
    materials: &mut Reading<'_>,
    path: &Path,
    message: impl FnOnce(&dyn fmt::Display) -> String,
) -> Result<(), Diagnostic> {
    if materials.materials.get(path).is_some() {
        return Ok(());
    }
    let bytes = read_file_or_fifo(path, materials.guard).map_err(|why| refusal(message(&why)))?;
    materials.materials.insert(path.to_owned(), bytes);
    Ok(())
}

/// Reads a database of addresses, which may be much larger than anything else.
fn add_database(materials: &mut Reading<'_>, path: &Path) -> Result<(), Diagnostic> {
    let bytes = read_database(path, materials.guard).map_err(refusal)?;
    materials.materials.insert(path.to_owned(), bytes);
    Ok(())
}

/// Reads the file of a `geoip2`.
///
/// # Errors
/// Why it cannot be read, with its name.
pub(crate) fn read_database(path: &Path, guard: &Guard) -> Result<Vec<u8>, String> {
    let read = open(path, guard).and_then(|file| read_whole(&file, MAX_DATABASE_BYTES));
    read.map_err(|why| format!("cannot load GeoIP2 database \"{}\": {why}", path.display()))
}

/// Reads a certificate or key that has changed.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read_again(path: &Path, guard: &Guard) -> Result<Vec<u8>, String> {
    read_file(path, guard).map_err(|why| why.to_string())
}

/// How long the start waits for what is to be written to a FIFO.
const FIFO_PATIENCE: Duration = Duration::from_secs(10);

/// The most that is read from a FIFO: what a pipe holds.
const MAX_FIFO_BYTES: usize = 64 << 10;

enum Unreadable {
    System(&'static str, io::Error),
    NotAFile,
    /// It is larger than this.
    TooLarge(u64),
    /// Nobody has written to a FIFO.
    Silent,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::System(call, error) => write!(f, "{call}() failed ({})", OsError(error)),
            Unreadable::NotAFile => f.write_str("it is not a regular file"),
            Unreadable::TooLarge(max_bytes) => {
                write!(f, "it is larger than {max_bytes} bytes")
            }
            Unreadable::Silent => write!(
                f,
                "nothing was written to this FIFO for {} s",
                FIFO_PATIENCE.as_secs()
            ),
        }
    }
}

/// Reads a file into memory that is never reallocated, so that no copy of a
/// secret stays behind.
fn read_file(path: &Path, guard: &Guard) -> Result<Vec<u8>, Unreadable> {
    read_whole(&open(path, guard)?, MAX_MATERIAL_BYTES)
}

/// The same, of a file or of a FIFO.
fn read_file_or_fifo(path: &Path, guard: &Guard) -> Result<Vec<u8>, Unreadable> {
    let file = open(path, guard)?;
    let facts = file
        .metadata()
        .map_err(|error| Unreadable::System("fstat", error))?;
    match facts.file_type().is_fifo() {
        true => read_fifo(file),
        false => read_whole(&file, MAX_MATERIAL_BYTES),
    }
}

fn open(path: &Path, guard: &Guard) -> Result<File, Unreadable> {
    guard
        .open(path, Open::Read)
        .map_err(|error| Unreadable::System("open", error))
}

/// Reads until the writers have closed a FIFO, which was opened without waiting for them.
fn read_fifo(mut file: File) -> Result<Vec<u8>, Unreadable> {
    let failed = |call| move |error| Unreadable::System(call, error);
    let deadline = Instant::now() + FIFO_PATIENCE;
    let mut bytes = vec![0; MAX_FIFO_BYTES];
    let mut filled = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = poll::wait_readable(&[file.as_fd()], Some(left)).map_err(failed("poll"))?;
        match ready.contains(&true) {
            true => {}
            // A signal ended the wait.
            false if Instant::now() < deadline => continue,
            false => return Err(Unreadable::Silent),
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) if filled == MAX_FIFO_BYTES => {
                return Err(Unreadable::TooLarge(MAX_FIFO_BYTES as u64));
            }
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Unreadable::System("read", error)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn read_whole(file: &File, max_bytes: u64) -> Result<Vec<u8>, Unreadable> {
    let facts = file
        .metadata()
        .map_err(|error| Unreadable::System("fstat", error))?;
    if !facts.is_file() {
        return Err(Unreadable::NotAFile);
    }
    if facts.len() > max_bytes {
        return Err(Unreadable::TooLarge(max_bytes));
    }
    let size = facts.len() as usize;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        let (room, offset) = (size - bytes.len(), bytes.len() as u64);
        match sealane_sys::file::read_at(file.as_fd(), &mut bytes, room, offset) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(Unreadable::System("read", error)),
        }
    }
    Ok(bytes)
}

fn refusal(message: String) -> Diagnostic {
    Diagnostic {
        level: LogLevel::Emerg,
        message,
        place: None,
        help: None,
    }
}

/// Whether `text` has a PEM block with this label and something like base64 in it.
fn is_pem(text: &[u8], label: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let Some(body) = text
        .split_once(&begin)
        .and_then(|(_, after)| after.split_once(&end))
    else {
        return false;
    };
    let mut digits = body
        .0
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .peekable();
    digits.peek().is_some()
        && digits.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_needs_its_label_and_base64() {
        let good = "-----BEGIN DH PARAMETERS-----\nMIIBCAKC+/=\n-----END DH PARAMETERS-----\n";
        assert!(is_pem(good.as_bytes(), "DH PARAMETERS"));
        assert!(!is_pem(good.as_bytes(), "CERTIFICATE"));
        assert!(!is_pem(
            good.replace("MIIB", "M IB?").as_bytes(),
            "DH PARAMETERS"
        ));
        assert!(!is_pem(
            b"-----BEGIN DH PARAMETERS-----\nMIIB",
            "DH PARAMETERS"
        ));
        assert!(!is_pem(b"", "DH PARAMETERS"));
    }

    #[test]
    fn passwords_may_come_through_a_fifo() {
        let name = format!("sealane-passwords-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()));
        let guard = Guard::default();
        let there = path.clone();
        // It waits for a reader.
        let writer = std::thread::spawn(move || std::fs::write(there, "one\ntwo\n"));
        let read = read_file_or_fifo(&path, &guard).ok();
        assert_eq!(read.as_deref(), Some(&b"one\ntwo\n"[..]));
        assert!(writer.join().is_ok_and(|written| written.is_ok()));
        assert!(matches!(
            read_file(&path, &guard),
            Err(Unreadable::NotAFile)
        ));
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn parameters_that_openssl_writes_for_dsa_are_taken_too() {
        let path = Path::new("dh.pem");
        let label = "X9.42 DH PARAMETERS";
        let text = format!("-----BEGIN {label}-----\nMIIBCAKC+/=\n-----END {label}-----\n");
        let guard = Guard::default();
        let mut reading = Reading {
            materials: Materials::default(),
            taken: &TakenTexts::default(),
            guard: &guard,
        };
        reading.materials.insert(path.to_owned(), text.into_bytes());
        assert!(require_pem(&reading, path, &DH_LABELS).is_ok());
        assert!(require_pem(&reading, path, &["CERTIFICATE"]).is_err());
    }

    #[test]
    fn directories_and_devices_are_no_certificates() {
        let guard = Guard::default();
        let mut materials = Reading {
            materials: Materials::new(),
            taken: &TakenTexts::default(),
            guard: &guard,
        };
        for (path, expected) in [
            ("/", "open() failed (21: Is a directory)"),
            ("/tmp", "it is not a regular file"),
            ("/dev/zero", "it is not a regular file"),
            (
                "/nonexistent.pem",
                "open() failed (2: No such file or directory)",
            ),
        ] {
            let error = add(&mut materials, Path::new(path), |e| e.to_string());
            assert_eq!(error.expect_err(path).message, expected);
        }
    }

    #[test]
    fn a_file_is_read_whole() {
        let path = std::env::temp_dir().join(format!("sealane-material-{}", std::process::id()));
        let content = vec![7; 100_000];
        std::fs::write(&path, &content).expect("writable");
        let guard = Guard::default();
        let mut materials = Reading {
            materials: Materials::new(),
            taken: &TakenTexts::default(),
            guard: &guard,
        };
        add(&mut materials, &path, |e| e.to_string()).expect("readable");
        assert_eq!(materials.materials.get(&path), Some(&content[..]));
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn files_of_tls_to_other_servers_are_read() {
        let directory =
            std::env::temp_dir().join(format!("sealane-upstream-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        for name in ["ca", "crl", "cert", "key", "words"] {
            std::fs::write(directory.join(name), name).expect("writable");
        }
        let read_with = |inside: &str| {
            let text = format!(
                "events {{}} http {{ proxy_ssl_trusted_certificate ca; proxy_ssl_crl crl;
                 proxy_ssl_certificate cert; proxy_ssl_certificate_key key;
                 proxy_ssl_password_file words; server {{ location / {{ {inside} }} }} }}"
            );
            let file = directory.join("nginx.conf");
            let mut loader = sealane_conf::MemoryLoader::new().with(&file, text);
            let options = sealane_conf::Options::new(&file, &directory);
            let config = sealane_conf::parse(&options, &mut loader).expect("it can be used");
            read(
                config.http.as_ref(),
                &TakenTexts::default(),
                &Guard::default(),
            )
        };
        let has = |materials: &Materials, name: &str| {
            materials.get(&directory.join(name)) == Some(name.as_bytes())
        };
        let all =
            read_with("proxy_pass https://127.0.0.1; proxy_ssl_verify on;").expect("readable");
        assert!(
            ["ca", "crl", "cert", "key", "words"]
                .iter()
                .all(|name| has(&all, name))
        );
        let unverified = read_with("proxy_pass https://127.0.0.1;").expect("readable");
        assert!(has(&unverified, "cert") && !has(&unverified, "ca"));
        let plain = read_with("proxy_pass http://127.0.0.1;").expect("readable");
        assert!(!has(&plain, "cert") && !has(&plain, "key"));
        let nested =
            "location /x { proxy_pass $arg_url; proxy_ssl_verify on; proxy_ssl_crl gone; }";
        let error = read_with(nested).expect_err("a file is missing").message;
        let crl = directory.join("gone");
        let expected = "open() failed (2: No such file or directory)";
        assert_eq!(
            error,
            format!("cannot load CRL \"{}\": {expected}", crl.display())
        );
        std::fs::remove_dir_all(directory).expect("there");
    }
}
