//! The first volume of an array is there with all that it is to have, or not at all, wherever its making is cut off.

use std::path::Path;
use std::time::Duration;

use array::api::VolumeState;

use crate::request::{Request, VolumeRequest};
use crate::testing::{Rig, Silent, volume};

fn create(name: &str) -> Request {
    Request::Volume(VolumeRequest::Create(volume(name)))
}

fn state(rig: &Rig) -> Option<VolumeState> {
    rig.with(async |member| member.volumes().first().map(|volume| volume.state))
}

/// Makes the volume "a" up to where settings are to be changed for the time after `steps` times, and ends.
fn cut(home: &Path, steps: usize) -> Option<VolumeState> {
    let rig = Rig::start(home, &home.join("data"));
    let held = rig.with(async move |member| {
        let mut held = member.settings().hold().await;
        let asked = member.clone();
        ring::spawn(async move { drop(asked.answer(create("a"), &Silent).await) });
        ring::sleep(Duration::from_millis(50)).await;
        for _ in 0..steps {
            // Who waits has it first.
            drop(held);
            held = member.settings().hold().await;
            ring::sleep(Duration::from_millis(50)).await;
        }
        held
    });
    let left = state(&rig);
    drop(rig);
    drop(held);
    left
}

#[test]
fn a_first_volume_that_a_cut_leaves_half_made_is_complete_after_a_start() {
    let mut left = Vec::new();
    for steps in 0..4 {
        let home = tempfile::tempdir().expect("a directory");
        left.push(cut(home.path(), steps));
        let rig = Rig::start(home.path(), &home.path().join("data"));
        let found = state(&rig);
        assert_ne!(found, Some(VolumeState::Offline), "after {steps} steps nobody says why");
        assert_eq!(found.is_some(), left[steps].is_some(), "after {steps} steps");
        assert_eq!(rig.with(async |member| member.settings().intended()), [""; 0]);
        if found.is_none() {
            rig.ask(create("a")).expect("nothing is in the way");
        }
        rig.stop();
    }
    let is_there = |left: &Option<VolumeState>| left.is_some();
    assert!(!left.iter().all(is_there) && left.iter().any(is_there), "both were seen: {left:?}");
}
