//! The file of an optimizer's moments. A thread of its own reads what the next updates take before they ask, and writes behind them.

use crate::Error;
use burn::tensor::{DType, Shape, TensorData};
use moebius_ops::Fault;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The most bytes that are read ahead.
const MOST: u64 = 64 << 20;

/// So many bytes are read ahead of a file of any size, if it has them.
const LEAST: u64 = 64 << 10;

/// The part of a file that is read ahead, one of so many, so that a main memory which is the device's, too, is still spared nearly all moments.
const SHARE: u64 = 16;

/// So many pieces are what is read ahead: while a step takes one, the thread reads the others.
const PIECES: u64 = 4;

/// Bytes that are read ahead of a file with so many bytes of moments.
pub(super) fn read_ahead(moments: u64) -> u64 {
    (moments / SHARE).clamp(LEAST, MOST).min(moments)
}

/// What the thread of a [`MomentStore`](super::MomentStore)'s file has read ahead, all in bytes; zeros for a store in main memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MomentReads {
    /// What has been read, in pieces of which no step has taken all.
    pub held: u64,
    /// The most that was held or under way at once.
    pub most: u64,
    /// What steps took.
    pub taken: u64,
    /// What of it had been read when the step asked for it.
    pub ahead: u64,
}

/// A file with moments, which lie in it in the order in which updates take them. It is closed before it is removed.
pub(super) struct MomentFile {
    open: Mutex<Open>,
    thread: Option<JoinHandle<()>>,
    _removed: Removed,
}

/// Removes a file at the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // A file that stays is seen by the next training, which refuses to take it.
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for MomentFile {
    fn drop(&mut self) {
        // Without a sender of jobs the loop of the thread ends, and the thread closes the file.
        lock(&self.open).jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl MomentFile {
    /// A new file at `path`, with its thread.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let mut file = options.open(path)?;
        let removed = Removed(path.to_owned());
        let (jobs, asked) = mpsc::channel::<Job>();
        let work = move || asked.into_iter().for_each(|job| job.run(&mut file));
        let thread = thread::Builder::new().name("moments".to_owned());
        let thread = Some(thread.spawn(work)?);
        let open = Open {
            jobs: Some(jobs),
            end: 0,
            writing: None,
            ahead: Ahead::default(),
            failure: None,
        };
        Ok(Self {
            open: Mutex::new(open),
            thread,
            _removed: removed,
        })
    }

    /// A new region for two moments like `moment`.
    pub(super) fn region(self: &Arc<Self>, moment: &TensorData) -> Region {
        let bytes = moment.as_bytes().len();
        let mut open = lock(&self.open);
        let at = open.end;
        open.end += 2 * bytes as u64;
        Region {
            file: self.clone(),
            at,
            bytes,
            shape: moment.shape().clone(),
            dtype: moment.dtype(),
        }
    }

    /// Waits until what a step left last has been written, so that no more than one parameter's moments wait for that.
    pub(super) fn written(&self) -> Result<(), Error> {
        lock(&self.open).written().map_err(refused)
    }

    /// Waits until all has been written, and begins to read what the next step takes first; returns the first failure since the file was made.
    pub(super) fn finish(&self) -> Result<(), Error> {
        let mut open = lock(&self.open);
        if let Err(error) = open.written() {
            open.failure.get_or_insert(refused(error));
        }
        open.rewind();
        open.failure.clone().map_or(Ok(()), Err)
    }

    /// What has been read ahead.
    pub(super) fn reads(&self) -> MomentReads {
        lock(&self.open).ahead.reads()
    }
}

/// Region of a file with the two moments of a parameter.
#[derive(Clone)]
pub(super) struct Region {
    file: Arc<MomentFile>,
    at: u64,
    /// Bytes of one moment.
    bytes: usize,
    shape: Shape,
    dtype: DType,
}

impl Region {
    /// Has the thread write moments, and doesn't wait for it.
    pub(super) fn write(&self, moments: [TensorData; 2]) {
        lock(&self.file.open).write(self.at, moments);
    }

    /// The moments as they were written last, beside what is read ahead for steps.
    pub(super) fn read(&self) -> io::Result<[TensorData; 2]> {
        let answer = lock(&self.file.open).ask(self.at, 2 * self.bytes as u64);
        let mut both = received(&answer)?;
        let second = both.split_off(self.bytes);
        Ok([both, second].map(|bytes| self.moment(bytes)))
    }

    /// The moments for a step, from what was read ahead as far as they are there. Zeros if they can't be read: Burn takes no error here, and
    /// the store tells it after the step.
    pub(super) fn take_or_note(&self) -> [TensorData; 2] {
        let mut open = lock(&self.file.open);
        let mut both = [vec![0; self.bytes], vec![0; self.bytes]];
        let mut at = self.at;
        for bytes in &mut both {
            if let Err(error) = open.take(at, bytes) {
                open.failure.get_or_insert(refused(error));
                bytes.fill(0);
            }
            at += self.bytes as u64;
        }
        both.map(|bytes| self.moment(bytes))
    }

    fn moment(&self, bytes: Vec<u8>) -> TensorData {
        TensorData::from_bytes_vec(bytes, self.shape.clone(), self.dtype)
    }
}

/// What a file's thread is asked for. It answers in the order of the questions, so that what is read has been written.
enum Job {
    Read {
        at: u64,
        bytes: u64,
        answer: Sender<io::Result<Vec<u8>>>,
    },
    Write {
        at: u64,
        moments: Box<[TensorData; 2]>,
        answer: Sender<io::Result<()>>,
    },
}

impl Job {
    fn run(self, file: &mut File) {
        // Whoever has asked may no longer want the answer.
        match self {
            Self::Read { at, bytes, answer } => {
                let _ = answer.send(read(file, at, bytes));
            }
            Self::Write {
                at,
                moments,
                answer,
            } => {
                let written = write(file, at, &moments);
                // Their memory is free before more comes.
                drop(moments);
                let _ = answer.send(written);
            }
        }
    }
}

fn read(file: &mut File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut read)?;
    Ok(read)
}

fn write(file: &mut File, at: u64, moments: &[TensorData; 2]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut moments = moments.iter();
    moments.try_for_each(|moment| file.write_all(moment.as_bytes()))
}

/// An answer of the thread, once it is there.
fn received<T>(answer: &Receiver<io::Result<T>>) -> io::Result<T> {
    let ended = |_| Err(io::Error::other("the end of its thread"));
    answer.recv().unwrap_or_else(ended)
}

/// A file from outside of its thread.
struct Open {
    /// The way to the thread, until the file is closed.
    jobs: Option<Sender<Job>>,
    /// Bytes that have been given to regions.
    end: u64,
    /// The answer to the last moments that are to be written.
    writing: Option<Receiver<io::Result<()>>>,
    ahead: Ahead,
    failure: Option<Error>,
}

impl Open {
    fn send(&self, job: Job) {
        // If the thread has ended, the job is dropped with the sender of its answer, and the receiver has an error.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    /// Asks for bytes from `at` on.
    fn ask(&self, at: u64, bytes: u64) -> Receiver<io::Result<Vec<u8>>> {
        let (answer, asked) = mpsc::channel();
        self.send(Job::Read { at, bytes, answer });
        asked
    }

    fn write(&mut self, at: u64, moments: [TensorData; 2]) {
        let bytes: usize = moments.iter().map(|of| of.as_bytes().len()).sum();
        let end = at + bytes as u64;
        // What was read there before is no longer what the file holds.
        if at < self.ahead.end && end > self.ahead.next {
            self.ahead.forget(self.ahead.next);
        }
        let (answer, writing) = mpsc::channel();
        let moments = Box::new(moments);
        self.send(Job::Write {
            at,
            moments,
            answer,
        });
        self.writing = Some(writing);
    }

    /// Waits for the last moments that are to be written.
    fn written(&mut self) -> io::Result<()> {
        self.writing.take().map_or(Ok(()), |of| received(&of))
    }

    /// Asks for the next pieces of the file, as many as there is room for.
    fn read_on(&mut self) {
        let room = read_ahead(self.end);
        let most = room.div_ceil(PIECES);
        while self.ahead.end < self.end {
            let bytes = most.min(self.end - self.ahead.end);
            if self.ahead.asked + bytes > room {
                return;
            }
            let at = self.ahead.end;
            let answer = self.ask(at, bytes);
            self.ahead.add(Piece {
                at,
                bytes,
                answer,
                read: None,
            });
        }
    }

    /// Asks for what the next step takes first, unless that was done.
    fn rewind(&mut self) {
        if let Some(first) = self.ahead.first.take() {
            self.ahead.begin = first;
        } else if !self.ahead.pieces.is_empty() {
            return;
        }
        self.ahead.forget(self.ahead.begin);
        self.read_on();
    }

    /// Fills `out` with the file's bytes from `at` on, and asks for those that follow.
    fn take(&mut self, mut at: u64, mut out: &mut [u8]) -> io::Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        self.ahead.first.get_or_insert(at);
        // Updates in another order than before begin anew: bytes that were taken once may have been written since.
        if !(self.ahead.next..self.ahead.end).contains(&at) {
            self.ahead.forget(at);
        }
        while !out.is_empty() {
            self.ahead.skip(at);
            self.read_on();
            match self.ahead.take(at, out) {
                Ok(count) => {
                    at += count as u64;
                    out = &mut out[count..];
                }
                Err(error) => {
                    self.ahead.forget(at);
                    return Err(error);
                }
            }
        }
        self.ahead.next = at;
        self.ahead.skip(at);
        self.read_on();
        Ok(())
    }
}

/// What is read ahead: pieces of a file, one after the other.
#[derive(Default)]
struct Ahead {
    pieces: VecDeque<Piece>,
    /// Bytes of the pieces.
    asked: u64,
    /// The byte after the last piece.
    end: u64,
    /// The byte after those that the last update took: the next one takes from here on, or skips some.
    next: u64,
    /// The first byte that the present step took.
    first: Option<u64>,
    /// The first byte that the step before took.
    begin: u64,
    /// The counts of [`MomentReads`], but for what is held.
    counts: MomentReads,
}

/// A piece of a file that the thread is asked for.
struct Piece {
    at: u64,
    bytes: u64,
    answer: Receiver<io::Result<Vec<u8>>>,
    /// The answer, once it has been looked for and was there.
    read: Option<io::Result<Vec<u8>>>,
}

impl Piece {
    /// Whether the piece has been read, or can't be.
    fn is_there(&mut self) -> bool {
        if self.read.is_none() {
            self.read = self.answer.try_recv().ok();
        }
        self.read.is_some()
    }
}

impl Ahead {
    fn add(&mut self, piece: Piece) {
        self.asked += piece.bytes;
        self.end += piece.bytes;
        self.counts.most = self.counts.most.max(self.asked);
        self.pieces.push_back(piece);
    }

    /// Drops all pieces; the next one is that at `at`.
    fn forget(&mut self, at: u64) {
        self.pieces.clear();
        self.asked = 0;
        (self.end, self.next) = (at, at);
    }

    /// Drops the pieces before `at`.
    fn skip(&mut self, at: u64) {
        while let Some(piece) = self.pieces.front()
            && piece.at + piece.bytes <= at
        {
            self.asked -= piece.bytes;
            self.pieces.pop_front();
        }
    }

    /// Fills the beginning of `out` with what the first piece has from `at` on, and returns how many bytes that was, at least one.
    fn take(&mut self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.pieces.front_mut() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let there = piece.is_there();
        let read = piece.read.take();
        let read = read.unwrap_or_else(|| received(&piece.answer))?;
        let from = (at - piece.at) as usize;
        let count = out.len().min(read.len() - from);
        out[..count].copy_from_slice(&read[from..from + count]);
        piece.read = Some(Ok(read));
        self.counts.taken += count as u64;
        if there {
            self.counts.ahead += count as u64;
        }
        Ok(count)
    }

    fn reads(&mut self) -> MomentReads {
        let there = self.pieces.iter_mut().filter_map(|piece| {
            let there = piece.is_there();
            there.then_some(piece.bytes)
        });
        MomentReads {
            held: there.sum(),
            ..self.counts
        }
    }
}

/// The error of a file that doesn't keep moments.
fn refused(error: io::Error) -> Error {
    let expected = "moments to be written and read";
    Fault::State
        .error("the file of an optimizer", expected, error)
        .into()
}

/// Locks, whether a thread has panicked under the lock or not.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
