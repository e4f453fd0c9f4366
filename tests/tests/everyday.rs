//! Twenty configurations as most sites have them, `tests/everyday/*.conf`: the same file starts
//! nginx and then Sealane, the same requests go to both, and status, headers and bodies are equal
//! but for what is listed here with its reason. A difference on the list that is not there any
//! more is a failure too.
//!
//! In a file only the beginnings of paths and the ports are replaced by those of the test; both
//! servers get the same ones, one after the other.

#[path = "everyday/asking.rs"]
mod asking;
#[path = "everyday/sites.rs"]
mod sites;
#[path = "everyday/surroundings.rs"]
mod surroundings;

use asking::Answer;
use sealane_tests::Program;
use sealane_tests::comparison::nginx_version;
use sites::{Difference, Since, Site};
use surroundings::Place;

#[test]
fn content_and_applications() {
    compare(&sites::applications());
}

#[test]
fn proxies() {
    compare(&sites::proxies());
}

#[test]
fn files_and_redirects() {
    compare(&sites::files());
}

#[test]
fn access() {
    compare(&sites::access());
}

fn compare(sites: &[Site]) {
    let is_old = nginx_version() < (1, 23, 0);
    let mut failures = Vec::new();
    for site in sites {
        let place = Place::new(site);
        let theirs = place.ask_all(Program::Nginx, &site.requests);
        let ours = place.ask_all(Program::Sealane, &site.requests);
        let differences: Vec<&Difference> = site
            .differences
            .iter()
            .filter(|difference| {
                difference.since == Since::Always || (difference.since == Since::Old) == is_old
            })
            .collect();
        let mut met = vec![false; differences.len()];
        for ((request, ours), theirs) in site.requests.iter().zip(ours).zip(theirs) {
            let (mut one, mut other) = (ours.clone(), theirs.clone());
            for (difference, met) in differences.iter().zip(&mut met) {
                if request.contains(difference.request) {
                    let same = one.part(difference.part) == other.part(difference.part);
                    *met |= !same;
                    one.forget(difference.part);
                    other.forget(difference.part);
                }
            }
            if one != other {
                failures.push(format!(
                    "{}: {request}\n--- sealane:\n{}\n--- nginx:\n{}\n",
                    site.name,
                    ours.show(),
                    theirs.show()
                ));
            }
        }
        for (difference, met) in differences.iter().zip(met) {
            if !met {
                failures.push(format!(
                    "{}: the {} of {} is the same in both by now, although \"{}\"",
                    site.name, difference.part, difference.request, difference.reason
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

impl Answer {
    fn show(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body)
            .chars()
            .take(600)
            .collect();
        format!(
            "{}\n{} bytes: {}",
            self.head.join("\n"),
            self.body.len(),
            body.escape_debug()
        )
    }
}
