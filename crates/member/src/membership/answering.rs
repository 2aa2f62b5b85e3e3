//! Whether this member answers whoever manages the group at its address, for the threads that do.
//!
//! It does while it has the address on an interface, and no longer: whoever goes on to talk to it there would talk to a
//! member by an address that another one has. Accounts and tokens must be those of the group, or they would depend on
//! who has the address; so a member that keeps settings of its own answers nobody there.

use std::net::IpAddr;

use super::InGroup;
use super::joined::Joined;
use crate::group_request::{AddressNow, AddressProof, Answering, SecretWord};
use crate::mutants::{self, Mutant};

/// Why a member answers nobody there that does not share the settings of its group.
const OWN_SETTINGS: &str =
    "it keeps settings of its own, and accounts and tokens at that address are those of the group";

impl InGroup {
    /// Tells other threads how this member stands to the address of its group, if that is another way than before.
    pub(super) fn note_answering(&self) {
        let now = self.address_now();
        let current = &self.of_group.address;
        if current.now().as_deref() != now.as_ref() {
            current.replace(now);
        }
    }

    fn address_now(&self) -> Option<AddressNow> {
        let joined = self.in_one()?;
        let address = self.group_address()?;
        Some(AddressNow { address, answering: self.answering(&joined, address.ip()) })
    }

    fn answering(&self, joined: &Joined, address: IpAddr) -> Answering {
        if joined.is_leaving() || self.is_ending() {
            return Answering::Elsewhere;
        }
        if !self.shares() && !mutants::is(Mutant::AnswerByOwn) {
            return Answering::Never(OWN_SETTINGS.to_owned());
        }
        let on = joined.floating().on.get();
        if on.is_none_or(|on| on.ip() != address) && !mutants::is(Mutant::AnswerAfter) {
            return Answering::Elsewhere;
        }
        proof(joined, address).map_or_else(Answering::Never, Answering::Here)
    }
}

/// The certificate for this address, which is made once in the life of this process: each member makes its own, by the
/// authority that all have. Why there can be none.
fn proof(joined: &Joined, address: IpAddr) -> Result<AddressProof, String> {
    let kept = &joined.floating().proof;
    if let Some((_, proof)) = kept.borrow().as_ref().filter(|(of, _)| *of == address) {
        return Ok(proof.clone());
    }
    let issued = joined.authority().issue_for_group(&joined.file().group, address);
    let issued = issued.map_err(|error| error.to_string())?;
    let proof =
        AddressProof { certificate: issued.certificate_pem, key: SecretWord(issued.key_pem) };
    kept.replace(Some((address, proof.clone())));
    Ok(proof)
}
