//! The BlockDevice trait where all layers meet; RAM, null, file and disk devices.
