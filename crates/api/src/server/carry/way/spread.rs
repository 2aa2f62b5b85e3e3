//! Volumes that one request names: each is on a member of its own.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::request::Parts;
use futures_util::future::join_all;
use group::ownership::MemberId;

use super::super::whereabouts::Kind;
use super::{Asked, LOOKED_FOR_MAX, Told, keeps_to_its_own};
use crate::problem::Problem;
use crate::server::sets::Spread;

impl Asked<'_> {
    /// The member that each of these is on; `None` where nobody knows of it.
    pub(super) async fn members_of(
        &self,
        volumes: &[String],
    ) -> Result<Vec<Option<MemberId>>, Problem> {
        let first = &volumes[..volumes.len().min(LOOKED_FOR_MAX)];
        let looks: Vec<_> =
            first.iter().map(|volume| self.look_for(Kind::Volume, volume)).collect();
        let mut found = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        // No schedule may have so many, but what it is refused with may be something else.
        let rest = volumes.iter().skip(LOOKED_FOR_MAX);
        found.extend(rest.map(|volume| self.having(Kind::Volume, volume).first().copied()));
        Ok(found)
    }

    /// The member that is to take snapshots of one moment: that of all volumes in the body. Where they are on several it is
    /// this one, which has each of them take its own.
    pub(super) async fn of_each(
        &self,
        told: &Told,
        parts: &mut Parts,
    ) -> Result<Option<MemberId>, Problem> {
        let Some(volumes) = &told.volumes else { return Ok(None) };
        let found = self.members_of(volumes).await?;
        let mut spread = BTreeMap::<MemberId, Vec<String>>::new();
        for (volume, member) in volumes.iter().zip(&found) {
            // What is nowhere is refused by the one that is asked.
            spread.entry(member.unwrap_or(self.now.me)).or_default().push(volume.clone());
        }
        if found.iter().flatten().collect::<BTreeSet<_>>().len() < 2 {
            return self.one_of_all(None, volumes, &found);
        }
        if self.is_alone {
            return Err(keeps_to_its_own());
        }
        for (member, volumes) in &spread {
            self.check_there(*member, Some((Kind::Volume, volumes[0].as_str())))?;
        }
        parts.extensions.insert(Spread(spread));
        Ok(None)
    }
}
