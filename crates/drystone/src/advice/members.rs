//! What to do when a group, or a member of it, says no.

use group::cluster::ClusterError;
use group::membership::MembershipError;
use group::store::StoreError;
use member::{GroupError, KeptError};

use super::Advised;

/// What lets a member that lost what it kept of its group be a member again.
pub(super) const FILES_LOST: &str = "\
    if they cannot be put back, remove this member on another one ('drystone member remove NAME'), and have it join \
    again once that directory was moved away";

/// What to look at when the store of a group does not answer.
pub(super) const STORE_SILENT: &str = "\
    see that more than half of the members that run it are up and reach each other at their five ports ('drystone \
    group show' names them); hosts are served meanwhile, and it is tried again by itself";

/// What brings etcd.
const ETCD_MISSING: &str = "\
    on Debian 'apt install etcd-server', then 'systemctl disable --now etcd', as the package starts one of its own";

impl Advised for GroupError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Membership(error) => return error.advice(),
            Self::NotInGroup => {
                "'drystone group create' makes one, and 'drystone member join' joins one".to_owned()
            }
            Self::AlreadyIn(_) => {
                "'drystone member remove' takes it out of that one first, and the last member ends it with 'drystone \
                 group delete'"
                    .to_owned()
            }
            Self::Broken(_) => FILES_LOST.to_owned(),
            Self::NotReached(_) | Self::NamesNotPromised(_) => STORE_SILENT.to_owned(),
            Self::Listen { .. } => {
                "write another address or port with --listen, or stop the program that has it (ss -tlnp shows it)"
                    .to_owned()
            }
            Self::HostName(_) => "write --member NAME".to_owned(),
            Self::NobodyLeft { .. } => {
                "see that another member is present and has etcd (apt install etcd-server)".to_owned()
            }
            Self::NotTakenBack { member, .. } => {
                format!("'drystone member remove {member}' does that")
            }
            Self::SettingsDiffer(_) => {
                "'drystone group share --replace-settings' takes the group's in place of its own; or make both the same, \
                 and it shares them within a minute"
                    .to_owned()
            }
            Self::Settings(KeptError::GroupSilent(_) | KeptError::GroupUnknown(_)) => {
                STORE_SILENT.to_owned()
            }
            Self::MovesInHand { .. } => {
                "'drystone run list --on' the member that a volume leaves, and 'drystone volume transits', show them".to_owned()
            }
            Self::Stopping => "start it again then".to_owned(),
            Self::Cluster(ClusterError::NoProgram { program: "etcd", .. }) => ETCD_MISSING.to_owned(),
            Self::Cluster(_)
            | Self::Pki(_)
            | Self::Random(_)
            | Self::Files { .. }
            | Self::Leaving
            | Self::StoreSilent { .. }
            | Self::StoreSlow { .. }
            | Self::Settings(_)
            | Self::Admission(_) => return None,
        })
    }
}

impl Advised for MembershipError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Unknown(_) => "see 'drystone member list'".to_owned(),
            Self::Store(StoreError::Failed(_)) => STORE_SILENT.to_owned(),
            Self::NoSuchMember(_) => "see 'drystone member list'".to_owned(),
            Self::Token => "'drystone group token' does that".to_owned(),
            Self::TooManyTokens => {
                "'drystone group token --list' shows them, and 'drystone group token --revoke ID' revokes one"
                    .to_owned()
            }
            Self::NoSuchToken(_) => "see 'drystone group token --list'".to_owned(),
            Self::NoSuchPool(_) => "see 'drystone pool list'".to_owned(),
            Self::PoolNotEmpty { pool, .. } => format!(
                "'drystone member move NAME --pool POOL' moves one, and 'drystone pool merge {pool} --into POOL' all of them"
            ),
            Self::VolumeNameTaken { .. } => {
                "choose another name, or see 'drystone volume list'".to_owned()
            }
            Self::LastMember(_) => "'drystone group delete' does that".to_owned(),
            Self::NotAlone(_) => "'drystone member remove NAME' does that".to_owned(),
            Self::ArrayKnown { member } => format!("'drystone member remove {member}' does that"),
            // What there is of these says itself what to do, or nothing can be done from here.
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_group_names_the_command_that_helps() {
        let cases: [(GroupError, &str); 8] = [
            (
                GroupError::NotInGroup,
                ": 'drystone group create' makes one, and 'drystone member join' joins one",
            ),
            (GroupError::Broken("x".into()), "once that directory was moved away"),
            (MembershipError::Token.into(), ": 'drystone group token' does that"),
            (
                MembershipError::TooManyTokens.into(),
                "'drystone group token --revoke ID' revokes one",
            ),
            (
                MembershipError::NoSuchToken("00c0ffee".into()).into(),
                ": see 'drystone group token --list'",
            ),
            (MembershipError::NoSuchMember("c".into()).into(), ": see 'drystone member list'"),
            (MembershipError::LastMember("a".into()).into(), ": 'drystone group delete' does that"),
            (
                MembershipError::ArrayKnown { member: "b".into() }.into(),
                ": 'drystone member remove b' does that",
            ),
        ];
        for (error, end) in cases {
            let said = error.sentence();
            assert!(said.starts_with(&error.to_string()) && said.ends_with(end), "{said}");
        }
        let missing = ClusterError::NoProgram { program: "etcd", package: "etcd-server" };
        assert!(GroupError::from(missing).sentence().contains("'apt install etcd-server', then"));
        let full = GroupError::from(MembershipError::Full);
        assert_eq!(full.sentence(), full.to_string(), "it says all itself");
    }
}
