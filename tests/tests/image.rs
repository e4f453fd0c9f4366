//! The container image, without a container engine: what it adds to its base, in a root directory
//! with nothing but a C library.

use sealane_tests::{Site, command, repository, sealane_binary, wait_for, wire};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The root directory of the image, below `image` of the site.
fn assemble(site: &Site) {
    let root = site.path("image");
    let program = sealane_binary();
    let entrypoint = program.with_file_name("sealane-entrypoint");
    let script = repository().join("packaging/image/assemble.sh");
    let words = [root.as_path(), &program, &entrypoint].map(|path| path.display().to_string());
    command(&script.display().to_string(), &words, b"").success();
    // The base: the libraries, and the directories that a container engine mounts.
    for file in [program, entrypoint] {
        let text = command("ldd", &[file], b"").success().text();
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(target.parent().expect("absolute")).expect("writable");
            fs::copy(library, target).expect("readable");
        }
    }
    for directory in ["proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(directory)).expect("writable");
    }
    assert!(!root.join("bin/sh").exists());
}

fn write(root: &Path, name: &str, text: &str, mode: u32) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("below")).expect("writable");
    fs::write(&path, text).expect("writable");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

/// A container of the image. Dropping it ends its processes.
struct Container(Child);

impl Container {
    /// In namespaces of its own for mounts and processes, with these variables.
    #[track_caller]
    fn start(site: &Site, variables: &[(&str, &str)], words: &[&str]) -> Container {
        let root = site.path("image").display().to_string();
        // The output of the server is that of the container: `/dev/stdout` leads there.
        let script = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && \
                      exec chroot \"$0\" /usr/bin/sealane-entrypoint \"$@\"";
        let output = |name: &str| fs::File::create(site.path(name)).expect("writable");
        let child = Command::new("unshare")
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child=TERM",
                "sh",
                "-c",
                script,
                &root,
            ])
            .args(words)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"))
            .spawn()
            .expect("util-linux");
        Container(child)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill(); // unshare ignores TERM, and passes one on at its end
        let _ = self.0.wait();
    }
}

fn output(site: &Site, name: &str) -> String {
    fs::read_to_string(site.path(name)).unwrap_or_default()
}

#[test]
fn templates_are_filled_in_and_logs_are_the_output_of_the_container() {
    sealane_needs::root();
    let site = Site::new();
    assemble(&site);
    let root = site.path("image");
    let template =
        "server { listen 127.0.0.1:${PORT}; location / { return 200 \"$GREETING $host\"; } }";
    write(
        &root,
        "etc/nginx/templates/default.conf.template",
        template,
        0o644,
    );
    let port = site.port("plain");
    let text = port.to_string();
    let variables = [("PORT", text.as_str()), ("GREETING", "hello")];
    let container = Container::start(&site, &variables, &["nginx", "-g", "daemon off;"]);
    let answer = wait_for("an answer", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        Some(wire::get(port, "/x"))
    });
    assert!(answer.text().starts_with("hello "), "{}", answer.text());
    wait_for("a line in the access log", || {
        output(&site, "stdout")
            .contains("\"GET /x HTTP/1.1\" 200")
            .then_some(())
    });
    assert!(output(&site, "stderr").contains("start worker process"));
    assert!(output(&site, "stdout").contains("default.conf.template becomes"));
    drop(container);
}

#[test]
fn what_needs_a_shell_is_said_and_ends_the_container() {
    sealane_needs::root();
    let site = Site::new();
    assemble(&site);
    let root = site.path("image");
    write(
        &root,
        "docker-entrypoint.d/30-set.envsh",
        "export A=1\n",
        0o755,
    );
    let mut container = Container::start(&site, &[], &["sealane", "-v"]);
    let status = container.0.wait().expect("a child");
    assert_eq!(status.code(), Some(1));
    let said = output(&site, "stderr");
    assert!(
        said.contains("30-set.envsh can only be read by a shell"),
        "{said}"
    );
    fs::remove_file(root.join("docker-entrypoint.d/30-set.envsh")).expect("ours");
    // A program that needs none runs, and another command than the server runs at once.
    fs::copy("/bin/true", root.join("docker-entrypoint.d/40-program")).expect("coreutils");
    let mut container = Container::start(&site, &[], &["/usr/sbin/sealane", "-v"]);
    container.0.wait().expect("a child");
    let said = output(&site, "stdout");
    assert!(
        said.contains("running /docker-entrypoint.d/40-program"),
        "{said}"
    );
}
