//! The rules: what a model checker walks through, and what page maps say.

mod maps;
mod model;
mod rules;
mod walk;
