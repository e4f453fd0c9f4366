//! One order, from the state that it is in to a certificate (RFC 8555 section 7.1.6).
//!
//! Every step is kept before the next one, so that whoever goes on after a crash, this node or
//! another, goes on with the same order.

use super::client::{Authorization, Challenge, Client, Order};
use super::error::AcmeError;
use super::jws::AccountKey;
use super::keeper::Keeper;
use super::keys;
use super::record::{Answered, Issued, OrderUnderWay};
use super::{now_s, renewal};
use sealane_conf::model::AcmeIdentifier;
use sealane_tls::CertificateFacts;
use std::time::Duration;

/// How long a server may take to verify, or to issue.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two questions, if the server does not say.
const POLL: Duration = Duration::from_secs(2);

/// The longest time between two questions, whatever the server says.
const MAX_POLL: Duration = Duration::from_secs(30);

/// The longest token of a challenge, in bytes.
const MAX_TOKEN_BYTES: usize = 256;

/// Goes on with the order that is under way, or begins one, and takes its certificate.
///
/// # Errors
/// Why there is none. The order stays, unless the error ends it.
pub(super) async fn advance(
    keeper: &mut Keeper,
    client: &mut Client<'_>,
    key: &AccountKey,
) -> Result<(), AcmeError> {
    let known = match keeper.record().order.clone() {
        None => None,
        Some(known) => match client.order(&known.url).await {
            Ok(order) => Some((known, order)),
            // The server has forgotten it, or it is another account's.
            Err(error) if error.ends_order() && !error.is_about_account() => None,
            Err(error) => return Err(error),
        },
    };
    let (under_way, mut order) = match known {
        Some(known) => known,
        None => {
            let begun = begin(keeper, client).await?;
            let order = client.order(&begun.url).await?;
            (begun, order)
        }
    };
    let url = &under_way.url;
    if order.status == "pending" {
        verify(keeper, client, key, &order).await?;
        order = settled(client, url, &["pending"]).await?;
    }
    if order.status == "ready" {
        let finalize = order
            .finalize
            .as_deref()
            .ok_or(AcmeError::Answer("URL to finalize"))?;
        let conf = keeper.conf();
        let with_common_name = conf.issuer.common_name_in_csr;
        let request = keys::request(&under_way.key, &conf.identifiers, with_common_name)?;
        client.finalize(finalize, &request).await?;
    }
    if ["ready", "processing"].contains(&order.status.as_str()) {
        order = settled(client, url, &["ready", "processing"]).await?;
    }
    match (order.status.as_str(), &order.certificate) {
        ("valid", Some(certificate)) => take(keeper, client, &under_way, certificate).await,
        _ => Err(order.failure()),
    }
}

async fn begin(keeper: &mut Keeper, client: &mut Client<'_>) -> Result<OrderUnderWay, AcmeError> {
    let conf = keeper.conf();
    let kind = conf.key;
    // RSA keys take their time, and other certificates are looked after by this thread.
    let generated = tokio::task::spawn_blocking(move || keys::generate(kind)).await;
    let key = generated.map_err(|_| AcmeError::Library("a key cannot be generated"))??;
    let replaces = keeper.certificate_id();
    let url = client
        .new_order(&conf.identifiers, replaces.as_deref())
        .await?;
    let order = OrderUnderWay {
        url,
        key,
        begun_s: now_s(),
        challenges: Vec::new(),
    };
    keeper.note_order();
    keeper
        .change(|record| record.order = Some(order.clone()))
        .await;
    Ok(order)
}

/// Answers the challenges of what is not verified yet, and waits for the verdicts.
async fn verify(
    keeper: &mut Keeper,
    client: &mut Client<'_>,
    key: &AccountKey,
    order: &Order,
) -> Result<(), AcmeError> {
    let kind = keeper.conf().issuer.challenge.name();
    let mut pending: Vec<(&str, Challenge)> = Vec::new();
    let mut answers = Vec::new();
    for url in &order.authorizations {
        let authorization = client.authorization(url).await?;
        match authorization.status.as_str() {
            "valid" => continue,
            "pending" => {}
            _ => return Err(authorization.failure()),
        }
        let challenge = challenge_of(&authorization, kind)?;
        answers.push(Answered::new(
            &identifier_of(&authorization)?.to_string(),
            &challenge.token,
            &format!("{}.{}", challenge.token, key.thumbprint()),
        ));
        pending.push((url, challenge));
    }
    if pending.is_empty() {
        return Ok(());
    }
    keeper.answer(answers).await?;
    for (_, challenge) in &pending {
        client.answered(&challenge.url).await?;
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for (url, _) in pending {
        loop {
            let authorization = client.authorization(url).await?;
            match authorization.status.as_str() {
                "valid" => break,
                "pending" => pause(authorization.retry_after, deadline, "verifying").await?,
                _ => return Err(authorization.failure()),
            }
        }
    }
    Ok(())
}

fn challenge_of(authorization: &Authorization, kind: &str) -> Result<Challenge, AcmeError> {
    let mut challenges = authorization.challenges.iter();
    let challenge = challenges.find(|it| it.kind == kind).ok_or_else(|| {
        let name = authorization.name();
        AcmeError::Order(format!("the server does not verify \"{name}\" with {kind}"))
    })?;
    let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let token = &challenge.token;
    match (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(of_token) {
        true => Ok(challenge.clone()),
        false => Err(AcmeError::Answer("token")),
    }
}

fn identifier_of(authorization: &Authorization) -> Result<AcmeIdentifier, AcmeError> {
    authorization
        .identifier()
        .ok_or(AcmeError::Answer("identifier"))
}

/// The order once its status is none of these.
async fn settled(
    client: &mut Client<'_>,
    url: &str,
    transient: &[&str],
) -> Result<Order, AcmeError> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let order = client.order(url).await?;
        if !transient.contains(&order.status.as_str()) {
            return Ok(order);
        }
        pause(order.retry_after, deadline, "issuing").await?;
    }
}

async fn pause(
    wanted: Option<Duration>,
    deadline: tokio::time::Instant,
    what: &'static str,
) -> Result<(), AcmeError> {
    if tokio::time::Instant::now() >= deadline {
        return Err(AcmeError::Slow(what, PATIENCE.as_secs()));
    }
    // A second at least: some servers say 0.
    let wait = wanted
        .unwrap_or(POLL)
        .clamp(Duration::from_secs(1), MAX_POLL);
    tokio::time::sleep(wait).await;
    Ok(())
}

/// Downloads the certificate, checks that it is what was ordered, and serves it from now on.
async fn take(
    keeper: &mut Keeper,
    client: &mut Client<'_>,
    order: &OrderUnderWay,
    url: &str,
) -> Result<(), AcmeError> {
    let chains = client.certificate(url).await?;
    let mut chain = chains.default;
    let mut facts = checked(keeper, &chain, order)?;
    if let Some(preferred) = &keeper.conf().issuer.preferred_chain
        && facts.top_issuer.as_ref() != Some(preferred)
    {
        for url in &chains.alternates {
            let other = client.certificate(url).await?.default;
            let of_other = checked(keeper, &other, order)?;
            if of_other.top_issuer.as_ref() == Some(preferred) {
                (chain, facts) = (other, of_other);
                break;
            }
        }
    }
    let renew_s = renewal::due_s(facts.begins_s, facts.ends_s, renewal::random());
    let issued = Issued {
        chain,
        key: order.key.clone(),
        renew_s,
        ask_s: now_s() + renewal::FIRST_QUESTION_S,
    };
    keeper.succeed(issued, &facts).await;
    Ok(())
}

fn checked(
    keeper: &Keeper,
    chain: &str,
    order: &OrderUnderWay,
) -> Result<CertificateFacts, AcmeError> {
    let unusable = |why: String| AcmeError::Certificate(why);
    let facts = CertificateFacts::read(chain.as_bytes(), &order.key.expose())
        .map_err(|error| unusable(error.to_string()))?;
    for identifier in &keeper.conf().identifiers {
        let is_covered = match identifier {
            AcmeIdentifier::Dns(name) => facts.dns_names.contains(name),
            AcmeIdentifier::Ip(address) => facts.addresses.contains(address),
        };
        if !is_covered {
            return Err(unusable(format!("it is not for \"{identifier}\"")));
        }
    }
    match facts.ends_s > now_s() {
        true => Ok(facts),
        false => Err(unusable("it has ended already".to_owned())),
    }
}
