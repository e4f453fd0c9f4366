use super::*;
use std::os::unix::fs::symlink;

/// A directory that goes with the test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> TestDirectory {
        let path = std::env::temp_dir().join(format!("sealane-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("new");
        TestDirectory(fs::canonicalize(path).expect("there"))
    }

    fn directory(&self, name: &str) {
        fs::create_dir_all(self.0.join(name)).expect("ours");
    }

    fn link(&self, name: &str, target: &str) {
        symlink(target, self.0.join(name)).expect("ours");
    }

    /// What becomes readable, below this directory.
    fn neighbours(&self, path: &str) -> Vec<String> {
        let mut places = Places::default();
        places.add_with_neighbours(&self.0.join(path));
        let places = places.without_what_is_below();
        let below = places.paths().map(|path| match path.strip_prefix(&self.0) {
            Ok(path) => path.display().to_string(),
            Err(_) => format!("outside: {}", path.display()),
        });
        below.collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn links_on_a_path_make_their_neighbours_readable() {
    let place = TestDirectory::new("places");
    for name in [
        "app/releases/1/public",
        "app/plain",
        "disk/blue/public",
        "sites",
        "chain/releases/1",
    ] {
        place.directory(name);
    }
    place.link("app/current", "releases/1");
    place.link("sites/shop", "../disk/blue");
    place.link("chain/stable", "releases/1");
    place.link("chain/current", "stable");
    place.link("chain/lost", "nowhere");
    place.link("up", "sites/../app/plain");
    let cases: &[(&str, &[&str])] = &[
        ("app/plain", &["app/plain"]),
        ("app/plain/../plain", &["app/plain"]),
        // The target is below the directory of the link: all of it.
        ("app/current", &["app"]),
        ("app/current/public", &["app"]),
        // It is elsewhere: what is beside it.
        ("sites/shop", &["disk"]),
        ("sites/shop/public", &["disk"]),
        ("chain/current", &["chain"]),
        ("chain/lost", &[]),
        ("nowhere", &[]),
    ];
    for (path, expected) in cases {
        assert_eq!(place.neighbours(path), *expected, "{path}");
    }
    // The target is below the directory of the link, which is this one.
    assert_eq!(place.neighbours("up"), [""]);
}

#[test]
fn not_everything_becomes_readable() {
    let place = TestDirectory::new("places-root");
    place.link("device", "/dev");
    assert_eq!(place.neighbours("device"), ["outside: /dev"]);
}

#[test]
fn files_behind_links_are_readable_where_they_are_replaced() {
    let place = TestDirectory::new("places-files");
    place.directory("run/resolve");
    fs::write(place.0.join("run/resolve/stub.conf"), "").expect("ours");
    fs::write(place.0.join("hosts"), "").expect("ours");
    place.link("resolv.conf", "run/resolve/stub.conf");
    let mut places = Places::default();
    for name in ["resolv.conf", "hosts", "missing"] {
        places.add_file(&place.0.join(name));
    }
    let expected = ["hosts", "run/resolve"].map(|name| place.0.join(name));
    assert_eq!(places.paths().collect::<Vec<_>>(), expected);
}

#[test]
fn what_was_replaced_is_not_covered() {
    let place = TestDirectory::new("places-cover");
    for name in ["a/b", "c"] {
        place.directory(name);
    }
    let collect = |names: &[&str]| {
        let mut places = Places::default();
        for name in names {
            places.add_with_neighbours(&place.0.join(name));
        }
        places.without_what_is_below()
    };
    let before = collect(&["a", "a/b", "c"]);
    assert_eq!(before.paths().count(), 2);
    assert!(before.cover(&collect(&["c"])));
    assert!(!collect(&["c"]).cover(&before));
    fs::rename(place.0.join("c"), place.0.join("old")).expect("ours");
    place.directory("c");
    assert!(!before.cover(&collect(&["c"])));
}

#[test]
fn paths_are_known_up_to_the_first_variable() {
    let variable = || Part::Variable(sealane_conf::model::Variable::Capture(1));
    let literal = |text: &str| Part::Literal(text.as_bytes().into());
    let of = |parts| known_part(&Template::new(parts));
    assert_eq!(of(vec![]), Path::new("/"));
    assert_eq!(of(vec![literal("/srv/www")]), Path::new("/srv/www"));
    assert_eq!(of(vec![literal("/srv/"), variable()]), Path::new("/srv"));
    let within = vec![literal("/srv/site-"), variable(), literal("/www")];
    assert_eq!(of(within), Path::new("/srv"));
    assert_eq!(of(vec![literal("/"), variable()]), Path::new("/"));
    assert_eq!(of(vec![variable(), literal("/www")]), Path::new("/"));
    let file = Template::new(vec![literal("/etc/site/users")]);
    assert_eq!(directory_of(&file), Path::new("/etc/site"));
}
