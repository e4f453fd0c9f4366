//! Every group of servers that requests are passed to, while the configuration
//! is read: those of `upstream` blocks, and those that `proxy_pass` and the like
//! define by naming an address or a host. A name may be used before its block.

use crate::call::Fault;
use crate::model::{GroupRef, Origin};
use crate::upstream_url::{HostKind, UpstreamUrl};
use std::collections::HashMap;

/// The groups in the order in which they were first named.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    list: Vec<Group>,
    /// Those of the open block by name in lower case: one block, or one group for each port.
    index: HashMap<String, Vec<usize>>,
}

/// A group as it was named.
#[derive(Debug)]
pub(crate) struct Group {
    /// The name as first written.
    pub(crate) name: String,
    /// What the name is when no block has it.
    pub(crate) kind: HostKind,
    /// Port of its servers when no block has it; 0 if none is known.
    pub(crate) port: u16,
    /// The port was written, not the scheme's.
    port_written: bool,
    /// An `upstream` block has the name.
    pub(crate) defined: bool,
    /// Where it was first named.
    pub(crate) origin: Origin,
}

impl Groups {
    /// `http` or `stream` begins, whose groups have nothing to do with those of the other one.
    pub(crate) fn begin_block(&mut self) {
        self.index.clear();
    }

    /// The group that a URL means, a new one if none has been named like this.
    pub(crate) fn refer(
        &mut self,
        url: &UpstreamUrl<'_>,
        origin: &Origin,
    ) -> Result<GroupRef, Fault> {
        for index in self.named(url.host) {
            let group = &self.list[*index];
            if group.defined && url.port_text.is_some() {
                return Err(Fault::new(format!(
                    "upstream \"{}\" may not have port {}",
                    url.host, url.port
                ))
                .help(
                    "an \"upstream\" block has this name, and its servers have their own ports",
                ));
            }
            if group.port == 0 || url.port == 0 || group.port == url.port {
                return Ok(GroupRef(*index));
            }
        }
        Ok(self.add(Group {
            name: url.host.to_owned(),
            kind: url.kind,
            port: url.port,
            port_written: url.port_text.is_some(),
            defined: false,
            origin: origin.clone(),
        }))
    }

    /// The group of an `upstream` block.
    pub(crate) fn define(&mut self, name: &str, origin: &Origin) -> Result<GroupRef, Fault> {
        if let Some(index) = self.named(name).first().copied() {
            let group = &mut self.list[index];
            if group.defined {
                return Err(Fault::at(1, format!("duplicate upstream \"{name}\"")));
            }
            if group.port_written {
                let message = format!("upstream \"{name}\" may not have port {}", group.port);
                return Err(Fault::earlier(&group.origin, message));
            }
            group.defined = true;
            group.port = 0;
            return Ok(GroupRef(index));
        }
        Ok(self.add(Group {
            name: name.to_owned(),
            kind: HostKind::Name,
            port: 0,
            port_written: false,
            defined: true,
            origin: origin.clone(),
        }))
    }

    /// The groups; a [`GroupRef`] is an index into them.
    pub(crate) fn list(&self) -> &[Group] {
        &self.list
    }

    fn named(&self, name: &str) -> &[usize] {
        let found = self.index.get(&name.to_ascii_lowercase());
        found.map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, group: Group) -> GroupRef {
        let index = self.list.len();
        let same_name = self.index.entry(group.name.to_ascii_lowercase());
        same_name.or_default().push(index);
        self.list.push(group);
        GroupRef(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream_url::UriPart;

    fn origin(line: u32) -> Origin {
        Origin {
            file: "/nginx.conf".into(),
            line,
        }
    }

    fn refer(groups: &mut Groups, written: &str, default_port: u16) -> Result<usize, String> {
        let url = UpstreamUrl::parse(written.as_bytes(), default_port, UriPart::Allowed);
        let url = url.expect("a URL");
        let group = groups.refer(&url, &origin(1));
        group.map(|group| group.0).map_err(|fault| fault.message)
    }

    fn define(groups: &mut Groups, name: &str) -> Result<usize, String> {
        let group = groups.define(name, &origin(2));
        group.map(|group| group.0).map_err(|fault| fault.message)
    }

    #[test]
    fn one_group_for_each_name_and_port() {
        let mut groups = Groups::default();
        assert_eq!(refer(&mut groups, "127.0.0.1:81", 80), Ok(0));
        assert_eq!(refer(&mut groups, "127.0.0.1:82/x", 80), Ok(1));
        assert_eq!(refer(&mut groups, "127.0.0.1:81/y", 443), Ok(0));
        assert_eq!(refer(&mut groups, "Host", 80), Ok(2));
        assert_eq!(refer(&mut groups, "hosT:80", 443), Ok(2));
        assert_eq!(refer(&mut groups, "host", 443), Ok(3));
        assert_eq!(refer(&mut groups, "host", 0), Ok(2));
        assert_eq!(refer(&mut groups, "unix:/a", 80), Ok(4));
        assert_eq!(refer(&mut groups, "unix:/a:/u", 443), Ok(4));
        assert_eq!(groups.list().len(), 5);
        assert!(groups.list().iter().all(|group| !group.defined));
    }

    #[test]
    fn blocks_may_follow_their_use_and_have_no_port() {
        let mut groups = Groups::default();
        assert_eq!(refer(&mut groups, "app", 80), Ok(0));
        assert_eq!(define(&mut groups, "App"), Ok(0));
        assert!(groups.list()[0].defined);
        assert_eq!(refer(&mut groups, "app", 443), Ok(0), "whatever the scheme");
        let error = define(&mut groups, "app");
        assert_eq!(error, Err("duplicate upstream \"app\"".into()));
        let error = refer(&mut groups, "app:80", 80);
        assert_eq!(error, Err("upstream \"app\" may not have port 80".into()));
        assert_eq!(refer(&mut groups, "b:81", 80), Ok(1));
        let error = define(&mut groups, "b");
        assert_eq!(error, Err("upstream \"b\" may not have port 81".into()));
    }
}
