//! TCP and Unix sockets: listeners and streams.

mod listener;
mod options;
mod stream;
#[cfg(test)]
mod tests;

pub use listener::{Listener, UnixListener};
pub use stream::{Recv, RecvExact, Send, Stream};
