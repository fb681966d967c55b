//! The PostgreSQL codec against written conversations: what it sends, what it tells, for every cut.

mod laws;
mod login;
mod requests;
mod support;
