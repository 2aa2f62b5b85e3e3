//! The plain loop, served by this very program.

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use super::{Adapter, Running, Service, Site, wait_for};
use crate::machine::{Child, Pinned};

/// The floor.
#[derive(Debug)]
pub(crate) struct Plain;

struct RunningPlain {
    child: Child,
    service: Service,
}

impl Running for RunningPlain {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn service(&self) -> Service {
        self.service.clone()
    }
}

impl Adapter for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn describe(&self) -> String {
        "the plain request/response loop: 48 bytes and payload, epoll, answers batched; no \
         protocol, no disk"
            .into()
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn start(&self, site: &Site, stop: &AtomicBool) -> Result<Box<dyn Running>> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = Command::new(program);
        command
            .arg("plain-server")
            .args(["--address", &site.portal().to_string()])
            .args(["--size", &site.disk_bytes.to_string()])
            .stdout(Stdio::null());
        let mut child = {
            let _pinned = Pinned::to_core(site.core)?;
            Child::start(&mut command, "the plain server")?
        };
        wait_for("the plain server", stop, || {
            ensure!(child.ended()?.is_none(), "the plain server ended at once");
            Ok(crate::plain::server_ready(site.portal()))
        })?;
        Ok(Box::new(RunningPlain { child, service: Service::Plain(site.portal()) }))
    }
}
