//! Aliases of the names that are verified (RFC 8555 section 8.4 has servers follow them).

use crate::certificates::acme::error::AcmeError;
use sealane_conf::model::is_dns_name;
use sealane_upstream::resolve::Resolve;

/// How many names a chain of aliases may lead through, as resolvers limit it.
const MAX_ALIASES: usize = 8;

/// Where the aliases of a name lead; the name itself if it is none.
///
/// # Errors
/// When a name server fails, the chain is too long, or it leads to what cannot be a name.
pub(super) async fn follow(resolver: &dyn Resolve, name: &str) -> Result<String, AcmeError> {
    let mut found = name.to_owned();
    for _ in 0..=MAX_ALIASES {
        let Ok(answer) = resolver.alias(&found).await else {
            return Err(AcmeError::Dns(format!(
                "the resolver has no time to look whether \"{found}\" is an alias"
            )));
        };
        let next = answer.map_err(|error| {
            AcmeError::Dns(format!(
                "whether \"{found}\" is an alias could not be resolved ({error})"
            ))
        })?;
        match next {
            None => return Ok(found),
            Some(next) if is_dns_name(&next) => found = next,
            Some(_) => {
                return Err(AcmeError::Dns(format!(
                    "\"{found}\" is an alias of what is no name"
                )));
            }
        }
    }
    Err(AcmeError::Dns(format!(
        "the aliases of \"{name}\" lead through more than {MAX_ALIASES} names"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_upstream::resolve::{Lookup, NameAnswer, ResolveError};
    use std::net::IpAddr;
    use tokio::sync::oneshot;

    /// Knows aliases of numbered names: each is one of the next, up to the last.
    #[derive(Debug)]
    struct Chain {
        last: usize,
        ends_with: Result<Option<String>, ResolveError>,
    }

    impl Resolve for Chain {
        fn lookup(&self, _: &str) -> Lookup {
            Lookup::known(Err(ResolveError::NotFound))
        }

        fn alias(&self, name: &str) -> NameAnswer {
            let (sender, answer) = oneshot::channel();
            let number: usize = name.trim_end_matches(".test").parse().expect("a number");
            let next = match number < self.last {
                true => Ok(Some(format!("{}.test", number + 1))),
                false => self.ends_with.clone(),
            };
            let _ = sender.send(next);
            answer
        }

        fn name_of(&self, _: IpAddr) -> NameAnswer {
            oneshot::channel().1
        }
    }

    async fn follow_chain(
        last: usize,
        ends_with: Result<Option<String>, ResolveError>,
    ) -> Result<String, String> {
        let found = follow(&Chain { last, ends_with }, "0.test").await;
        found.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn aliases_are_followed_to_their_end_but_not_for_ever() {
        assert_eq!(follow_chain(0, Ok(None)).await.as_deref(), Ok("0.test"));
        let found = follow_chain(MAX_ALIASES, Ok(None)).await;
        assert_eq!(found, Ok(format!("{MAX_ALIASES}.test")));
        let text = follow_chain(MAX_ALIASES + 1, Ok(None)).await;
        let text = text.expect_err("too long");
        assert!(text.contains("lead through more than 8 names"), "{text}");
        let around = follow_chain(1, Ok(Some("0.test".to_owned()))).await;
        assert!(around.is_err(), "{around:?}");
        let failed = follow_chain(1, Err(ResolveError::ServerFailure)).await;
        let text = failed.expect_err("no guess");
        assert!(text.contains("\"1.test\" is an alias"), "{text}");
        assert!(text.contains("(2: Server failure)"), "{text}");
        let odd = follow_chain(0, Ok(Some("a b;rm".to_owned()))).await;
        assert!(odd.is_err(), "{odd:?}");
    }
}
