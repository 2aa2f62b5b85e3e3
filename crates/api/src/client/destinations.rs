//! What is asked about where events go on to.

use axum::http::Method;

use super::http::Sent;
use super::{Client, Result, path};
use crate::types::{Destination, DestinationChange, DestinationTest, NewDestination};

impl Client {
    /// Where events go on to.
    pub fn destinations(&self) -> Result<Vec<Destination>> {
        self.list("/v1/destinations")
    }

    /// One destination.
    pub fn destination(&self, name: &str) -> Result<Destination> {
        self.get(&path(["destinations", name]))
    }

    /// Adds a destination.
    pub fn add_destination(&self, new: &NewDestination) -> Result<Destination> {
        self.send(Method::POST, "/v1/destinations", new)
    }

    /// Changes a destination.
    pub fn change_destination(
        &self,
        name: &str,
        change: &DestinationChange,
    ) -> Result<Destination> {
        self.send(Method::PATCH, &path(["destinations", name]), change)
    }

    /// Deletes a destination.
    pub fn delete_destination(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["destinations", name]))).map(drop)
    }

    /// Sends a test to a destination.
    pub fn test_destination(&self, name: &str) -> Result<DestinationTest> {
        self.post(&path(["destinations", name, "test"]))
    }
}
