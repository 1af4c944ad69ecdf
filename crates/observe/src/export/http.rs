//! The part of HTTP that a scrape needs: one request, one answer, and the connection is closed.
//!
//! Each client has a thread and a deadline, so a slow one holds up no other. The number of threads is bounded; a
//! client beyond it is turned away at once.
//!
//! A web page in a browser on this machine could send requests as well, if the page's name in the DNS resolves to this
//! machine. It cannot choose the Host header, which has that name, and a name that is not this machine's is refused.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// How long a client may take to ask and to take what it has asked for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST_MAX: usize = 8 << 10;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// Clients at a time.
const CLIENTS_MAX: usize = 32;

/// Serves `/metrics` for ever. `names` are further names of this machine.
///
/// # Errors
/// None that ends it.
pub fn serve(
    listener: &TcpListener,
    names: &[String],
    content_type: &str,
    body: impl Fn() -> anyhow::Result<String> + Sync,
) -> anyhow::Result<i32> {
    let clients = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                // No more descriptors, say: a loop without a pause would take a processor.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            if clients.fetch_add(1, AcqRel) >= CLIENTS_MAX {
                clients.fetch_sub(1, AcqRel);
                continue;
            }
            let answer = || {
                // An error with one client must not affect the others.
                let _ = answer(Client::new(stream), names, content_type, &body);
                clients.fetch_sub(1, AcqRel);
            };
            if std::thread::Builder::new().spawn_scoped(scope, answer).is_err() {
                clients.fetch_sub(1, AcqRel);
            }
        }
    })
}

/// A connection with a time to end at.
struct Client {
    stream: TcpStream,
    until: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> Client {
        Client { stream, until: Instant::now() + PATIENCE }
    }

    fn left(&self) -> std::io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Client {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(to)
    }
}

impl Write for Client {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// One request, one answer.
fn answer(
    mut client: Client,
    names: &[String],
    content_type: &str,
    body: impl Fn() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let (mut bytes, mut filled) = ([0; REQUEST_MAX], 0);
    let verdict = loop {
        match client.read(&mut bytes[filled..])? {
            // The end, or a full buffer.
            0 => break Err("400 Bad Request"),
            n => filled += n,
        }
        // Reads up to the empty line: closing with unread input would reset the connection.
        if let Some(verdict) = judge(&bytes[..filled], names) {
            break verdict;
        }
    };
    let (status, body, is_head) = match verdict {
        Ok(is_head) => ("200 OK", body()?, is_head),
        Err(status) => (status, String::new(), false),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if !is_head {
        client.write_all(body.as_bytes())?;
    }
    Ok(())
}

/// Whether the request asks for the figures, with or without their body. The error is the status. `None`: incomplete.
fn judge(request: &[u8], names: &[String]) -> Option<Result<bool, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Err("400 Bad Request")),
    }
    let mut hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Host"));
    // An HTTP/1.0 request may have no Host header; browsers always send one.
    let ours = match (hosts.next(), hosts.next()) {
        (None, _) => parsed.version == Some(0),
        (Some(host), None) => str::from_utf8(host.value).is_ok_and(|host| is_ours(host, names)),
        _ => false,
    };
    let path = parsed.path.map(|path| path.split('?').next().unwrap_or_default());
    Some(match (parsed.method, path) {
        _ if !ours => Err("421 Misdirected Request"),
        (Some(method @ ("GET" | "HEAD")), Some("/metrics" | "/")) => Ok(method == "HEAD"),
        (Some("GET" | "HEAD"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    })
}

/// Whether a name, perhaps with a port, is this machine's: an address of any kind, or a name that no foreign DNS server
/// can have made up.
fn is_ours(host: &str, names: &[String]) -> bool {
    let host = host.trim();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is = |own: &str| own.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok()
        || is("localhost")
        || names.iter().any(|own| is(own))
        || std::fs::read_to_string("/proc/sys/kernel/hostname").is_ok_and(|own| is(own.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(request: &str) -> Option<Result<bool, &'static str>> {
        judge(request.as_bytes(), &["metrics.example.org".to_owned()])
    }

    #[test]
    fn requests_are_judged_when_they_are_whole() {
        assert_eq!(judged("GET /metrics HTTP/1.1\r\nHost: localhost"), None);
        assert_eq!(judged("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(Ok(false)));
        assert_eq!(judged("HEAD / HTTP/1.1\r\nhost: 10.1.2.3:9099\r\n\r\n"), Some(Ok(true)));
        assert_eq!(judged("GET /metrics HTTP/1.0\r\n\r\n"), Some(Ok(false)));
        assert_eq!(judged("GET /metrics?module=a HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(Ok(false)));
        assert_eq!(judged("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(Err("404 Not Found")));
        assert_eq!(judged("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(Err("405 Method Not Allowed")));
        assert_eq!(judged("\0\0"), Some(Err("400 Bad Request")));
    }

    #[test]
    fn a_name_that_leads_here_by_somebodys_dns_is_refused() {
        for (host, ours) in [
            ("localhost:9099", true),
            ("[::1]:9099", true),
            ("Metrics.Example.Org", true),
            ("evil.example.com", false),
            ("localhost.evil.example.com", false),
            ("127.0.0.1.evil.example.com:9099", false),
            ("", false),
        ] {
            let expected = if ours { Ok(false) } else { Err("421 Misdirected Request") };
            assert_eq!(judged(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), Some(expected), "{host}");
        }
        let twice = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n\r\n";
        assert_eq!(judged(twice), Some(Err("421 Misdirected Request")));
        assert_eq!(judged("GET / HTTP/1.1\r\n\r\n"), Some(Err("421 Misdirected Request")), "a browser sends one");
    }

    /// A client that sends nothing and one that sends a byte at a time hold up nobody.
    #[test]
    fn slow_clients_hold_up_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &[], "text/plain", || Ok("figures".to_owned())));
        let slow: Vec<TcpStream> = (0..CLIENTS_MAX - 1).map(|_| TcpStream::connect(address).unwrap()).collect();
        (&slow[0]).write_all(b"GET /met").unwrap();
        let mut quick = TcpStream::connect(address).unwrap();
        quick.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        quick.set_read_timeout(Some(PATIENCE / 2)).unwrap();
        let mut text = String::new();
        quick.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("figures"), "{text}");
    }
}
