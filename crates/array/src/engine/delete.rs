//! Deletion of versions, a step with every checkpoint.

use super::Checkpoint;
use crate::error::ArrayError;
use crate::tree;

/// Pages that one step looks at: some tens of milliseconds of reading.
const STEP_PAGES: usize = 1024;

impl Checkpoint {
    /// Gives back a part of what the next version to be deleted holds alone.
    ///
    /// It compares with the maps as they are before anything is destaged: see [`tree::Parent`].
    pub(super) async fn delete_step(&mut self) -> Result<(), ArrayError> {
        let Some(id) = self.next.next_deletion() else { return Ok(()) };
        let version = &self.next.versions[&id];
        let from = version.deleting_from_leaf.expect("it is being deleted");
        let (root, parent) = (version.contents.root, self.next.sharing(version.contents.parent));
        let children = self.next.children_of(id);
        let step = self.core.with_pages(|state| {
            tree::exclusive(&mut state.pages, root, parent, &children, from, STEP_PAGES)
        });
        let owned = step.await?;
        self.freed.extend(owned.places);
        self.freed_pages.extend(owned.pages);
        match owned.next_leaf {
            None => self.next.forget(id),
            cursor => {
                let version = self.next.versions.get_mut(&id).expect("looked at above");
                version.deleting_from_leaf = cursor;
            }
        }
        Ok(())
    }
}
