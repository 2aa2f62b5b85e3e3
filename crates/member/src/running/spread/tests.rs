//! Members that have volumes together.
