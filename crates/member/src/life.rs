//! The life of a member on the first core, step by step as the main thread asks for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use array::ArrayError;
use array::api::{ArrayInfo, DiskState, VolumeInfo};
use group::accounts::Logins;
use group::settings::Given;
use target::{Server, Targets};

use crate::data::DataError;
use crate::data::remembered::Remembered;
use crate::destination_request::CurrentDestinations;
use crate::events::{Event, EventLog, Kind, ObjectKind};
use crate::group_request::{CurrentAddress, CurrentDoor, CurrentRoll, OfGroup};
use crate::login_request::CurrentLogins;
use crate::membership::InGroup;
use crate::names::Names;
use crate::opening::{self, Make, Notice, Opened, StartError, Tell};
use crate::reply::Answer;
use crate::request::Request;
use crate::running::places::Places;
use crate::running::{
    Asker, CacheLimit, Member, RequestError, connections, in_group, memory, watch,
};
use crate::schedules::{self, Runner};
use crate::serving::Serving;
use crate::settings::{ArrayUnits, Hosts, MemberSettings, Published, Unlisted};
use crate::spread::Spread;
use crate::spread_request::SliceOpeners;

/// What a member is opened with.
#[derive(Debug)]
pub struct Opening {
    /// What is remembered.
    pub remembered: Remembered,
    /// Which disks, and how an array is made if there is none.
    pub make: Make,
    /// How the names of targets begin; `None` as before, or as is usual.
    pub prefix: Option<String>,
    /// What the server of the member was given to keep records of units.
    pub units: Arc<ArrayUnits>,
    /// Whom the rule of the server lets in, which holds for volumes without an access list.
    pub unlisted: Unlisted,
    /// The secrets of that rule: what is stored has others for the other direction.
    pub given: Given,
    /// Settings on the array that cannot be read are thrown away.
    pub gives_up_settings: bool,
    /// What the start found wrong beside the array, a sentence each: it is among the warnings until the next one.
    pub found_wrong: Vec<String>,
    /// Who hears of what is not as it should be about disks.
    pub tell: Tell,
    /// Where it is recorded, with all that happens later.
    pub events: EventLog,
}

/// A member that runs on the first core, seen from the main thread.
#[derive(Debug)]
pub struct Life {
    core: ring::Remote,
    published: Published,
    of_group: OfGroup,
}

/// What a member has when it is ready.
#[derive(Debug)]
pub struct Shown {
    /// The array.
    pub array: ArrayInfo,
    /// In the order of their names.
    pub volumes: Vec<ShownVolume>,
    /// How all those names begin.
    pub prefix: String,
}

/// A volume of a member that is ready.
#[derive(Debug)]
pub struct ShownVolume {
    /// As the array has it.
    pub info: VolumeInfo,
    /// The name of its target.
    pub iqn: String,
    /// Its target cannot be served.
    pub is_refused: bool,
    /// Which hosts may use it.
    pub hosts: Hosts,
}

impl Shown {
    fn of(member: &Member) -> Self {
        let names = member.serving().names();
        let named = |volume: VolumeInfo| {
            let iqn = names.volume(volume.id, &volume.name);
            let is_refused =
                member.serving().refusal(&iqn).is_some() || member.withholds(volume.id);
            let hosts = member.hosts(volume.id);
            ShownVolume { info: volume, iqn, is_refused, hosts }
        };
        Self {
            array: member.array().info(),
            volumes: member.volumes().into_iter().map(named).collect(),
            prefix: names.prefix().to_owned(),
        }
    }
}

thread_local! {
    /// The member of this core.
    static HERE: RefCell<Option<Rc<Member>>> = const { RefCell::new(None) };
}

impl Life {
    /// Opens the array and prepares its targets. Nobody can log in yet.
    ///
    /// # Errors
    /// Why no array is opened or made.
    pub fn start(server: &Server, opening: Opening) -> Result<Self, StartError> {
        let life = Self {
            core: server.first_core(),
            published: Published::default(),
            of_group: OfGroup::default(),
        };
        let core = life.core.clone();
        opening.units.save_by(move |save| {
            // A core that has ended drops what it is given.
            core.run(move || {
                let Some(member) = HERE.with_borrow(Clone::clone) else { return };
                ring::spawn(async move { member.save_unit(save).await });
            });
        });
        let (targets, published) = (server.targets(), life.published.clone());
        let of_group = life.of_group.clone();
        life.run(move || begin(opening, targets, (published, of_group)))??;
        Ok(life)
    }

    /// Looks after disks, hosts, schedules and the group from now on, and says what there is.
    ///
    /// # Errors
    /// The member is gone.
    pub fn watch(&self) -> Result<Shown, StartError> {
        self.with(|member| async move {
            ring::spawn(watch::run(member.clone()));
            ring::spawn(memory::run(member.clone()));
            ring::spawn(Runner::new(member.clone()).run());
            ring::spawn(in_group::run(member.clone()));
            ring::spawn(connections::run(member.clone()));
            member.start_in_group();
            // Of moves that a life before this one began: before anybody can begin one.
            let finder = member.clone();
            ring::spawn(async move { finder.find_slices().await });
            let (cleaner, leftovers) = (member.clone(), member.leftovers());
            ring::spawn(async move { cleaner.delete_leftovers(leftovers).await });
            Shown::of(&member)
        })
    }

    /// Does something with the member on its core, and waits for the result.
    ///
    /// # Errors
    /// The member, or its core, is gone.
    pub fn with<T: Send + 'static, Work: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Member>) -> Work + Send + 'static,
    ) -> Result<T, StartError> {
        self.run(|| async {
            let member = HERE.with_borrow(Clone::clone);
            Ok(work(member.ok_or(StartError::Ended)?).await)
        })?
    }

    /// The way to the member from any thread.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote { core: self.core.clone(), logins: self.published.logins.clone() }
    }

    /// Where events go on to, for whoever sends them.
    #[must_use]
    pub fn destinations(&self) -> CurrentDestinations {
        self.published.destinations.clone()
    }

    /// The door of members, for whoever opens it.
    #[must_use]
    pub fn door(&self) -> CurrentDoor {
        self.of_group.door.clone()
    }

    /// The group as the member knows it, for whoever asks other members something.
    #[must_use]
    pub fn roll(&self) -> CurrentRoll {
        self.of_group.roll.clone()
    }

    /// The address of the group, for whoever answers there.
    #[must_use]
    pub fn group_address(&self) -> CurrentAddress {
        self.of_group.address.clone()
    }

    /// Ends the part of the group that this member runs, and closes the array. Nobody may use its volumes any more.
    ///
    /// # Errors
    /// What the array did not bring to its disks.
    pub fn end(&self) -> Result<(), StartError> {
        let closed = self.run(|| async {
            let member = HERE.with_borrow_mut(Option::take);
            match member {
                Some(member) => member.close().await,
                None => Ok::<(), ArrayError>(()),
            }
        });
        Ok(closed??)
    }

    /// Runs something on the core and waits for its result.
    fn run<T: Send + 'static, Work: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce() -> Work + Send + 'static,
    ) -> Result<T, StartError> {
        let (done, answer) = mpsc::channel();
        self.core.run(move || {
            ring::spawn(async move {
                // The main thread waits for it, unless the process ends.
                drop(done.send(work().await));
            });
        });
        answer.recv().map_err(|_| StartError::CoreEnded)
    }
}

/// The way to a member from any thread, which asks it without waiting.
#[derive(Debug, Clone)]
pub struct Remote {
    core: ring::Remote,
    logins: CurrentLogins,
}

impl Remote {
    /// Who may manage the member from afar, as it is set now; `None` while its settings cannot be read. Asks
    /// no core.
    #[must_use]
    pub fn logins(&self) -> Option<Arc<Logins>> {
        self.logins.now()
    }

    /// Has the member reach slices that other members have by these. Until they are given the slices wait.
    pub fn open_slices_by(&self, openers: Arc<dyn SliceOpeners>) {
        self.core.run(move || {
            if let Some(member) = HERE.with_borrow(Clone::clone) {
                member.open_slices_by(openers);
            }
        });
    }

    /// Has a request carried out. It runs to its end whoever still waits for it; `done` is told of that on
    /// the member's core and must not wait for anything. It is dropped untold when the member is gone.
    pub fn ask(
        &self,
        request: Request,
        asker: impl Asker + Send + 'static,
        done: impl FnOnce(Result<Answer, RequestError>) + Send + 'static,
    ) {
        // A core that has ended drops what it is given.
        self.core.run(move || {
            let Some(member) = HERE.with_borrow(Clone::clone) else { return };
            ring::spawn(async move { done(member.answer(request, &asker).await) });
        });
    }
}

async fn begin(
    opening: Opening,
    targets: Targets,
    (published, of_group): (Published, OfGroup),
) -> Result<(), StartError> {
    let Opening { mut remembered, make, prefix, units, .. } = opening;
    let Opening { unlisted, given, gives_up_settings, tell, events, found_wrong, .. } = opening;
    let tell = |notice: &Notice| {
        tell(notice);
        events.hear_of_start(of_notice(notice));
    };
    let damage = remembered.keep_damaged();
    if let Some(damage) = &damage {
        tell(&Notice::ListDamaged(damage.clone()));
    }
    let opened = opening::open(&make, &mut remembered, &tell).await?;
    if let Err(error) = note(&opened, &mut remembered) {
        tell(&Notice::NotRemembered(error));
    }
    let (array, meters) = (opened.array, opened.meters);
    let names = Names::new(&array.info().id, None);
    let (data, heard) = (&make.data, events.clone());
    let start = (gives_up_settings, given);
    let settings =
        MemberSettings::open(array.clone(), data, start, (published, units), heard).await;
    let settings = Rc::new(settings);
    let membership = InGroup::read(data, array.info().id, of_group, events.clone()).await;
    let spread = Spread::new(array.clone(), settings.clone(), membership.clone());
    let of_volumes = (settings.clone(), spread);
    let serving = Serving::new(array.clone(), targets, names, of_volumes, events.clone());
    let known = (
        remembered,
        meters,
        prefix,
        Places::new(data, damage.into_iter().chain(found_wrong).collect()),
    );
    let limit = CacheLimit::new(make.cache_bytes);
    let rest = (limit, events, membership);
    let member = Rc::new(Member::new(array, serving, (settings, unlisted), known, rest));
    member.take_identity().await;
    member.await_group();
    // Hosts come as soon as there are targets, and members are looked at only later.
    member.admit_as_known();
    member.settle().await;
    member.discard_cut_off().await;
    schedules::adopt(&member).await;
    member.look_at_places().await;
    HERE.set(Some(member));
    Ok(())
}

/// What is recorded of a notice.
fn of_notice(notice: &Notice) -> Event {
    let disk = match notice {
        Notice::Missing { disk, .. }
        | Notice::NotMade(disk)
        | Notice::Blank(disk)
        | Notice::Foreign { disk, .. }
        | Notice::NotNamed(disk)
        | Notice::OtherDisk(disk)
        | Notice::LabelLeft { disk, .. } => disk,
        Notice::ListDamaged(_) => {
            return Event::of_member(Kind::DiskListDamaged, notice.to_string());
        }
        Notice::NotRemembered(_) => {
            return Event::of_member(Kind::DisksNotRemembered, notice.to_string());
        }
    };
    Event::about(Kind::DiskNotUsed, ObjectKind::Disk, disk, notice.to_string())
}

/// Remembers the disks of the array that was opened, those that are missing too. That this fails
/// is no reason not to serve.
fn note(opened: &Opened, remembered: &mut Remembered) -> Result<(), DataError> {
    let members = opened.array.disks();
    let is_member = |name: &str| members.iter().any(|disk| disk.name == name);
    let is_missing = members.iter().any(|disk| disk.state == DiskState::Missing);
    let here = opened.seen.iter().filter(|seen| is_member(&seen.member.name));
    let here = here.map(|seen| &seen.disk);
    let away = opened.absent.iter().filter(|_| is_missing);
    remembered.opened(&opened.array.info().id, here.chain(away))
}
