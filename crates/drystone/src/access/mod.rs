//! Who may log in, and under which names: iSCSI names, CHAP secrets, allow rules, portals.

pub(crate) mod allow;
pub(crate) mod name;
pub(crate) mod portal;
pub(crate) mod secret;
