//! A conversation as a client hears it, against a tree of files in memory: what is answered, and
//! that it does not depend on how bytes come and go.

mod answers;
mod bounds;
mod client;
mod files;
mod splits;
mod tree;
