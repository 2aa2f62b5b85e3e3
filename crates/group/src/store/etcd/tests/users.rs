//! Clusters that want to know who asks, and clients that want to know who answers.

use std::fs;

use etcd_client::{Client, PermissionType};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use zeroize::Zeroizing;

use super::cluster::Cluster;
use super::*;

/// Somebody who signs, and whom he signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key is made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("it is signed").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate and its key.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key is made");
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("an address");
        let certificate = params.signed_by(&key, &self.issuer).expect("it is signed");
        (certificate.pem(), key.serialize_pem())
    }

    fn identity(&self) -> (Vec<u8>, Zeroizing<Vec<u8>>) {
        let (certificate, key) = self.sign();
        (certificate.into_bytes(), Zeroizing::new(key.into_bytes()))
    }
}

#[test]
fn tls_lets_in_whom_the_cluster_knows_and_believes_whom_the_client_knows() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let dir = tempfile::tempdir().expect("there is room");
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("there is room");
        path.display().to_string()
    };
    let (certificate, key) = ours.sign();
    let arguments = [
        format!("--cert-file={}", file("server.pem", &certificate)),
        format!("--key-file={}", file("server.key", &key)),
        format!("--trusted-ca-file={}", file("ca.pem", &ours.certificate)),
        "--client-cert-auth".into(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let cluster_dir = tempfile::tempdir().expect("there is room");
    let cluster = Cluster::start_in(cluster_dir, 1, "https", &arguments);
    let store = |authority: &Authority, identity| {
        let tls = EtcdTls { authority: authority.certificate.clone().into_bytes(), identity };
        let options = EtcdOptions { tls: Some(tls), ..cluster.options("x/") };
        Etcd::new(options).expect("a thread starts")
    };
    let read = |store: &Etcd| wait(store.range(Selection::prefix("")));
    let known = store(&ours, Some(ours.identity()));
    let begin = Instant::now();
    while let Err(error) = read(&known) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{error}\n{}", cluster.logs());
    }
    let put = Transaction::always(vec![Op::put("a", "1")]);
    wait(known.commit(put)).expect("it is taken");
    let refused = [
        ("a cluster of others", store(&theirs, Some(ours.identity()))),
        ("a client of others", store(&ours, Some(theirs.identity()))),
        ("a client that proves nothing", store(&ours, None)),
    ];
    for (who, store) in refused {
        let said = read(&store).expect_err(who);
        assert!(matches!(said, StoreError::Failed(_)), "{who}: {said}");
    }
    assert!(cluster.dir().exists());
}

/// Makes the cluster ask for users: `root`, and `member` who may use the namespace `ours/`.
async fn ask_for_users(endpoints: Vec<String>) -> Result<(), etcd_client::Error> {
    let mut client = Client::connect(endpoints, None).await?;
    client.user_add("root", "secret-of-root", None).await?;
    client.user_grant_role("root", "root").await?;
    client.role_add("ours").await?;
    let permission = etcd_client::Permission::new(PermissionType::Readwrite, "ours/");
    client.role_grant_permission("ours", permission.with_prefix()).await?;
    client.user_add("member", "secret", None).await?;
    client.user_grant_role("member", "ours").await?;
    client.auth_enable().await?;
    Ok(())
}

#[test]
fn users_of_the_cluster_may_do_what_it_lets_them() {
    let cluster = Cluster::start(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask_for_users(cluster.endpoints())).unwrap();
    let store = |namespace, user: Option<(&str, &str)>| {
        let user = user.map(|(name, word)| (name.to_owned(), Zeroizing::new(word.to_owned())));
        let options = EtcdOptions { user, ..cluster.options(namespace) };
        Etcd::new(options).expect("a thread starts")
    };
    let put = |store: &Etcd| wait(store.commit(Transaction::always(vec![Op::put("a", "1")])));
    let ours = store("ours/", Some(("member", "secret")));
    let revision = put(&ours).expect("it is taken").revision;
    let said = wait(ours.watch(Selection::prefix(""), revision).next()).expect("more");
    assert_eq!(said.expect("it is whole").revision, revision);
    let refused = [
        (store("theirs/", Some(("member", "secret"))), "let this user of etcd"),
        (store("ours/", Some(("member", "wrong"))), "give the user and the password"),
        (store("ours/", None), "asks for a user and a password"),
    ];
    for (store, what_to_do) in refused {
        let said = put(&store).expect_err(what_to_do).to_string();
        assert!(said.contains(what_to_do), "{said}");
    }
}
