//! A history from its first boot to its last.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use array::Env;

use crate::disk::{Condition, Drive};
use crate::env::SimEnv;
use crate::executor::Ended;
use crate::host::host;
use crate::machine::Machine;
use crate::model::{Doubt, End, Model};
use crate::operator::{draw_spec, operator};
use crate::random::Random;
use crate::saboteur::{peace, saboteur};
use crate::scenario::{Scenario, Theme};
use crate::subject::{Answer, Maker, Refusal, Subject};
use crate::verify;

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
    /// The one drive that may be hurt.
    victim: Rc<RefCell<Option<Drive>>>,
}

/// Runs the history of a seed and returns its digest.
///
/// # Panics
/// When the array does anything that it must not do.
pub(crate) fn run<M: Maker>(maker: &M, theme: Theme, env: &SimEnv) -> u64 {
    let random = env.fork_random();
    let scenario = Scenario::draw(theme, &random);
    env.note(format!("{scenario:?}"));
    let sizes = scenario.disk_bytes.iter().chain(scenario.disk_bytes.iter().max()).enumerate();
    let drives: Vec<_> = sizes.map(|(number, &bytes)| Drive::new(env, number, bytes)).collect();
    drives[scenario.disk_bytes.len()].set_installed(false);
    let history = History {
        env: env.clone(),
        maker,
        random,
        model: Rc::default(),
        scenario: Rc::new(scenario),
        drives: Rc::new(drives),
        made: Cell::new(false),
        victim: Rc::default(),
    };
    let boots = history.scenario.boots;
    for boot in 1..boots {
        history.boot(boot);
    }
    // The last one ends in peace.
    history.power_on(None, history.last());
    env.trace().digest()
}

impl<M: Maker> History<'_, M> {
    /// One boot that may end at any moment.
    fn boot(&self, number: u32) {
        let steps = (!self.random.one_in(6)).then(|| self.random.below(self.scenario.steps_max));
        self.env.note(format!("boot {number}"));
        self.env.arm_cut(self.random.one_in(2).then(|| self.random.below(60)));
        let ended = self.power_on(steps, self.life());
        self.env.arm_cut(None);
        let end = match ended {
            Ended::Done(()) => End::Closed,
            Ended::Cut if self.random.one_in(3) => End::Killed,
            Ended::Cut => End::PowerCut,
        };
        self.env.note(format!("the machine ended: {end:?}"));
        self.model.borrow_mut().ended(end);
        // Of two drives one is no majority, so both have to be there when the machine starts.
        let few = self.installed().len() <= 2;
        for drive in self.drives.iter() {
            if few {
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
        self.drives.iter().filter(|drive| drive.is_installed()).cloned().collect()
    }

    /// Makes the array, unless the boot before was cut when all was done.
    async fn make(&self) -> Answer<M::Subject> {
        if let Ok(array) = self.maker.open(&self.env, &self.installed()).await {
            return Ok(array);
        }
        let drives = self.installed();
        drives.iter().for_each(Drive::wipe);
        self.maker.create(&self.env, &drives, &self.scenario.shape).await
    }

    /// Opens the array, or makes it, and compares what it holds.
    async fn start(&self) -> Rc<Machine<M::Subject>> {
        let answer = if self.made.get() {
            self.maker.open(&self.env, &self.installed()).await
        } else {
            self.make().await
        };
        let array = answer.unwrap_or_else(|refusal| panic!("the array does not start: {refusal}"));
        let machine = Rc::new(Machine {
            env: self.env.clone(),
            random: self.random.fork(),
            model: Rc::clone(&self.model),
            scenario: Rc::clone(&self.scenario),
            all_drives: Rc::clone(&self.drives),
            victim: Rc::clone(&self.victim),
            unplugged: RefCell::default(),
            array,
        });
        self.made.set(true);
        let reconciled = self.model.borrow_mut().reconcile(&machine.listing());
        machine.must("after the start", reconciled);
        verify::everything(&machine).await;
        machine
    }

    /// Hosts, an operator and accidents.
    async fn life(&self) {
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
        self.spawn(&left, operator(Rc::clone(&machine), scenario.orders));
        self.env.spawn(Box::pin(saboteur(Rc::clone(&machine))));
        while left.get() > 0 {
            self.env.sleep(std::time::Duration::from_millis(5)).await;
        }
        machine.must("close", machine.array.close().await);
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

    /// All is repaired, compared, checked, deleted and accounted for.
    async fn last(&self) {
        self.env.note("last boot");
        let machine = self.start().await;
        peace(&machine).await;
        verify::everything(&machine).await;
        verify::space(&machine).await;
        machine.must("close", machine.array.close().await);
    }
}
