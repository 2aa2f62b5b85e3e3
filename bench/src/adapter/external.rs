//! A target that somebody else started.

use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use super::{Adapter, Running, Service, Site};
use crate::initiator::Url;

/// `NAME=iscsi://HOST:PORT/IQN/LUN,pid=N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct External {
    name: String,
    url: Url,
    pid: u32,
}

impl FromStr for External {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let how = "write NAME=iscsi://HOST:PORT/IQN/LUN,pid=N";
        let (name, rest) = text.split_once('=').context(how)?;
        let (url, pid) = rest.rsplit_once(",pid=").context(how)?;
        let simple = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        ensure!(!name.is_empty() && name.chars().all(simple), "{name:?} is no simple name: {how}");
        Ok(Self { name: name.to_owned(), url: url.parse()?, pid: pid.parse().context(how)? })
    }
}

impl Running for External {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn service(&self) -> Service {
        Service::Iscsi(self.url.clone())
    }
}

impl Adapter for External {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> String {
        format!("{} (pid {}), started by hand on cores of its own choice", self.url, self.pid)
    }

    fn missing(&self) -> Option<String> {
        crate::machine::sample(self.pid).err().map(|error| format!("{error:#}"))
    }

    fn start(&self, _site: &Site, _stop: &AtomicBool) -> Result<Box<dyn Running>> {
        Ok(Box::new(self.clone()))
    }
}
