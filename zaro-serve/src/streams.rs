//! Connections that end by themselves when the client keeps us waiting.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::config::Limits;

/// A connection that ends when the client has nothing to say at first: the limits of HTTP begin with its first byte.
pub(crate) struct Prompt<S> {
    stream: S,
    /// When the first byte is due; none once it came.
    due: Option<Pin<Box<Sleep>>>,
}

impl<S> Prompt<S> {
    pub(crate) fn new(stream: S, time: Duration) -> Self {
        Self { stream, due: Some(Box::pin(tokio::time::sleep(time))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            self.due = None;
        } else if let Some(due) = &mut self.due
            && due.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection that ends when the client takes no bytes.
pub(crate) struct Watched {
    stream: TcpStream,
    /// The bytes a client has to take in `time`.
    least: u64,
    time: Duration,
    taken: u64,
    until: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Watched {
    pub(crate) fn new(stream: TcpStream, limits: &Limits) -> Self {
        let time = limits.stall_time;
        let least = time.as_secs().saturating_mul(1024);
        Self { stream, least, time, taken: 0, until: Box::pin(tokio::time::sleep(time)), waiting: false }
    }

    /// Notes that bytes were taken, or that the client keeps us waiting.
    fn watch(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(done) => {
                if let Ok(count) = &done {
                    self.taken = self.taken.saturating_add(u64::try_from(*count).unwrap_or(0));
                }
                if self.taken >= self.least {
                    self.waiting = false;
                }
                Poll::Ready(done)
            }
            Poll::Pending => {
                if !self.waiting {
                    (self.waiting, self.taken) = (true, 0);
                    let until = Instant::now() + self.time;
                    self.until.as_mut().reset(until);
                }
                match self.until.as_mut().poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                }
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_connection_without_a_first_byte_ends() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut silent = Prompt::new(ours, Duration::from_millis(20));
        let said = silent.read(&mut [0; 8]).await.map_err(|e| e.kind());
        assert_eq!(said, Err(io::ErrorKind::TimedOut));
        theirs.write_all(b"x").await.unwrap();
        // Once something came, it may take its time: HTTP has limits of its own.
        let mut spoke = Prompt::new(silent.stream, Duration::from_millis(20));
        assert_eq!(spoke.read(&mut [0; 8]).await.unwrap(), 1);
        let more = tokio::time::timeout(Duration::from_millis(80), spoke.read(&mut [0; 8])).await;
        assert!(more.is_err());
    }
}
