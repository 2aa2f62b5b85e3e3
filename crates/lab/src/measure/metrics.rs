//! CPU time of a target on another machine, from metrics that it tells in the text format of Prometheus.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// What every exporter calls the user and system time of its process.
const NAME: &str = "process_cpu_seconds_total";
/// How long each step of asking may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// More is no answer to a question for metrics.
const BYTES_MAX: u64 = 16 << 20;
const SCHEME: &str = "http://";

/// `http://HOST[:PORT][/PATH]`, where a target tells its metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsUrl {
    /// A name or an address; IPv6 ones in brackets.
    host: String,
    port: u16,
    path: String,
}

/// Why there is no CPU time.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// No such URL.
    #[error("write http://HOST[:PORT][/PATH]; https is not spoken")]
    Form,
    /// The network.
    #[error("cannot ask {url}: {error}")]
    Io {
        /// Who was asked.
        url: MetricsUrl,
        /// What happened.
        error: io::Error,
    },
    /// Another answer.
    #[error("{url} answers '{status}'")]
    Status {
        /// Who was asked.
        url: MetricsUrl,
        /// The first line.
        status: String,
    },
    /// Metrics of somebody else.
    #[error("{0} tells no {NAME}")]
    Missing(MetricsUrl),
}

impl FromStr for MetricsUrl {
    type Err = MetricsError;

    fn from_str(text: &str) -> Result<Self, MetricsError> {
        let rest = text.strip_prefix(SCHEME).ok_or(MetricsError::Form)?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        // The last colon, unless it stands in the brackets of an address.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| MetricsError::Form)?),
            None => (place, 80),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let is_host = !host.is_empty() && (is_bracketed || !host.contains(':'));
        let is_clean = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
        match is_host && is_clean(host) && is_clean(path) {
            true => Ok(Self { host: host.to_owned(), port, path: format!("/{path}") }),
            false => Err(MetricsError::Form),
        }
    }
}

impl fmt::Display for MetricsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}{}", self.host, self.port, self.path)
    }
}

impl MetricsUrl {
    /// User and system time of the target's process since its start. It blocks.
    ///
    /// # Errors
    /// A [`MetricsError`].
    pub fn cpu_time(&self) -> Result<Duration, MetricsError> {
        let answer = self.ask().map_err(|error| MetricsError::Io { url: self.clone(), error })?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Err(MetricsError::Status { url: self.clone(), status: status.to_owned() });
        }
        cpu_time(body).ok_or_else(|| MetricsError::Missing(self.clone()))
    }

    /// An answer of HTTP 1.0 comes in one piece and ends with its connection.
    fn ask(&self) -> io::Result<String> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let address = (host, self.port).to_socket_addrs()?.next();
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        socket.set_write_timeout(Some(ANSWER_MAX))?;
        let Self { host, port, path } = self;
        // In one piece: some answer and close as soon as they have the first line.
        let question =
            format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain\r\n\r\n");
        socket.write_all(question.as_bytes())?;
        let mut answer = String::new();
        socket.take(BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// The metric, summed up over its labels: an exporter may tell of several processes.
fn cpu_time(body: &str) -> Option<Duration> {
    let value = |line: &str| -> Option<f64> {
        let rest = line.strip_prefix(NAME)?;
        // A label may hold blanks; values hold no brace.
        let rest = if rest.starts_with('{') { rest.rsplit_once('}')?.1 } else { rest };
        if !rest.starts_with([' ', '\t']) {
            return None;
        }
        rest.split_whitespace().next()?.parse().ok()
    };
    let values: Vec<f64> = body.lines().filter_map(value).collect();
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| Duration::try_from_secs_f64(sum).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Somebody who gives the same answer to all who ask, and hands back what the last one asked.
    fn server(answer: &'static str) -> (MetricsUrl, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/m", listener.local_addr().unwrap()).parse().unwrap();
        let asked = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") {
                socket.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            socket.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (url, asked)
    }

    #[test]
    fn urls_are_read_and_shown() {
        let shown =
            |text: &str| text.parse::<MetricsUrl>().map(|url| url.to_string()).unwrap_or_default();
        assert_eq!(shown("http://h"), "http://h:80/metrics");
        assert_eq!(shown("http://h:9100/"), "http://h:9100/");
        assert_eq!(shown("http://[fd00::1]:81/a/b?c=d"), "http://[fd00::1]:81/a/b?c=d");
        assert_eq!(shown("http://[fd00::1]"), "http://[fd00::1]:80/metrics");
        for wrong in
            ["https://h", "h:80", "http://", "http://h:x", "http://fd00::1:2:3/", "http://h/a b"]
        {
            assert!(wrong.parse::<MetricsUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_time_of_all_processes_is_found_among_the_rest() {
        let (url, asked) = server(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n# TYPE process_cpu_seconds_total counter\n\
             process_cpu_seconds_total{core=\"a b } c\"} 12.5 1795262400000\n\
             process_cpu_seconds_total 1e-1\n\
             process_cpu_seconds_total_other 99\nprocess_open_fds 7\n",
        );
        assert_eq!(url.cpu_time().unwrap(), Duration::from_millis(12_600));
        assert!(asked.join().unwrap().starts_with("GET /m HTTP/1.0\r\nHost: 127.0.0.1:"));
    }

    #[test]
    fn what_is_no_such_metric_is_said() {
        let (url, _) = server("HTTP/1.1 404 Not Found\r\n\r\n");
        assert!(
            url.cpu_time().unwrap_err().to_string().ends_with("answers 'HTTP/1.1 404 Not Found'")
        );
        let (url, _) = server("HTTP/1.1 200 OK\r\n\r\nup 1\nprocess_cpu_seconds_total -5\n");
        let error = url.cpu_time().unwrap_err();
        assert!(error.to_string().ends_with("tells no process_cpu_seconds_total"), "{error}");
        let gone = "http://127.0.0.1:1".parse::<MetricsUrl>().unwrap().cpu_time().unwrap_err();
        assert!(gone.to_string().starts_with("cannot ask http://127.0.0.1:1/metrics: "), "{gone}");
    }
}
