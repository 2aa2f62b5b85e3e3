//! A port that is open where it is wanted, for as long as it is.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::connections::has_ended;

/// After how long it is tried again to listen, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Has `answer` answer what is `wanted` until that is another, which `changed` tells, or the end has come. What it is
/// given turns true when it is to close.
pub(super) async fn keep_open<Wanted: PartialEq>(
    wanted: impl Fn() -> Option<Wanted>,
    changed: &Notify,
    mut ending: watch::Receiver<bool>,
    answer: impl AsyncFn(&Wanted, watch::Receiver<bool>),
) {
    loop {
        let current = wanted();
        let (closes, closing) = watch::channel(false);
        let until_closed = async {
            let is_another = async {
                while wanted() == current {
                    changed.notified().await;
                }
            };
            let is_over = tokio::select! {
                () = is_another => false,
                () = has_ended(&mut ending) => true,
            };
            closes.send_replace(true);
            is_over
        };
        let is_over = match &current {
            Some(current) => tokio::join!(until_closed, answer(current, closing)).0,
            None => until_closed.await,
        };
        if is_over {
            return;
        }
    }
}

/// Listens there, as soon as that can be done. Once it is `told` why it cannot yet.
pub(super) async fn listen(address: SocketAddr, told: impl Fn(&io::Error)) -> TcpListener {
    let mut pause = PAUSE_MIN;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if pause == PAUSE_MIN => told(&error),
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
