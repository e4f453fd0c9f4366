//! Tokens of SoftHSM, which servers of a test use by its PKCS #11 module, or by one that is SoftHSM
//! with faults.

use crate::{Program, Server, Site, command};
use std::path::{Path, PathBuf};

/// The PIN of all tokens.
pub const PIN: &str = "48151623";

/// The tokens of a site.
pub struct Tokens<'a> {
    site: &'a Site,
    module: &'static Path,
}

impl<'a> Tokens<'a> {
    /// None yet. `None`, and the test is left out: SoftHSM is not installed.
    pub fn new(site: &'a Site) -> Option<Tokens<'a>> {
        let Some(module) = sealane_needs::softhsm() else {
            sealane_needs::leave_out("SoftHSM is not installed (scripts/install-test-deps.sh)");
            return None;
        };
        std::fs::create_dir_all(site.path("tokens")).expect("the site is writable");
        let configuration = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            site.path("tokens").display()
        );
        site.write("softhsm2.conf", configuration);
        site.write("pin", format!("{PIN}\n"));
        Some(Tokens { site, module })
    }

    /// SoftHSM's module.
    pub fn module(&self) -> &'static Path {
        self.module
    }

    /// SoftHSM with the faults that [`set_fault`](Self::set_fault) names.
    pub fn faulty_module(&self) -> PathBuf {
        let module = self.site.path("faulty.so");
        if !module.exists() {
            let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
            let source = crates.join("pkcs11/tests/faulty_module.c");
            let (target, source) = (module.display().to_string(), source.display().to_string());
            let arguments = ["-shared", "-fPIC", "-O1", "-o", &target, &source, "-ldl"];
            command("cc", &arguments, b"").success();
            self.set_fault("ok");
        }
        module
    }

    /// What the faulty module does: `crates/pkcs11/tests/faulty_module.c` has a list.
    pub fn set_fault(&self, mode: &str) {
        // In one piece: the module reads it at any time.
        let new = self.site.write("new-mode", mode);
        std::fs::rename(new, self.site.path("mode")).expect("the same directory");
    }

    /// Makes a token.
    pub fn add(&self, label: &str) {
        let arguments = ["--init-token", "--free", "--so-pin", "87654321"];
        self.softhsm2_util(&[&arguments[..], &["--label", label, "--pin", PIN]].concat());
    }

    /// Puts the key in a file of the site into a token.
    pub fn import(&self, token: &str, file: &str, object: &str, id: &str) {
        let file = self.site.path(file).display().to_string();
        let arguments = ["--import", &file, "--token", token, "--label", object];
        self.softhsm2_util(&[&arguments[..], &["--id", id, "--pin", PIN]].concat());
    }

    fn softhsm2_util(&self, arguments: &[&str]) {
        let variables = self.variables();
        let words = variables.iter().map(String::as_str);
        let words: Vec<&str> = words
            .chain(["softhsm2-util"])
            .chain(arguments.iter().copied())
            .collect();
        command("env", &words, b"").success();
    }

    /// The environment of programs that use the tokens.
    pub fn variables(&self) -> [String; 3] {
        let site = self.site;
        [
            format!("SOFTHSM2_CONF={}", site.path("softhsm2.conf").display()),
            format!("SOFTHSM2_MODULE={}", self.module.display()),
            format!("FAULTS={}", site.path("").display()),
        ]
    }

    /// The URI of a key, with the module and the PIN's file.
    pub fn uri(&self, module: &Path, token: &str, object: &str) -> String {
        format!(
            "pkcs11:token={token};object={object}?module-path={}&pin-source=file:{}",
            module.display(),
            self.site.path("pin").display()
        )
    }

    /// A server that finds the tokens.
    pub fn serve(&self, configuration: &str) -> Server<'a> {
        let variables = self.variables();
        let wrapper: Vec<&str> = ["env"]
            .into_iter()
            .chain(variables.iter().map(String::as_str))
            .collect();
        Server::start_under(self.site, Program::Sealane, configuration, &wrapper)
    }
}
