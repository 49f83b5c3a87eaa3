//! What queues do with events: rule by rule, against a naive model, and with whatever a disk may hold.

mod bench;
mod cost;
mod leases;
mod model;
mod odd;
mod order;
mod purge;
mod random;
mod replay;
mod settle;
mod undone;
