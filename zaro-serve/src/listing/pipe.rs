//! Rows as the bytes of a body, made as the client takes them: a listing of any length needs no more memory than a
//! short one.

use bytes::Bytes;
use futures::future::{BoxFuture, Fuse, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use zaro::Result;

use super::rows::{Row, Walk, cut_short};
use crate::answer::Fault;

/// Bytes that are gathered before they are sent on.
const PIECE: usize = 16 << 10;

/// The bytes of a body.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes>>;

/// Writes a row at the end of a text.
type RowWriter = Box<dyn Fn(&Row, &mut String) + Send + Sync>;

/// How a listing is written down.
pub(crate) struct Form {
    /// What comes first.
    pub(crate) before: String,
    /// Writes a row.
    pub(crate) row: RowWriter,
    /// What comes last.
    pub(crate) after: String,
}

/// What the writer says to the reader. The end is said: a writer that is gone without a word has failed.
#[derive(Debug)]
enum Word {
    /// Whether there is anything.
    Begin(bool),
    Piece(Bytes),
    End,
}

/// A writer and its reader, which are polled together: nobody writes when nobody reads.
struct Pipe {
    writer: Fuse<BoxFuture<'static, ()>>,
    reader: Receiver<Result<Word>>,
}

impl Pipe {
    async fn next(&mut self) -> Option<Result<Word>> {
        tokio::select! {
            biased;
            word = self.reader.recv() => word,
            () = &mut self.writer => self.reader.recv().await,
        }
    }

    fn pieces(self) -> Pieces {
        stream::unfold(Some(self), |pipe| async {
            let mut pipe = pipe?;
            match pipe.next().await {
                Some(Ok(Word::Piece(bytes))) => Some((Ok(bytes), Some(pipe))),
                Some(Ok(Word::End)) => None,
                Some(Ok(Word::Begin(_))) | None => Some((Err(cut_short()), None)),
                Some(Err(e)) => Some((Err(e), None)),
            }
        })
        .boxed()
    }
}

/// Begins a listing: when it returns, the first row was found. `None` if there is none.
pub(crate) async fn begin(walk: Walk, form: Form) -> std::result::Result<Option<Pieces>, Fault> {
    let local = walk.is_local();
    let (to, reader) = mpsc::channel(2);
    let mut pipe = Pipe { writer: write(walk, form, to).boxed().fuse(), reader };
    let begun = async move {
        let first = pipe.next().await;
        (pipe, first)
    };
    // A large local folder is read as a whole before its first name is known: on a thread that may wait.
    let (pipe, first) = match local {
        false => begun.await,
        true => {
            let handle = Handle::current();
            let begun = tokio::task::spawn_blocking(move || handle.block_on(begun));
            begun.await.map_err(|_| Fault::behind(&cut_short()))?
        }
    };
    match first {
        Some(Ok(Word::Begin(true))) => Ok(Some(pipe.pieces())),
        Some(Ok(Word::Begin(false))) => Ok(None),
        Some(Err(e)) => Err(Fault::behind(&e)),
        _ => Err(Fault::behind(&cut_short())),
    }
}

/// Writes all rows, until nobody reads any more.
async fn write(walk: Walk, form: Form, to: Sender<Result<Word>>) {
    let mut rows = walk.rows();
    let mut text = form.before;
    let mut next = rows.try_next().await;
    if let Ok(first) = &next
        && to.send(Ok(Word::Begin(first.is_some()))).await.is_err()
    {
        return;
    }
    loop {
        match next {
            Ok(Some(row)) => (form.row)(&row, &mut text),
            Ok(None) => break,
            Err(e) => {
                let _ = to.send(Err(e)).await;
                return;
            }
        }
        if text.len() >= PIECE {
            let piece = Bytes::from(std::mem::replace(&mut text, String::with_capacity(PIECE + PIECE / 4)));
            if to.send(Ok(Word::Piece(piece))).await.is_err() {
                return;
            }
        }
        next = rows.try_next().await;
    }
    text.push_str(&form.after);
    if to.send(Ok(Word::Piece(Bytes::from(text)))).await.is_ok() {
        let _ = to.send(Ok(Word::End)).await;
    }
}
