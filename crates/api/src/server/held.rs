//! A stream of events that ends when whoever follows it may not any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::app::App;
use super::followers::Following;
use crate::problem::Problem;

/// How often it is asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Says why something may not be followed any more, once that is so.
type End = Box<dyn Fn(&App) -> Option<Problem> + Send>;

/// The body of an answer, up to the moment at which whoever follows it may not any more.
pub(super) struct UntilRevoked {
    body: Body,
    app: Arc<App>,
    end: End,
    asks: Interval,
    is_over: bool,
    _place: Following,
}

impl UntilRevoked {
    /// `body`, up to the moment at which `end` says why not any more; it takes a `place` for so long.
    pub(super) fn body(
        body: Body,
        app: Arc<App>,
        end: impl Fn(&App) -> Option<Problem> + Send + 'static,
        place: Following,
    ) -> Body {
        let mut asks = interval(PAUSE);
        asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = Box::new(end);
        Body::new(Self { body, app, end, asks, is_over: false, _place: place })
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
            if let Some(problem) = (self.end)(&self.app) {
                self.is_over = true;
                return Poll::Ready(Some(Ok(Frame::data(Self::word(&problem)))));
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
