//! The smallest configuration and request that still show a difference.

use crate::configuration::Node;
use crate::explained::explained;
use crate::requests::{Body, Request};
use crate::servers::{Difference, Surroundings};

/// Leaves out what can be left out, until nothing more can.
pub(crate) fn shrink(
    surroundings: &Surroundings,
    server: &[Node],
    difference: &Difference,
    escape: &str,
) -> (Vec<Node>, Difference) {
    let mut server = server.to_vec();
    let mut difference = difference.clone();
    let own = format!("s{}.test", difference.server);
    for _ in 0..60 {
        let mut candidates: Vec<(Vec<Node>, Request)> = without_one(&server)
            .into_iter()
            .map(|smaller| (smaller, difference.request.clone()))
            .collect();
        for request in simpler(&difference.request) {
            candidates.push((server.clone(), request));
        }
        let servers: Vec<Vec<Node>> = candidates
            .iter()
            .map(|(server, _)| server.clone())
            .collect();
        let requests: Vec<(usize, Request)> = candidates
            .iter()
            .enumerate()
            .map(|(number, (_, request))| {
                let mut request = request.clone();
                let name = format!("s{number}.test");
                request.host = request.host.map(|host| {
                    let host = host.replace(&own.to_uppercase(), &own);
                    host.replace(&own, &name)
                });
                request.target = request.target.replace(&own, &name);
                (number, request)
            })
            .collect();
        let report = surroundings.run(&servers, &requests, escape);
        let found = report
            .differences
            .into_iter()
            .find(|found| explained(found).is_empty());
        let Some(mut found) = found else {
            break;
        };
        server = candidates[found.server].0.clone();
        // Under the name that it has here.
        found.request = candidates[found.server].1.clone();
        found.server = difference.server;
        difference = found;
    }
    (server, difference)
}

/// Every configuration with one directive less, those that lack most first.
fn without_one(nodes: &[Node]) -> Vec<Vec<Node>> {
    let mut found = Vec::new();
    for at in 0..nodes.len() {
        let mut fewer = nodes.to_vec();
        let gone = fewer.remove(at);
        found.push((size(&gone), fewer));
        let Some(inside) = &nodes[at].inside else {
            continue;
        };
        for smaller in without_one(inside) {
            let lost = size_of_all(inside).saturating_sub(size_of_all(&smaller));
            let mut changed = nodes.to_vec();
            changed[at].inside = Some(smaller);
            found.push((lost, changed));
        }
    }
    found.sort_by_key(|(lost, _)| std::cmp::Reverse(*lost));
    found.into_iter().map(|(_, nodes)| nodes).collect()
}

fn size(node: &Node) -> usize {
    1 + node.inside.as_deref().map_or(0, size_of_all)
}

fn size_of_all(nodes: &[Node]) -> usize {
    nodes.iter().map(size).sum()
}

/// Requests with one thing less.
fn simpler(request: &Request) -> Vec<Request> {
    let mut all = Vec::new();
    for at in 0..request.headers.len() {
        let mut fewer = request.clone();
        fewer.headers.remove(at);
        all.push(fewer);
    }
    let mut change = |change: &dyn Fn(&mut Request)| {
        let mut changed = request.clone();
        change(&mut changed);
        if changed != *request {
            all.push(changed);
        }
    };
    change(&|request| request.body = Body::None);
    change(&|request| request.version = 1);
    change(&|request| request.method = "GET".to_owned());
    change(&|request| {
        let end = request.target.find('?').unwrap_or(request.target.len());
        request.target.truncate(end);
    });
    if let Some(segment) = request.target.rfind('/').filter(|at| *at > 0) {
        change(&|request| request.target.truncate(segment));
    }
    all
}
