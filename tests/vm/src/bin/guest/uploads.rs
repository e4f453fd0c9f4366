//! Files that clients send, into a directory of the site.

use crate::client::curl;
use crate::lab::assert_same;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Large enough for many rounds of every buffer on the way.
const UPLOAD_BYTES: usize = 16 << 20;
const UPLOADS: &str = "/tmp/servers/uploads";

/// For `http`: on the file system of the uploads.
pub(crate) const UPLOAD_TEMP_PATH: &str = "client_body_temp_path /tmp/servers/uploads/temp;";

/// The location that takes files.
pub(crate) fn uploads() -> String {
    format!("location /up/ {{ alias {UPLOADS}/; dav_methods PUT; client_max_body_size 64m; }}")
}

/// Makes the directory.
#[track_caller]
pub(crate) fn prepare_uploads() {
    std::fs::create_dir_all(UPLOADS).expect("/tmp is writable");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(UPLOADS, everybody).expect("it is ours");
}

/// What is sent.
pub(crate) fn uploaded_bytes() -> Vec<u8> {
    let pattern = (0..UPLOAD_BYTES).map(|at| (at * 7 + at / 4099) as u8);
    pattern.collect()
}

/// Sends bytes to a site, and looks at what has arrived.
#[track_caller]
pub(crate) fn upload(site: &str, bytes: &[u8]) {
    let name = format!("from-{}", site.rsplit(':').next().unwrap_or("somewhere"));
    let (source, target) = (
        format!("/tmp/servers/{name}"),
        Path::new(UPLOADS).join(&name),
    );
    std::fs::write(&source, bytes).expect("/tmp is writable");
    curl(&["-f", "-T", &source, &format!("{site}/up/{name}")]).success();
    assert_same(&std::fs::read(&target).expect("it has arrived"), bytes);
    let _ = std::fs::remove_file(target);
}
