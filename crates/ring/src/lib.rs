//! The thread-per-core io_uring engine: sockets, disks, timers, aligned buffers, messages between
//! cores.
//!
//! [`launch`] starts one thread per core, each with a ring and an executor of its own; [`block_on`]
//! does the same on the calling thread. Inside, tasks ([`spawn`]) use [`Listener`] and [`Stream`],
//! [`File`], [`sleep`]; they stay on their core from start to end. [`Remote::run`] reaches a core
//! from any thread.
//!
//! [`wait`] holds what tasks wait for.
//!
//! [`UblkControl`] and [`UblkQueue`] make block devices of the kernel that a core serves.
//!
//! Memory for I/O is taken from the core's pool ([`Buf`]) or shared by all cores ([`Region`], and
//! buffers of a [`SharedPool`]) and passed on by reference as [`Data`]. What the kernel works on is
//! owned by the core until the kernel is done with it, so that every future may be dropped at any
//! time.
// This room may use `unsafe`, as it talks to the kernel. Every block says why it is sound.
#![allow(unsafe_code)]

mod file;
mod mem;
mod net;
mod runtime;
pub mod testing;
mod ublk;
pub mod wait;

pub use file::{
    BlockLimits, BufIo, DataIo, FallocateMode, File, OpenOptions, UnitIo, blocking, remove_file,
    replace_file, sync_parent,
};
pub use mem::{
    Buf, Data, PAGE_BYTES, PoolUsage, Region, SharedBuf, SharedData, SharedPool, keep_pool_reserve,
    limit_arenas, pool_reserve, pool_usage, refuse_one_in, set_pool_budget, with_reserve,
};
pub use net::{Listener, Recv, RecvExact, Send, Stream, UnixListener};
pub use runtime::{
    CoreConfig, CoreId, CorePanic, Cores, RecvBuf, Remote, SendBatch, Sleep, SpinPolicy, TurnEnd,
    block_on, core_id, launch, now, remote, set_spin, sleep, sleep_until, spawn, timeout, turn_end,
};
pub use ublk::{UBLK_CONTROL, UBLK_DESCRIPTOR_BYTES, UblkControl, UblkQueue, write_back};
pub use wait::{OneshotReceiver, OneshotSender, oneshot};
