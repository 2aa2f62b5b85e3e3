//! Events as JSON to a URL, one request each (RFC 9110).
//!
//! `Drystone-Signature: sha256=` and the HMAC-SHA256 of the body in hexadecimal digits goes along where a secret is
//! set, `Authorization: Bearer` where a token is. The answer has to be 2xx; its body is not read, and redirects are
//! not followed: nothing goes where nobody said that it should. What a server says before its answer (1xx) is bounded
//! with it.

use group::destinations::Webhook;
use group::secrets::Secret;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};

use super::bounded::{Bounded, TooMuch};
use super::{SendError, Sender, connect, has_cause, tls};
use crate::message::Message;

/// What of an answer is kept until its head has ended.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The header of the signature.
const SIGNATURE: &str = "drystone-signature";

/// Sends each message by itself.
pub(super) async fn send(
    sender: &Sender,
    webhook: &Webhook<Secret>,
    messages: &[Message],
) -> Result<(), SendError> {
    let place = webhook.url.place();
    for message in messages {
        let body = (sender.json)(message.record());
        let request = request(sender, webhook, body)?;
        let server = webhook.url.server();
        let stream = connect(server, webhook.url.port(), place).await?;
        if webhook.url.is_https() {
            let stream = tls::shake(stream, server, webhook.roots.as_deref(), place).await?;
            exchange(stream, request, place).await?;
        } else {
            exchange(stream, request, place).await?;
        }
    }
    Ok(())
}

fn request(
    sender: &Sender,
    webhook: &Webhook<Secret>,
    body: String,
) -> Result<Request<Full<Bytes>>, SendError> {
    let unsendable = |error: hyper::http::Error| SendError::Unsendable(error.to_string());
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(webhook.url.path())
        .header(HOST, webhook.url.server().to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .header(USER_AGENT, format!("drystone/{}", sender.version));
    if let Some(secret) = &webhook.secret {
        request = request.header(SIGNATURE, signature(secret, body.as_bytes()));
    }
    if let Some(token) = &webhook.token {
        let value = [b"Bearer ", token.as_bytes()].concat();
        let value = HeaderValue::from_maybe_shared(Bytes::from(value));
        let mut value = value.map_err(|_| SendError::Unsendable("the token is none".to_owned()))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(Full::new(Bytes::from(body))).map_err(unsendable)
}

/// As the header has it.
fn signature(secret: &Secret, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key will do");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// One request and the head of its answer.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
    place: &str,
) -> Result<(), SendError> {
    let failed =
        |error: hyper::Error| match error.is_parse_too_large() || has_cause::<TooMuch>(&error) {
            true => SendError::refused(place, "its answer has no end"),
            false => SendError::unreachable(place, &error),
        };
    let mut builder = hyper::client::conn::http1::Builder::new();
    let shaken =
        builder.max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(Bounded::new(stream))).await;
    let (mut client, connection) = shaken.map_err(failed)?;
    let answered = async {
        let answer = client.send_request(request).await.map_err(failed)?;
        let status = answer.status();
        // Whatever else it says: the connection ends here.
        drop(answer.into_body().boxed());
        if status.is_success() {
            return Ok(());
        }
        let more = if status.is_redirection() { ", and redirects are not followed" } else { "" };
        Err(SendError::refused(place, &format!("it answered {status}{more}")))
    };
    tokio::pin!(connection, answered);
    tokio::select! {
        biased;
        answered = &mut answered => return answered,
        _ = &mut connection => {}
    }
    // It has ended, with an answer before that or without one.
    answered.await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231 §4.3.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = Secret::new(b"Jefe".to_vec());
        let signed = signature(&secret, b"what do ya want for nothing?");
        let known = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signed, known);
    }
}
