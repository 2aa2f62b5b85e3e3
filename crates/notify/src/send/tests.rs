//! Destinations at the other end of real sockets, sound and broken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use group::destinations::{Email, MailTls, Syslog, SyslogTransport, Webhook};
use member::events::{Kind, ObjectKind};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn sender() -> Sender {
    Sender::new(
        "1",
        |_| "look at it".to_owned(),
        |record| serde_json::to_string(record).expect("plain"),
    )
    .with_time(Duration::from_secs(5))
}

/// Answers each connection, and passes on what came over it.
pub(crate) fn server(
    answer: impl Fn(TcpStream) -> String + Send + 'static,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if tell.send(answer(stream)).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// Reads a request with its body, and answers with `head`.
pub(crate) fn http(mut stream: TcpStream, head: &str) -> String {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return text;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        text.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body comes");
    text.push_str(&String::from_utf8(body).expect("text"));
    let _ = stream.write_all(format!("{head}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    text
}

/// Speaks SMTP (RFC 5321) and takes one letter.
fn smtp(mut stream: TcpStream, at_rcpt: &str) -> String {
    let _ = stream.write_all(b"220 mx ESMTP\r\n");
    dialogue(&mut stream, &[("RCPT", at_rcpt)], "")
}

/// The same from the greeting on, with these answers to commands besides those that are always given; up to the
/// command `until`.
fn dialogue(stream: &mut (impl Read + Write), answers: &[(&str, &str)], until: &str) -> String {
    let (mut text, mut is_data) = (String::new(), false);
    while let Some(line) = line_of(stream) {
        text.push_str(&line);
        let word = line.get(..4).unwrap_or_default();
        if is_data && line != ".\r\n" {
            continue;
        }
        let given = answers.iter().find(|(command, _)| *command == word);
        let answer = match (line.as_str(), word) {
            (".\r\n", _) => "250 taken",
            (_, "DATA") => "354 go on",
            (_, "QUIT") => "221 bye",
            _ => given.map_or("250 mx", |(_, answer)| answer),
        };
        is_data = word == "DATA";
        let _ = stream.write_all(format!("{answer}\r\n").as_bytes());
        if word == until {
            break;
        }
    }
    text
}

/// One line; `None` at the end.
fn line_of(stream: &mut impl Read) -> Option<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        line.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// What a server called localhost shakes hands with, and who vouches for it, in PEM.
fn identity() -> (std::sync::Arc<rustls::ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a key");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.expect("a key"))
        .expect("they go together");
    (std::sync::Arc::new(config), made.cert.pem())
}

/// An SMTP server that wants a login over TLS: what was said in the clear, and what behind that.
fn smtp_over_tls(
    mut stream: TcpStream,
    config: &std::sync::Arc<rustls::ServerConfig>,
    starts_in_clear: bool,
    at_auth: &str,
) -> String {
    let mut clear = String::new();
    if starts_in_clear {
        let _ = stream.write_all(b"220 mx ESMTP\r\n");
        let hello = "250-mx\r\n250 STARTTLS";
        clear = dialogue(&mut stream, &[("EHLO", hello), ("STAR", "220 go on")], "STAR");
    }
    let mut tls = rustls::ServerConnection::new(config.clone()).expect("a configuration");
    let mut stream = rustls::Stream::new(&mut tls, &mut stream);
    if !starts_in_clear {
        let _ = stream.write_all(b"220 mx ESMTP\r\n");
    }
    let answers = [("EHLO", "250-mx\r\n250 AUTH PLAIN"), ("AUTH", at_auth)];
    let said = dialogue(&mut stream, &answers, "");
    format!("{clear}---\n{said}")
}

/// Says `begin`, and then letters without an end; how many were taken.
fn endless(mut stream: impl Write, begin: &str) -> usize {
    let mut said = 0;
    let mut say = |bytes: &[u8]| {
        said += bytes.len();
        stream.write_all(bytes).is_ok()
    };
    let letters = vec![b'a'; 64 << 10];
    let mut goes_on = say(begin.as_bytes());
    while goes_on {
        goes_on = say(&letters);
    }
    said
}

/// What a system keeps of a connection that nobody reads.
const UNREAD_BYTES_MAX: usize = 32 << 20;

fn evil() -> Message {
    let what = Event::of_member(Kind::SecondHostRefused, "x");
    let name = "iqn.x\r\nBcc: evil@example.com\r\n\r\n.\r\nRCPT TO:<evil@example.com>".to_owned();
    let object = member::events::Object { kind: ObjectKind::Target, name };
    let what = Event { object, text: "refused\r\n.\r\nDATA \u{202e}ä".to_owned(), ..what };
    Message::first(Record { number: 7, unix_seconds: 1_700_000_000, count: 1, what })
}

pub(crate) fn webhook(url: &str, secret: Option<&str>) -> Way<Secret> {
    let secret = secret.map(|text| Secret::new(text.as_bytes().to_vec()));
    Way::Webhook(Webhook { url: url.parse().expect("a URL"), roots: None, secret, token: None })
}

fn email(address: SocketAddr, tls: MailTls) -> Way<Secret> {
    Way::Email(Email {
        to: vec!["ops@example.com".parse().expect("an address")],
        from: "san@example.com".parse().expect("an address"),
        smtp: address.to_string().parse().expect("a server"),
        tls,
        roots: None,
        user: None,
        password: None,
    })
}

fn syslog(address: &str, transport: SyslogTransport) -> Way<Secret> {
    let server = address.parse().expect("a server");
    Way::Syslog(Syslog { server, transport, roots: None, audit: false })
}

async fn send(way: &Way<Secret>) -> Result<(), SendError> {
    sender().send(1, way, &[evil()]).await
}

#[tokio::test]
async fn a_webhook_gets_json_that_is_signed_and_no_header_of_a_host() {
    let (address, told) = server(|stream| http(stream, "HTTP/1.1 204 No Content"));
    send(&webhook(&format!("http://{address}/hook?a=b"), Some("hush"))).await.unwrap();
    let request = told.recv_timeout(PATIENCE).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    let signed = head.to_ascii_lowercase();
    assert!(signed.contains("drystone-signature: sha256=") && !signed.contains("bcc"), "{head}");
    assert!(!request.contains("hush"));
    let event: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(event["number"], 7);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_refusal_is_said() {
    let (elsewhere, came) = server(|stream| http(stream, "HTTP/1.1 204 No Content"));
    let moved = format!("HTTP/1.1 307 Moved\r\nLocation: http://{elsewhere}/");
    let (address, _told) = server(move |stream| http(stream, &moved));
    let error = send(&webhook(&format!("http://{address}/s3cret"), None)).await.unwrap_err();
    assert!(error.to_string().ends_with("redirects are not followed"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert!(came.recv_timeout(Duration::from_millis(300)).is_err());
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for_and_who_is_not_there_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let begun = Instant::now();
    let sender = sender().with_time(Duration::from_millis(300));
    for way in [webhook(&format!("http://{silent}/"), None), email(silent, MailTls::None)] {
        let error = sender.send(1, &way, &[evil()]).await.unwrap_err();
        assert!(matches!(error, SendError::Silent { .. }), "{error}");
    }
    assert!(begun.elapsed() < PATIENCE);
    drop(listener);
    for way in [
        webhook(&format!("http://{silent}/"), None),
        email(silent, MailTls::None),
        syslog(&silent.to_string(), SyslogTransport::Tcp),
        syslog(&silent.to_string(), SyslogTransport::Udp),
    ] {
        let error = send(&way).await.unwrap_err();
        assert!(matches!(error, SendError::Unreachable { .. }), "{way:?}: {error}");
    }
}

#[tokio::test]
async fn a_letter_holds_what_hosts_chose_and_goes_to_nobody_else() {
    let (address, told) = server(|stream| smtp(stream, "250 ok"));
    send(&email(address, MailTls::None)).await.unwrap();
    let said = told.recv_timeout(PATIENCE).unwrap();
    let rcpt: Vec<&str> = said.lines().filter(|line| line.starts_with("RCPT")).collect();
    assert_eq!(rcpt, ["RCPT TO:<ops@example.com>"], "{said}");
    assert!(!said.lines().any(|line| line.starts_with("Bcc")), "{said}");
    assert_eq!(said.matches("\r\nDATA\r\n").count(), 1, "{said}");
    assert!(said.contains("Auto-Submitted: auto-generated\r\n"), "{said}");

    let (address, _told) = server(|stream| smtp(stream, "550 not \u{1b}[2J here"));
    let error = send(&email(address, MailTls::None)).await.unwrap_err();
    assert!(matches!(error, SendError::Refused { .. }), "{error}");
    assert!(!error.to_string().contains(char::is_control), "{error}");
}

#[tokio::test]
async fn a_letter_that_is_sent_again_has_its_id_and_another_with_its_number_has_not() {
    let (address, told) = server(|stream| smtp(stream, "250 ok"));
    let record = evil().record().clone();
    // As after a crash: the number is given to another event.
    let later = Record { unix_seconds: record.unix_seconds + 60, ..record.clone() };
    let what = Event { text: "another".to_owned(), ..record.what.clone() };
    let other = Record { what, ..record.clone() };
    let mut ids = Vec::new();
    for record in [record.clone(), record, later, other] {
        let way = email(address, MailTls::None);
        sender().send(1, &way, &[Message::first(record)]).await.unwrap();
        let said = told.recv_timeout(PATIENCE).unwrap();
        let id = said.lines().find(|line| line.starts_with("Message-ID: <")).map(str::to_owned);
        ids.push(id.expect("it has one"));
    }
    assert_eq!(ids[0], ids[1]);
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
}

#[tokio::test]
async fn without_the_tls_that_was_asked_for_nothing_is_said() {
    let (address, told) = server(|stream| smtp(stream, "250 ok"));
    let error = send(&email(address, MailTls::Starttls)).await.unwrap_err();
    let said = told.recv_timeout(PATIENCE).unwrap();
    assert!(!said.contains("MAIL FROM"), "{said} {error}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_told_nothing() {
    let (config, pem) = identity();
    let (address, told) = server(move |mut stream| {
        let mut tls = rustls::ServerConnection::new(config.clone()).expect("a configuration");
        let mut text = String::new();
        let mut stream = rustls::Stream::new(&mut tls, &mut stream);
        let _ = stream.read_to_string(&mut text);
        text
    });
    let port = address.port();
    let hook = |roots: Option<String>| {
        let url = format!("https://localhost:{port}/").parse().expect("a URL");
        Way::Webhook(Webhook { url, roots, secret: None, token: None })
    };
    let line = |roots: Option<String>| {
        let server = format!("localhost:{port}").parse().expect("a server");
        Way::Syslog(Syslog { server, transport: SyslogTransport::Tls, roots, audit: false })
    };
    for way in [hook(None), line(None)] {
        let error = send(&way).await.unwrap_err();
        assert!(matches!(error, SendError::Untrusted { .. }), "{error}");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "");
    }
    // The same with somebody who does.
    send(&line(Some(pem))).await.unwrap();
    let said = told.recv_timeout(PATIENCE).unwrap();
    assert!(said.contains("<28>1 2023-11-14T22:13:20Z "), "{said}");
}

#[tokio::test]
async fn a_server_that_answers_without_an_end_is_not_listened_to() {
    let mail = |begin: &'static str| {
        let (address, told) = server(move |stream| endless(stream, begin).to_string());
        (email(address, MailTls::None), told, true)
    };
    let hook = |begin: &'static str, is_refused| {
        let (address, told) = server(move |mut stream| {
            let mut some = [0; 4096];
            let _ = stream.read(&mut some);
            endless(stream, begin).to_string()
        });
        (webhook(&format!("http://{address}/"), None), told, is_refused)
    };
    for (way, told, is_refused) in [
        mail(""),
        mail("220 mx"),
        mail("220-mx\r\n220-"),
        hook("HTTP/1.1 200 ", true),
        hook("HTTP/1.1 200 OK\r\nX: ", true),
        // Who has said that it took it may say more: nobody listens.
        hook("HTTP/1.1 200 OK\r\n\r\n", false),
    ] {
        let begun = Instant::now();
        let outcome = send(&way).await;
        let is_said = matches!(outcome, Err(SendError::Refused { .. }));
        assert_eq!((is_said, outcome.is_ok()), (is_refused, !is_refused), "{way:?}: {outcome:?}");
        let taken: usize = told.recv_timeout(PATIENCE).unwrap().parse().unwrap();
        assert!(taken < UNREAD_BYTES_MAX, "{way:?}: {taken} bytes");
        assert!(begun.elapsed() < Duration::from_secs(4), "it does not wait for its time to end");
    }
}

/// Interim responses (RFC 9110 §15.2): a client goes on to wait for the answer behind each of them.
#[tokio::test]
async fn a_webhook_whose_answer_is_always_still_to_come_is_not_waited_for() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n";
    let (address, told) = server(move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let (many, mut said) = (early.repeat(1000), 0);
        while stream.write_all(many.as_bytes()).is_ok() {
            said += many.len();
        }
        said.to_string()
    });
    let begun = Instant::now();
    let outcome = send(&webhook(&format!("http://{address}/"), None)).await;
    assert!(matches!(outcome, Err(SendError::Refused { .. })), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "it does not wait for its time to end");
    let taken: usize = told.recv_timeout(PATIENCE).unwrap().parse().unwrap();
    assert!(taken < UNREAD_BYTES_MAX, "{taken} bytes");
    // A few of them are as they should be.
    let (address, told) =
        server(move |stream| http(stream, &format!("{}HTTP/1.1 204 No Content", early.repeat(9))));
    send(&webhook(&format!("http://{address}/"), None)).await.unwrap();
    assert!(told.recv_timeout(PATIENCE).is_ok());
}

#[tokio::test]
async fn a_mail_server_over_tls_is_bounded_too_and_one_that_took_a_letter_has_it() {
    let (config, pem) = identity();
    let mail = |address: SocketAddr, tls| {
        let Way::Email(plain) = email(address, tls) else { unreachable!("it is e-mail") };
        let smtp = format!("localhost:{}", address.port()).parse().expect("a server");
        Way::Email(Email { smtp, roots: Some(pem.clone()), ..plain })
    };
    for tls in [MailTls::Tls, MailTls::Starttls] {
        let config = config.clone();
        let (address, told) = server(move |mut stream| {
            if tls == MailTls::Starttls {
                let _ = stream.write_all(b"220 mx ESMTP\r\n");
                let hello = "250-mx\r\n250 STARTTLS";
                dialogue(&mut stream, &[("EHLO", hello), ("STAR", "220 go on")], "STAR");
            }
            let mut tls = rustls::ServerConnection::new(config.clone()).expect("a configuration");
            endless(rustls::Stream::new(&mut tls, &mut stream), "220 mx").to_string()
        });
        let error = send(&mail(address, tls)).await.unwrap_err();
        assert!(matches!(error, SendError::Refused { .. }), "{tls:?}: {error}");
        let taken: usize = told.recv_timeout(PATIENCE).unwrap().parse().unwrap();
        assert!(taken < UNREAD_BYTES_MAX, "{tls:?}: {taken} bytes");
    }
    let (address, told) = server(|mut stream| {
        let _ = stream.write_all(b"220 mx ESMTP\r\n");
        let said = dialogue(&mut stream, &[], "");
        let goodbye = line_of(&mut stream).unwrap_or_default();
        // It says nothing to that, and waits.
        drop(line_of(&mut stream));
        format!("{said}{goodbye}")
    });
    send(&email(address, MailTls::None)).await.unwrap();
    assert!(told.recv_timeout(PATIENCE).unwrap().ends_with("\r\n.\r\nQUIT\r\n"));
}

/// Who is in the way answers before TLS what is asked behind it, and lets the handshake through.
#[tokio::test]
async fn what_is_said_before_tls_answers_nothing_behind_it() {
    let (config, pem) = identity();
    let (address, _told) = server(move |mut stream| {
        let _ = stream.write_all(b"220 mx ESMTP\r\n");
        let hello = ("EHLO", "250-mx\r\n250 STARTTLS");
        let all = "220 go on\r\n250 mx\r\n250 ok\r\n250 ok\r\n354 go on\r\n250 taken";
        dialogue(&mut stream, &[hello, ("STAR", all)], "STAR");
        let mut tls = rustls::ServerConnection::new(config.clone()).expect("a configuration");
        let mut text = String::new();
        let _ = rustls::Stream::new(&mut tls, &mut stream).read_to_string(&mut text);
        text
    });
    let Way::Email(plain) = email(address, MailTls::Starttls) else { unreachable!("it is e-mail") };
    let smtp = format!("localhost:{}", address.port()).parse().expect("a server");
    let error = send(&Way::Email(Email { smtp, roots: Some(pem), ..plain })).await.unwrap_err();
    assert!(matches!(error, SendError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn syslog_is_counted_in_a_stream_and_one_datagram_each() {
    let (address, told) = server(|mut stream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    });
    let two = [evil(), evil()];
    let tcp = syslog(&address.to_string(), SyslogTransport::Tcp);
    sender().send(1, &tcp, &two).await.unwrap();
    let said = told.recv_timeout(PATIENCE).unwrap();
    let (length, rest) = said.split_once(' ').unwrap();
    let length: usize = length.parse().unwrap();
    assert!(
        rest.starts_with("<28>1 ") && rest[length..].starts_with(&format!("{length} <28>1 ")),
        "{said}"
    );

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let udp = syslog(&socket.local_addr().unwrap().to_string(), SyslogTransport::Udp);
    sender().send(1, &udp, &two).await.unwrap();
    for _ in 0..2 {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).unwrap();
        let line = str::from_utf8(&bytes[..count]).unwrap();
        assert!(line.starts_with("<28>1 ") && !line.contains('\n'), "{line}");
    }
}

#[tokio::test]
async fn a_webhook_over_tls_goes_to_who_is_vouched_for_and_to_nobody_else() {
    let (config, pem) = identity();
    let (_, stranger) = identity();
    let (address, told) = server(move |mut stream| {
        let mut tls = rustls::ServerConnection::new(config.clone()).expect("a configuration");
        let mut stream = rustls::Stream::new(&mut tls, &mut stream);
        let (mut text, mut length) = (String::new(), 0);
        while let Some(line) = line_of(&mut stream) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            text.push_str(&line);
            if line == "\r\n" {
                let mut body = vec![0; length];
                stream.read_exact(&mut body).expect("the body comes");
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                break;
            }
        }
        text
    });
    let hook = |host: &str, roots: &str| {
        let url = format!("https://{host}:{}/", address.port()).parse().expect("a URL");
        let token = Some(Secret::new(b"t0ken".to_vec()));
        Way::Webhook(Webhook { url, roots: Some(roots.to_owned()), secret: None, token })
    };
    // Signed by somebody else, and by the right one for another name.
    for way in [hook("localhost", &stranger), hook("127.0.0.1", &pem)] {
        let error = send(&way).await.unwrap_err();
        assert!(matches!(error, SendError::Untrusted { .. }), "{error}");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "", "nothing was said");
    }
    send(&hook("localhost", &pem)).await.unwrap();
    let said = told.recv_timeout(PATIENCE).unwrap();
    assert!(said.to_ascii_lowercase().contains("authorization: bearer t0ken"), "{said}");
}

#[tokio::test]
async fn a_login_at_an_smtp_server_is_said_over_tls_to_who_is_vouched_for_only() {
    let (config, pem) = identity();
    let (_, stranger) = identity();
    // The two words with zero bytes before them (RFC 4616), as lettre sends them.
    let plain = "AUTH PLAIN AHNhbjEAaHVzaC1odXNo\r\n";
    for tls in [MailTls::Tls, MailTls::Starttls] {
        let starts_in_clear = tls == MailTls::Starttls;
        let config = config.clone();
        let at_auth = std::sync::Arc::new(std::sync::Mutex::new("235 welcome"));
        let mood = at_auth.clone();
        let (address, told) = server(move |stream| {
            let at_auth = *mood.lock().expect("no test has failed");
            smtp_over_tls(stream, &config, starts_in_clear, at_auth)
        });
        let mail = |host: &str, roots: &str| {
            let Way::Email(plain) = email(address, tls) else { unreachable!("it is e-mail") };
            Way::Email(Email {
                smtp: format!("{host}:{}", address.port()).parse().expect("a server"),
                roots: Some(roots.to_owned()),
                user: Some("san1".to_owned()),
                password: Some(Secret::new(b"hush-hush".to_vec())),
                ..plain
            })
        };
        for way in [mail("localhost", &stranger), mail("127.0.0.1", &pem)] {
            let error = send(&way).await.unwrap_err();
            assert!(matches!(error, SendError::Untrusted { .. }), "{tls:?}: {error}");
            let said = told.recv_timeout(PATIENCE).unwrap();
            assert!(!said.contains("AUTH") && !said.contains("MAIL"), "{said}");
        }
        send(&mail("localhost", &pem)).await.unwrap();
        let said = told.recv_timeout(PATIENCE).unwrap();
        let (clear, kept) = said.split_once("---\n").unwrap();
        assert!(!clear.contains("AUTH") && !clear.contains("MAIL"), "{said}");
        assert!(kept.contains(plain) && kept.contains("RCPT TO:<ops@example.com>"), "{said}");

        // As some do.
        *at_auth.lock().unwrap() = "535 no: AUTH PLAIN AHNhbjEAaHVzaC1odXNo";
        let error = send(&mail("localhost", &pem)).await.unwrap_err();
        assert!(matches!(error, SendError::Refused { .. }), "{error}");
        assert!(
            error.to_string().ends_with("refuses the user and the password (code 535)"),
            "{error}"
        );
        assert!(!told.recv_timeout(PATIENCE).unwrap().contains("MAIL"), "no letter without login");
    }
}
