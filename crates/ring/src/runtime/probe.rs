//! Says in one sentence why io_uring cannot be used here, and what to do about it.

use std::io;

/// Adds the operator's next step to the error of `io_uring_setup`.
pub(crate) fn explain(error: &io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled to 0, and in a \
             container allow the io_uring system calls (Docker: --security-opt seccomp=unconfined)"
        }
        // A filter of system calls may say so as well: that of buildah does.
        Some(libc::ENOSYS) => {
            "this kernel was built without io_uring, which Linux 6.1 or newer has, or a container \
             forbids it (Docker, Podman: --security-opt seccomp=unconfined)"
        }
        Some(libc::EINVAL) => "this kernel's io_uring is too old; Linux 6.1 or newer is needed",
        Some(libc::ENOMEM) => "no memory for the ring: raise the memlock limit (ulimit -l)",
        Some(libc::EMFILE) => "no file descriptor left for the ring: raise the limit (ulimit -n)",
        _ => "io_uring could not be set up",
    };
    io::Error::new(error.kind(), format!("{advice} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_ring_says_what_to_change() {
        let text = explain(&io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(text.contains("kernel.io_uring_disabled") && text.contains("seccomp"), "{text}");
        let text = explain(&io::Error::from_raw_os_error(libc::EINVAL)).to_string();
        assert!(text.contains("6.1"), "{text}");
        let text = explain(&io::Error::from_raw_os_error(libc::ENOSYS)).to_string();
        assert!(text.contains("6.1") && text.contains("seccomp"), "{text}");
        let error = explain(&io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
