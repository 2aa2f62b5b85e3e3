//! An NBD server: fixed newstyle handshake, simple and structured replies.
//!
//! It follows the protocol's own document (`doc/proto.md` of the NBD project). Requests of a
//! connection run at the same time and are answered in the order in which they end; the answers of
//! one turn of the core leave in one send. There is no TLS and no password: the file mode of a Unix
//! socket, or the address, decides who may connect.
//!
//! ```text
//! Input -> Request -> check -> Gate -> perform (Disk) -> Output -> client
//!                                ^----- when it was sent ----+
//! ```

mod connection;
mod gate;
mod handshake;
mod input;
mod output;
mod requests;
mod server;
pub mod wire;

pub use server::{Address, Server};
