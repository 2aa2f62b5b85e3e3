//! The cores of a server: work for all of them, and the word to end.

use std::future::Future;
use std::rc::Rc;

use ring::Remote;
use ring::wait::Event;

thread_local! {
    static STOP: Rc<Event> = Rc::default();
}

/// Tells this core to end.
pub(crate) fn stop() {
    STOP.with(|stop| stop.set());
}

/// Waits for [`stop`].
pub(crate) async fn stopped() {
    STOP.with(Rc::clone).wait().await;
}

/// Runs `job` on each of `cores`; the future waits until all are through. A core that has ended
/// counts as through.
pub(crate) fn on_cores<Job, Work>(
    cores: Vec<Remote>,
    job: Job,
) -> impl Future<Output = ()> + use<Job, Work>
where
    Job: FnOnce() -> Work + Clone + Send + 'static,
    Work: Future<Output = ()> + 'static,
{
    let ask = |core: Remote| {
        let (done, through) = ring::oneshot();
        let job = job.clone();
        core.run(move || {
            let work = job();
            ring::spawn(async move {
                work.await;
                done.send(());
            });
        });
        through
    };
    let answers: Vec<_> = cores.into_iter().map(ask).collect();
    async move {
        for answer in answers {
            answer.await;
        }
    }
}
