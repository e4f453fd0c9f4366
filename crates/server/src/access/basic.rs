//! `auth_basic`: user names and passwords.

use super::{AccessVerdict, Credentials, passwords, user_file};
use crate::exchange::Exchange;
use crate::open_file_cache::Errno;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_conf::model::AuthBasic;
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use sealane_log::confinement;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tokio::sync::Semaphore;

/// How many passwords the whole process compares at a time, one per processor: a slow hash is meant
/// to be slow.
static COMPARING: LazyLock<Semaphore> = LazyLock::new(|| {
    Semaphore::new(std::thread::available_parallelism().map_or(1, |cpus| cpus.get()))
});

/// How many passwords one worker compares. Disk threads that compute serve no files, so half of
/// them are left alone if there are more processors than that.
const MAX_OF_WORKER: usize = disk::THREADS / 2;

thread_local! {
    /// Of the worker whose thread this is.
    static OF_WORKER: Arc<Semaphore> = Arc::new(Semaphore::new(MAX_OF_WORKER));
}

/// The result of looking up a name and comparing its password.
enum Compared {
    Right,
    Wrong,
    /// There is no such name.
    Unknown,
    /// The scheme of the stored password is unknown.
    Unverifiable(String),
    /// The file cannot be opened.
    Unopened(io::Error),
    /// It cannot be read.
    Unread(io::Error),
}

pub(super) async fn check(exchange: &mut Exchange, basic: &AuthBasic) -> AccessVerdict {
    let realm = template::evaluate(&basic.realm, exchange).into_owned();
    if realm == b"off" {
        return AccessVerdict::Declined;
    }
    let Some(credentials) = Credentials::of(exchange) else {
        log_request!(
            exchange,
            Info,
            "no user/password was provided for basic authentication"
        );
        return ask_client(exchange, &realm);
    };
    let path = user_file_path(exchange, basic);
    let compared = {
        let (path, credentials) = (path.clone(), credentials.clone());
        const OPEN: &str = "semaphores are never closed";
        let of_worker = OF_WORKER.with(Arc::clone).acquire_owned().await;
        let slots = (
            of_worker.expect(OPEN),
            COMPARING.acquire().await.expect(OPEN),
        );
        let compared = disk::run(move || {
            let compared = compare(&path, &credentials);
            drop(slots);
            compared
        });
        compared.await
    };
    let (path, user) = (Text(&path), Text(credentials.user()));
    match compared {
        Compared::Right => return AccessVerdict::Granted,
        Compared::Wrong => {
            log_request!(exchange, Error, "user \"{user}\": password mismatch");
        }
        Compared::Unknown => {
            log_request!(
                exchange,
                Error,
                "user \"{user}\" was not found in \"{path}\""
            );
        }
        Compared::Unverifiable(kind) => {
            log_request!(
                exchange,
                Error,
                "user \"{user}\": the password in \"{path}\" has a scheme ({kind}) that is not \
                 supported; create another one with \"htpasswd -B\" or \"openssl passwd -6\""
            );
        }
        Compared::Unopened(error) if error.kind() == io::ErrorKind::NotFound => {
            let errno = Errno::of(&error);
            log_request!(exchange, Error, "open() \"{path}\" failed ({errno})");
            return AccessVerdict::Refused(StatusCode::FORBIDDEN);
        }
        Compared::Unopened(error) => {
            let errno = Errno::of(&error);
            let reason = confinement::read_reason(Some(errno.0));
            log_request!(exchange, Crit, "open() \"{path}\" failed ({errno}){reason}");
            return AccessVerdict::Refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
        Compared::Unread(error) => {
            let errno = Errno::of(&error);
            log_request!(exchange, Crit, "pread() \"{path}\" failed ({errno})");
            return AccessVerdict::Refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
    ask_client(exchange, &realm)
}

/// The path of the file; one with a NUL inside ends there, as C strings do.
fn user_file_path(exchange: &Exchange, basic: &AuthBasic) -> Vec<u8> {
    let path = template::evaluate(&basic.user_file, exchange);
    let end = memchr::memchr(0, &path).unwrap_or(path.len());
    match &path[..end] {
        path @ [b'/', ..] => path.to_vec(),
        path => [&exchange.snapshot.prefix[..], b"/", path].concat(),
    }
}

/// A 401 with a challenge; a 407 from a proxy.
fn ask_client(exchange: &mut Exchange, realm: &[u8]) -> AccessVerdict {
    let value = [b"Basic realm=\"", realm, b"\""].concat();
    // A realm that a header cannot carry, such as one with a line end from a variable, is left out.
    let (name, status) = match exchange.request.head.method {
        Method::Connect => (&b"Proxy-Authenticate"[..], StatusCode::PROXY_AUTH_REQUIRED),
        _ => (&b"WWW-Authenticate"[..], StatusCode::UNAUTHORIZED),
    };
    let _ = exchange.response.headers.push(name, &value);
    AccessVerdict::Refused(status)
}

fn compare(path: &[u8], credentials: &Credentials) -> Compared {
    let mut file = match File::open(Path::new(OsStr::from_bytes(path))) {
        Ok(file) => file,
        Err(error) => return Compared::Unopened(error),
    };
    let found = match user_file::find(&mut file, credentials.user()) {
        Ok(found) => found,
        Err(error) => return Compared::Unread(error),
    };
    match (found.password, found.first) {
        (Some(stored), _) => match passwords::verify(credentials.password(), &stored) {
            Ok(true) => Compared::Right,
            Ok(false) => Compared::Wrong,
            Err(kind) => Compared::Unverifiable(kind),
        },
        (None, first) => {
            // The time taken must not reveal which names exist.
            if let Some(stored) = first {
                let _ = passwords::verify(credentials.password(), &stored);
            }
            Compared::Unknown
        }
    }
}
