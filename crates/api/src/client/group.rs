//! What is asked about the group of a member.

use ::group::pki::only_certificate;
use axum::http::Method;

use super::http::Sent;
use super::{Client, ClientError, Result, path};
use crate::types::{
    CreatedJoinToken, Group, GroupCertificate, GroupChange, GroupConnections, GroupVolume,
    JoinGroup, JoinToken, Member, MemberChange, NewGroup, NewGroupAddress, NewJoinToken, NewPool,
    Pool, PoolConnections, PoolMerge, ShareSettings,
};

impl Client {
    /// The group that the member is in.
    pub fn group(&self) -> Result<Group> {
        self.get("/v1/group")
    }

    /// Makes a group whose first member it is.
    pub fn create_group(&self, new: &NewGroup) -> Result<Group> {
        self.send(Method::POST, "/v1/group", new)
    }

    /// By what its group is known at its address.
    pub fn group_certificate(&self) -> Result<GroupCertificate> {
        let mut known: GroupCertificate = self.get("/v1/group/certificate")?;
        // The ends of lines are written out in all texts of an answer; this one is a file.
        known.certificate = known.certificate.replace(r"\u{a}", "\n");
        let is_of_pem = |c: char| c.is_ascii_alphanumeric() || "+/=- \n".contains(c);
        let read = match known.certificate.chars().all(is_of_pem) {
            true => only_certificate(&known.certificate).map(drop),
            false => Err("it is no PEM".to_owned()),
        };
        let strange = |why| format!("the certificate of the group does not read: {why}");
        read.map_err(|why| ClientError::strange(&self.way, &strange(why)))?;
        Ok(known)
    }

    /// Gives its group an address.
    pub fn set_group_address(&self, address: &str) -> Result<Group> {
        let new = NewGroupAddress { address: address.to_owned() };
        self.send(Method::PUT, "/v1/group/address", &new)
    }

    /// Takes that away.
    pub fn clear_group_address(&self) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, "/v1/group/address")).map(drop)
    }

    /// Changes how many connections of hosts its group takes.
    pub fn set_group_connections(&self, new: &GroupConnections) -> Result<Group> {
        self.send(Method::PUT, "/v1/group/connections", new)
    }

    /// Gives its group another name.
    pub fn rename_group(&self, name: &str) -> Result<Group> {
        self.send(Method::PATCH, "/v1/group", &GroupChange { name: name.to_owned() })
    }

    /// Ends its group, whose last member it is.
    pub fn delete_group(&self) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, "/v1/group")).map(drop)
    }

    /// Makes a token to join its group with, and says what it is this once.
    pub fn create_join_token(&self, new: &NewJoinToken) -> Result<CreatedJoinToken> {
        self.send(Method::POST, "/v1/group/tokens", new)
    }

    /// The tokens to join its group with that were made and not used.
    pub fn join_tokens(&self) -> Result<Vec<JoinToken>> {
        self.list("/v1/group/tokens")
    }

    /// Makes a token to join its group with worth nothing.
    pub fn revoke_join_token(&self, id: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["group", "tokens", id]))).map(drop)
    }

    /// Has it join a group.
    pub fn join_group(&self, join: &JoinGroup) -> Result<Group> {
        self.send(Method::POST, "/v1/group/join", join)
    }

    /// The volumes of all members of its group.
    pub fn group_volumes(&self) -> Result<Vec<GroupVolume>> {
        self.list("/v1/group/volumes")
    }

    /// The members of its group.
    pub fn members(&self) -> Result<Vec<Member>> {
        self.list("/v1/members")
    }

    /// One member of its group.
    pub fn member(&self, name: &str) -> Result<Member> {
        self.get(&path(["members", name]))
    }

    /// Puts a member of its group into another pool.
    pub fn move_member(&self, name: &str, pool: &str) -> Result<Member> {
        let change = MemberChange { pool: pool.to_owned() };
        self.send(Method::PATCH, &path(["members", name]), &change)
    }

    /// Has it share the settings of its group; with `replace` its own go where they differ.
    pub fn share_settings(&self, replace: bool) -> Result<Group> {
        self.send(Method::POST, "/v1/group/share", &ShareSettings { replace })
    }

    /// Changes how many connections of hosts a pool takes; `None` for as many as pools do by themselves.
    pub fn set_pool_connections(&self, name: &str, limit: Option<u32>) -> Result<Pool> {
        self.send(Method::PUT, &path(["pools", name, "connections"]), &PoolConnections { limit })
    }

    /// The pools of its group.
    pub fn pools(&self) -> Result<Vec<Pool>> {
        self.list("/v1/pools")
    }

    /// One pool of its group.
    pub fn pool(&self, name: &str) -> Result<Pool> {
        self.get(&path(["pools", name]))
    }

    /// Makes a pool in its group.
    pub fn create_pool(&self, name: &str) -> Result<Pool> {
        self.send(Method::POST, "/v1/pools", &NewPool { name: name.to_owned() })
    }

    /// Deletes a pool of its group that has no members.
    pub fn delete_pool(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["pools", name]))).map(drop)
    }

    /// Puts the members of a pool into another one, and deletes it.
    pub fn merge_pool(&self, from: &str, into: &str) -> Result<Pool> {
        let merge = PoolMerge { into: into.to_owned() };
        self.send(Method::POST, &path(["pools", from, "merge"]), &merge)
    }

    /// Lets a member of its group go, which keeps its volumes.
    pub fn remove_member(&self, name: &str, despite: Despite) -> Result<()> {
        let Despite { moves, spreads } = despite;
        let mut said = Vec::new();
        said.extend(moves.then_some("despite-moves=true"));
        said.extend(spreads.then_some("despite-spreads=true"));
        let query = if said.is_empty() { String::new() } else { format!("?{}", said.join("&")) };
        let path = format!("{}{query}", path(["members", name]));
        self.call(&Sent::new(Method::DELETE, &path)).map(drop)
    }
}

/// What does not keep a member from being removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Despite {
    /// That it has a part in moving volumes: what its moves have left may have to be settled.
    pub moves: bool,
    /// That volumes which lie on several members lie on it, too: what they have there is lost.
    pub spreads: bool,
}
