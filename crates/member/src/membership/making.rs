//! A group is made, joined and left.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::{Duration, Instant};

use group::cluster::{self, Begin};
use group::membership::{
    Applicant, GroupId, GroupIdError, MembershipError, PORTS, check_name, check_place,
};
use group::ownership::MemberId;
use group::pki::Authority;
use ring::wait::both;

use super::files::{Keys, MembershipFile, SettingsMark};
use super::joined::Joined;
use super::{GroupError, InGroup, Standing, address, seats, unix_seconds};
use crate::events::Kind;
use crate::group_request::Admission;
use crate::mutants::{self, Mutant};

/// How long the store of a new group may take to answer first.
const BEGIN_TIME: Duration = Duration::from_secs(30);

/// How long the ports of a group that was left may take to be closed.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Between two looks whether it does.
const BEGIN_PAUSE: Duration = Duration::from_millis(200);

/// How long who has made or joined a group waits for what it can be shown of it.
const SHOW_TIME: Duration = Duration::from_secs(10);

/// How long a member that could not join may take to be taken back.
const TAKE_BACK_TIME: Duration = Duration::from_secs(15);

/// The name of this host.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The number of the member that makes a group.
const FIRST: MemberId = MemberId(1);

impl InGroup {
    /// What this member is, for a group that it is to make or to join.
    ///
    /// # Errors
    /// It is in one, or cannot be reached there.
    pub(super) async fn applicant(
        &self,
        member: Option<String>,
        listen: SocketAddr,
    ) -> Result<Applicant, GroupError> {
        self.is_free()?;
        let name = match member {
            Some(name) => name,
            None => ring::blocking(host_name).await.map_err(GroupError::HostName)?,
        };
        check_name(&name)?;
        check_place(listen.ip(), listen.port())?;
        let listen = SocketAddr::new(listen.ip().to_canonical(), listen.port());
        check_ports(listen).await?;
        Ok(Applicant {
            name,
            address: listen.ip(),
            port: listen.port(),
            certificate_sha256: String::new(),
            array: self.array.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock_unix_seconds: unix_seconds(),
        })
    }

    /// That the member is in no group, and can be in one.
    fn is_free(&self) -> Result<(), GroupError> {
        if self.is_ending.get() {
            return Err(GroupError::Stopping);
        }
        match &*self.standing.borrow() {
            Standing::Alone => Ok(()),
            Standing::Broken(why) => Err(GroupError::Broken(why.clone())),
            Standing::In(joined) => Err(GroupError::AlreadyIn(joined.group_name())),
        }
    }

    /// Makes a group whose first member this one is.
    ///
    /// # Errors
    /// Why there is none. Nothing is left of it then.
    pub(super) async fn create(
        self: &Rc<Self>,
        name: &str,
        member: Option<String>,
        listen: SocketAddr,
    ) -> Result<(), GroupError> {
        let _turn = self.turn.take().await;
        check_name(name)?;
        let mut founder = self.applicant(member, listen).await?;
        let id = GroupId::draw()?;
        let authority = Authority::make(&id)?;
        let issued = authority.issue(&founder.name, founder.address)?;
        founder.certificate_sha256 = issued.sha256;
        let keys = Keys {
            authority: authority.certificate_pem().to_owned(),
            authority_key: authority.key_pem().clone(),
            certificate: issued.certificate_pem,
            key: issued.key_pem,
        };
        let file = MembershipFile {
            version: MembershipFile::VERSION,
            group: id,
            group_name: name.to_owned(),
            member: FIRST,
            name: founder.name.clone(),
            address: founder.address,
            port: founder.port,
            endpoints: vec![cluster::client_url(founder.address, founder.port + 1)],
            further_endpoints: Vec::new(),
            has_seat: true,
            is_ending: false,
            settings: SettingsMark::Own,
            group_address: None,
            limits: None,
        };
        let joined = Rc::new(Joined::new(&self.dir, file, keys, self.announcer.clone())?);
        if self.is_ending.get() {
            return Err(GroupError::Stopping);
        }
        // The end of the member finds what is begun from here on.
        self.making.replace(Some(joined.clone()));
        let founded = self.found(&joined, founder).await;
        if founded.is_err() {
            self.undo(&joined).await;
        }
        self.making.replace(None);
        founded?;
        self.attend(&joined);
        self.tell(Kind::GroupCreated, format!("this member has made the group '{name}'"));
        until_shown(&joined).await;
        Ok(())
    }

    /// Begins the store of a group, and the group in it.
    async fn found(&self, joined: &Rc<Joined>, founder: Applicant) -> Result<(), GroupError> {
        let (dir, keys) = (self.dir.clone(), joined.keys().clone());
        ring::blocking(move || dir.begin(&keys)).await?;
        let file = joined.file().clone();
        joined.part().start(&file, Begin::New).await?;
        let (name, id) = (file.group_name.clone(), file.group.clone());
        let founding = async {
            until_answered(joined).await?;
            let founded = joined.membership().found(&name, id, founder, unix_seconds()).await;
            founded.map_err(GroupError::from)
        };
        // Nothing answers any more when the member has ended.
        let number = joined.or_end(founding).await.unwrap_or(Err(GroupError::Stopping))?;
        if number != file.member {
            return Err(MembershipError::Unsound(format!("its first member is {number}")).into());
        }
        let dir = self.dir.clone();
        ring::blocking(move || dir.write(&file)).await
    }

    /// Nothing is left of a group that was not made, or not joined.
    async fn undo(&self, joined: &Rc<Joined>) {
        joined.part().end().await;
        if let Err(error) = joined.delete_files().await {
            tracing::warn!("something is left of a group that this member is not in: {error}");
        }
    }

    /// Joins the group that has let this member in.
    ///
    /// # Errors
    /// Why it is not in it. Nothing is left of it here then, and nothing there if it can be helped.
    pub(super) async fn join(
        self: &Rc<Self>,
        applicant: Applicant,
        admission: Admission,
        settings: SettingsMark,
    ) -> Result<(), GroupError> {
        let _turn = self.turn.take().await;
        let joined = match self.admitted(&applicant, admission, settings) {
            Ok(joined) => joined,
            Err(refusal) => return Err(not_askable(&applicant, refusal)),
        };
        if let Err(refusal) = self.can_join(&applicant) {
            // Asked to join twice, it stays.
            let is_in = self.in_one().is_some_and(|now| now.is_same(&joined));
            return Err(if is_in { refusal } else { take_back(&joined, refusal).await });
        }
        if let Err(refusal) = self.keep(&joined).await {
            self.undo(&joined).await;
            return Err(take_back(&joined, refusal).await);
        }
        self.attend(&joined);
        let text = format!("this member has joined the group '{}'", joined.group_name());
        self.tell(Kind::GroupJoined, text);
        until_shown(&joined).await;
        Ok(())
    }

    /// The group of an admission. Nothing of it is kept or begun yet.
    fn admitted(
        &self,
        applicant: &Applicant,
        admission: Admission,
        settings: SettingsMark,
    ) -> Result<Rc<Joined>, GroupError> {
        let (file, keys) = kept_of(applicant, admission, settings)?;
        let joined = Joined::new(&self.dir, file, keys, self.announcer.clone());
        Ok(Rc::new(joined.map_err(|error| GroupError::Admission(error.to_string()))?))
    }

    fn can_join(&self, applicant: &Applicant) -> Result<(), GroupError> {
        self.is_free()?;
        if applicant.array != self.array {
            return Err(GroupError::Admission("it is for another array".to_owned()));
        }
        Ok(())
    }

    async fn keep(&self, joined: &Joined) -> Result<(), GroupError> {
        let (dir, keys, file) = (self.dir.clone(), joined.keys().clone(), joined.file().clone());
        ring::blocking(move || {
            dir.begin(&keys)?;
            dir.write(&file)
        })
        .await
    }

    /// Ends the group, whose last member this one is.
    ///
    /// # Errors
    /// It is not the last, or the store does not answer.
    pub(super) async fn delete(&self) -> Result<(), GroupError> {
        let _turn = self.turn.take().await;
        let joined = self.joined()?;
        let name = joined.file().name.clone();
        seats::until_no_moves(&joined, &name).await?;
        // So the next start knows what an empty store means, whenever this one ends.
        joined.change_file(|file| file.is_ending = true).await?;
        if let Err(error) = joined.membership().delete().await {
            // After the store has failed nobody knows whether it was done: the next look at it tells.
            let is_known =
                !matches!(error, MembershipError::Unknown(_) | MembershipError::Store(_));
            if is_known {
                joined.change_file(|file| file.is_ending = false).await?;
            }
            return Err(error.into());
        }
        self.leave(&joined, Departure::Deleted).await;
        Ok(())
    }

    /// Leaves a group that the member is not in any more, by the word of its store. Who calls it has the turn.
    pub(super) async fn leave(&self, joined: &Rc<Joined>, departure: Departure) {
        joined.begin_to_leave();
        joined.stop_tasks();
        self.sharing.end();
        self.naming.forget();
        self.of_group.door.replace(None);
        // Before the address is taken away, which may take a while.
        if !mutants::is(Mutant::AnswerLeaving) {
            self.note_answering();
        }
        let farewell = both(address::end(joined), joined.disappear());
        ring::timeout(super::FAREWELL_TIME, farewell).await;
        joined.part().end().await;
        let name = joined.group_name();
        let standing = match joined.delete_files().await {
            Ok(()) => Standing::Alone,
            Err(error) => {
                let text = format!(
                    "this member is not in the group '{name}' any more, and {error}: delete the directory '{}', and \
                     start the member again",
                    self.dir.path().display()
                );
                self.tell(Kind::GroupDamaged, &text);
                Standing::Broken(text)
            }
        };
        self.standing.replace(standing);
        self.note_answering();
        self.heard.ring();
        let (kind, text) = match departure {
            Departure::Deleted => {
                (Kind::GroupLeft, format!("the group '{name}' has ended: this member is in none"))
            }
            Departure::Removed => {
                let text = format!(
                    "this member was removed from the group '{name}': it keeps its array and serves its volumes"
                );
                (Kind::MemberRemoved, text)
            }
        };
        self.tell(kind, text);
    }
}

/// Why a member is not in its group any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// The group has ended.
    Deleted,
    /// Somebody has removed the member.
    Removed,
}

/// Waits for what can be shown of a group that was made or joined.
async fn until_shown(joined: &Joined) {
    ring::timeout(SHOW_TIME, joined.or_end(joined.until_reached())).await;
}

/// Waits until the store of a new group answers.
async fn until_answered(joined: &Joined) -> Result<(), GroupError> {
    let begun = Instant::now();
    let mut why = "etcd does not answer".to_owned();
    while let Some(left) = BEGIN_TIME.checked_sub(begun.elapsed()) {
        match ring::timeout(left, joined.membership().read()).await {
            Some(Ok(_)) => return Ok(()),
            Some(Err(MembershipError::Store(error))) => why = error.to_string(),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        if let Some(fault) = joined.part().state().and_then(|state| state.fault()) {
            why = fault;
        }
        ring::sleep(BEGIN_PAUSE).await;
    }
    Err(GroupError::StoreSilent { seconds: BEGIN_TIME.as_secs(), why })
}

/// What a member keeps of its admission.
fn kept_of(
    applicant: &Applicant,
    admission: Admission,
    settings: SettingsMark,
) -> Result<(MembershipFile, Keys), GroupError> {
    let Admission { group, group_name, member, authority, .. } = admission;
    let Admission { authority_key, certificate, key, .. } = admission;
    let Admission { endpoints, further_endpoints, .. } = admission;
    let not_one = |error: GroupIdError| GroupError::Admission(error.to_string());
    let group: GroupId = group.parse().map_err(not_one)?;
    if endpoints.is_empty() {
        return Err(GroupError::Admission("it does not say where the store is".to_owned()));
    }
    let file = MembershipFile {
        version: MembershipFile::VERSION,
        group,
        group_name,
        member,
        name: applicant.name.clone(),
        address: applicant.address,
        port: applicant.port,
        endpoints,
        further_endpoints,
        has_seat: false,
        is_ending: false,
        settings,
        group_address: None,
        limits: None,
    };
    let keys = Keys { authority, authority_key: authority_key.0, certificate, key: key.0 };
    Ok((file, keys))
}

/// Has the group forget a member that could not join it after all.
async fn take_back(joined: &Joined, refusal: GroupError) -> GroupError {
    let (member, name) = (joined.me(), joined.file().name.clone());
    let membership = joined.membership();
    let removing = async {
        // The name may be that of another one by now.
        match membership.read().await?.members.get(&member) {
            Some(record) => membership.remove(&record.name).await.map(drop),
            None => Ok(()),
        }
    };
    let source = match ring::timeout(TAKE_BACK_TIME, removing).await {
        Some(Ok(())) => return refusal,
        Some(Err(error)) => GroupError::from(error),
        None => GroupError::NotReached("it does not answer".to_owned()),
    };
    GroupError::NotTakenBack { refusal: Box::new(refusal), member: name, source: Box::new(source) }
}

/// With what the group has answered it cannot even be asked to forget the member.
fn not_askable(applicant: &Applicant, refusal: GroupError) -> GroupError {
    let why = "it cannot be asked with what it gave this server".to_owned();
    let source = Box::new(GroupError::NotReached(why));
    let (refusal, member) = (Box::new(refusal), applicant.name.clone());
    GroupError::NotTakenBack { refusal, member, source }
}

fn host_name() -> std::io::Result<String> {
    Ok(fs::read_to_string(HOST_NAME)?.trim().to_owned())
}

/// Refuses ports that cannot be listened at, but for a moment in which those of the group that this member has left are
/// being closed.
async fn check_ports(listen: SocketAddr) -> Result<(), GroupError> {
    let begun = Instant::now();
    loop {
        let tried = ring::blocking(move || try_ports(listen)).await;
        let is_used = matches!(&tried, Err(GroupError::Listen { source, .. })
            if source.kind() == ErrorKind::AddrInUse);
        if !is_used || begun.elapsed() >= CLOSE_TIME {
            return tried;
        }
        ring::sleep(BEGIN_PAUSE).await;
    }
}

/// Refuses an address that is none of this host, and ports that are in use, before anything relies on them.
fn try_ports(listen: SocketAddr) -> Result<(), GroupError> {
    for behind in 0..PORTS {
        let address = SocketAddr::new(listen.ip(), listen.port() + behind);
        TcpListener::bind(address).map_err(|source| GroupError::Listen { address, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_in_use_and_addresses_of_others_are_refused_by_name() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let door = SocketAddr::new(address.ip(), address.port() - 2);
        let refused = try_ports(door).unwrap_err().to_string();
        // Another port of them may be in use on a busy host; none of them is named that is free.
        assert!(refused.starts_with("cannot listen on 127.0.0.1:"), "{refused}");
        // TEST-NET-1 (RFC 5737) is no address of any host.
        let far = try_ports("192.0.2.1:3262".parse().unwrap()).unwrap_err().to_string();
        assert!(far.starts_with("cannot listen on 192.0.2.1:3262, which other"), "{far}");
    }

    #[test]
    fn the_host_has_a_name() {
        assert!(!host_name().unwrap().is_empty());
    }
}
