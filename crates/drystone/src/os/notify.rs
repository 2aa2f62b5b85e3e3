//! What the service manager is told: `sd_notify(3)`, one datagram to the socket that the environment
//! names. Without such a socket nobody is told and nothing is done.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
    /// The service is ended unless it gives a sign of life this often.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the environment of this process says.
    pub(crate) fn of_process() -> Notifier {
        Notifier::of(|name| env::var(name).ok())
    }

    /// `environment` gives the value of a variable. A socket that cannot be used is logged: the
    /// service itself can do its work.
    fn of(environment: impl Fn(&str) -> Option<String>) -> Notifier {
        let Some(name) = environment("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Notifier::default();
        };
        let manager = || {
            let socket = UnixDatagram::unbound()?;
            // A manager that does not listen holds up nothing.
            socket.set_nonblocking(true)?;
            Ok((socket, address(&name)?))
        };
        let manager: io::Result<_> = manager();
        match manager {
            Ok(manager) => Notifier { manager: Some(manager), watchdog: watchdog(&environment) },
            Err(error) => {
                tracing::warn!("cannot tell the service manager anything at '{name}': {error}");
                Notifier::default()
            }
        }
    }

    /// How often to look for a sign of life, and how long that may take: together less than the time
    /// after which the service is ended.
    pub(crate) fn sign_interval(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 3)
    }

    /// The service can be used; `status` is what `systemctl status` shows.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// What `systemctl status` shows from now on.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// The service is on its way out.
    pub(crate) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
    }

    /// The service is alive.
    pub(crate) fn sign_of_life(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, words: &str) {
        let Some((socket, manager)) = &self.manager else { return };
        if let Err(error) = socket.send_to_addr(words.as_bytes(), manager) {
            tracing::debug!("the service manager was not told: {error}");
        }
    }
}

/// A path, or behind `@` a name of the abstract space.
fn address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor @NAME")),
    }
}

/// The time in WATCHDOG_USEC, unless it is meant for another process.
fn watchdog(environment: &impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let own = std::process::id().to_string();
    if environment("WATCHDOG_PID").is_some_and(|pid| pid != own) {
        return None;
    }
    let us: u64 = environment("WATCHDOG_USEC")?.parse().ok()?;
    (us > 0).then(|| Duration::from_micros(us))
}

/// Each line is one assignment, so that a status must not hold a line end.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notifier(variables: &[(&str, &str)]) -> Notifier {
        Notifier::of(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    #[test]
    fn the_manager_hears_it_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let at_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("drystone-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let at_name = UnixDatagram::bind_addr(&address).unwrap();
        for (socket, named) in
            [(at_path, path.display().to_string()), (at_name, format!("@{name}"))]
        {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let notifier = notifier(&[("NOTIFY_SOCKET", &named)]);
            notifier.ready("2 volumes\nare attached");
            assert_eq!(heard(&socket), "READY=1\nSTATUS=2 volumes are attached");
            notifier.status("a");
            assert_eq!(heard(&socket), "STATUS=a");
            notifier.sign_of_life();
            assert_eq!(heard(&socket), "WATCHDOG=1");
            notifier.stopping("b");
            assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=b");
        }
    }

    #[test]
    fn without_a_manager_nothing_is_told_and_nothing_fails() {
        for name in ["", "no/path"] {
            let nobody = notifier(&[("NOTIFY_SOCKET", name), ("WATCHDOG_USEC", "1000")]);
            nobody.ready("");
            assert_eq!(nobody.sign_interval(), None);
        }
        notifier(&[("NOTIFY_SOCKET", "/nonexistent/notify")]).ready("nobody listens");
    }

    #[test]
    fn signs_of_life_come_in_time_and_only_from_who_is_meant() {
        let own = std::process::id().to_string();
        let at = |pid: &str, us: &str| {
            let socket = ("NOTIFY_SOCKET", "/run/notify");
            notifier(&[socket, ("WATCHDOG_PID", pid), ("WATCHDOG_USEC", us)]).sign_interval()
        };
        assert_eq!(at(&own, "3000000"), Some(Duration::from_secs(1)));
        assert_eq!(at("1", "3000000"), None);
        assert_eq!(at(&own, "0"), None);
        let any = notifier(&[("NOTIFY_SOCKET", "/run/notify"), ("WATCHDOG_USEC", "30")]);
        assert_eq!(any.sign_interval(), Some(Duration::from_micros(10)));
    }
}
