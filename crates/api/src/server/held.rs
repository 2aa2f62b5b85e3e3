//! A stream of events that ends when whoever follows it may not any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use group::accounts::Role;
use hyper::body::Frame;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::app::App;
use super::followers::Following;
use super::login::Login;
use crate::problem::{Code, Problem};

/// How often it is asked.
const PAUSE: Duration = Duration::from_secs(1);

/// The body of an answer, up to the moment at which its login does not suffice any more.
pub(super) struct UntilRevoked {
    body: Body,
    app: Arc<App>,
    login: Login,
    least: Role,
    asks: Interval,
    is_over: bool,
    _place: Following,
}

impl UntilRevoked {
    /// `body`, for as long as `login` has the role `least`; it takes a `place` for so long.
    pub(super) fn body(
        body: Body,
        app: Arc<App>,
        (login, least): (Login, Role),
        place: Following,
    ) -> Body {
        let mut asks = interval(PAUSE);
        asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Body::new(Self { body, app, login, least, asks, is_over: false, _place: place })
    }

    /// Why it may not be followed any more.
    fn end(&self) -> Option<Problem> {
        let logins = match self.app.logins() {
            Ok(logins) => logins,
            Err(problem) => return Some(problem),
        };
        let role = self.login.role(&logins);
        role.is_none_or(|role| role < self.least).then(|| {
            let sentence = format!("{} may not follow this any more: log in again", self.login);
            Problem::new(Code::NotLoggedIn, sentence)
        })
    }

    /// The last event.
    fn word(problem: &Problem) -> Bytes {
        let text = serde_json::to_string(problem).expect("a problem is plain text and numbers");
        format!("event: problem\ndata: {text}\n\n").into()
    }
}

impl HttpBody for UntilRevoked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        while self.asks.poll_tick(cx).is_ready() {
            if let Some(problem) = self.end() {
                self.is_over = true;
                return Poll::Ready(Some(Ok(Frame::data(Self::word(&problem)))));
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
