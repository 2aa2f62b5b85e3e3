//! What is not as it should be between volumes and hosts.

use api::types::Volume;

use crate::advice::access::write_protected;

/// A sentence for each volume that a host has write-protected.
pub(super) fn protected(volumes: &[Volume]) -> Vec<String> {
    let say =
        |volume: &Volume| Some(write_protected(&volume.name, volume.write_protected_by.as_ref()?));
    volumes.iter().filter_map(say).collect()
}

/// A sentence for each access list that names policies or CHAP users that are not there.
pub(super) fn naming_nothing(volumes: &[Volume]) -> Vec<String> {
    let say = |volume: &Volume| {
        let policies = volume
            .missing_policies
            .iter()
            .map(|name| (format!("policy '{name}'"), format!("'drystone policy create {name}'")));
        let users = volume
            .missing_chap_users
            .iter()
            .map(|name| (format!("CHAP user '{name}'"), format!("'drystone chap add {name}'")));
        let (what, how): (Vec<_>, Vec<_>) = policies.chain(users).unzip();
        let volume = &volume.name;
        (!what.is_empty()).then(|| {
            format!(
                "the access list of volume {volume} names {}, which {} not there, and lets nobody in by that: {} and set up \
                 who may, apply the file again that it comes from, or take it off the list ('drystone volume access remove \
                 {volume} NUMBER')",
                what.join(", "),
                if what.len() == 1 { "is" } else { "are" },
                how.join(", ")
            )
        })
    };
    volumes.iter().filter_map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::volume;
    use super::*;

    #[test]
    fn a_volume_that_a_host_has_write_protected_is_named_with_the_way_out() {
        let well = volume("well", "online", 0);
        let write_protected_by = Some("iqn.host".to_owned());
        let bad = Volume { write_protected_by, ..volume("db", "online", 0) };
        let said = protected(&[well, bad]);
        assert_eq!(said.len(), 1, "{said:?}");
        let wanted = "no host can write to volume db, as iqn.host has write-protected it (SWP): 'sdparm --clear=SWP DISK' \
                      on a host of it ends that; so does 'drystone volume offline db', then 'drystone volume online db'";
        assert!(said[0].starts_with(wanted), "{said:?}");
    }

    #[test]
    fn a_list_that_names_what_is_not_there_is_named_with_what_to_do() {
        let bad = Volume {
            missing_policies: vec!["web".to_owned()],
            missing_chap_users: vec!["al".to_owned()],
            ..volume("db", "online", 0)
        };
        let said = naming_nothing(&[volume("well", "online", 0), bad]);
        assert_eq!(said.len(), 1, "{said:?}");
        let wanted = "the access list of volume db names policy 'web', CHAP user 'al', which are not there, and lets nobody \
                      in by that: 'drystone policy create web', 'drystone chap add al' and set up who may";
        assert!(said[0].starts_with(wanted), "{said:?}");
    }
}
