//! What to do so that hosts can use a volume.

/// Which command lets a host in.
pub(crate) fn let_in_by(volume: &str) -> String {
    format!("'drystone volume access add {volume} --iqn NAME-OF-HOST' lets a host in")
}

/// That all hosts may use volumes, and what to do.
pub(crate) fn for_everybody(volumes: &[&str]) -> String {
    let first = volumes.first().copied().unwrap_or("VOLUME");
    format!(
        "any host that reaches the member may use {}: {} and keeps all others out, or start the member without \
         --open-access",
        volumes.join(", "),
        let_in_by(first)
    )
}

/// That nobody may use volumes, and what to do.
pub(crate) fn for_nobody(volumes: &[&str]) -> String {
    let first = volumes.first().copied().unwrap_or("VOLUME");
    format!("nobody may use {} yet: {}", volumes.join(", "), let_in_by(first))
}

/// What lets hosts write again to a volume that one of them has write-protected.
pub(crate) fn writable_again(volume: &str) -> String {
    format!(
        "'sdparm --clear=SWP DISK' on a host of it ends that; so does 'drystone volume offline {volume}', then 'drystone \
         volume online {volume}', for which its hosts are logged out"
    )
}

/// That a host has write-protected a volume, and what to do.
pub(crate) fn write_protected(volume: &str, host: &str) -> String {
    format!(
        "no host can write to volume {volume}, as {host} has write-protected it (SWP): {}",
        writable_again(volume)
    )
}
