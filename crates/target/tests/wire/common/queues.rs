//! What lies in the kernel between a host and the target.

use super::Connection;

/// The two ends of a connection.
pub(crate) struct Queues {
    host: String,
    target: String,
}

impl Queues {
    pub(crate) fn of(host: &Connection) -> Self {
        let socket = host.socket();
        let [host, target] = [socket.local_addr().unwrap(), socket.peer_addr().unwrap()]
            .map(|address| format!(":{:04X}", address.port()));
        Self { host, target }
    }

    /// Bytes that wait in the host's end to be sent, and to be read. None once it is gone.
    pub(crate) fn at_host(&self) -> Option<usize> {
        queued(&self.host, &self.target).map(|[send, receive]| send + receive)
    }

    /// The same of the target's end.
    pub(crate) fn at_target(&self) -> Option<usize> {
        queued(&self.target, &self.host).map(|[send, receive]| send + receive)
    }

    /// Those of them that the target has not read.
    pub(crate) fn unread_by_target(&self) -> usize {
        queued(&self.target, &self.host).map_or(0, |[_, receive]| receive)
    }
}

fn queued(local: &str, remote: &str) -> Option<[usize; 2]> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let queues = table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        (fields[1].ends_with(local) && fields[2].ends_with(remote)).then(|| fields[4])
    });
    let (send, receive) = queues?.split_once(':').unwrap();
    let bytes = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
    Some([send, receive].map(bytes))
}
