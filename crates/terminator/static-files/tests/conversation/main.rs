//! Tests a conversation as a client sees it, against a tree of files in memory: the answers, and
//! that they do not depend on how bytes are split.

mod answers;
mod bounds;
mod client;
mod files;
mod splits;
mod tree;
