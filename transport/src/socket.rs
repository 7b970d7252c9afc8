//! Socket options: what every data connection sets, whatever the system's defaults are.
//!
//! The default congestion control of some hosts (`bbr`) paces even the loopback: on the machine of docs/benchmarks.md it
//! halves the speed of large transfers. So each socket chooses its own, among those that the system permits.

use socket2::SockRef;
use std::{io, net::SocketAddr};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use ziggurat_base::{ByteCount, Code, Error, Result};

/// Which congestion control a socket asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// The first of `cubic` and `reno` that the system permits, else the system's own.
    #[default]
    Bulk,
    /// Whatever the system has set.
    System,
    /// This one, or the socket is refused.
    Named(Box<str>),
}

/// Options of one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Size of the send and of the receive buffer; the system may cap it.
    pub buffer: ByteCount,
    /// Congestion control.
    pub congestion: Congestion,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            buffer: ByteCount::mib(1),
            congestion: Congestion::Bulk,
        }
    }
}

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

impl SocketOptions {
    /// Listens; accepted sockets inherit the options.
    ///
    /// # Errors
    /// [`Code::ConfigInvalid`] naming the address, when it is in use or not this machine's.
    pub fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        let listen = || {
            let socket = self.socket(address)?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        listen().map_err(|e| {
            let what = format!("cannot listen on {address}: {e}; give another address or port");
            Error::new(Code::ConfigInvalid, what)
        })
    }

    /// Connects to `host:port`, the first address of it that answers.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<TcpStream> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in lookup_host(address).await? {
            match self.socket(address)?.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(e) => failure = e,
            }
        }
        Err(failure)
    }

    /// Sets what an accepted socket may not have inherited.
    pub(crate) fn apply(&self, stream: &TcpStream) -> io::Result<()> {
        self.set(&SockRef::from(stream))
    }

    /// A socket with the options set before it connects, so that the window scale fits the buffer.
    fn socket(&self, address: SocketAddr) -> io::Result<TcpSocket> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        self.set(&SockRef::from(&socket))?;
        Ok(socket)
    }

    fn set(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let size = usize::try_from(self.buffer.0).unwrap_or(usize::MAX);
        socket.set_tcp_nodelay(true)?;
        socket.set_send_buffer_size(size)?;
        socket.set_recv_buffer_size(size)?;
        match &self.congestion {
            Congestion::System => Ok(()),
            Congestion::Named(name) => socket.set_tcp_congestion(name.as_bytes()),
            Congestion::Bulk => {
                let permitted = |name: &&str| socket.set_tcp_congestion(name.as_bytes()).is_ok();
                // When neither is permitted the socket works all the same, at the system's pace.
                let _ = ["cubic", "reno"].iter().find(|name| permitted(name));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Congestion, SocketOptions};
    use socket2::SockRef;
    use ziggurat_base::Code;

    #[tokio::test]
    async fn sockets_have_their_own_congestion_control() {
        let options = SocketOptions::default();
        let listener = options.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let stream = options.connect(&address.to_string()).await.unwrap();
        let set = SockRef::from(&stream).tcp_congestion().unwrap();
        let name = String::from_utf8_lossy(&set);
        let name = name.trim_end_matches('\0');
        assert!(["cubic", "reno"].contains(&name), "{name}");
        let busy = options.listen(address).unwrap_err();
        assert_eq!(busy.code(), Code::ConfigInvalid);
    }

    #[tokio::test]
    async fn an_unknown_congestion_control_is_refused() {
        let options = SocketOptions {
            congestion: Congestion::Named("nonesuch".into()),
            ..SocketOptions::default()
        };
        assert!(options.listen(([127, 0, 0, 1], 0).into()).is_err());
    }
}
