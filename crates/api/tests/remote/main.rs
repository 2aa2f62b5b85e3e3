//! The interface over TLS, with a member that does what a test wants.

mod audit;
mod client;
mod conditions;
mod limits;
mod roles;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use api::server::{Ask, Config, Done, Follower, Identity, Notifications, Server, Tls};
use array::api::JobInfo;
use group::accounts::{Account, Logins, PasswordHash, Role, Token, TokenHash};
use member::{
    AccountRequest, AccountShown, Answer, ArrayRequest, ChapRequest, ChapUser, ChapUsers,
    CurrentAddress, CurrentDestinations, CurrentDoor, CurrentRoll, Logs, Request, RequestError,
    TokenRequest, TokenShown,
};
use tempfile::TempDir;

/// The token whose revocation is left without an answer.
const HELD: &str = "held";

/// Another administrator.
const SECOND: &str = "second";

/// What is left without an answer.
type Held = Arc<Mutex<Vec<(Follower, Done)>>>;

/// Who may log in, to be changed by a test; `None` for settings that cannot be read.
#[derive(Clone)]
struct Changing(Arc<Mutex<Option<Logins>>>);

impl Changing {
    fn change(&self, change: impl FnOnce(&mut Logins)) {
        self.0.lock().expect("no test has failed").as_mut().map(change).expect("they can be read");
    }

    fn now(&self) -> Option<Logins> {
        self.0.lock().expect("no test has failed").clone()
    }
}

/// Answers about jobs and figures, follows jobs without an end, leaves the revocation of one token to a test, shows accounts,
/// tokens and a CHAP user, says that changes of those are done, and does nothing else.
struct Fake {
    logins: Changing,
    held: Held,
}

impl Fake {
    fn accounts(&self) -> Vec<AccountShown> {
        let logins = self.logins.now().expect("they can be read");
        let shown = |(name, account): (&String, &Account)| AccountShown {
            name: name.clone(),
            role: account.role,
            disabled: account.disabled,
            created_unix_seconds: account.created_unix_seconds,
            written: logins.accounts_written.get(name).copied().unwrap_or_default(),
        };
        logins.accounts.iter().map(shown).collect()
    }

    fn tokens(&self) -> Vec<TokenShown> {
        let logins = self.logins.now().expect("they can be read");
        let shown = |(name, token): (&String, &Token)| TokenShown {
            name: name.clone(),
            role: token.role,
            created_unix_seconds: token.created_unix_seconds,
            expires_unix_seconds: token.expires_unix_seconds,
            used_unix_seconds: token.used_unix_seconds,
            written: logins.tokens_written.get(name).copied().unwrap_or_default(),
        };
        logins.tokens.iter().map(shown).collect()
    }
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
            Request::Figures => done(Ok(Answer::Figures(Box::default()))),
            Request::Account(AccountRequest::List) => done(Ok(Answer::Accounts(self.accounts()))),
            Request::Account(AccountRequest::Set { .. }) => {
                done(Ok(Answer::Account(self.accounts().remove(0))));
            }
            Request::Token(TokenRequest::List) => done(Ok(Answer::Tokens(self.tokens()))),
            Request::Chap(ChapRequest::List) => {
                let al = ChapUser { user: "al".to_owned(), usable: true, changed: 7 };
                done(Ok(Answer::ChapUsers(ChapUsers { users: vec![al], mutual: None })));
            }
            Request::Account(AccountRequest::Remove { .. })
            | Request::Token(TokenRequest::Revoke { .. } | TokenRequest::Used { .. })
            | Request::Chap(_) => done(Ok(Answer::Done)),
            _ => done(Err(RequestError::NoResult)),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        self.logins.now().map(Arc::new)
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
    let mut add = |name: &str, role: Role, text: &str| {
        let token = Token {
            role,
            hash: TokenHash::of(text),
            created_unix_seconds: 1,
            expires_unix_seconds: None,
            used_unix_seconds: None,
        };
        logins.tokens.insert(name.to_owned(), token);
    };
    Role::ALL.into_iter().for_each(|role| add(role.word(), role, &token(role)));
    add(SECOND, Role::Administrator, SECOND);
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
        let logins = Changing(Arc::new(Mutex::new(Some(self::logins()))));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let fingerprint = identity.fingerprint();
        let logs = Logs::open(dir.path()).expect("threads");
        let config = Config {
            socket: dir.path().join("s"),
            connections_max,
            sentence: ToString::to_string,
            logs: logs.clone(),
            advice: |_| String::new(),
            notifications: Notifications {
                destinations: CurrentDestinations::default(),
                statuses: notify::Statuses::default(),
                sender: notify::Sender::new("0", |_| String::new(), |_| String::new()),
            },
            tls: Ok(Some(Tls { listeners: vec![listener], identity })),
            door: CurrentDoor::default(),
            roll: CurrentRoll::default(),
            group_address: CurrentAddress::default(),
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
