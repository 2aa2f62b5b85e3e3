//! The thread-per-core io_uring engine: sockets, disks, timers, aligned buffers, messages between cores.
