//! What a group is set to: the configuration store, who may use which volume, and the secrets of hosts.
//!
//! [`store`] keeps settings with the semantics of etcd: one number for each change of the whole
//! (the revision), transactions that compare before they change, watches that miss nothing, leases.
//! A group of one keeps them in its own embedded database ([`store::Embedded`]), which lives on any
//! device of bytes ([`bytes::Bytes`]); members of a group share those in an etcd cluster ([`store::Etcd`]). [`access`] says what access records mean, and [`secrets`]
//! encrypts what must not be read by whoever reads the store. [`accounts`] says who manages the group from
//! afar, [`schedules`] when snapshots are taken by themselves, and [`destinations`] where events go on to. [`settings`] keeps all of them in a
//! store, and [`record`] says how settings lie in it. [`words`] says numbers in sentences.
//!
//! [`membership`] says who is in a group of several members, and what lets further ones join; [`pki`] issues the
//! certificates by which they know each other, and [`cluster`] runs the etcd that they share. [`handover`] has the rules
//! by which a volume passes from one of them to another, [`sets`] those by which snapshots of several of them are of one
//! moment or not at all, [`address`] those by which one of them has the address of all,
//! [`connections`] those by which they let hosts in, [`spread`] those of volumes that lie on several of them, and
//! [`ownership`] those by which they will share volumes.
//!
//! This room knows no disk, no PDU and, but for the one that speaks to etcd, no thread: whoever uses it brings the
//! device and the clock.

pub mod access;
pub mod accounts;
pub mod address;
pub mod bytes;
pub mod calendar;
pub mod cluster;
pub mod connections;
pub mod destinations;
pub mod handover;
pub mod membership;
mod mutants;
pub mod ownership;
pub mod pki;
pub mod record;
pub mod regular;
pub mod schedules;
pub mod secrets;
pub mod sets;
pub mod settings;
pub mod spread;
pub mod store;
pub mod words;
