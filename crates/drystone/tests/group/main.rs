//! Members that are one group: real `drystone up` processes, each on an address of the loopback of its own, with the
//! etcd that they run themselves.

mod address;
mod as_one;
mod busy;
#[path = "../common/mod.rs"]
mod common;
mod cut_off;
#[path = "../crash/host.rs"]
#[allow(dead_code, reason = "the crash tests use more of it")]
mod host;
mod joining;
mod leaving;
#[path = "../crash/ledger.rs"]
mod ledger;
#[path = "../crash/load.rs"]
#[allow(dead_code, reason = "the crash tests use more of it")]
mod load;
mod losses;
mod managing;
mod meanwhile;
mod moving;
mod namespaces;
mod redirects;
mod refusing;
mod removed;
mod sets;
mod settings;
mod settling;
mod sites;
mod spread;
mod strangers;
mod tickets;
mod together;
