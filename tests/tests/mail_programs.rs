//! Mail with real programs: Dovecot and Postfix behind `mail`, and clients of several kinds in
//! front. They run in directories of the test, on ports of 127.0.0.1.

use sealane_tests::{
    Certificate, CertificateKey, Server, Site, command, mail_client_path, wait_for,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

const DOVECOT: &str = "/usr/sbin/dovecot";
const POSTFIX: &str = "/usr/sbin/postfix";

/// Everyone's password.
const PASSWORD: &str = "secret";

/// Everyone's token, with all characters that one may have. Dovecot takes up to 1024 bytes of a
/// login.
fn token() -> String {
    format!("abcXYZ019-._~+{}==", "0aZ/".repeat(200))
}

/// A program in the foreground, and the command that ends it.
struct Running {
    child: Child,
    end: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        command(&self.end[0], &self.end[1..], b"");
        let _ = self.child.wait();
    }
}

fn run(site: &Site, name: &str, program: &str, arguments: &[&str]) -> Child {
    let log = File::create(site.path(format!("logs/{name}.out"))).expect("the site is writable");
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

#[track_caller]
fn wait_for_port(site: &Site, name: &str) {
    let port = site.port(name);
    wait_for(&format!("{name} to listen"), || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
    });
}

/// The numbers of a user and its group.
fn numbers(user: &str) -> (u32, u32) {
    let number = |option| {
        let said = command("id", &[option, user], b"").success().text();
        said.trim().parse().expect("a number")
    };
    (number("-u"), number("-g"))
}

fn directory(site: &Site, name: &str, owner: Option<&str>) {
    let path = site.path(name);
    fs::create_dir_all(&path).expect("the site is writable");
    if let Some(owner) = owner {
        let (user, group) = numbers(owner);
        std::os::unix::fs::chown(&path, Some(user), Some(group)).expect("this is root");
    }
}

/// Dovecot, with IMAP and POP3 for everyone who has the password, and SASL for Postfix.
fn dovecot(site: &Site) -> Running {
    const TOKENS: &str = "introspection_mode = get\n\
        introspection_url = http://127.0.0.1:%auth%/token/\nforce_introspection = yes\n\
        username_attribute = username\nactive_attribute = active\nactive_value = true\n";
    const TEXT: &str = "base_dir = %site%/dovecot\nprotocols = imap pop3\nlisten = 127.0.0.1\n\
        log_path = %site%/logs/dovecot.log\nssl = no\ndisable_plaintext_auth = no\n\
        auth_mechanisms = plain login\nfirst_valid_uid = 1\nmail_location = maildir:%site%/mail/%%n\n\
        passdb {\n driver = static\n args = password=PASSWORD\n}\n\
        passdb {\n driver = oauth2\n args = %site%/tokens.conf\n}\n\
        userdb {\n driver = static\n args = uid=mail gid=mail home=%site%/mail/%%n\n}\n\
        service imap-login {\n inet_listener imap {\n port = %dovecot_imap%\n }\n\
         inet_listener imaps {\n port = 0\n }\n}\n\
        service pop3-login {\n inet_listener pop3 {\n port = %dovecot_pop%\n }\n\
         inet_listener pop3s {\n port = 0\n }\n}\n\
        service auth {\n unix_listener %site%/queue/private/auth {\n mode = 0660\n user = postfix\n\
         group = postfix\n }\n}\n";
    site.write("tokens.conf", site.fill_in(TOKENS));
    let text = site.fill_in(&TEXT.replace("PASSWORD", PASSWORD));
    let file = site.write("dovecot.conf", text).display().to_string();
    let child = run(site, "dovecot", DOVECOT, &["-F", "-c", &file]);
    let end = ["kill".to_owned(), child.id().to_string()].into();
    let running = Running { child, end };
    wait_for_port(site, "dovecot_imap");
    wait_for_port(site, "dovecot_pop");
    running
}

/// Postfix, which accepts mail only of who has logged in or is said by XCLIENT to have, and
/// delivers everything to the mailbox of `jo`.
fn postfix(site: &Site) -> Running {
    let (user, group) = numbers("mail");
    let settings = format!(
        "compatibility_level = 3.6\nqueue_directory = %site%/queue\ndata_directory = %site%/data\n\
         command_directory = /usr/sbin\ndaemon_directory = /usr/lib/postfix/sbin\n\
         maillog_file = %site%/logs/postfix.log\nmaillog_file_prefixes = %site%\n\
         inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmyhostname = mail.example.org\n\
         mydestination =\nmynetworks = 192.0.2.0/24\nalias_maps =\nalias_database =\n\
         virtual_mailbox_domains = example.org\nvirtual_mailbox_base = %site%/mail\n\
         virtual_mailbox_maps = static:jo/\nvirtual_minimum_uid = 1\n\
         virtual_uid_maps = static:{user}\nvirtual_gid_maps = static:{group}\n\
         smtpd_authorized_xclient_hosts = 127.0.0.1\nsmtpd_sasl_auth_enable = yes\n\
         smtpd_sasl_type = dovecot\nsmtpd_sasl_path = private/auth\nsmtpd_peername_lookup = no\n\
         smtpd_relay_restrictions = permit_sasl_authenticated, reject\n\
         smtpd_recipient_restrictions = permit_sasl_authenticated, reject\n"
    );
    let mut services = "127.0.0.1:%postfix% inet n - n - - smtpd\n".to_owned();
    for (name, kind, options, program) in [
        ("pickup", "unix", "n - n 60 1", "pickup"),
        ("cleanup", "unix", "n - n - 0", "cleanup"),
        ("qmgr", "unix", "n - n 300 1", "qmgr"),
        ("tlsmgr", "unix", "- - n 1000? 1", "tlsmgr"),
        ("rewrite", "unix", "- - n - -", "trivial-rewrite"),
        ("bounce", "unix", "- - n - 0", "bounce"),
        ("defer", "unix", "- - n - 0", "bounce"),
        ("trace", "unix", "- - n - 0", "bounce"),
        ("flush", "unix", "n - n 1000? 0", "flush"),
        ("proxymap", "unix", "- - n - -", "proxymap"),
        ("error", "unix", "- - n - -", "error"),
        ("retry", "unix", "- - n - -", "error"),
        ("virtual", "unix", "- n n - -", "virtual"),
        ("anvil", "unix", "- - n - 1", "anvil"),
        ("postlog", "unix-dgram", "n - n - 1", "postlogd"),
    ] {
        services.push_str(&format!("{name} {kind} {options} {program}\n"));
    }
    site.write("postfix/main.cf", site.fill_in(&settings));
    site.write("postfix/master.cf", site.fill_in(&services));
    let path = site.path("postfix").display().to_string();
    command(POSTFIX, &["-c", &path, "check"], b"").success();
    let child = run(site, "postfix", POSTFIX, &["-c", &path, "start-fg"]);
    // The child is the script that waits for the master.
    let file = site.path("queue/pid/master.pid");
    let pid = wait_for("the process id of Postfix", || {
        let text = fs::read_to_string(&file).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let end = ["kill".to_owned(), pid.to_string()].into();
    let running = Running { child, end };
    wait_for_port(site, "postfix");
    running
}

/// An auth service that asks for the password or the token, and knows the servers of all protocols.
/// Dovecot asks it whose a token is.
fn auth_service(site: &Site) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, site.port("auth")));
    let listener = listener.expect("the port is ours");
    let names = ["dovecot_imap", "dovecot_pop", "postfix"];
    let [imap, pop3, smtp] = names.map(|name| site.port(name));
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(socket.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            if let Some(rest) = head.strip_prefix("GET /token/") {
                // It appends its own name and secret, of which it has none.
                let is_right = rest.split(['&', ' ']).next() == Some(&token());
                let text = format!("{{\"active\": {is_right}, \"username\": \"jo\"}}");
                let _ = write!(
                    socket,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
                    text.len()
                );
                continue;
            }
            let value = |name: &str| {
                let field = head.lines().find_map(|line| line.strip_prefix(name));
                field.unwrap_or_default().trim().to_owned()
            };
            let to = match &*value("Auth-Protocol:") {
                "imap" => imap,
                "pop3" => pop3,
                _ => smtp,
            };
            let fields = judgement(
                &value("Auth-Method:"),
                &value("Auth-Pass:"),
                &value("Auth-Salt:"),
            );
            let _ = write!(
                socket,
                "HTTP/1.0 200 OK\r\n{fields}Auth-Server: 127.0.0.1\r\nAuth-Port: {to}\r\n\r\n"
            );
        }
    });
}

/// The fields that say whether this is what proves who somebody is.
fn judgement(method: &str, proof: &str, salt: &str) -> String {
    let digest = |options: &[&str], text: &str| {
        let arguments = [&["dgst", "-md5"], options].concat();
        let said = command("openssl", &arguments, text.as_bytes()).success();
        let said = said.text();
        said.rsplit(' ')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let with_password = format!("Auth-Status: OK\r\nAuth-Pass: {PASSWORD}\r\n");
    let invalid = "Auth-Status: Invalid login or password\r\nAuth-Wait: 1\r\n";
    match method {
        "plain" if proof == PASSWORD => "Auth-Status: OK\r\n".to_owned(),
        "cram-md5" if proof == digest(&["-hmac", PASSWORD], salt) => with_password,
        "apop" if proof == digest(&[], &format!("{salt}{PASSWORD}")) => with_password,
        // What may be wrong with other tokens is for Dovecot to say.
        "xoauth2" | "oauthbearer" if proof != "expired" => "Auth-Status: OK\r\n".to_owned(),
        // {"status":"invalid_token"}
        "xoauth2" | "oauthbearer" => "Auth-Status: The token is no good\r\nAuth-Wait: 1\r\n\
             Auth-Error-SASL: eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIn0=\r\n"
            .to_owned(),
        _ => invalid.to_owned(),
    }
}

/// All servers behind Sealane.
struct Mail<'s> {
    server: Server<'s>,
    _programs: (Running, Running),
}

/// `None` where the programs are not installed.
fn serve(site: &Site) -> Option<Mail<'_>> {
    if !Path::new(DOVECOT).exists() || !Path::new(POSTFIX).exists() {
        sealane_needs::leave_out("dovecot-imapd, dovecot-pop3d or postfix is not installed");
        return None;
    }
    if !sealane_needs::is_root() {
        sealane_needs::leave_out("Dovecot and Postfix change users, which needs root");
        return None;
    }
    // They look into the directory as other users.
    command("chmod", &["755", &site.path("").display().to_string()], b"").success();
    for (name, owner) in [
        ("mail", Some("mail")),
        ("data", Some("postfix")),
        ("queue", None),
        ("queue/private", Some("postfix")),
        ("dovecot", None),
    ] {
        directory(site, name, owner);
    }
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    // Postfix gives up for a while if nobody is there to ask about logins.
    let dovecot = dovecot(site);
    let postfix = postfix(site);
    auth_service(site);
    let server = site.serve_whole(
        "error_log logs/error.log info; pid logs/pid; events { }
         mail {
             server_name mail.example.org; auth_http 127.0.0.1:%auth%/auth;
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             imap_capabilities IMAP4rev1 UIDPLUS IDLE LITERAL+; pop3_capabilities TOP USER UIDL;
             smtp_capabilities PIPELINING 'SIZE 10240000' 8BITMIME; starttls on;
             imap_auth plain login cram-md5 xoauth2 oauthbearer;
             pop3_auth plain apop cram-md5 xoauth2;
             server { listen 127.0.0.1:%imap%; protocol imap; }
             server { listen 127.0.0.1:%imaps% ssl; protocol imap; starttls off;
                      imap_capabilities IMAP4rev1 UIDPLUS IDLE LITERAL+ SASL-IR; }
             server { listen 127.0.0.1:%pop%; protocol pop3; }
             server { listen 127.0.0.1:%pops% ssl; protocol pop3; starttls off; }
             server { listen 127.0.0.1:%smtp%; protocol smtp;
                      smtp_auth plain login cram-md5 xoauth2 oauthbearer; }
             server { listen 127.0.0.1:%smtps% ssl; protocol smtp; starttls off;
                      smtp_auth plain login xoauth2 oauthbearer; }
             server { listen 127.0.0.1:%smtp_auth%; protocol smtp; xclient off; proxy_smtp_auth on; }
         }",
    );
    Some(Mail {
        server,
        _programs: (dovecot, postfix),
    })
}

/// The ports of all servers, with their names.
const PORTS: [&str; 7] = ["imap", "imaps", "pop", "pops", "smtp", "smtps", "smtp_auth"];

/// Runs a client, which has to say that all is well.
#[track_caller]
fn all_is_well(mail: &Mail<'_>, site: &Site, program: &str, arguments: &[String]) {
    let outcome = command(program, arguments, b"");
    let log = |name: &str| fs::read_to_string(site.path(name)).unwrap_or_default();
    assert_eq!(
        (outcome.status, &*outcome.text()),
        (0, "all is well\n"),
        "{}\n{}\n{}\n{}",
        outcome.stderr,
        log("logs/postfix.log"),
        log("logs/dovecot.log"),
        mail.server.error_log()
    );
}

const PYTHON: &str = r#"
import imaplib, poplib, smtplib, ssl, sys, hashlib, time, random
from email.message import EmailMessage
authority = sys.argv[1]
imap, imaps, pop, pops, smtp, smtps, smtp_auth = map(int, sys.argv[2:])
context = ssl.create_default_context(cafile=authority)
host = 'localhost'
content = random.Random(1).randbytes(5 << 20)

def sends(client, subject, attachment=b''):
    message = EmailMessage()
    message['From'] = 'jo@example.org'
    message['To'] = 'jo@example.org'
    message['Subject'] = subject
    message.set_content('hello\n.\n..two dots\n')
    if attachment:
        message.add_attachment(attachment, maintype='application', subtype='octet-stream', filename='a')
    client.login('jo', 'secret')
    assert client.send_message(message) == {}
    client.quit()

def plain_smtp(): return smtplib.SMTP(host, smtp)
def starttls_smtp():
    client = smtplib.SMTP(host, smtp); client.starttls(context=context); return client
def tls_smtp(): return smtplib.SMTP_SSL(host, smtps, context=context)
def authenticated_smtp(): return smtplib.SMTP(host, smtp_auth)

try:
    client = tls_smtp(); client.login('jo', 'wrong'); sys.exit('a wrong password')
except smtplib.SMTPAuthenticationError as error:
    assert error.smtp_code == 535, error
client = smtplib.SMTP(host, smtp)
client.ehlo()
assert client.mail('jo@example.org')[0] == 530
client.close()

sends(plain_smtp(), 'plain')
sends(starttls_smtp(), 'starttls')
sends(tls_smtp(), 'tls')
sends(authenticated_smtp(), 'authenticated')
sends(tls_smtp(), 'attachment', content)

def plain_imap(): return imaplib.IMAP4(host, imap)
def starttls_imap():
    client = imaplib.IMAP4(host, imap); client.starttls(context); return client
def tls_imap(): return imaplib.IMAP4_SSL(host, imaps, ssl_context=context)

from email import message_from_bytes, policy
def subjects(client):
    client.select('INBOX')
    _, found = client.search(None, 'ALL')
    all = {}
    for number in found[0].split():
        _, data = client.fetch(number, '(RFC822)')
        message = message_from_bytes(data[0][1], policy=policy.default)
        all[message['Subject']] = message
    return all

expected = {'plain', 'starttls', 'tls', 'authenticated', 'attachment'}
deadline = time.monotonic() + 60
while True:
    client = tls_imap()
    client.login('jo', 'secret')
    found = subjects(client)
    client.logout()
    if set(found) == expected: break
    assert time.monotonic() < deadline, found.keys()
    time.sleep(0.2)
body = found['plain'].get_content().replace('\r\n', '\n')
assert body == 'hello\n.\n..two dots\n', body
attached = list(found['attachment'].iter_attachments())[0].get_content()
assert attached == content, len(attached)

try:
    plain_imap().login('jo', 'wrong'); sys.exit('a wrong password')
except imaplib.IMAP4.error as error:
    assert 'Invalid login or password' in str(error), error
for open in (plain_imap, starttls_imap, tls_imap):
    client = open(); client.login('jo', 'secret')
    assert set(subjects(client)) == expected
    client.logout()
    client = open()
    client.authenticate('PLAIN', lambda _: b'\0jo\0secret')
    client.logout()

# IDLE: what arrives is told at once.
client = plain_imap(); client.login_cram_md5('jo', 'secret'); client.select('INBOX')
client.send(b'i1 IDLE\r\n')
assert client.readline().startswith(b'+'), 'IDLE'
sends(plain_smtp(), 'during IDLE')
line = client.readline()
while b'EXISTS' not in line:
    assert line, 'it has ended'
    line = client.readline()
client.send(b'DONE\r\n')
while not client.readline().startswith(b'i1 OK'): pass
client.logout()

def plain_pop(): return poplib.POP3(host, pop)
def stls_pop():
    client = poplib.POP3(host, pop); client.stls(context); return client
def tls_pop(): return poplib.POP3_SSL(host, pops, context=context)
try:
    client = plain_pop(); client.user('jo'); client.pass_('wrong'); sys.exit('a wrong password')
except poplib.error_proto as error:
    assert b'Invalid login or password' in error.args[0], error
for open in (plain_pop, stls_pop, tls_pop):
    client = open(); client.user('jo'); client.pass_('secret')
    count, size = client.stat()
    assert count == 6 and size > (5 << 20), (count, size)
    _, lines, _ = client.retr(1)
    assert b'..two dots' in lines, lines
    client.quit()
client = plain_pop(); client.apop('jo', 'secret')
assert client.stat()[0] == 6
client.quit()
print('all is well')
"#;

/// A log of one of the servers, which need not have written it before they answer.
#[track_caller]
fn wait_for_text(site: &Site, log: &str, text: &str) {
    wait_for(&format!("{text:?} in {log}"), || {
        let log = fs::read_to_string(site.path("logs").join(log)).ok()?;
        log.contains(text).then_some(())
    });
}

#[test]
fn mail_is_sent_and_read_by_clients_in_python() {
    let site = Site::new();
    let Some(mail) = serve(&site) else { return };
    let mut arguments = vec!["-c".to_owned(), PYTHON.to_owned()];
    arguments.push(site.authority().display().to_string());
    arguments.extend(PORTS.map(|name| mail.server.port(name).to_string()));
    all_is_well(&mail, &site, "python3", &arguments);
    // Postfix knows who it was from XCLIENT, and from AUTH.
    wait_for_text(&site, "postfix.log", "sasl_username=jo");
}

/// Runs the client of `tests/clients/mail`.
#[track_caller]
fn go(mail: &Mail<'_>, site: &Site, what: &str) {
    let ports = PORTS.map(|name| format!("{name}={}", mail.server.port(name)));
    let authority = site.authority().display().to_string();
    let arguments = [
        what,
        "-ca",
        &authority,
        "-ports",
        &ports.join(","),
        "-token",
        &token(),
    ];
    let arguments = arguments.map(str::to_owned);
    let program = mail_client_path().display().to_string();
    all_is_well(mail, site, &program, &arguments);
}

#[test]
fn mail_is_sent_and_read_by_clients_in_go() {
    let site = Site::new();
    let Some(mail) = serve(&site) else { return };
    go(&mail, &site, "letters");
}

#[test]
fn tokens_are_asked_about_twice_and_read_mail() {
    let site = Site::new();
    let Some(mail) = serve(&site) else { return };
    go(&mail, &site, "tokens");
    // Dovecot has looked at them itself.
    wait_for_text(&site, "dovecot.log", "Login: user=<jo>");
}

#[test]
fn curl_speaks_all_protocols_with_and_without_tls() {
    let site = Site::new();
    let Some(mail) = serve(&site) else { return };
    let authority = site.authority().display().to_string();
    let letter = site.write(
        "letter.txt",
        "From: jo@example.org\r\nTo: jo@example.org\r\nSubject: by curl\r\n\r\nhello\r\n",
    );
    let letter = letter.display().to_string();
    let curl = |scheme: &str, port: &str, path: &str, more: &[&str]| {
        let url = format!("{scheme}://localhost:{}/{path}", mail.server.port(port));
        let mut arguments = vec!["-sS", "--user", "jo:secret", "--cacert", &authority, &url];
        arguments.extend(more);
        command("curl", &arguments, b"").success().text()
    };
    let envelope = [
        "--mail-from",
        "jo@example.org",
        "--mail-rcpt",
        "jo@example.org",
        "-T",
        &letter,
    ];
    let with_tls = [&envelope[..], &["--ssl-reqd"]].concat();
    curl("smtp", "smtp", "client.example", &envelope);
    curl("smtp", "smtp", "client.example", &with_tls);
    curl("smtps", "smtps", "client.example", &envelope);
    curl("smtp", "smtp_auth", "client.example", &with_tls);
    wait_for("four letters", || {
        let said = curl("imap", "imap", "", &["-X", "STATUS INBOX (MESSAGES)"]);
        said.contains("MESSAGES 4").then_some(())
    });
    let reads = [
        ("imap", "imap", "INBOX;MAILINDEX=1", &[][..]),
        ("imap", "imap", "INBOX;MAILINDEX=2", &["--ssl-reqd"]),
        ("imaps", "imaps", "INBOX;MAILINDEX=3", &[]),
        ("pop3", "pop", "1", &[]),
        ("pop3", "pop", "2", &["--ssl-reqd"]),
        ("pop3s", "pops", "4", &[]),
    ];
    for (scheme, port, path, more) in reads {
        let text = curl(scheme, port, path, more);
        assert!(text.contains("Subject: by curl"), "{scheme} {port}: {text}");
    }
}
