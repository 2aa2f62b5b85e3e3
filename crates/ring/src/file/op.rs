//! The futures of file operations: named, `Unpin`, without allocation.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::mem::Buf;
use crate::runtime::{Kept, Op};

/// A read into or write from a [`Buf`]: gives the buffer back with the number of bytes moved.
/// Dropped early it is cancelled if possible, and the buffer freed when the kernel is done with it.
#[derive(Debug)]
#[must_use = "dropping an operation cancels it"]
pub struct BufIo(pub(super) Op);

impl Future for BufIo {
    type Output = (Buf, io::Result<usize>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|(completion, kept)| match kept {
            Kept::Buf(buf) => (buf, completion.result()),
            _ => unreachable!("started with a buffer"),
        })
    }
}

/// A write of data by reference: gives the number of bytes written.
#[derive(Debug)]
#[must_use = "dropping an operation cancels it"]
pub struct DataIo(pub(super) Op);

impl Future for DataIo {
    type Output = io::Result<usize>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|(completion, _)| completion.result())
    }
}

/// An operation that succeeds or fails.
#[derive(Debug)]
#[must_use = "dropping an operation cancels it"]
pub struct UnitIo(pub(crate) Op);

impl Future for UnitIo {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|(completion, _)| completion.result().map(drop))
    }
}
