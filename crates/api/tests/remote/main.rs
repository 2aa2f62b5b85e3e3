//! The interface over TLS, with a member that does what a test wants.

mod audit;
mod client;
mod limits;
mod roles;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use api::server::{Ask, Config, Done, Follower, Identity, Server, Tls};
use array::api::JobInfo;
use group::accounts::{Account, Logins, PasswordHash, Role, Token, TokenHash};
use member::{Answer, ArrayRequest, Logs, Request, RequestError, TokenRequest};
use tempfile::TempDir;

/// The token whose revocation is left without an answer.
const HELD: &str = "held";

/// What is left without an answer.
type Held = Arc<Mutex<Vec<(Follower, Done)>>>;

/// Who may log in, to be changed by a test.
#[derive(Clone, Default)]
struct Changing(Arc<Mutex<Logins>>);

impl Changing {
    fn change(&self, change: impl FnOnce(&mut Logins)) {
        change(&mut self.0.lock().expect("no test has failed"));
    }
}

/// Answers about jobs, follows them without an end, leaves the revocation of one token to a test, and does nothing else.
struct Fake {
    logins: Changing,
    held: Held,
}

impl Ask for Fake {
    fn ask(&self, request: Request, follower: Follower, done: Done) {
        match request {
            Request::Array(ArrayRequest::Jobs) => {
                let (kind, subject) = (array::api::JobKind::Scrub, "all".to_owned());
                let job = JobInfo { kind, subject, done_bytes: 1, total_bytes: 3, rate_bytes: 0 };
                done(Ok(Answer::Jobs(vec![job])));
            }
            Request::Token(TokenRequest::Revoke { ref name }) if name == HELD => {
                self.held.lock().expect("no test has failed").push((follower, done));
            }
            Request::Watch { .. } => {
                self.held.lock().expect("no test has failed").push((follower, done));
            }
            _ => done(Err(RequestError::NoResult)),
        }
    }

    fn logins(&self) -> Arc<Logins> {
        Arc::new(self.logins.0.lock().expect("no test has failed").clone())
    }
}

/// What a token of a role is.
fn token(role: Role) -> String {
    format!("drystone_{role}")
}

const PASSWORD: &str = "correct horse battery";

/// One token of each role, and the account `ada`, which is an operator.
fn logins() -> Logins {
    let mut logins = Logins::default();
    for role in Role::ALL {
        let token = Token {
            role,
            hash: TokenHash::of(&token(role)),
            created_unix_seconds: 1,
            expires_unix_seconds: None,
            used_unix_seconds: None,
        };
        logins.tokens.insert(role.to_string(), token);
    }
    let password = PasswordHash::of(PASSWORD).expect("it is hashed");
    let (role, disabled) = (Role::Operator, false);
    let ada = Account { role, password, disabled, created_unix_seconds: 1 };
    logins.accounts.insert("ada".to_owned(), ada);
    logins
}

/// A server with a socket and a TLS door on loopback.
struct Served {
    dir: TempDir,
    server: Server,
    logins: Changing,
    logs: Logs,
    held: Held,
    address: SocketAddr,
    fingerprint: String,
}

impl Served {
    fn begin() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_make(dir.path(), &[]).expect("a certificate");
        Self::with(dir, identity, 32)
    }

    fn with(dir: TempDir, identity: Identity, connections_max: usize) -> Self {
        let logins = Changing::default();
        logins.change(|all| *all = self::logins());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let fingerprint = identity.fingerprint().to_owned();
        let logs = Logs::open(dir.path()).expect("threads");
        let config = Config {
            socket: dir.path().join("s"),
            connections_max,
            sentence: ToString::to_string,
            logs: logs.clone(),
            advice: |_| String::new(),
            tls: Some(Tls { listeners: vec![listener], identity }),
        };
        let held = Held::default();
        let fake = Fake { logins: logins.clone(), held: held.clone() };
        let server = Server::start(config, fake).expect("it can be started");
        Self { dir, server, logins, logs, held, address, fingerprint }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
}
