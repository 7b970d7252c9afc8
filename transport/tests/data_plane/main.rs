//! Both ends of the data plane over real sockets, with real memory behind the server.
#![forbid(unsafe_code)]

mod hostile;
mod peers;
mod rig;
mod slow;
mod transfers;
