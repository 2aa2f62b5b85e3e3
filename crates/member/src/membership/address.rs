//! The address of the group, where this member has it: it takes the key, puts the address on an interface, keeps both
//! for as long as it can, and gives them up in the other order.
//!
//! ```text
//!          nobody has written the key for a while, its turn has come, its host can have the address, it listens there
//!   Without ─────────────────────────────────────────────────────────────────────────────▶ Held
//!      ▲                                                                                     │
//!      ├── another one has taken the key: taken away, if the kernel has not done so already ─┤
//!      ├── its host cannot have it any more: taken away, then the key is given up ───────────┤
//!      ╰── the group has none, the member leaves or ends: the same ──────────────────────────╯
//! ```
//!
//! For how long the address may be there [`Holding`] says, and the kernel keeps to that whatever becomes of this member.
//! One call of the kernel is under way at a time, and the key is written meanwhile: where the kernel hangs, the address is
//! there for as long as it does, and must be nobody else's.

use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use group::address::{GroupAddress, Holding, RENEWAL};
use group::membership::{AddressHold, MembershipError};

use super::joined::Joined;
use super::trouble::Trouble;
use super::{GroupError, InGroup};
use crate::events::Kind;
use crate::network::{self, NetworkError, Placed, Placing, Standing, boot_time};

/// How long a member leaves an address to others that its host does not take.
const UNABLE_TIME: Duration = Duration::from_secs(30);

/// The same, where none of its interfaces is in that network now: a link comes back at any moment.
const NO_INTERFACE_TIME: Duration = Duration::from_secs(2);

/// Between two looks while there is nothing to do: changes of the group are heard of before.
const REST: Duration = Duration::from_secs(30);

/// How long who was too late waits for what others have written.
const AGAIN_PAUSE: Duration = Duration::from_secs(1);

/// Between two looks at whether the kernel has done what it was asked for before.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// How long the store may take to write the key, and how long one part of it.
const KEEP_TIME: Duration = Duration::from_secs(6);
const KEEP_ATTEMPT: Duration = Duration::from_secs(1);

const SILENT: &str =
    "etcd does not write which member has the address: see that its members run and can be reached";

/// How often neighbours are told that the address is here: what they are told may be lost.
const ANNOUNCEMENTS: u32 = 4;

impl InGroup {
    /// The address at which hosts are to be heard: that of the group, as far as that is known, or the one that this member
    /// has put on an interface, until it is off.
    pub(crate) fn group_address(&self) -> Option<GroupAddress> {
        let joined = self.in_one()?;
        let known = || match joined.with_roll(|roll| roll.address) {
            _ if joined.is_leaving() => None,
            Some(address) => address,
            None => joined.file().group_address,
        };
        joined.floating().there().or_else(known)
    }

    /// The same, for who hears hosts there from now on.
    pub(crate) fn float_at(&self) -> Option<GroupAddress> {
        let address = self.group_address();
        self.floated.set(address);
        self.note_answering();
        address
    }

    /// Whether this is an address that the group has and not this host, although it may be there now.
    pub(crate) fn is_of_group(&self, ip: IpAddr) -> bool {
        let of_roll = |joined: &Joined| joined.with_roll(|roll| roll.address).flatten();
        self.in_one().is_some_and(|joined| {
            let is_group = of_roll(&joined).is_some_and(|address| address.ip() == ip);
            is_group || joined.floating().is_on(ip)
        })
    }

    /// Hosts that come to this address are heard here from now on, and to no other one; or none is, and why.
    pub(crate) fn note_floating(&self, heard_at: Result<Option<GroupAddress>, String>) {
        let Some(joined) = self.in_one() else { return };
        let (address, fault) = match heard_at {
            Ok(address) => (address, None),
            Err(why) => (None, Some(why)),
        };
        let before = joined.floating().listen_fault.replace(fault.clone());
        if joined.floating().set_ready(address) || before != fault {
            joined.note_change();
        }
        if let Some(why) = fault
            && before.as_ref() != Some(&why)
        {
            self.tell_fault(&joined, &why);
        }
    }

    /// The group has this address from now on, or none.
    ///
    /// # Errors
    /// It cannot be one, or the store does not answer.
    pub(super) async fn set_address(
        &self,
        address: Option<GroupAddress>,
    ) -> Result<(), GroupError> {
        let joined = self.joined()?;
        let name = joined.file().name.clone();
        let is_here = match address {
            // This host, or another member on it, may have it: as the address of the group.
            Some(address) if self.is_of_group(address.ip()) => true,
            Some(address) => is_beside(address, &name).await?,
            None => false,
        };
        joined.membership().set_address(address, is_here).await?;
        self.refresh(&joined).await;
        Ok(())
    }

    fn tell_fault(&self, joined: &Joined, why: &str) {
        let name = joined.group_name();
        let text = format!("the address of the group '{name}' is of no use at this member: {why}");
        self.tell(Kind::GroupAddressFault, text);
    }

    /// Notes that the address is not on an interface any more, and tells of it if it was.
    fn is_off(&self, joined: &Joined, why: &str) {
        joined.floating().coming.set(None);
        if let Some(address) = joined.floating().on.take() {
            // Before another member may have it.
            self.note_answering();
            let name = joined.group_name();
            let text =
                format!("the address {address} of the group '{name}' has left this member: {why}");
            self.tell(Kind::GroupAddressLeft, text);
            // Where hosts are heard may change now.
            self.heard.ring();
        }
    }
}

/// Refuses an address for a group that is to be made by the member that is to be reached at `listen`.
///
/// # Errors
/// It is one of this host, or of no network that it is in.
pub(super) async fn check_first(
    address: GroupAddress,
    listen: IpAddr,
    member: &str,
) -> Result<(), GroupError> {
    let is_here = is_beside(address, member).await? && !address.ip().is_loopback();
    if is_here || address.is_beside(listen) {
        return Ok(());
    }
    Err(MembershipError::AddressNowhere(address).into())
}

/// Whether an interface of this host is in its network; where it cannot be asked, others may say so.
async fn is_beside(address: GroupAddress, member: &str) -> Result<bool, GroupError> {
    match ring::blocking(move || network::standing_to(address)).await {
        Ok(Standing::Own) => {
            let (address, member) = (address.ip(), member.to_owned());
            Err(MembershipError::AddressOfMember { address, member }.into())
        }
        Ok(standing) => Ok(standing == Standing::Beside),
        Err(error) => {
            tracing::debug!("{error}");
            Ok(false)
        }
    }
}

/// Has the address at this member when nobody else has it, and keeps it, as long as the store answers.
pub(super) async fn keep(here: &InGroup, joined: &Joined) -> Trouble {
    loop {
        let mark = joined.mark();
        let floating = joined.floating();
        let done = match joined.with_roll(|roll| roll.address).flatten() {
            Some(address) if floating.is_held() => hold(here, joined, address).await,
            Some(address) => try_to_take(here, joined, address).await,
            None => {
                floating.fault.replace(None);
                give_up(here, joined, "the group has none any more").await.map(|()| REST)
            }
        };
        match done {
            Ok(pause) => {
                ring::timeout(pause, joined.change_after(mark)).await;
            }
            Err(trouble) => return trouble,
        }
    }
}

/// Takes the address off the interface that had it when it has been there for long enough, while the store is silent or
/// this member was. The kernel has done so, but where the machine slept meanwhile.
pub(super) async fn look(here: &InGroup, joined: &Joined) {
    let floating = joined.floating();
    let is_over = floating.holding.get().lifetime_seconds(boot_time()).is_none();
    if floating.there().is_some() && is_over && !floating.placed.is_busy() {
        lose(here, joined).await;
    }
}

/// Gives the address up at the end of the member, or of its membership: others need not wait until they have seen nothing
/// of it. Who does not wait for its end has it go on: nothing is put on an interface any more.
pub(super) async fn end(joined: &Joined) {
    let floating = joined.floating();
    let placed = floating.placed.clone();
    if let Err(error) = ring::blocking(move || placed.close()).await {
        // Its key is left to its time, as it may be there.
        return tracing::warn!("the address of the group ends by its time: {error}");
    }
    floating.on.set(None);
    floating.coming.set(None);
    floating.change(Holding::lost);
    if let Some(hold) = floating.hold.take()
        && let Err(error) = joined.membership().leave_address(hold).await
    {
        tracing::debug!("the address of the group is free in a moment: {error}");
    }
}

/// Keeps the key written and the address where it is. Says how long there is nothing to do.
async fn hold(here: &InGroup, joined: &Joined, address: GroupAddress) -> Result<Duration, Trouble> {
    let floating = joined.floating();
    let pause = floating.holding.get().renewal_in(boot_time());
    if pause.is_zero() && !renew(here, joined).await? {
        return Ok(AGAIN_PAUSE);
    }
    if floating.on.get().is_some_and(|on| on != address) {
        // Hosts are heard at the next one when this one is off.
        if !take_away(joined).await {
            return Ok(AGAIN_PAUSE);
        }
        here.is_off(joined, "the group has another one");
        return Ok(Duration::ZERO);
    }
    if !floating.is_ready(address) {
        if floating.listen_fault.borrow().is_some() {
            floating.unable.set(Some((address, Instant::now() + UNABLE_TIME)));
            give_up(here, joined, "hosts are not heard there").await?;
        }
        return Ok(floating.holding.get().renewal_in(boot_time()));
    }
    if pause.is_zero() || floating.on.get().is_none() {
        put(here, joined, address).await?;
    }
    Ok(floating.holding.get().renewal_in(boot_time()).max(BUSY_PAUSE))
}

/// Puts the address on an interface, or lets it be there for longer.
async fn put(here: &InGroup, joined: &Joined, address: GroupAddress) -> Result<(), Trouble> {
    let floating = joined.floating();
    let order = floating.placed.order(address, floating.holding.get());
    // It may be there before that is known, or although this is not waited for.
    floating.coming.set(Some(address));
    match kernel(joined, move |placed| placed.put(order)).await {
        Ok(Placing::Late) => here.is_off(joined, "the store of the group has answered too late"),
        Ok(placing) => is_on(here, joined, (address, placing)).await,
        Err(error) => {
            unable(here, joined, (address, &error));
            give_up(here, joined, "its host cannot have it any more").await?;
        }
    }
    if floating.on.get().is_some() && !floating.is_held() {
        lose(here, joined).await;
    }
    Ok(())
}

/// Writes the key once more, and says whether it is this member's still.
async fn renew(here: &InGroup, joined: &Joined) -> Result<bool, Trouble> {
    let is_held = write(joined).await?;
    if !is_held {
        lose(here, joined).await;
    }
    Ok(is_held)
}

/// The key is another one's, or may be. Where it cannot be taken away that is tried again.
async fn lose(here: &InGroup, joined: &Joined) {
    if take_away(joined).await {
        here.is_off(joined, "it has not heard from the store of the group in time");
    }
}

/// The same, with nothing done about it.
async fn write(joined: &Joined) -> Result<bool, Trouble> {
    let floating = joined.floating();
    let Some(hold) = floating.hold.get().filter(|_| floating.is_held()) else { return Ok(false) };
    let end = Instant::now() + KEEP_TIME;
    let (asked, is_held) = loop {
        let asked = boot_time();
        // One part of the store may be silent while others answer: the same is asked of the next one.
        match ring::timeout(KEEP_ATTEMPT, joined.membership().keep_address(hold)).await {
            Some(answer) => break (asked, answer?),
            None if Instant::now() < end => {}
            None => return Err(Trouble::Store(SILENT.to_owned())),
        }
    };
    if floating.hold.get() != Some(hold) {
        return Ok(false);
    }
    match is_held {
        true => floating.change(|holding| holding.kept(asked)),
        // The hold is left later, as it may be there where only the member is none any more.
        false => floating.change(Holding::lost),
    }
    Ok(is_held)
}

/// Has the kernel do something, which may take as long as it likes: the key is written meanwhile.
async fn kernel<T: Send + 'static>(
    joined: &Joined,
    work: impl FnOnce(&Placed) -> T + Send + 'static,
) -> T {
    let placed = joined.floating().placed.clone();
    let mut done = pin!(async {
        // Of a task that has ended: it is not to cost one thread each time.
        while placed.is_busy() {
            ring::sleep(BUSY_PAUSE).await;
        }
        let placed = placed.clone();
        ring::blocking(move || work(&placed)).await
    });
    loop {
        if let Some(done) = ring::timeout(RENEWAL, done.as_mut()).await {
            return done;
        }
        if let Err(error) = write(joined).await {
            tracing::debug!("{error:?}");
        }
    }
}

/// The address is on an interface, for a while.
async fn is_on(here: &InGroup, joined: &Joined, (address, placing): (GroupAddress, Placing)) {
    let floating = joined.floating();
    floating.fault.replace(None);
    floating.coming.set(None);
    let is_news = floating.on.replace(Some(address)) != Some(address);
    here.note_answering();
    if is_news || placing == Placing::Comes {
        floating.announcements.set(ANNOUNCEMENTS);
    }
    if is_news {
        let text = format!(
            "the address {address} of the group '{}' has come to this member",
            joined.group_name()
        );
        here.tell(Kind::GroupAddressTaken, text);
    }
    let left = floating.announcements.get();
    if left > 0 {
        floating.announcements.set(left - 1);
        // Others are asked for each time.
        let seed = (boot_time().0 & u64::from(u32::MAX)) as u32;
        if let Err(error) = kernel(joined, move |placed| placed.announce(seed)).await {
            tracing::debug!("neighbours find the address of the group by themselves: {error}");
        }
    }
}

/// Takes an address that nobody has, when it is this member's turn. Says how long there is nothing to do.
async fn try_to_take(
    here: &InGroup,
    joined: &Joined,
    address: GroupAddress,
) -> Result<Duration, Trouble> {
    let floating = joined.floating();
    // Of a try of which no answer came.
    give_up(here, joined, "it is not this member's").await?;
    let left = floating.left_to_holder();
    // Whether this host could have it is told also while another member has it, once for each address.
    let is_looked_at = floating.looked_at.replace(Some(address)) == Some(address);
    let has_fault = floating.fault.borrow().is_some();
    if !left.is_zero() && is_looked_at && !has_fault {
        return Ok(left);
    }
    if let Some(left) = floating.unable_for(address) {
        return Ok(left);
    }
    if let Err(error) = kernel(joined, move |_| network::can_have(address)).await {
        return Ok(unable(here, joined, (address, &error)).max(left));
    }
    floating.fault.replace(None);
    if !left.is_zero() {
        return Ok(left);
    }
    if !floating.is_ready(address) {
        return Ok(REST);
    }
    let me = joined.me();
    let turn = joined.with_roll(|roll| roll.turn_of(me)).unwrap_or_default();
    ring::sleep(turn).await;
    let found = joined.with_roll(|roll| (roll.address, roll.holder.map(|holder| holder.revision)));
    let Some((Some(wanted), found)) = found else { return Ok(Duration::ZERO) };
    // Another one has, in its turn; or it is another address by now.
    if wanted != address || !floating.is_ready(address) || !floating.left_to_holder().is_zero() {
        return Ok(Duration::ZERO);
    }
    let hold = AddressHold { member: me, nonce: nonce() };
    floating.hold.set(Some(hold));
    let asked = boot_time();
    let is_taken = joined.membership().take_address(hold, found).await?;
    if !is_taken {
        floating.hold.set(None);
    }
    floating.change(|holding| holding.tried(asked, is_taken));
    Ok(if is_taken { Duration::ZERO } else { AGAIN_PAUSE })
}

fn nonce() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    u64::from_ne_bytes(bytes)
}

/// This host cannot have the address, and why: others try for as long as is answered.
fn unable(
    here: &InGroup,
    joined: &Joined,
    (address, error): (GroupAddress, &NetworkError),
) -> Duration {
    let floating = joined.floating();
    let is_elsewhere = matches!(error, NetworkError::NoInterface(_));
    let pause = if is_elsewhere { NO_INTERFACE_TIME } else { UNABLE_TIME };
    floating.unable.set(Some((address, Instant::now() + pause)));
    let why = error.to_string();
    let is_news = floating.fault.replace(Some(why.clone())).as_ref() != Some(&why);
    // A member need not be in that network.
    if is_news && !is_elsewhere {
        here.tell_fault(joined, &why);
    }
    pause
}

/// Takes the address away, if it is there, and then leaves the key to others.
async fn give_up(here: &InGroup, joined: &Joined, why: &str) -> Result<(), Trouble> {
    let floating = joined.floating();
    let Some(hold) = floating.hold.get() else { return Ok(()) };
    if !take_away(joined).await {
        // It ends by its time, and others take it after that. It is tried again meanwhile.
        floating.change(Holding::lost);
        floating.hold.set(None);
        return Ok(());
    }
    here.is_off(joined, why);
    floating.change(Holding::lost);
    joined.membership().leave_address(hold).await?;
    floating.hold.set(None);
    Ok(())
}

/// Says whether it is off for certain.
async fn take_away(joined: &Joined) -> bool {
    match kernel(joined, |placed| placed.take_away()).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!("the address of the group ends by its time: {error}");
            false
        }
    }
}
