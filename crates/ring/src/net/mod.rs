//! TCP and Unix sockets: listeners, streams, receive buffers and batches of output.

mod batch;
mod listener;
mod options;
mod recv_bufs;
mod stream;
#[cfg(test)]
mod tests;

pub use batch::SendBatch;
pub use listener::{Listener, UnixListener};
pub use recv_bufs::RecvBuf;
pub use stream::{Recv, RecvExact, Send, Stream};

pub(crate) use recv_bufs::RecvBufs;
