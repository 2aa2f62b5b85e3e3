//! Members that are one group: real `drystone up` processes, each on an address of the loopback of its own, with the
//! etcd that they run themselves.

mod as_one;
#[path = "../common/mod.rs"]
mod common;
#[path = "../crash/host.rs"]
#[allow(dead_code, reason = "the crash tests use more of it")]
mod host;
mod joining;
mod leaving;
mod losses;
mod redirects;
mod settings;
mod sites;
mod strangers;
mod tickets;
mod together;
