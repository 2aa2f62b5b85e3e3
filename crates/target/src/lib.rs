//! iSCSI in, BlockDevice out: portals, sessions, task execution.
