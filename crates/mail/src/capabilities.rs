//! What a server announces: the responses to CAPABILITY, CAPA, AUTH and EHLO.

use crate::settings::{AuthMethods, Protocol, Settings, StartTls};

/// The methods that have names, in the order in which they are announced.
const NAMES: [(AuthMethods, &str); 6] = [
    (AuthMethods::PLAIN, "PLAIN"),
    (AuthMethods::LOGIN, "LOGIN"),
    (AuthMethods::CRAM_MD5, "CRAM-MD5"),
    (AuthMethods::EXTERNAL, "EXTERNAL"),
    (AuthMethods::XOAUTH2, "XOAUTH2"),
    (AuthMethods::OAUTHBEARER, "OAUTHBEARER"),
];

fn method_names(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let mut methods = settings.auth;
    if settings.protocol == Protocol::Pop3 && methods.contains(AuthMethods::PLAIN) {
        methods = methods | AuthMethods::LOGIN;
    }
    NAMES
        .into_iter()
        .filter(move |(method, _)| methods.contains(*method))
        .map(|(_, name)| name)
}

/// The untagged response to CAPABILITY. `starttls` is what holds for this connection now.
pub(crate) fn imap(settings: &Settings, starttls: StartTls) -> String {
    let mut text = "* CAPABILITY".to_owned();
    for name in &settings.capabilities {
        text.push(' ');
        text.push_str(name);
    }
    if starttls != StartTls::Only {
        for name in method_names(settings) {
            text.push_str(" AUTH=");
            text.push_str(name);
        }
    }
    text.push_str(match starttls {
        StartTls::Off => "",
        StartTls::On => " STARTTLS",
        StartTls::Only => " STARTTLS LOGINDISABLED",
    });
    text.push_str("\r\n");
    text
}

/// The response to CAPA.
pub(crate) fn pop3(settings: &Settings, starttls: StartTls) -> String {
    let only = starttls == StartTls::Only;
    let mut text = "+OK Capability list follows\r\n".to_owned();
    let names = settings.capabilities.iter();
    for name in names.filter(|name| !(only && name.eq_ignore_ascii_case("USER"))) {
        text.push_str(name);
        text.push_str("\r\n");
    }
    if !only {
        text.push_str("SASL");
        for name in method_names(settings) {
            text.push(' ');
            text.push_str(name);
        }
        text.push_str("\r\n");
    }
    if starttls != StartTls::Off {
        text.push_str("STLS\r\n");
    }
    text.push_str(".\r\n");
    text
}

/// The response to POP3's AUTH without an argument.
pub(crate) fn pop3_methods(settings: &Settings) -> String {
    let mut text = "+OK methods supported:\r\n".to_owned();
    for name in method_names(settings) {
        text.push_str(name);
        text.push_str("\r\n");
    }
    text.push_str(".\r\n");
    text
}

/// The response to EHLO.
pub(crate) fn smtp(settings: &Settings, starttls: StartTls) -> String {
    let mut lines = vec![settings.server_name.clone()];
    lines.extend(settings.capabilities.iter().cloned());
    let names: Vec<_> = method_names(settings).collect();
    if starttls != StartTls::Only && !names.is_empty() {
        lines.push(format!("AUTH {}", names.join(" ")));
    }
    if starttls != StartTls::Off {
        lines.push("STARTTLS".to_owned());
    }
    let last = lines.len() - 1;
    let lines = lines.iter().enumerate().map(|(number, line)| {
        let separator = if number == last { ' ' } else { '-' };
        format!("250{separator}{line}\r\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imap_announces_methods_unless_tls_must_come_first() {
        let mut settings = Settings::new(Protocol::Imap, "mail.example.org");
        settings.auth = AuthMethods::PLAIN | AuthMethods::CRAM_MD5 | AuthMethods::EXTERNAL;
        assert_eq!(
            imap(&settings, StartTls::Off),
            "* CAPABILITY IMAP4 IMAP4rev1 UIDPLUS AUTH=PLAIN AUTH=CRAM-MD5 AUTH=EXTERNAL\r\n"
        );
        assert_eq!(
            imap(&settings, StartTls::On),
            "* CAPABILITY IMAP4 IMAP4rev1 UIDPLUS AUTH=PLAIN AUTH=CRAM-MD5 AUTH=EXTERNAL STARTTLS\r\n"
        );
        assert_eq!(
            imap(&settings, StartTls::Only),
            "* CAPABILITY IMAP4 IMAP4rev1 UIDPLUS STARTTLS LOGINDISABLED\r\n"
        );
    }

    #[test]
    fn pop3_announces_neither_user_nor_methods_where_tls_must_come_first() {
        let mut settings = Settings::new(Protocol::Pop3, "mail.example.org");
        settings.auth = AuthMethods::PLAIN | AuthMethods::APOP;
        assert_eq!(
            pop3(&settings, StartTls::Off),
            "+OK Capability list follows\r\nTOP\r\nUSER\r\nUIDL\r\nSASL PLAIN LOGIN\r\n.\r\n"
        );
        assert_eq!(
            pop3(&settings, StartTls::On),
            "+OK Capability list follows\r\nTOP\r\nUSER\r\nUIDL\r\nSASL PLAIN LOGIN\r\nSTLS\r\n.\r\n"
        );
        assert_eq!(
            pop3(&settings, StartTls::Only),
            "+OK Capability list follows\r\nTOP\r\nUIDL\r\nSTLS\r\n.\r\n"
        );
        assert_eq!(
            pop3_methods(&settings),
            "+OK methods supported:\r\nPLAIN\r\nLOGIN\r\n.\r\n"
        );
    }

    #[test]
    fn the_last_line_of_smtp_is_the_one_with_a_space() {
        let mut settings = Settings::new(Protocol::Smtp, "mail.example.org");
        settings.capabilities = vec!["SIZE 10240000".to_owned(), "8BITMIME".to_owned()];
        assert_eq!(
            smtp(&settings, StartTls::Off),
            "250-mail.example.org\r\n250-SIZE 10240000\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n"
        );
        assert_eq!(
            smtp(&settings, StartTls::Only),
            "250-mail.example.org\r\n250-SIZE 10240000\r\n250-8BITMIME\r\n250 STARTTLS\r\n"
        );
        settings.auth = AuthMethods::NONE;
        settings.capabilities.clear();
        assert_eq!(smtp(&settings, StartTls::Off), "250 mail.example.org\r\n");
        assert_eq!(
            smtp(&settings, StartTls::On),
            "250-mail.example.org\r\n250 STARTTLS\r\n"
        );
    }
}
