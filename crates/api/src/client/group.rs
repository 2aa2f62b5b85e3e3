//! What is asked about the group of a member.

use axum::http::Method;

use super::http::Sent;
use super::{Client, Result, path};
use crate::types::{
    CreatedJoinToken, Group, GroupChange, GroupVolume, JoinGroup, JoinToken, Member, NewGroup,
    NewJoinToken,
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

    /// Lets a member of its group go, which keeps its volumes.
    pub fn remove_member(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["members", name]))).map(drop)
    }
}
