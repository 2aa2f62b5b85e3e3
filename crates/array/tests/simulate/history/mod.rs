//! A history from its first boot to its last.

mod elsewhere;
mod images;
mod proof;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use array::Env;
use array::api::VolumeState;

use crate::content::forget_copies;
use crate::disk::{Condition, Drive};
use crate::env::SimEnv;
use crate::executor::Ended;
use crate::host::host;
use crate::machine::{Budget, Machine, in_time};
use crate::memory;
use crate::model::{Doubt, End, Model};
use crate::operator::{draw_spec, operator};
use crate::random::Random;
use crate::saboteur::{disk_operator, peace, saboteur, settle};
use crate::scenario::{Scenario, Theme};
use crate::subject::{Answer, Maker, Refusal, Subject};
use crate::verify;

/// Combinations of missing disks that are tried after each boot, and after the last one.
const PROOFS: usize = 1;
const PROOFS_AT_END: usize = 4;

/// What outlives the boots of one machine.
struct History<'a, M> {
    env: SimEnv,
    maker: &'a M,
    random: Random,
    model: Rc<RefCell<Model>>,
    scenario: Rc<Scenario>,
    drives: Rc<Vec<Drive>>,
    /// The array was made.
    made: Cell<bool>,
    budget: Rc<Budget>,
    /// The machine was given more than it can bear, so it may need a while to become whole.
    was_overtaxed: Cell<bool>,
    /// Two parts of the array went on without each other: nobody but an operator can say which counts.
    parted: Cell<bool>,
    /// Images of the drives, made when the machine was off.
    images: RefCell<Vec<Drive>>,
}

/// Runs the history of a seed and returns its digest.
///
/// # Panics
/// When the array does anything that it must not do.
pub(crate) fn run<M: Maker>(maker: &M, theme: Theme, env: &SimEnv) -> u64 {
    let random = env.fork_random();
    let scenario = Scenario::draw(theme, &random);
    env.note(format!("{scenario:?}"));
    forget_copies();
    let largest = *scenario.disk_bytes.iter().max().expect("a machine has a drive");
    let others = std::iter::repeat_n(largest, scenario.shape.journal_disks + scenario.spares);
    let sizes = scenario.disk_bytes.iter().copied().chain(others).enumerate();
    let drives: Vec<_> = sizes.map(|(number, bytes)| Drive::new(env, number, bytes)).collect();
    drives.iter().skip(scenario.installed()).for_each(|drive| drive.set_installed(false));
    let history = History {
        env: env.clone(),
        maker,
        random,
        model: Rc::default(),
        scenario: Rc::new(scenario),
        drives: Rc::new(drives),
        made: Cell::new(false),
        budget: Rc::default(),
        was_overtaxed: Cell::new(false),
        parted: Cell::new(false),
        images: RefCell::default(),
    };
    let boots = history.scenario.boots;
    for boot in 1..boots {
        history.boot(boot);
        if history.parted.get() {
            return env.trace().digest();
        }
    }
    // The last one ends in peace.
    history.power_on(None, history.peace());
    history.ended(End::Closed);
    if history.scenario.theme.damages() {
        // What has rotted in space that nobody refers to is still there, and that space is used again.
        history.power_on(None, history.life_goes_on());
        history.ended(End::Closed);
    }
    history.prove(PROOFS_AT_END);
    history.power_on(None, history.end());
    env.trace().digest()
}

/// Whether a refusal says that the array went on in parts that do not know each other.
fn tells_of_parts(refusal: &str) -> bool {
    refusal.contains("went on in two parts")
}

impl<M: Maker> History<'_, M> {
    /// One boot that may end at any moment.
    fn boot(&self, number: u32) {
        let steps = (!self.random.one_in(6)).then(|| self.random.below(self.scenario.steps_max));
        self.env.note(format!("boot {number}"));
        self.take_away();
        self.env.arm_cut(self.random.one_in(2).then(|| self.random.below(60)));
        let ended = self.power_on(steps, self.life());
        self.env.arm_cut(None);
        let end = match ended {
            Ended::Done(true) => End::Closed,
            Ended::Done(false) | Ended::Cut if self.random.one_in(3) => End::Killed,
            Ended::Done(false) | Ended::Cut => End::PowerCut,
        };
        self.ended(end);
        self.live_elsewhere();
        self.poor_starts();
        self.recover();
        self.put_images_back();
        if self.made.get() {
            self.prove_beside_victims();
        }
        // No drive can be spared beside those that are hurt.
        if self.random.one_in(2) && self.made.get() && self.budget.victims.borrow().is_empty() {
            self.prove(PROOFS);
        }
    }

    /// Before a start: drives that are hurt anyway, or as many as can be spared, are not there.
    fn take_away(&self) {
        if self.scenario.theme != Theme::Starts || !self.made.get() {
            return;
        }
        let mut drives = self.data_drives();
        let mut victims = self.budget.victims.borrow_mut();
        if victims.is_empty() && !self.random.one_in(3) {
            self.random.shuffle(&mut drives);
            drives.truncate(self.random.between(1, self.scenario.losses() as u64) as usize);
            *victims = drives;
        }
        // Without the only one that holds the journal nothing opens, hurt or not.
        let may_go = |drive: &&Drive| drive.is_installed() && !drive.is_for_journal();
        for drive in victims.iter().filter(may_go) {
            let absent = self.random.one_in(2);
            if absent != drive.is_absent() {
                drive.set_absent(absent);
            }
        }
    }

    /// Starts without some drives, with enough of them to know what is newest: more may be missing
    /// than any level bears. Each is cut off soon, whatever it has done by then, and the next one
    /// lacks others.
    fn poor_starts(&self) {
        if self.scenario.theme != Theme::Moments || !self.made.get() {
            return;
        }
        for _ in 0..self.random.below(4) {
            if self.parted.get() {
                return;
            }
            let mut drives = self.data_drives();
            self.random.shuffle(&mut drives);
            drives.truncate(self.random.between(1, (drives.len() as u64 - 1) / 2) as usize);
            if self.would_part(&drives) {
                self.env.note("a start would lack the only drive that went on");
                continue;
            }
            for drive in &drives {
                drive.set_absent(true);
                self.budget.hurt(drive);
            }
            // It needs a while to become whole, also if the start was cut before it saw that.
            self.was_overtaxed.set(true);
            let steps = self.random.below(*self.random.pick(&[500, 5_000, 20_000]));
            self.power_on(Some(steps), self.poor_life());
            drives.iter().for_each(|drive| drive.set_absent(false));
            self.ended(if self.random.one_in(3) { End::PowerCut } else { End::Killed });
            self.look_for_parts();
        }
    }

    /// Faults of all drives at once may have left one that went on alone, as its label says, and a
    /// start without it is one without its part then.
    fn look_for_parts(&self) {
        let copies: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
        if let Some(refusal) = self.refusal(&copies).filter(|text| tells_of_parts(text)) {
            self.env.note(refusal);
            self.parted.set(true);
        }
    }

    /// Whether a start without these would be such a one. It is tried with copies: hosts of the start itself would read
    /// what was there before (seed 1268 of moments), which no label tells, and an end in order does not change.
    fn would_part(&self, without: &[Drive]) -> bool {
        self.random.aside(|| {
            self.env.aside(|| {
                let all: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
                let is_left = |drive: &&Drive| {
                    without.iter().all(|missing| missing.number() != drive.number())
                };
                let left: Vec<Drive> = all.iter().filter(is_left).cloned().collect();
                let is_refused = self.refusal(&left).is_some();
                all.iter().for_each(Drive::release);
                !is_refused && self.refusal(&all).is_some_and(|text| tells_of_parts(&text))
            })
        })
    }

    /// Why the array does not open with these drives, if it does not.
    fn refusal(&self, drives: &[Drive]) -> Option<String> {
        let opening = async { self.maker.open(&self.env, drives, false).await.err() };
        match self.power_on(None, opening) {
            Ended::Done(refusal) => refusal.map(|refusal| refusal.to_string()),
            Ended::Cut => None,
        }
    }

    /// With all drives back the array becomes whole by itself, before anything is proved.
    fn recover(&self) {
        let is_hurt = !self.budget.victims.borrow().is_empty();
        let is_due = self.scenario.theme == Theme::Moments && !self.parted.get();
        if !is_due || !is_hurt || self.random.one_in(2) {
            return;
        }
        self.env.note("all drives are back");
        self.power_on(None, async {
            let machine = self.start().await;
            settle(&machine).await;
        });
        self.ended(if self.random.one_in(2) { End::PowerCut } else { End::Killed });
        self.prove(PROOFS_AT_END);
    }

    /// What such a start is good for, if it is not refused.
    async fn poor_life(&self) {
        self.drives.iter().for_each(Drive::begins);
        let array = match self.open().await {
            Ok(array) => array,
            Err(refusal) => return self.env.note(format!("the start is refused: {refusal}")),
        };
        self.budget.overtaxed.set(true);
        let machine = Rc::new(self.machine(array));
        let listing = machine.listing();
        // A volume that is lost does not say whether it would be served.
        let is_any_lost = listing.volumes.iter().any(|volume| volume.state == VolumeState::Lost);
        if is_any_lost && self.model.borrow().is_in_doubt() {
            return self.env.sleep(Duration::from_secs(self.random.below(40))).await;
        }
        let reconciled = self.model.borrow_mut().reconcile(&listing);
        machine.must("after a start without some drives", reconciled);
        for _ in 0..self.scenario.clients {
            self.env.spawn(Box::pin(host(Rc::clone(&machine), self.scenario.requests)));
        }
        self.env.sleep(Duration::from_secs(self.random.below(40))).await;
    }

    fn ended(&self, end: End) {
        memory::refuse(0, 0);
        self.env.note(format!("the machine ended: {end:?}"));
        self.model.borrow_mut().ended(end);
        let passes = self.scenario.theme.passes();
        // A drive may be as silent in the next start as it was in this one.
        let goes_on = self.scenario.theme == Theme::Silence && self.random.one_in(3);
        if self.budget.overtaxed.take() {
            self.was_overtaxed.set(true);
        }
        for drive in self.drives.iter() {
            if passes && !(goes_on && drive.condition().silent) {
                drive.set_condition(Condition::default());
            }
            match end {
                End::Killed => drive.release(),
                End::Closed | End::PowerCut => drive.unplug(),
            }
        }
    }

    fn power_on<T>(&self, steps: Option<u64>, main: impl Future<Output = T>) -> Ended<T> {
        self.env.boot(steps, main).0
    }

    fn installed(&self) -> Vec<Drive> {
        let is_there = |drive: &&Drive| drive.is_installed() && !drive.is_absent();
        self.drives.iter().filter(is_there).cloned().collect()
    }

    /// Those that are for more than the journal.
    fn data_drives(&self) -> Vec<Drive> {
        let is_data = |drive: &&Drive| drive.is_installed() && !drive.is_for_journal();
        self.drives.iter().filter(is_data).cloned().collect()
    }

    async fn open(&self) -> Answer<M::Subject> {
        let drives = self.installed();
        let opening = in_time(&self.env, self.maker.open(&self.env, &drives, false));
        opening.await.unwrap_or_else(|| panic!("the array does not open, and does not say why"))
    }

    /// Makes the array, unless the boot before was cut when all was done.
    async fn make(&self) -> Answer<M::Subject> {
        if let Ok(array) = self.open().await {
            return Ok(array);
        }
        let drives = self.installed();
        drives.iter().for_each(Drive::wipe);
        let journal = self.scenario.disk_bytes.len()..self.scenario.installed();
        self.drives[journal].iter().for_each(Drive::set_for_journal);
        self.maker.create(&self.env, &drives, &self.scenario.shape).await
    }

    /// Opens the array, or makes it, and compares what it holds.
    async fn start(&self) -> Rc<Machine<M::Subject>> {
        self.drives.iter().for_each(Drive::begins);
        let answer = if self.made.get() { self.open().await } else { self.make().await };
        let array = answer.unwrap_or_else(|refusal| panic!("the array does not start: {refusal}"));
        let machine = Rc::new(self.machine(array));
        self.made.set(true);
        if self.was_overtaxed.get() {
            // A volume that is lost until then does not say whether it would be served.
            settle(&machine).await;
            // Not if the machine ends before that.
            self.was_overtaxed.set(false);
        }
        let reconciled = self.model.borrow_mut().reconcile(&machine.listing());
        machine.must("after the start", reconciled);
        verify::everything(&machine).await;
        machine
    }

    fn machine(&self, array: M::Subject) -> Machine<M::Subject> {
        Machine {
            env: self.env.clone(),
            random: self.random.fork(),
            model: Rc::clone(&self.model),
            scenario: Rc::clone(&self.scenario),
            all_drives: Rc::clone(&self.drives),
            budget: Rc::clone(&self.budget),
            writes: RefCell::default(),
            writes_begun: Cell::new(0),
            orders: Cell::new(0),
            gave_up: Cell::new(false),
            closing: Cell::new(false),
            whole_since: Cell::new(None),
            coming: RefCell::default(),
            unplugged: RefCell::default(),
            away: 0,
            context: String::new(),
            array,
        }
    }

    /// Hosts, operators and accidents. Whether the array was closed in the end.
    async fn life(&self) -> bool {
        let machine = self.start().await;
        if self.random.one_in(3) {
            verify::look(&machine).await;
        }
        self.first_volumes(&machine).await;
        let left = Rc::new(Cell::new(0));
        let scenario = &self.scenario;
        for _ in 0..scenario.clients {
            self.spawn(&left, host(Rc::clone(&machine), scenario.requests));
        }
        for number in 0..scenario.operators {
            self.spawn(&left, operator(Rc::clone(&machine), number, scenario.orders));
        }
        if matches!(scenario.theme, Theme::Rot | Theme::Crowd) {
            for _ in 0..scenario.operators {
                self.spawn(&left, disk_operator(Rc::clone(&machine), scenario.orders));
            }
        }
        self.env.spawn(Box::pin(saboteur(Rc::clone(&machine))));
        while left.get() > 0 {
            self.env.sleep(Duration::from_millis(5)).await;
        }
        if scenario.theme == Theme::Scarcity {
            // With memory it goes on by itself, and blames no disk.
            machine.closing.set(true);
            memory::refuse(0, 0);
            self.env.sleep(Duration::from_secs(10)).await;
            machine.budget.overtaxed.set(false);
        }
        machine.accuse_nobody();
        machine.closing.set(true);
        let closed = in_time(&self.env, machine.array.close()).await;
        let closed = closed.unwrap_or_else(|| machine.fail("it does not close"));
        // It does not wait for ever for a drive that does not answer.
        let is_silent = |drive: &Drive| drive.condition().silent;
        if let Err(error) = &closed
            && machine.drives().iter().any(is_silent)
        {
            self.env.note(format!("it does not close in order: {error}"));
            return false;
        }
        machine.may("close", closed).is_some()
    }

    fn spawn(&self, left: &Rc<Cell<u32>>, task: impl Future<Output = ()> + 'static) {
        left.set(left.get() + 1);
        let left = Rc::clone(left);
        self.env.spawn(Box::pin(async move {
            task.await;
            left.set(left.get() - 1);
        }));
    }

    async fn first_volumes(&self, machine: &Rc<Machine<M::Subject>>) {
        let wanted = self.random.between(1, 3) as usize;
        while self.model.borrow().volumes().count() < wanted {
            let spec = draw_spec(machine);
            let doubt = Doubt::Create(spec.clone());
            let asked_bytes = doubt.asked_bytes();
            let id = self.model.borrow_mut().doubt(doubt);
            match machine.array.create_volume(spec).await {
                Err(Refusal::NoSpace(text)) => {
                    machine.out_of_space("create", &text, asked_bytes);
                    self.model.borrow_mut().refused(id);
                    return;
                }
                answer => machine.must("create", answer),
            }
            self.model.borrow_mut().happened(id);
        }
    }

    /// All is repaired and compared.
    async fn peace(&self) {
        self.env.note("last boot but one");
        let machine = self.start().await;
        peace(&machine).await;
        verify::everything(&machine).await;
        machine.must("close", machine.array.close().await);
    }

    /// Hosts and operators of volumes go on, and nothing more is damaged.
    async fn life_goes_on(&self) {
        self.env.note("life goes on");
        let machine = self.start().await;
        self.work(&machine).await;
        machine.must("close", machine.array.close().await);
    }

    /// Hosts and operators of volumes do all that they have to do.
    async fn work(&self, machine: &Rc<Machine<M::Subject>>) {
        let left = Rc::new(Cell::new(0));
        for _ in 0..self.scenario.clients {
            self.spawn(&left, host(Rc::clone(machine), self.scenario.requests));
        }
        for number in 0..self.scenario.operators {
            self.spawn(&left, operator(Rc::clone(machine), number, self.scenario.orders));
        }
        while left.get() > 0 {
            self.env.sleep(Duration::from_millis(5)).await;
        }
    }

    /// All is compared, checked, deleted and accounted for.
    async fn end(&self) {
        self.env.note("last boot");
        let machine = self.start().await;
        verify::check(&machine).await;
        verify::space(&machine).await;
        machine.must("close", machine.array.close().await);
    }
}
