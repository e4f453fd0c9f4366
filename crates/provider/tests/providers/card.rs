//! The provider `asynctest`, compiled from its source.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealane_provider::{Provider, ProviderError, ProviderOptions};

/// Its source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/providers/asynctest.c");

/// Another OpenSSL than the system's: a directory with `include` and `lib`.
fn other_openssl() -> Option<PathBuf> {
    std::env::var_os("SEALANE_TEST_OPENSSL").map(PathBuf::from)
}

/// The libcrypto that tests load, if it is not the system's.
pub(crate) fn library() -> Option<PathBuf> {
    let lib = other_openssl()?.join("lib");
    let names = ["libcrypto.so.4", "libcrypto.so.3"];
    names
        .map(|name| lib.join(name))
        .into_iter()
        .find(|path| path.exists())
}

/// Compiles the provider into a directory. The error says what is missing.
pub(crate) fn compile(directory: &Path) -> Result<PathBuf, String> {
    let module = directory.join("asynctest.so");
    // Another process may be about to load it.
    let unfinished = directory.join(format!("asynctest-{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]);
    cc.args(["-shared", "-fPIC", "-pthread", "-o"]);
    cc.arg(&unfinished).arg(SOURCE);
    if let Some(other) = other_openssl() {
        cc.arg("-I").arg(other.join("include"));
        cc.arg("-L").arg(other.join("lib"));
    }
    // A sanitizer, for example.
    if let Some(flags) = std::env::var_os("SEALANE_TEST_CFLAGS") {
        cc.args(flags.to_string_lossy().split_whitespace());
    }
    let headers = Command::new("cc")
        .args([
            "-E",
            "-include",
            "openssl/provider.h",
            "-x",
            "c",
            "/dev/null",
        ])
        .output()
        .map_err(|error| format!("cc: {error}"))?;
    if !headers.status.success() && other_openssl().is_none() {
        return Err("there are no headers of OpenSSL 3 (Debian: libssl-dev)".into());
    }
    let output = cc.arg("-lcrypto").output();
    let output = output.map_err(|error| format!("cc: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{SOURCE} does not compile:\n{errors}"
    );
    std::fs::rename(&unfinished, &module).map_err(|error| error.to_string())?;
    Ok(module)
}

/// Loads the compiled provider with these parameters.
pub(crate) fn load(module: &Path, parameters: &[(&str, &str)]) -> Result<Provider, ProviderError> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut text = format!(
        "openssl_conf = main\n[main]\nproviders = providers\n[providers]\nasynctest = card\n\
         [card]\nmodule = {}\nactivate = 1\n",
        module.display()
    );
    for (name, value) in parameters {
        let _ = writeln!(text, "{name} = {value}");
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let conf = module.with_extension(format!("{}-{number}.cnf", std::process::id()));
    std::fs::write(&conf, text).expect("room");
    let provider = Provider::load(&ProviderOptions {
        name: "asynctest".into(),
        conf: Some(conf.clone()),
        library: library(),
    });
    let _ = std::fs::remove_file(conf);
    provider
}
