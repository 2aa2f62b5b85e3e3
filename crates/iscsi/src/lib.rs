//! iSCSI PDUs, text negotiation, CHAP, digests and session state machines. Pure: bytes in, bytes and events out.
