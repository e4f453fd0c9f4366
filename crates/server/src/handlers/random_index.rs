//! `random_index`: serves a random file of a directory.

use super::Outcome;
use super::autoindex;
use super::path::FilePath;
use crate::exchange::Exchange;
use sealane_http::Method;
use sealane_io::disk;
use sealane_sys::file::Kind;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Redirects internally to one of the files. Called for URIs that end with a slash.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(
        exchange.request.head.method,
        Method::Get | Method::Head | Method::Post
    ) {
        return Outcome::Declined;
    }
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    let mut directory = path.as_bytes().to_vec();
    directory.pop(); // the slash, as nginx says it in its log
    let directory = PathBuf::from(OsString::from_vec(directory));
    let most = exchange.conf().autoindex_max_entries;
    let chosen = disk::run(move || {
        let mut list = autoindex::read(directory, most)?;
        list.entries.retain(|entry| entry.kind == Kind::File);
        let name = match list.entries.len() {
            0 => None,
            count => Some(list.entries.swap_remove(random_below(count)).name),
        };
        Ok((name, list.skipped))
    });
    let name = match chosen.await {
        Ok((name, skipped)) => {
            for failure in skipped {
                autoindex::note(exchange, &failure);
            }
            name
        }
        Err(failure) => return Outcome::Status(autoindex::refuse(exchange, &failure)),
    };
    let Some(name) = name else {
        return Outcome::Declined;
    };
    let mut uri = exchange.request.uri.clone();
    uri.extend_from_slice(&name);
    Outcome::Redirect {
        uri,
        args: exchange.request.args.clone(),
    }
}

/// A number below `count`, which is not zero.
fn random_below(count: usize) -> usize {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        // Less than `count`, so it is a usize.
        Ok(()) => (u64::from_ne_bytes(bytes) % count as u64) as usize,
        // If the kernel's generator fails, the first file is served.
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use std::collections::HashSet;

    #[test]
    fn every_file_has_its_turn() {
        let site = Site::new("location /r/ { random_index on; }");
        site.file("r/a.txt", "a")
            .file("r/b.txt", "b")
            .file("r/.c.txt", "c")
            .file("r/d/e", "e");
        let mut seen = HashSet::new();
        // All but one in 2^63 runs see both within 64 attempts.
        for _ in 0..64 {
            let reply = site.get("/r/");
            assert_eq!(reply.status(), 200);
            seen.insert(reply.text().to_owned());
        }
        assert_eq!(seen, HashSet::from(["a".to_owned(), "b".to_owned()]));
    }
}
